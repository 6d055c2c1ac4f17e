"""What the ZooKeeper store does when its server dies, hangs, forgets it, or is asked too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from magnetar.errors import BadRequest, InvalidConfiguration, InvalidPath, StoreUnavailable
from magnetar.metadata.backends.zookeeper import (
    ZookeeperAddress,
    ZookeeperStore,
    parse_address,
)
from magnetar.metadata.cache import MetadataCache
from magnetar.metadata.election import Election, ElectionState
from magnetar.metadata.lock import Locks, LockState
from magnetar.metadata.store import ABSENT, ANY_VERSION, Change, ChangeKind, SessionEvent
from magnetar.runtime.clock import SYSTEM, SystemClock
from magnetar.testing.zookeeper import ZookeeperServer, shared_zookeeper

LONG_S = 30.0


@pytest.fixture(scope="module")
def mortal() -> Iterator[ZookeeperServer]:
    """A server that a test may kill or stop; it runs when the test begins."""
    with ZookeeperServer() as server:
        yield server


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG_S):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("zk://a:2181", ZookeeperAddress("a:2181", "")),
        ("zk://a:2181/", ZookeeperAddress("a:2181", "")),
        ("zk://a:2181,b:2182/x/y", ZookeeperAddress("a:2181,b:2182", "/x/y")),
        ("zk:a:2181/x", ZookeeperAddress("a:2181", "/x")),
        ("zookeeper:a,b", ZookeeperAddress("a,b", "")),
        ("zookeeper://a/x", ZookeeperAddress("a", "/x")),
    ],
)
def test_an_address_is_read_in_every_spelling(url: str, expected: ZookeeperAddress) -> None:
    assert parse_address(url) == expected


@pytest.mark.parametrize("url", ["zk:", "zk://", "zk:///x", "zk://a,,b", "etcd://a", "zk://a/x//y"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfiguration, match="zk://host:port"):
        parse_address(url)


def test_opening_without_a_server_is_refused_within_the_deadline() -> None:
    async def body() -> None:
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9 within 0\.3 s"):
            await ZookeeperStore.open("zk://127.0.0.1:9", deadline_s=0.3)

    asyncio.run(body())


def test_a_server_killed_and_restarted_keeps_session_and_acknowledged_writes(
    mortal: ZookeeperServer,
) -> None:
    async def body() -> None:
        store = await ZookeeperStore.open(mortal.new_url())
        session = store.session[0]
        turns: list[SessionEvent] = []
        store.watch_session(turns.append)
        await store.put("/live", b"me", expect=ABSENT, ephemeral=True)
        acknowledged: list[int] = []

        async def write(first: int) -> None:
            for index in range(first, 100_000, 8):
                try:
                    await store.put(f"/n/{index}", b"%d" % index, expect=ABSENT)
                except StoreUnavailable:
                    return
                acknowledged.append(index)

        writers = asyncio.gather(*(write(first) for first in range(8)))
        await until(lambda: len(acknowledged) > 200)
        mortal.kill()
        await writers
        await until(lambda: not store.is_connected)
        mortal.start()
        await until(lambda: store.is_connected)
        assert store.session[0] == session
        assert turns == [SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED]
        for index in acknowledged:
            record = await store.get(f"/n/{index}")
            assert record is not None
            assert record.value == b"%d" % index
        record = await store.get("/live")
        assert record is not None
        assert record.stat.created_by_self
        heard: list[Change] = []
        store.watch("/after", heard.append)
        await store.put("/after", b"x", expect=ABSENT)
        assert heard == [Change(ChangeKind.CREATED, "/after")]
        await store.close()

    asyncio.run(body())


def test_calls_wait_out_a_short_loss_of_the_connection(mortal: ZookeeperServer) -> None:
    async def body() -> None:
        store = await ZookeeperStore.open(mortal.new_url())
        await store.put("/a", b"one", expect=ABSENT)
        mortal.kill()
        await until(lambda: not store.is_connected)
        reading = asyncio.gather(store.get("/a"), store.put("/b", b"two", expect=ABSENT))
        mortal.start()
        record, stat = await reading
        assert record is not None
        assert (record.value, stat.version) == (b"one", 0)
        await store.close()

    asyncio.run(body())


def test_a_server_that_hangs_ends_calls_at_their_deadline_and_no_later_write_appears(
    mortal: ZookeeperServer,
) -> None:
    async def body() -> None:
        store = await ZookeeperStore.open(mortal.new_url(), deadline_s=4.0)
        await store.put("/a", b"one", expect=ABSENT)
        mortal.pause()
        try:
            async with asyncio.timeout(LONG_S):
                outcomes = await asyncio.gather(
                    store.get("/a"),
                    store.children("/"),
                    store.put("/a", b"two", expect=0),
                    store.delete("/a", expect=7),
                    return_exceptions=True,
                )
        finally:
            mortal.resume()
        assert all(isinstance(each, StoreUnavailable) for each in outcomes), outcomes
        await store.sync("/a")
        record = await store.get("/a")
        assert record is not None  # the write was sent, so it may have happened
        assert record.value in (b"one", b"two")
        await store.close()

    asyncio.run(body())


def test_closing_without_a_server_ends(mortal: ZookeeperServer) -> None:
    async def body() -> None:
        store = await ZookeeperStore.open(mortal.new_url(), deadline_s=4.0)
        mortal.kill()
        async with asyncio.timeout(LONG_S):
            await store.close()

    asyncio.run(body())
    mortal.start()


def test_an_expired_session_loses_its_records_and_locks_and_elections_come_back() -> None:
    server = shared_zookeeper()

    async def body() -> None:
        url = server.new_url()
        store, other = await ZookeeperStore.open(url), await ZookeeperStore.open(url)
        ended = store.session
        locks = Locks(store, clock=SYSTEM)
        lock = await locks.acquire("/lock", b"me")
        leading: list[ElectionState] = []
        election = Election(store, "/leader", b"me", clock=SYSTEM, on_change=leading.append)
        assert await election.elect() is ElectionState.LEADING
        term = election.term
        await store.put("/plain", b"", expect=ABSENT, ephemeral=True)
        turns: list[SessionEvent] = []
        store.watch_session(turns.append)
        await asyncio.to_thread(server.expire, ended)
        await until(lambda: SessionEvent.SESSION_REESTABLISHED in turns)
        assert turns[-3:] == [
            SessionEvent.SESSION_LOST,
            SessionEvent.RECONNECTED,
            SessionEvent.SESSION_REESTABLISHED,
        ]
        assert store.session != ended
        assert await other.get("/plain") is None
        await until(lambda: election.term > term and election.state is ElectionState.LEADING)
        assert ElectionState.NO_LEADER in leading
        async with asyncio.timeout(LONG_S):
            while (record := await store.get("/lock")) is None or not record.stat.created_by_self:
                await asyncio.sleep(0.005)
        assert lock.state is LockState.VALID
        await election.close()
        await locks.close()
        await store.close()
        await other.close()

    asyncio.run(body())


def test_a_lock_that_another_took_meanwhile_is_lost() -> None:
    server = shared_zookeeper()

    async def body() -> None:
        url = server.new_url()
        store, other = await ZookeeperStore.open(url), await ZookeeperStore.open(url)
        locks = Locks(store, clock=SYSTEM)
        lock = await locks.acquire("/lock", b"me")
        taking = asyncio.Event()

        def on_change(change: Change) -> None:
            if change.kind is ChangeKind.DELETED:
                taking.set()

        other.watch("/lock", on_change)
        # Before the loser's own session is back, as its first event shows.
        store.watch_session(lambda turn: None)
        expiring = asyncio.create_task(asyncio.to_thread(server.expire, store.session))
        await taking.wait()
        try:
            await other.put("/lock", b"you", expect=ABSENT, ephemeral=True)
        finally:
            await expiring
        record = await other.get("/lock")
        assert record is not None
        await asyncio.wait_for(lock.expired.wait(), LONG_S)
        assert lock.state is LockState.RELEASED
        await locks.close()
        await store.close()
        await other.close()

    asyncio.run(body())


def test_two_sessions_that_race_on_one_record_lose_no_update() -> None:
    url = shared_zookeeper().new_url()

    async def body() -> None:
        stores = [await ZookeeperStore.open(url) for _ in range(2)]
        caches = [
            MetadataCache(store, "/n", encode=lambda n: b"%d" % n, decode=int, clock=SystemClock())
            for store in stores
        ]
        await caches[0].create("/n", 0)
        await asyncio.gather(
            *(cache.read_modify_update("/n", lambda n: n + 1) for cache in caches * 20)
        )
        assert [await cache.get("/n") for cache in caches] == [40, 40]
        for store in stores:
            await store.close()

    asyncio.run(body())


def test_a_cache_forgets_what_changed_while_its_session_was_away() -> None:
    server = shared_zookeeper()

    async def body() -> None:
        url = server.new_url()
        store, other = await ZookeeperStore.open(url), await ZookeeperStore.open(url)
        cache = MetadataCache(
            store, "/n", encode=lambda n: b"%d" % n, decode=int, clock=SystemClock()
        )
        await cache.create("/n", 1)
        assert await cache.get("/n") == 1
        back = asyncio.Event()
        store.watch_session(lambda turn: back.set())
        await asyncio.to_thread(server.expire, store.session)
        await other.put("/n", b"2", expect=0)
        async with asyncio.timeout(LONG_S):
            while await cache.get("/n") != 2:
                await asyncio.sleep(0.005)
        await store.close()
        await other.close()

    asyncio.run(body())


def test_a_record_too_large_for_the_server_is_refused_and_disturbs_nobody() -> None:
    url = shared_zookeeper().new_url()

    async def body() -> None:
        store = await ZookeeperStore.open(url)
        turns: list[SessionEvent] = []
        store.watch_session(turns.append)
        for path, expect in (("/a", ABSENT), ("/b/c", ABSENT), ("/a", ANY_VERSION), ("/a", 0)):
            with pytest.raises(BadRequest, match="1000001 bytes"):
                await store.put(path, b"x" * 1_000_001, expect=expect)
        await store.put("/a", b"x" * 1_000_000, expect=ABSENT)
        record = await store.get("/a")
        assert record is not None
        assert len(record.value) == 1_000_000
        assert turns == []
        await store.close()

    asyncio.run(body())


def test_a_listing_over_the_usual_limit_of_an_answer_comes_whole() -> None:
    url = shared_zookeeper().new_url()

    async def body() -> None:
        store = await ZookeeperStore.open(url)
        names = tuple(f"{index:05d}" + "n" * 200 for index in range(6_000))
        for start in range(0, len(names), 2_000):
            await asyncio.gather(
                *(
                    store.put(f"/d/{name}", b"x", expect=ABSENT)
                    for name in names[start : start + 2_000]
                )
            )
        assert await store.children("/d") == names
        await store.delete_recursive("/d")
        assert not await store.exists("/d")
        await store.close()

    asyncio.run(body())


@pytest.mark.parametrize("path", ["/a/./b", "/a/..", "/a\u0001", "/\ud800"])
def test_a_path_that_only_zookeeper_refuses_is_refused(path: str) -> None:
    url = shared_zookeeper().new_url()

    async def body() -> None:
        store = await ZookeeperStore.open(url)
        with pytest.raises(InvalidPath):
            await store.put(path, b"x", expect=ABSENT)
        assert store.is_connected
        await store.close()

    asyncio.run(body())


def test_the_numbers_of_sequences_are_counted_out_of_sight() -> None:
    url = shared_zookeeper().new_url()

    async def body() -> None:
        first, second = await ZookeeperStore.open(url), await ZookeeperStore.open(url)
        heard: list[str] = []
        first.watch("/", lambda change: heard.append(change.path))
        made = await asyncio.gather(
            *(store.put_sequence("/s/x", b"", deltas=[1]) for store in (first, second) * 20)
        )
        assert len({path for path, _ in made}) == 40
        assert await first.children("/") == ("s",)
        assert all(path == "/" or path.startswith("/s") for path in heard)
        await first.close()
        await second.close()

    asyncio.run(body())


class SkippingClock(SystemClock):
    """As of a process that is not run for a while."""

    skipped_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.skipped_s


def test_a_process_that_was_not_run_for_longer_than_its_session_knows_it_at_once() -> None:
    async def body() -> None:
        clock, told = SkippingClock(), list[SessionEvent]()
        url = shared_zookeeper().new_url()
        store = await ZookeeperStore.open(url, session_timeout_s=10.0, clock=clock)
        try:
            store.watch_session(told.append)
            await store.put("/a", b"", expect=ABSENT)
            assert store.has_session
            clock.skipped_s = 9.0
            assert store.has_session and not told
            clock.skipped_s = 11.0
            assert not store.has_session and not store.has_session
            assert told == [SessionEvent.SESSION_LOST]
            # The server has heard of it all the while, and says so.
            await until(lambda: store.has_session)
            assert told[-1] is SessionEvent.SESSION_REESTABLISHED
        finally:
            await store.close()

    asyncio.run(body())
