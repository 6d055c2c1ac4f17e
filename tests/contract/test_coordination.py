"""Locks and elections over every metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from magnetar.errors import LockBusy, StoreClosed, StoreUnavailable
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.election import Election, ElectionState
from magnetar.metadata.lock import Locks, LockState
from magnetar.metadata.store import ABSENT, ANY_VERSION, MetadataStore, Stat
from magnetar.runtime.clock import SYSTEM, SystemClock
from tests.contract.metadata_place import PLACES, Place


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


@pytest.fixture
def shared(place: Place) -> Place:
    if not place.shared:
        pytest.skip("one session at a time")
    return place


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def value_at(store: MetadataStore, path: str) -> bytes | None:
    record = await store.get(path)
    return None if record is None else record.value


def test_a_lock_is_an_ephemeral_record_until_it_is_released(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        locks = Locks(store, clock=SYSTEM)
        lock = await locks.acquire("/lock/a", b"me")
        record = await store.get("/lock/a")
        assert record is not None
        assert (record.value, record.stat.ephemeral) == (b"me", True)
        assert lock.state is LockState.VALID
        await lock.release()
        await lock.release()
        assert lock.state is LockState.RELEASED
        assert lock.expired.is_set()
        assert await store.get("/lock/a") is None
        again = await locks.acquire("/lock/a", b"me")
        await locks.close()
        assert again.state is LockState.RELEASED
        assert await store.get("/lock/a") is None
        await store.close()

    asyncio.run(body())


def test_a_lock_held_already_is_busy(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        locks = Locks(store, clock=SYSTEM)
        await locks.acquire("/lock/a", b"me")
        with pytest.raises(LockBusy):
            await locks.acquire("/lock/a", b"me again")
        await locks.close()
        await store.close()

    asyncio.run(body())


def test_a_lasting_record_is_never_taken_for_a_lock(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        await store.put("/lock/a", b"me", expect=ABSENT)
        locks = Locks(store, clock=SYSTEM)
        with pytest.raises(LockBusy):
            await locks.acquire("/lock/a", b"me")
        assert await value_at(store, "/lock/a") == b"me"
        await locks.close()
        await store.close()

    asyncio.run(body())


def test_a_lock_that_is_given_up_without_the_store_is_free_when_the_session_is_back() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        mine, other = MemoryStore(tree), MemoryStore(tree)
        holder, rival = Locks(mine, clock=SYSTEM), Locks(other, clock=SYSTEM)
        lock = await holder.acquire("/lock/a", b"me")
        mine.disconnect()
        with pytest.raises(StoreUnavailable):
            await lock.release()
        with pytest.raises(LockBusy):
            await rival.acquire("/lock/a", b"you")
        mine.reconnect()
        async with asyncio.timeout(30):
            while await other.exists("/lock/a"):
                await asyncio.sleep(0.001)
        await rival.acquire("/lock/a", b"you")
        for locks, store in ((holder, mine), (rival, other)):
            await locks.close()
            await store.close()

    asyncio.run(body())


def test_a_lock_that_is_taken_again_before_its_record_was_removed_is_held() -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SystemClock()))
        locks = Locks(store, clock=SYSTEM)
        lock = await locks.acquire("/lock/a", b"me")
        store.disconnect()
        with pytest.raises(StoreUnavailable):
            await lock.release()
        store.reconnect()
        again = await locks.acquire("/lock/a", b"me")
        await asyncio.sleep(0.5)  # the removal is tried again in between
        assert again.state is LockState.VALID
        assert await value_at(store, "/lock/a") == b"me"
        await locks.close()
        await store.close()

    asyncio.run(body())


class LateStore(MemoryStore):
    """Writes come about a while after they were asked for, also when the caller is cancelled."""

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        async def write() -> Stat:
            await asyncio.sleep(0.05)
            return await MemoryStore.put(self, path, value, expect=expect, ephemeral=ephemeral)

        return await asyncio.shield(asyncio.ensure_future(write()))


def test_a_candidate_that_is_closed_while_it_is_elected_leaves_no_record() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        store = LateStore(tree)
        candidate = Election(store, "/leader", b"me", clock=SYSTEM)
        electing = asyncio.create_task(candidate.elect())
        await asyncio.sleep(0.01)
        await candidate.close()
        await electing
        await asyncio.sleep(0.1)
        assert await value_at(store, "/leader") is None
        await store.close()

    asyncio.run(body())


def test_a_candidate_that_is_closed_without_the_store_leaves_when_the_session_is_back() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        mine, other = MemoryStore(tree), MemoryStore(tree)
        leader = Election(mine, "/leader", b"me", clock=SYSTEM)
        assert await leader.elect() is ElectionState.LEADING
        rival = Election(other, "/leader", b"you", clock=SYSTEM)
        assert await rival.elect() is ElectionState.FOLLOWING
        mine.disconnect()
        await leader.close()
        assert rival.leader_if_known == b"me"
        mine.reconnect()
        async with asyncio.timeout(30):
            while rival.state is not ElectionState.LEADING:
                await asyncio.sleep(0.001)
        await rival.close()
        for store in (mine, other):
            await store.close()

    asyncio.run(body())


def test_a_value_left_by_this_session_is_replaced(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        await store.put("/lock/a", b"old", expect=ABSENT, ephemeral=True)
        locks = Locks(store, clock=SYSTEM)
        lock = await locks.acquire("/lock/a", b"new")
        assert await value_at(store, "/lock/a") == b"new"
        await lock.update(b"newer")
        assert await value_at(store, "/lock/a") == b"newer"
        await locks.close()
        assert await store.get("/lock/a") is None
        await store.close()

    asyncio.run(body())


def test_a_lock_whose_record_was_removed_is_made_again(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        locks = Locks(store, clock=SYSTEM)
        lock = await locks.acquire("/lock/a", b"me")
        await store.delete("/lock/a", expect=ANY_VERSION)
        async with asyncio.timeout(30):
            while await value_at(store, "/lock/a") != b"me":
                await asyncio.sleep(0.001)
        assert lock.state is LockState.VALID
        await lock.update(b"me too")
        await locks.close()
        await store.close()

    asyncio.run(body())


def test_another_session_cannot_take_a_held_lock(shared: Place) -> None:
    async def body() -> None:
        mine, other = await shared.open(), await shared.open()
        holder, rival = Locks(mine, clock=SYSTEM), Locks(other, clock=SYSTEM)
        lock = await holder.acquire("/lock/a", b"me")
        with pytest.raises(LockBusy):
            await rival.acquire("/lock/a", b"you")
        await lock.release()
        await rival.acquire("/lock/a", b"you")
        for locks, store in ((holder, mine), (rival, other)):
            await locks.close()
            await store.close()

    asyncio.run(body())


def test_the_same_holder_takes_its_lock_over_from_its_earlier_session(shared: Place) -> None:
    async def body() -> None:
        earlier, present = await shared.open(), await shared.open()
        await earlier.put("/lock/a", b"me", expect=ABSENT, ephemeral=True)
        locks = Locks(present, clock=SYSTEM)
        await locks.acquire("/lock/a", b"me")
        await earlier.close()
        record = await present.get("/lock/a")
        assert record is not None
        assert record.stat.created_by_self
        await locks.close()
        await present.close()

    asyncio.run(body())


def test_of_many_rivals_one_gets_the_lock(shared: Place) -> None:
    async def body() -> None:
        stores = [await shared.open() for _ in range(8)]
        rivals = [Locks(store, clock=SYSTEM) for store in stores]

        async def attempt(number: int) -> int | None:
            try:
                await rivals[number].acquire("/lock/a", b"%d" % number)
            except LockBusy:
                return None
            return number

        winners = [n for n in await asyncio.gather(*map(attempt, range(8))) if n is not None]
        assert len(winners) == 1
        assert await value_at(stores[0], "/lock/a") == b"%d" % winners[0]
        for locks, store in zip(rivals, stores, strict=True):
            await locks.close()
            await store.close()

    asyncio.run(body())


def test_a_candidate_alone_leads_with_a_growing_term(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        terms = []
        for _ in range(3):
            election = Election(store, "/leader", b"me", clock=SYSTEM)
            assert election.state is ElectionState.NO_LEADER
            assert await election.elect() is ElectionState.LEADING
            assert await election.leader() == b"me"
            assert await value_at(store, "/leader") == b"me"
            terms.append(election.term)
            await election.close()
            assert await store.get("/leader") is None
        assert terms == [1, 2, 3]
        await store.close()

    asyncio.run(body())


def test_a_leader_whose_record_was_removed_leads_again_with_a_higher_term(place: Place) -> None:
    async def body() -> None:
        store = await place.open()
        states: list[ElectionState] = []
        election = Election(store, "/leader", b"me", clock=SYSTEM, on_change=states.append)
        await election.elect()
        await store.delete("/leader", expect=ANY_VERSION)
        await until(lambda: election.term == 2 and election.state is ElectionState.LEADING)
        assert states == [ElectionState.LEADING, ElectionState.NO_LEADER, ElectionState.LEADING]
        await election.close()
        await store.close()

    asyncio.run(body())


def test_a_follower_takes_over_with_a_higher_term(shared: Place) -> None:
    async def body() -> None:
        mine, other = await shared.open(), await shared.open()
        first, second = (
            Election(mine, "/leader", b"one", clock=SYSTEM),
            Election(other, "/leader", b"two", clock=SYSTEM),
        )
        assert await first.elect() is ElectionState.LEADING
        assert await second.elect() is ElectionState.FOLLOWING
        assert await second.leader() == b"one"
        await first.close()
        await until(lambda: second.state is ElectionState.LEADING)
        assert second.term > first.term
        await second.close()
        await mine.close()
        await other.close()

    asyncio.run(body())


def test_a_candidate_does_not_lead_on_the_record_of_its_earlier_session(shared: Place) -> None:
    async def body() -> None:
        earlier, present = await shared.open(), await shared.open()
        await earlier.put("/leader", b"me", expect=ABSENT, ephemeral=True)
        election = Election(present, "/leader", b"me", clock=SYSTEM)
        assert await election.elect() is ElectionState.LEADING
        await earlier.close()
        record = await present.get("/leader")
        assert record is not None
        assert record.stat.created_by_self
        await election.close()
        await present.close()

    asyncio.run(body())


def test_one_of_many_candidates_leads_and_no_term_is_used_twice(shared: Place) -> None:
    async def body() -> None:
        stores = [await shared.open() for _ in range(5)]
        elections = [
            Election(store, "/leader", b"%d" % number, clock=SYSTEM)
            for number, store in enumerate(stores)
        ]
        await asyncio.gather(*(election.elect() for election in elections))
        terms: list[int] = []
        remaining = dict(enumerate(elections))
        while remaining:
            await until(lambda: any(e.state is ElectionState.LEADING for e in remaining.values()))
            leading = [n for n, e in remaining.items() if e.state is ElectionState.LEADING]
            assert len(leading) == 1
            terms.append(remaining[leading[0]].term)
            await remaining.pop(leading[0]).close()
            await stores[leading[0]].close()
        assert terms == sorted(set(terms))
        assert len(terms) == 5

    asyncio.run(body())


def test_a_lock_comes_back_after_a_lost_session() -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SystemClock()))
        locks = Locks(store, clock=SYSTEM)
        lock = await locks.acquire("/lock/a", b"me")
        store.expire()
        async with asyncio.timeout(30):
            while await value_at(store, "/lock/a") != b"me":
                await asyncio.sleep(0.001)
        assert lock.state is LockState.VALID
        await locks.close()
        await store.close()

    asyncio.run(body())


def test_a_lock_taken_by_another_during_a_lost_session_expires() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        store, other = MemoryStore(tree), MemoryStore(tree)
        locks = Locks(store, clock=SYSTEM)
        lock = await locks.acquire("/lock/a", b"me")
        store.disconnect()
        store.expire()
        rival = Locks(other, clock=SYSTEM)
        await rival.acquire("/lock/a", b"you")
        assert lock.state is LockState.VALID  # nothing is known while the store does not answer
        store.reconnect()
        async with asyncio.timeout(30):
            await lock.expired.wait()
        assert lock.state is LockState.RELEASED
        assert await value_at(store, "/lock/a") == b"you"
        with pytest.raises(LockBusy):
            await lock.update(b"mine")
        for held, handle in ((locks, store), (rival, other)):
            await held.close()
            await handle.close()

    asyncio.run(body())


def test_a_lock_survives_a_lost_connection() -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SystemClock()))
        locks = Locks(store, clock=SYSTEM)
        lock = await locks.acquire("/lock/a", b"me")
        store.disconnect()
        with pytest.raises(StoreUnavailable):
            await lock.update(b"x")
        store.reconnect()
        await lock.update(b"y")
        assert lock.state is LockState.VALID
        await locks.close()
        await store.close()

    asyncio.run(body())


def test_a_leader_that_lost_its_session_steps_down_before_another_leads() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        store, other = MemoryStore(tree), MemoryStore(tree)
        first, second = (
            Election(store, "/leader", b"one", clock=SYSTEM),
            Election(other, "/leader", b"two", clock=SYSTEM),
        )
        await first.elect()
        await second.elect()
        store.disconnect()
        assert first.state is ElectionState.LEADING
        store.expire()
        assert first.state is ElectionState.NO_LEADER
        await until(lambda: second.state is ElectionState.LEADING)
        store.reconnect()
        await until(lambda: first.state is ElectionState.FOLLOWING)
        assert await first.leader() == b"two"
        assert second.term == first.term + 1
        await first.close()
        await second.close()
        await store.close()
        await other.close()

    asyncio.run(body())


def test_an_election_without_an_answer_from_the_store_times_out() -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SystemClock()))
        store.disconnect()
        election = Election(store, "/leader", b"me", clock=SYSTEM)
        with pytest.raises(StoreUnavailable):
            await election.elect(timeout_s=0.01)
        store.reconnect()
        assert await election.elect() is ElectionState.LEADING
        await election.close()
        await store.close()

    asyncio.run(body())


def test_who_waits_for_a_candidate_that_is_closed_waits_no_longer() -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SystemClock()))
        store.disconnect()
        election = Election(store, "/leader", b"me", clock=SYSTEM)
        waiting = asyncio.gather(
            election.elect(timeout_s=1_000),
            election.leader(timeout_s=1_000),
            return_exceptions=True,
        )
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await election.close()
            elected, leader = await waiting
        assert elected is ElectionState.NO_LEADER
        assert isinstance(leader, StoreClosed)
        assert await election.elect() is ElectionState.NO_LEADER
        await store.close()

    asyncio.run(body())
