from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from magnetar.errors import StorageFailed, StorageFull, StoreUnavailable, VersionConflict
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.log import Log
from magnetar.ledger.pace import BYTES_PER_S, CURSOR_BYTES_PER_S, WRITE_OVERHEAD_BYTES, CursorPace
from magnetar.ledger.run import EntryRun
from magnetar.model.position import EARLIEST, LATEST, LedgerId, Position
from magnetar.model.stored_log import CursorInfo
from magnetar.testing.log_record import MemoryLogRecords
from tests.unit.ledger.log_place import BYTES, SMALL, Place, StepClock, append, fill, until


async def opened(place: Place, count: int) -> tuple[Log, Cursor, list[Position]]:
    log = await place.open()
    cursor = await log.cursors.open("s", start=EARLIEST)
    return log, cursor, await fill(log, count)


def test_a_cursor_starts_where_it_is_told() -> None:
    async def body() -> None:
        log = await Place().open()
        empty = await log.cursors.open("on empty", start=LATEST)
        places = await fill(log, 15)
        assert empty.first_unacked() == places[0] and empty.backlog == 15
        for start, first in [(EARLIEST, 0), (places[0], 0), (places[7], 7), (places[10], 10)]:
            cursor = log.cursors.open_transient(f"at {first} by {start}", start)
            assert cursor.first_unacked() == cursor.read_position == places[first]
            assert cursor.backlog == 15 - first
        for start in (LATEST, Position(2**62, 0), Position(places[-1].ledger_id, 99)):
            cursor = log.cursors.open_transient(f"end by {start}", start)
            assert cursor.backlog == 0 and cursor.mark_delete == places[-1]
        later = await append(log, b"x")
        assert cursor.first_unacked() == later
        await log.close()

    asyncio.run(body())


def test_the_mark_moves_over_touching_entries_and_ledger_ends() -> None:
    async def body() -> None:
        place = Place()
        log, cursor, places = await opened(place, 25)
        for number in range(12, 20):
            cursor.acknowledge(*places[number])
        assert cursor.mark_delete == EARLIEST
        assert cursor.ranges == ((places[12], places[19]),)
        assert (cursor.backlog, cursor.acked_beyond, cursor.range_count) == (17, 8, 1)
        for number in range(12):
            cursor.acknowledge(*places[number])
        assert cursor.mark_delete == places[19]
        assert (cursor.backlog, cursor.ranges) == (5, ())
        assert cursor.first_unacked() == places[20]
        cursor.acknowledge_through(places[22])
        cursor.acknowledge_through(places[3])
        assert cursor.mark_delete == places[22]
        await log.close()

    asyncio.run(body())


def test_bulk_acknowledgements_in_any_order() -> None:
    async def body() -> None:
        log, cursor, places = await opened(Place(policy=LogPolicy()), 30)
        ledger_id = places[0].ledger_id
        cursor.acknowledge_entries(ledger_id, [])
        cursor.acknowledge_entries(ledger_id, [5, 6, 7])
        cursor.acknowledge_entries(ledger_id, [20, 10, 9, 12, 10])
        cursor.acknowledge_entries(ledger_id, [1, 5, 2, 4])
        assert [(first.entry_id, last.entry_id) for first, last in cursor.ranges] == [
            (1, 2),
            (4, 7),
            (9, 10),
            (12, 12),
            (20, 20),
        ]
        cursor.acknowledge_entries(ledger_id, list(range(25)))
        assert (cursor.mark_delete.entry_id, cursor.ranges, cursor.backlog) == (24, (), 5)
        await log.close()

    asyncio.run(body())


def test_entries_that_do_not_exist_cannot_be_acknowledged() -> None:
    async def body() -> None:
        log, cursor, places = await opened(Place(), 15)
        ledger_id = places[-1].ledger_id
        cursor.acknowledge(ledger_id, 5)
        cursor.acknowledge(ledger_id + 50, 0)
        cursor.acknowledge(ledger_id, -1)
        cursor.acknowledge_entries(ledger_id, [5, 6, 7])
        assert not cursor.acknowledge_batch(ledger_id, 5, 0)
        assert (cursor.backlog, cursor.ranges) == (15, ())
        cursor.acknowledge_through(Position(ledger_id, 1000))
        assert cursor.mark_delete == places[-1]
        later = await append(log, b"x")
        assert not cursor.is_acknowledged(*later) and cursor.backlog == 1
        await log.close()

    asyncio.run(body())


def test_a_batch_is_done_when_no_bit_remains() -> None:
    async def body() -> None:
        place = Place()
        log, cursor, places = await opened(place, 5)
        wide = 2**200 - 1
        assert not cursor.acknowledge_batch(*places[1], wide ^ 1)
        assert not cursor.acknowledge_batch(*places[1], wide ^ 2)
        assert cursor.remaining(*places[1]) == wide ^ 3
        assert not cursor.is_acknowledged(*places[1])
        await cursor.flush()
        log = await place.open()
        cursor = log.cursors["s"]
        assert cursor.remaining(*places[1]) == wide ^ 3
        assert cursor.acknowledge_batch(*places[1], 3)
        assert not cursor.acknowledge_batch(*places[1], 3)
        assert cursor.remaining(*places[1]) is None
        assert cursor.is_acknowledged(*places[1])
        cursor.acknowledge_batch(*places[2], 1)
        cursor.acknowledge_batch(*places[3], 1)
        cursor.acknowledge(*places[2])
        cursor.acknowledge_through(places[3])
        assert cursor.describe().batches == {}
        await log.close()

    asyncio.run(body())


def test_what_is_not_acknowledged_in_a_run() -> None:
    async def body() -> None:
        log, cursor, places = await opened(Place(), 20)
        ledger_id = places[0].ledger_id
        run = await log.reader.read(places[2], 6, BYTES)
        assert run is not None
        assert cursor.unacked_in(run) == range(6)
        cursor.acknowledge(*places[9])
        cursor.acknowledge(*places[12])
        assert cursor.unacked_in(run) == range(6)
        cursor.acknowledge_through(places[3])
        assert cursor.unacked_in(run) == range(2, 6)
        cursor.acknowledge(*places[5])
        assert list(cursor.unacked_in(run)) == [2, 4, 5]
        cursor.acknowledge_through(places[8])
        assert len(cursor.unacked_in(run)) == 0
        assert len(cursor.unacked_in(EntryRun(ledger_id - 1, 0, [b""], [1]))) == 0
        assert [cursor.position_after(count) for count in (0, 1, 2, 7, 8, 100)] == [
            places[10],
            places[11],
            places[13],
            places[18],
            places[19],
            log.sequence.next_position(places[-1]),
        ]
        await log.close()

    asyncio.run(body())


def test_an_idle_cursor_costs_its_record_only() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        writes = place.shelf.writes
        for number in range(20):
            await log.cursors.open(f"s{number}", start=EARLIEST)
        await asyncio.sleep(0.02)
        await log.close()
        assert place.shelf.writes == writes + 20
        assert await place.ledgers() == ()

    asyncio.run(body())


def test_acknowledgements_are_written_behind_and_survive_a_crash() -> None:
    async def body() -> None:
        place = Place()
        log, cursor, places = await opened(place, 10)
        cursor.acknowledge(*places[0])
        cursor.acknowledge(*places[4])
        await until(lambda: cursor.ledger_last_entry >= 0)
        log = await place.open()
        again = log.cursors["s"]
        assert again.mark_delete == places[0]
        assert again.ranges == ((places[4], places[4]),)
        await log.close()

    asyncio.run(body())


def test_concurrent_flushes_share_writes() -> None:
    async def body() -> None:
        place = Place(interval_s=60.0)
        _, cursor, places = await opened(place, 100)

        async def acknowledge(position: Position) -> None:
            cursor.acknowledge(*position)
            await cursor.flush()

        await acknowledge(places[0])
        await asyncio.gather(*(acknowledge(position) for position in places[1:90]))
        assert cursor.ledger_last_entry < 5
        assert (await place.open()).cursors["s"].mark_delete == places[89]

    asyncio.run(body())


def test_a_clean_close_puts_the_state_into_the_record() -> None:
    async def body() -> None:
        place = Place()
        log, cursor, places = await opened(place, 10)
        cursor.acknowledge(*places[3])
        await cursor.flush()
        cursor.acknowledge(*places[5])
        await log.close()
        info, _ = place.shelf.cursors["s"]
        assert info.ledger_id == -1
        assert info.ranges == ((places[3], places[3]), (places[5], places[5]))
        assert len(await place.ledgers()) == 1

    asyncio.run(body())


def test_a_state_too_big_for_a_record_stays_in_its_ledger() -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy())
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        first = await append(log, *[b"x"] * 40_000)
        cursor.acknowledge_entries(first.ledger_id, list(range(1, 40_000, 2)))
        await log.close()
        record, _ = place.shelf.cursors["s"]
        assert record.ledger_id >= 0 and not record.bits
        log = await place.open()
        assert log.cursors["s"].range_count == 20_000
        assert log.cursors["s"].backlog == 20_000
        await log.close()

    asyncio.run(body())


def test_many_holes_are_kept_as_bits_and_again_as_ranges_once_they_are_few() -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy())
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        first = await append(log, *[b"x"] * 3_000)
        cursor.acknowledge_entries(first.ledger_id, list(range(1, 3_000, 2)))
        await cursor.flush()
        odd = sum(1 << entry for entry in range(1, 3_000, 2))
        for info in (cursor.describe(), (await place.crash()).cursors["s"].describe()):
            assert info.bits == {first.ledger_id: odd} and not info.ranges
            assert info.range_count == 1_500
        log = await place.crash()
        cursor = log.cursors["s"]
        cursor.acknowledge_through(Position(first.ledger_id, 2_990))
        assert not cursor.describe().bits
        assert [last.entry_id for _, last in cursor.describe().ranges] == [2993, 2995, 2997, 2999]
        await log.close()

    asyncio.run(body())


def test_a_worn_ledger_is_replaced() -> None:
    async def body() -> None:
        place = Place(policy=LogPolicy(cursor_entries_max=3))
        log, cursor, places = await opened(place, 20)
        seen = set()
        for position in places:
            cursor.acknowledge(*position)
            await cursor.flush()
            seen.add(cursor.ledger_id)
            assert cursor.ledger_last_entry < 3
        assert len(seen) == 7
        await until(lambda: cursor.ledger_id == max(seen))
        log = await place.open()
        assert log.cursors["s"].mark_delete == places[-1]
        data = {LedgerId(part.ledger_id) for part in log.sequence.describe()}
        assert set(await place.ledgers()) - data == {max(seen)}
        await log.close()

    asyncio.run(body())


def test_a_failed_cursor_ledger_is_replaced_and_nothing_is_lost() -> None:
    async def body() -> None:
        place = Place()
        _, cursor, places = await opened(place, 8)
        cursor.acknowledge(*places[0])
        await cursor.flush()
        before = cursor.ledger_id
        place.store.fail_next(StorageFailed("no disk"))
        cursor.acknowledge(*places[1])
        await cursor.flush()
        assert cursor.ledger_id != before
        place.store.fail_next(StorageFailed("no disk"))
        place.store.fail_next_create(StorageFull("full"))
        cursor.acknowledge(*places[2])
        with pytest.raises(StorageFull):
            await cursor.flush()
        await cursor.flush()
        assert (await place.open()).cursors["s"].mark_delete == places[2]

    asyncio.run(body())


@pytest.mark.parametrize("written", [True, False])
def test_a_lost_answer_is_looked_up_before_the_next_write(written: bool) -> None:
    async def body() -> None:
        place = Place(interval_s=60.0)
        log, cursor, places = await opened(place, 8)
        cursor.acknowledge(*places[0])
        place.records.fail_next(StoreUnavailable("no answer"), written=written)
        with pytest.raises(StoreUnavailable):
            await cursor.flush()
        cursor.acknowledge(*places[1])
        await cursor.flush()
        log = await place.open()
        assert log.cursors["s"].mark_delete == places[1]
        await log.close()
        assert len(await place.ledgers()) == 1

    asyncio.run(body())


@dataclass
class NotedClock(StepClock):
    """Keeps the timers that were asked for."""

    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def call_later(
        self, seconds: float, call: Callable[..., object], *arguments: object
    ) -> asyncio.TimerHandle:
        self.timers.append(super().call_later(seconds, call, *arguments))
        return self.timers[-1]


def test_a_cursor_that_could_not_be_stored_is_not_written_later() -> None:
    """Found by seed 20090 with bookies: it was tried again even after its log had closed."""

    async def body() -> None:
        clock = NotedClock()
        place = Place(clock=clock)
        log = await place.open()
        place.records.fail_next(StoreUnavailable("no answer"), written=False)
        with pytest.raises(StoreUnavailable):
            await log.cursors.open("s")
        assert "s" not in log.cursors
        assert clock.timers and all(timer.cancelled() for timer in clock.timers)

    asyncio.run(body())


def test_another_owners_record_is_not_overwritten() -> None:
    async def body() -> None:
        place = Place(interval_s=60.0)
        _, old, places = await opened(place, 8)
        new = (await place.open()).cursors["s"]
        new.acknowledge(*places[0])
        await new.flush()
        old.acknowledge_through(places[7])
        for _ in range(2):
            with pytest.raises(VersionConflict):
                await old.flush()
        await old.close()
        assert (await place.open()).cursors["s"].mark_delete == places[0]

    asyncio.run(body())


def test_a_former_owners_last_write_does_not_stop_the_new_one() -> None:
    async def body() -> None:
        place = Place(interval_s=60.0)
        _, old, places = await opened(place, 8)
        new = (await place.open()).cursors["s"]
        old.acknowledge(*places[5])
        await old.flush()
        new.acknowledge(*places[0])
        await new.flush()
        old.acknowledge(*places[6])
        with pytest.raises(VersionConflict):
            await old.flush()
        again = (await place.crash()).cursors["s"]
        assert (again.mark_delete, again.ranges) == (places[0], ())

    asyncio.run(body())


def test_a_seek_forgets_and_is_durable() -> None:
    async def body() -> None:
        place = Place()
        _, cursor, places = await opened(place, 25)
        cursor.acknowledge_through(places[15])
        cursor.acknowledge(*places[20])
        cursor.acknowledge_batch(*places[22], 1)
        await cursor.flush()
        await cursor.reset(places[10])
        assert cursor.first_unacked() == cursor.read_position == places[10]
        assert (cursor.backlog, cursor.ranges, cursor.describe().batches) == (15, (), {})
        cursor = (await place.open()).cursors["s"]
        assert cursor.describe() == replace(cursor.describe(), mark_delete=places[9], ranges=())
        await cursor.reset(LATEST)
        assert cursor.backlog == 0
        await cursor.reset(EARLIEST)
        assert cursor.first_unacked() == places[0]

    asyncio.run(body())


def test_an_unreadable_cursor_ledger_costs_redelivery_only() -> None:
    async def body() -> None:
        place = Place()
        log, cursor, places = await opened(place, 8)
        cursor.acknowledge(*places[0])
        await cursor.flush()
        cursor.acknowledge(*places[1])
        await cursor.flush()
        await place.inner.delete(LedgerId(cursor.ledger_id))
        log = await place.open()
        again = log.cursors["s"]
        assert again.mark_delete == places[0]
        again.acknowledge(*places[1])
        await again.flush()
        assert (await place.open()).cursors["s"].mark_delete == places[1]

    asyncio.run(body())


def test_an_owner_that_closes_late_costs_its_successor_nothing() -> None:
    """It puts its state into the record, and deletes the ledger that the record named before."""

    async def body() -> None:
        place = Place()
        _, cursor, places = await opened(place, 8)
        for number in range(2):
            cursor.acknowledge(*places[number])
            await cursor.flush()
        late = cursor.close()

        class LateRecords(MemoryLogRecords):
            async def load_cursors(self) -> Mapping[str, tuple[CursorInfo, int]]:
                found = await super().load_cursors()
                if found["s"][0].ledger_id >= 0:
                    await late
                    await place.inner.delete(LedgerId(found["s"][0].ledger_id))
                return found

        place.make_records = LateRecords
        again = (await place.open()).cursors["s"]
        assert again.mark_delete == places[1]
        again.acknowledge(*places[2])
        await again.flush()
        place.make_records = MemoryLogRecords
        assert (await place.crash()).cursors["s"].mark_delete == places[2]

    asyncio.run(body())


def test_properties_of_both_kinds_are_kept() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        cursor = await log.cursors.open("s", properties={"n": 1}, cursor_properties={"c": "x"})
        places = await fill(log, 3)
        await cursor.set_properties({"n": 2})
        cursor.acknowledge(*places[0])
        await cursor.flush()
        cursor = (await place.open()).cursors["s"]
        assert (cursor.properties, cursor.cursor_properties) == ({"n": 2}, {"c": "x"})
        assert cursor.mark_delete == places[0]
        await cursor.set_properties(cursor_properties={"c": "y"})
        cursor = (await place.open()).cursors["s"]
        assert (cursor.properties, cursor.cursor_properties) == ({"n": 2}, {"c": "y"})
        assert cursor.mark_delete == places[0]

    asyncio.run(body())


def test_a_deleted_cursor_leaves_no_ledger() -> None:
    async def body() -> None:
        place = Place()
        log, cursor, places = await opened(place, 3)
        cursor.acknowledge(*places[0])
        await cursor.flush()
        assert len(await place.ledgers()) == 2
        await log.cursors.delete("s")
        assert len(await place.ledgers()) == 1
        cursor.acknowledge(*places[1])
        await asyncio.sleep(0.01)
        await log.close()
        assert place.shelf.cursors == {}

    asyncio.run(body())


def test_the_pace_follows_size_and_company() -> None:
    clock = StepClock()
    pace = CursorPace(clock, interval_s=0.05)
    assert pace.reserve(100) == 0.05
    assert pace.reserve(CURSOR_BYTES_PER_S * 3) == 3.0
    pace = CursorPace(clock, interval_s=0.05)
    waits = [pace.reserve(0) for _ in range(10_001)]
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(10_000 * WRITE_OVERHEAD_BYTES / BYTES_PER_S)
    clock.ms += 60_000
    assert pace.reserve(0) == 0.05
    assert pace.wait_s(clock.monotonic(), CURSOR_BYTES_PER_S) == 1.0
    assert pace.wait_s(clock.monotonic() - 5, CURSOR_BYTES_PER_S) == 0.0


@pytest.mark.parametrize("rate", [0, 0.01])
def test_an_acknowledgement_is_durable_with_the_next_commit_of_the_store(rate: float) -> None:
    async def body() -> None:
        place = Place(policy=replace(SMALL, cursor_writes_per_s=rate), interval_s=60)
        log, cursor, places = await opened(place, 5)
        cursor.acknowledge(*places[0])
        await cursor.flush()
        place.clock.ms += 60_000
        cursor.acknowledge(*places[1])
        await append(log, b"of somebody else")
        log = await place.crash()
        assert log.cursors["s"].mark_delete == places[1]

    asyncio.run(body())


def test_a_cursor_lets_commits_pass_when_it_was_just_written() -> None:
    async def body() -> None:
        place = Place(interval_s=60)
        log, cursor, places = await opened(place, 5)
        cursor.acknowledge(*places[0])
        await cursor.flush()
        written = cursor.ledger_last_entry
        for position in places[1:]:
            cursor.acknowledge(*position)
            await append(log, b"of somebody else")
        assert cursor.ledger_last_entry == written
        place.clock.ms += 60_000
        await append(log, b"of somebody else")
        await asyncio.sleep(0)
        assert cursor.ledger_last_entry == written + 1
        assert (await place.crash()).cursors["s"].mark_delete == places[-1]

    asyncio.run(body())


def test_a_stored_range_over_several_ledgers_covers_the_entries_that_each_has() -> None:
    async def body() -> None:
        place = Place()
        log, cursor, places = await opened(place, 35)
        await log.close()
        info, version = place.shelf.cursors["s"]
        over = replace(info, ranges=((places[5], places[32]),), rest=b"kept")
        place.shelf.cursors["s"] = (over, version)
        log = await place.open()
        cursor = log.cursors["s"]
        assert cursor.backlog == 5 + 2
        assert not cursor.is_acknowledged(*places[4]) and not cursor.is_acknowledged(*places[33])
        assert all(cursor.is_acknowledged(*at) for at in places[5:33])
        cursor.acknowledge(*places[0])
        await log.close()
        stored = place.shelf.cursors["s"][0]
        assert len(stored.ranges) == 4 and stored.rest == b"kept"
        assert all(first.ledger_id == last.ledger_id for first, last in stored.ranges)

    asyncio.run(body())


@pytest.mark.parametrize("is_shared", [False, True])
def test_in_a_shared_store_a_batch_acknowledged_in_part_is_left_in_a_ledger(
    is_shared: bool,
) -> None:
    async def body() -> None:
        place = Place()
        place.inner.is_shared = is_shared
        log, cursor, places = await opened(place, 5)
        cursor.acknowledge_batch(*places[2], 0b101)
        await log.close()
        info = place.shelf.cursors["s"][0]
        assert (info.ledger_id >= 0) == is_shared and bool(info.batches) != is_shared
        log = await place.open()
        assert log.cursors["s"].remaining(*places[2]) == 0b101
        log.cursors["s"].acknowledge_through(places[4])
        await log.close()
        assert place.shelf.cursors["s"][0].ledger_id == -1

    asyncio.run(body())
