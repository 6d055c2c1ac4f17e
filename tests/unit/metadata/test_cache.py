"""The typed cache over a real store; a counting front shows what was asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from magnetar.errors import RecordExists, RecordNotFound, RecordUnreadable, StoreUnavailable
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.cache import MetadataCache
from magnetar.metadata.store import ABSENT, ANY_VERSION, Change, Record
from magnetar.runtime.clock import SystemClock


class SlowStore(MemoryStore):
    """Counts the gets and lets each wait until the test says so."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.gets = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def get(self, path: str) -> Record | None:
        self.gets += 1
        record = await super().get(path)
        await self.gate.wait()
        return record


class DeafStore(MemoryStore):
    """Hears of no change, as when a notification is late."""

    def on_changes(self, changes: Iterable[Change]) -> None:
        pass


def decode(data: bytes) -> int:
    try:
        return int(data)
    except ValueError:
        raise RecordUnreadable(f"not a number: {data!r}") from None


def encode(value: int) -> bytes:
    return b"%d" % value


def cache_over(store: MemoryStore, **options: int) -> MetadataCache[int]:
    return MetadataCache(store, "/n", encode=encode, decode=decode, clock=SystemClock(), **options)


def run(body: Callable[[SlowStore, MetadataCache[int]], Awaitable[None]]) -> None:
    async def scoped() -> None:
        store = SlowStore(MemoryTree(SystemClock()))
        await body(store, cache_over(store))
        await store.close()

    asyncio.run(scoped())


def test_a_value_is_loaded_once() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await store.put("/n/a", b"7", expect=ABSENT)
        assert cache.get_if_cached("/n/a") is None
        assert [await cache.get("/n/a") for _ in range(3)] == [7, 7, 7]
        assert cache.get_if_cached("/n/a") == 7
        assert store.gets == 1

    run(body)


def test_absence_is_remembered_until_the_record_is_created() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        assert await cache.get("/n/a") is None
        assert await cache.get("/n/a") is None
        assert store.gets == 1
        await store.put("/n/a", b"1", expect=ABSENT)
        assert await cache.get("/n/a") == 1

    run(body)


def test_callers_at_the_same_time_share_one_load() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await store.put("/n/a", b"7", expect=ABSENT)
        store.gate.clear()
        asking = asyncio.gather(*(cache.get("/n/a") for _ in range(10)))
        await asyncio.sleep(0)
        store.gate.set()
        assert await asking == [7] * 10
        assert store.gets == 1

    run(body)


def test_a_cancelled_loader_leaves_the_others_their_answer() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await store.put("/n/a", b"7", expect=ABSENT)
        store.gate.clear()
        async with asyncio.TaskGroup() as tasks:
            loader = tasks.create_task(cache.get("/n/a"))
            await asyncio.sleep(0)
            waiter = tasks.create_task(cache.get("/n/a"))
            await asyncio.sleep(0)
            loader.cancel()
            await asyncio.sleep(0)
            store.gate.set()
        assert waiter.result() == 7

    run(body)


def test_a_cancelled_waiter_leaves_the_loader_alone() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await store.put("/n/a", b"7", expect=ABSENT)
        store.gate.clear()
        async with asyncio.TaskGroup() as tasks:
            loader = tasks.create_task(cache.get("/n/a"))
            await asyncio.sleep(0)
            waiter = tasks.create_task(cache.get("/n/a"))
            await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.sleep(0)
            store.gate.set()
        assert waiter.cancelled()
        assert loader.result() == 7
        assert store.gets == 1

    run(body)


def test_an_answer_overtaken_by_a_change_is_not_kept() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await store.put("/n/a", b"1", expect=ABSENT)
        store.gate.clear()
        asking = asyncio.gather(cache.get("/n/a"))
        await asyncio.sleep(0)
        await store.put("/n/a", b"2", expect=0)
        store.gate.set()
        assert await asking == [1]  # asked before the change
        assert await cache.get("/n/a") == 2

    run(body)


def test_changes_by_others_are_seen() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await store.put("/n/a", b"1", expect=ABSENT)
        assert await cache.get("/n/a") == 1
        await store.put("/n/a", b"2", expect=0)
        assert await cache.get("/n/a") == 2
        await store.delete("/n/a", expect=ANY_VERSION)
        assert await cache.get("/n/a") is None

    run(body)


def test_own_writes_are_read_back() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await cache.create("/n/a", 1)
        assert await cache.get("/n/a") == 1
        with pytest.raises(RecordExists):
            await cache.create("/n/a", 2)
        assert await cache.read_modify_update("/n/a", lambda value: value + 1) == 2
        assert await cache.get("/n/a") == 2
        await cache.delete("/n/a")
        assert await cache.get("/n/a") is None
        with pytest.raises(RecordNotFound):
            await cache.delete("/n/a")

    run(body)


def test_a_large_record_is_not_decoded_again_while_it_is_the_same() -> None:
    decoded: list[bytes] = []

    def note(data: bytes) -> bytes:
        decoded.append(data)
        return data

    async def body() -> None:
        store = MemoryStore(MemoryTree(SystemClock()))
        cache = MetadataCache(store, "/n", encode=note, decode=note, clock=SystemClock())
        one, two = b"1" * 5000, b"2" * 5000
        await cache.create("/n/a", one)
        assert decoded == [one]  # to write it
        for _ in range(3):
            assert await cache.get("/n/a") == one
            cache.invalidate("/n/a")
        assert decoded == [one]
        await store.put("/n/a", two, expect=0)  # somebody else
        assert [await cache.get("/n/a"), await cache.get("/n/a")] == [two, two]
        assert decoded == [one, two]
        held = await cache.get_with_stat("/n/a")
        assert held is not None
        assert held.stat.version == 1
        await cache.delete("/n/a")
        assert await cache.get("/n/a") is None
        for number in range(100):  # only so many are kept
            await cache.create(f"/n/{number}", one)
        del decoded[:]
        assert await cache.get("/n/0") == one
        assert await cache.get("/n/99") == one
        assert decoded == [one]
        await store.close()

    asyncio.run(body())


def test_an_update_of_a_missing_record_is_refused_or_creates_it() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        with pytest.raises(RecordNotFound):
            await cache.read_modify_update("/n/a", lambda value: value + 1)
        made = await cache.read_modify_update_or_create("/n/a", lambda value: (value or 0) + 5)
        assert made == await cache.get("/n/a") == 5

    run(body)


def test_a_value_left_as_it_was_is_not_written() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await cache.create("/n/a", 1)
        await cache.read_modify_update("/n/a", lambda value: value)
        held = await cache.get_with_stat("/n/a")
        assert held is not None
        assert held.stat.version == 0

    run(body)


def test_updates_through_two_caches_lose_nothing() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        stores = [SlowStore(tree), SlowStore(tree)]
        caches = [cache_over(store) for store in stores]
        await caches[0].create("/n/a", 0)

        async def add(cache: MetadataCache[int]) -> None:
            for _ in range(20):
                await cache.read_modify_update("/n/a", lambda value: value + 1)

        await asyncio.gather(*(add(cache) for cache in caches * 2))
        assert [await cache.get("/n/a") for cache in caches] == [80, 80]

    asyncio.run(body())


def test_a_conflict_is_retried_with_the_value_of_the_other_writer() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        cache = cache_over(DeafStore(tree))
        await cache.create("/n/a", 1)
        assert await cache.get("/n/a") == 1
        await MemoryStore(tree).put("/n/a", b"10", expect=0)
        seen: list[int] = []

        def double(value: int) -> int:
            seen.append(value)
            return value * 2

        assert await cache.read_modify_update("/n/a", double) == 20
        assert seen == [1, 10]
        assert await cache.get("/n/a") == 20

    asyncio.run(body())


def test_what_cannot_be_read_is_refused_and_not_remembered() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await store.put("/n/a", b"seven", expect=ABSENT)
        for _ in range(2):
            with pytest.raises(RecordUnreadable):
                await cache.get("/n/a")
        assert store.gets == 2

    run(body)


def test_a_lost_connection_empties_the_cache_when_it_is_back() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await store.put("/n/a", b"1", expect=ABSENT)
        assert await cache.get("/n/a") == 1
        store.disconnect()
        assert await cache.get("/n/a") == 1  # the last that was known
        with pytest.raises(StoreUnavailable):
            await cache.get("/n/b")
        store.reconnect()
        gets = store.gets
        assert await cache.get("/n/a") == 1
        assert store.gets == gets + 1

    run(body)


def test_the_cache_forgets_the_oldest_when_it_is_full() -> None:
    async def body() -> None:
        store = SlowStore(MemoryTree(SystemClock()))
        cache = cache_over(store, entries_max=2)
        for name in ("a", "b", "c"):
            await store.put(f"/n/{name}", b"1", expect=ABSENT)
            await cache.get(f"/n/{name}")
        assert [cache.get_if_cached(f"/n/{name}") for name in ("a", "b", "c")] == [None, 1, 1]

    asyncio.run(body())


def test_a_closed_cache_remembers_nothing() -> None:
    async def body(store: SlowStore, cache: MetadataCache[int]) -> None:
        await cache.create("/n/a", 1)
        await cache.get("/n/a")
        cache.close()
        assert cache.get_if_cached("/n/a") is None

    run(body)
