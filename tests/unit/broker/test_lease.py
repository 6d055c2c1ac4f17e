"""Who owns a namespace, over stores that share one tree in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from magnetar.broker.lease import NamespaceOwnership, home_path, lease_path
from magnetar.broker.ownership import Owner, take_term
from magnetar.errors import NoOwner, RecordUnreadable
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import ABSENT, ANY_VERSION
from magnetar.model.name import NamespaceName, parse_namespace, parse_topic
from magnetar.model.scalable import BrokerAddress
from magnetar.rules.bundle import Bundle, full_bundle
from magnetar.runtime.clock import SYSTEM, SystemClock

TOPIC = parse_topic("persistent://public/default/a")
SPACE = parse_namespace("public/default")


class Broker:
    def __init__(self, store: MemoryStore, me: Owner, directory: str) -> None:
        self.store = store
        self.moved: list[Bundle] = []
        self.ownership = NamespaceOwnership(
            store,
            me,
            directory,
            clock=SYSTEM,
            next_term=lambda: take_term(store),
            is_known=self._is_known,
        )
        self.ownership.listen(self.moved.append)

    async def _is_known(self, namespace: NamespaceName) -> bool:
        return namespace.tenant == "public"

    async def owner(self) -> Owner:
        return await self.ownership.owner_of(TOPIC)


async def start(tree: MemoryTree, name: str, directory: str | None = None) -> Broker:
    store = MemoryStore(tree)
    me = Owner(
        broker_id=name,
        service_url=f"pulsar://{name}:6650",
        web_url=f"http://{name}:8080",
        term=await take_term(store),
        is_self=True,
        listeners={"outside": BrokerAddress(f"pulsar://{name}.org:6650")},
    )
    return Broker(store, me, directory or f"directory-{name}")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


def test_the_first_that_is_asked_becomes_the_home_for_good() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        a, b = await start(tree, "a"), await start(tree, "b")
        owners = await asyncio.gather(a.owner(), b.owner())
        assert [owner.broker_id for owner in owners] == ["a", "a"]
        assert [owner.is_self for owner in owners] == [True, False]
        assert owners[1].address_of("outside") == BrokerAddress("pulsar://a.org:6650")
        await a.ownership.close()
        await a.store.close()
        with pytest.raises(NoOwner, match="is not there"):
            await b.owner()
        again = await start(tree, "a", "directory-a")
        await again.ownership.resume()
        assert (await b.owner()).broker_id == "a"
        assert (await b.owner()).term == (await again.owner()).term > owners[0].term

    asyncio.run(body())


def test_a_namespace_that_does_not_exist_is_claimed_by_nobody() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        a = await start(tree, "a")
        owner = await a.ownership.owner_of(parse_topic("persistent://other/none/a"))
        assert owner.is_self
        assert not await a.store.exists("/magnetar/homes")
        assert not await a.store.exists("/namespace")

    asyncio.run(body())


def test_a_lost_session_is_followed_by_a_higher_term_and_topics_open_anew() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        a, b = await start(tree, "a"), await start(tree, "b")
        before = await a.owner()
        a.store.expire()
        await until(lambda: a.moved == [full_bundle(SPACE)])
        after = await a.owner()
        assert after.is_self
        assert after.term > before.term
        assert (await b.owner()).term == after.term

    asyncio.run(body())


def test_a_connection_that_was_away_for_a_moment_changes_nothing() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        a = await start(tree, "a")
        before = await a.owner()
        a.store.disconnect()
        assert await a.owner() == before
        a.store.reconnect()
        await asyncio.sleep(0.05)
        assert await a.owner() == before
        assert a.moved == []

    asyncio.run(body())


def test_a_lease_that_somebody_deletes_is_taken_again() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        a, b = await start(tree, "a"), await start(tree, "b")
        await a.owner()
        await b.store.delete(lease_path(SPACE), expect=ANY_VERSION)
        await until(lambda: a.moved == [full_bundle(SPACE)])
        assert (await b.owner()).broker_id == "a"

    asyncio.run(body())


def test_of_two_copies_of_a_directory_the_later_one_has_the_topics() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        first = await start(tree, "a", "one")
        await first.owner()
        first.store.disconnect()
        copy = await start(tree, "b", "one")
        assert (await copy.owner()).is_self
        first.store.reconnect()
        await until(lambda: first.moved == [full_bundle(SPACE)])
        with pytest.raises(NoOwner, match="copy of this directory"):
            await first.owner()
        assert (await copy.owner()).is_self
        assert copy.moved == []

    asyncio.run(body())


def test_records_that_make_no_sense_are_refused_by_path() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        a = await start(tree, "a")
        await a.store.put(home_path(SPACE), b"elsewhere", expect=ABSENT)
        for value in (b"", b"{}", b"[1]", json.dumps({"brokerId": 1}).encode()):
            await a.store.put(lease_path(SPACE), value, expect=ANY_VERSION)
            with pytest.raises(RecordUnreadable, match="/namespace/public/default/0x"):
                await a.owner()

    asyncio.run(body())
