from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from magnetar.errors import LedgerCorrupt, StoreClosed, StoreUnavailable
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.log import Log
from magnetar.ledger.orphan import Orphans, load_references, remove_orphans
from magnetar.ledger.retention import plan_trim
from magnetar.ledger.sequence import LedgerSequence
from magnetar.ledger.store import LedgerInfo
from magnetar.model.position import EARLIEST, LedgerId, Position, Term
from magnetar.model.stored_log import LedgerPart, Offload
from tests.unit.ledger.log_place import BYTES, Place, append, fill, read_all


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "expected"),
    [
        (0, 0, 3),
        (-1, -1, 0),
        (-1, 0, 3),
        (-1, 100, 3),
        (-1, 101, 2),
        (-1, 200, 2),
        (-1, 400, 0),
        (0, -1, 3),
        (999, -1, 1),
        (1000, -1, 0),
        (599, 1000, 2),
    ],
)
def test_a_ledger_goes_when_it_is_old_or_the_size_is_kept_without_it(
    retention_ms: int, retention_bytes: int, expected: int
) -> None:
    parts = [LedgerPart(number, 10, 100, 1000 + 400 * number) for number in range(3)]
    policy = LogPolicy(retention_ms=retention_ms, retention_bytes=retention_bytes)
    passed = LedgerSequence().restore(parts).parts
    assert plan_trim(passed, 400, policy, now_ms=2000) == expected


def entries_of(log: Log) -> Sequence[int]:
    return [part.entries for part in log.sequence.describe()]


def test_the_slowest_cursor_holds_ledgers_back() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        fast = await log.cursors.open("fast", start=EARLIEST)
        slow = log.cursors.open_transient("slow", EARLIEST)
        places = await fill(log, 35)
        fast.acknowledge_through(places[-1])
        slow.acknowledge_through(places[18])
        place.clock.ms += 1
        await log.trim()
        assert entries_of(log) == [10, 10, 5]
        slow.acknowledge_through(places[19])
        await log.trim()
        assert entries_of(log) == [10, 5]
        await slow.close()
        await log.trim()
        assert entries_of(log) == [5]
        assert log.sequence.total_entries == 5 and fast.backlog == 0
        assert set(await place.ledgers()) == {part.ledger_id for part in log.sequence.describe()}
        assert await read_all(log) == [b"30", b"31", b"32", b"33", b"34"]
        await log.close()

    asyncio.run(body())


def test_a_reader_behind_the_trimmed_part_goes_on_at_the_first_entry() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        places = await fill(log, 25)
        place.clock.ms += 1
        await log.trim()
        assert entries_of(log) == [5]
        assert log.sequence.first_position == places[20] == log.sequence.next_position(places[3])
        run = await log.reader.read(places[3], 100, BYTES)
        assert run is not None and run.data[0] == b"20"
        cursor = await log.cursors.open("s", start=places[3])
        assert cursor.first_unacked() == places[20]
        assert cursor.is_acknowledged(*places[3])
        assert log.sequence.entries_between(places[3], log.sequence.next_position(places[-1])) == 5
        await log.close()

    asyncio.run(body())


def test_a_sealed_last_ledger_goes_too_and_positions_stay_behind_it() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        places = await fill(log, 5)
        cursor.acknowledge_through(places[-1])
        await log.roll()
        place.clock.ms += 1
        await log.trim()
        assert log.sequence.describe() == ()
        assert log.sequence.last_position == places[-1]
        assert cursor.backlog == 0
        await log.close()

        log = await place.open()
        assert log.cursors["s"].backlog == 0
        later = await append(log, b"x")
        assert later > places[-1]
        assert log.cursors["s"].first_unacked() == later
        assert log.cursors["s"].backlog == 1
        await log.close()

    asyncio.run(body())


def test_retention_keeps_what_everybody_has_read() -> None:
    async def body() -> None:
        place = Place()
        place.keep(retention_ms=1000, retention_bytes=-1)
        log = await place.open()
        await fill(log, 15)
        place.clock.ms += 1000
        await log.trim()
        assert entries_of(log) == [10, 5]
        place.clock.ms += 1
        await log.trim()
        assert entries_of(log) == [5]
        await log.close()

    asyncio.run(body())


def test_ledgers_stay_when_the_record_could_not_be_written() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        await fill(log, 15)
        place.clock.ms += 1
        place.records.fail_next(StoreUnavailable("no answer"))
        with pytest.raises(StoreUnavailable):
            await log.trim()
        assert len(await read_all(log)) == 15
        await log.trim()
        assert entries_of(log) == [5]
        await log.close()

    asyncio.run(body())


def test_orphans_are_removed_and_nothing_else() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        await fill(log, 15)
        cursor.acknowledge_through(Position(1, 3))
        await cursor.flush()
        named = await place.ledgers()
        made = await place.inner.create(term=Term(1), properties={"chain": log.name})
        gone = await place.inner.create(term=Term(1), properties={"chain": "deleted"})
        other = await place.inner.create(term=Term(1), properties={})

        async def is_named(info: LedgerInfo) -> bool | None:
            if "chain" not in info.properties:
                return None
            named = await load_references(place.records)
            return info.properties["chain"] == log.name and info.id in named

        found = await remove_orphans(
            place.store, await place.store.ledgers(), is_named, term=Term(9)
        )
        assert found == Orphans(removed=(made.id, gone.id), kept=())
        assert await place.ledgers() == (*named, other.id)

    asyncio.run(body())


def test_a_ledger_with_entries_goes_only_when_that_was_intended() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        await log.cursors.open("s", start=EARLIEST)
        await fill(log, 15)
        before = place.shelf.log
        assert before is not None
        place.keep(retention_ms=0)
        cursor = log.cursors["s"]
        cursor.acknowledge_through(Position(1, 9))
        await cursor.flush()
        dropped = LedgerId(before[0].ledgers[0].ledger_id)
        place.store.kill()  # the record is written, the ledger is not deleted any more
        await place.inner.intend_deletion([dropped])
        place.shelf.log = (replace(before[0], ledgers=before[0].ledgers[1:]), 9)
        lost = LedgerId(before[0].ledgers[1].ledger_id)

        async def is_named(info: LedgerInfo) -> bool | None:
            return info.id in await load_references(place.records)

        found = await remove_orphans(
            place.inner, await place.inner.ledgers(), is_named, term=Term(9)
        )
        assert found.removed == (dropped,)
        place.shelf.log = (replace(before[0], ledgers=()), 10)  # as an old copy would have it
        found = await remove_orphans(
            place.inner, await place.inner.ledgers(), is_named, term=Term(9)
        )
        assert lost in found.kept
        assert lost in await place.inner.ledgers()

    asyncio.run(body())


def test_what_a_record_drops_was_intended_before() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        await fill(log, 15)
        cursor.acknowledge_through(Position(1, 9))
        await cursor.flush()

        async def intended() -> list[bool]:
            ledgers = await place.inner.ledgers()
            return [(await place.inner.describe(each)).deletion_intended for each in ledgers]

        assert not any(await intended())
        place.records.fail_next(StoreUnavailable("no answer"))
        with pytest.raises(StoreUnavailable):
            await log.trim()
        assert (await intended())[0]
        await log.trim()
        assert not any(await intended())
        place.records.kill()
        with pytest.raises(StoreClosed):
            await log.delete()
        assert True in await intended()

    asyncio.run(body())


def test_a_log_refuses_a_ledger_of_another_log() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        await fill(log, 3)
        await log.close()
        foreign = await place.inner.create(term=Term(1), properties={"chain": "another"})
        assert place.shelf.log is not None
        info, version = place.shelf.log
        part = replace(info.ledgers[0], ledger_id=foreign.id)
        place.shelf.log = (replace(info, ledgers=(part,)), version)
        with pytest.raises(LedgerCorrupt, match="was made for the managed-ledger of another"):
            await place.open()
        unsealed = replace(part, created_ms=0)
        place.shelf.log = (replace(info, ledgers=(unsealed,)), version)
        with pytest.raises(LedgerCorrupt, match="was made for the managed-ledger of another"):
            await place.open()
        assert not (await place.inner.describe(foreign.id)).sealed

    asyncio.run(body())


def test_a_cursor_neither_reads_nor_deletes_the_ledger_of_another() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        cursor = await log.cursors.open("s", start=EARLIEST)
        await fill(log, 5)
        cursor.acknowledge_through(Position(1, 1))
        await cursor.flush()
        await log.close()
        foreign = await place.inner.create(term=Term(1), properties={"chain": "another"})
        info, version = place.shelf.cursors["s"]
        place.shelf.cursors["s"] = (replace(info, ledger_id=foreign.id), version)
        again = await place.open()
        assert again.cursors["s"].mark_delete == Position(1, 1)
        again.cursors["s"].acknowledge_through(Position(1, 3))
        await again.cursors["s"].flush()
        await again.close()
        assert foreign.id in await place.ledgers()

    asyncio.run(body())


def test_a_ledger_that_was_offloaded_is_not_trimmed_and_its_record_is_carried_along() -> None:
    async def body() -> None:
        place = Place()
        log = await place.open()
        await fill(log, 35)
        await log.close()
        assert place.shelf.log is not None
        info, version = place.shelf.log
        second = replace(info.ledgers[1], offload=Offload.COPIED, rest=b"context")
        ledgers = (info.ledgers[0], second, *info.ledgers[2:])
        place.shelf.log = (replace(info, ledgers=ledgers, rest=b"unknown"), version)
        log = await place.open()
        place.clock.ms += 1
        await log.trim()
        assert entries_of(log) == [10, 10, 5]
        await log.close()
        stored = place.shelf.log[0]
        assert [part.rest for part in stored.ledgers] == [b"context", b"", b""]
        assert stored.rest == b"unknown"

    asyncio.run(body())
