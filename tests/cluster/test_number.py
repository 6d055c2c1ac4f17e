"""Numbers from ZooKeeper's own sequence, as other clients take them."""

from __future__ import annotations

import asyncio

from kazoo.client import KazooClient

from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.metadata.sequence import take_number
from magnetar.runtime.clock import SYSTEM
from magnetar.testing.bookkeeper import BookieCluster


def test_numbers_are_never_given_twice_also_not_to_other_clients(bookies: BookieCluster) -> None:
    url = bookies.zookeeper.new_url()
    root = url.removeprefix(bookies.zookeeper.url)
    other = KazooClient(bookies.zookeeper.hosts)
    other.start()

    async def body() -> None:
        store = await ZookeeperStore.open(url)
        try:
            first = await asyncio.gather(*(store.take_number("/a/idgen/ID-") for _ in range(20)))
            assert sorted(first) == list(range(20))
            made = other.create(f"{root}/a/idgen/ID-", ephemeral=True, sequence=True)
            assert made.endswith("ID-0000000020")
            other.delete(made)
            assert other.get_children(f"{root}/a/idgen") == []  # and the parent stays
            assert await store.take_number("/a/idgen/ID-") == 21
        finally:
            await store.close()

    try:
        asyncio.run(body())
    finally:
        other.stop()
        other.close()


def test_stores_without_such_a_sequence_count_too() -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SYSTEM))
        found = [await take_number(store, "/a/ID-") for _ in range(3)]
        assert found == sorted(set(found))
        assert await store.children("/a") == ()

    asyncio.run(body())
