"""A journal whose disk fails, and one that is given much at once."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.transaction.batch import Batches
from magnetar.broker.transaction.journal import Journal
from magnetar.errors import StorageFailed
from magnetar.model.position import EARLIEST
from magnetar.model.transaction import (
    Acked,
    Acknowledged,
    Begun,
    Decided,
    Finished,
    Hidden,
    Range,
    Reserved,
    SnapshotBegun,
    SnapshotEnded,
    TransactionId,
)
from tests.unit.ledger.log_place import Place

FAULT = StorageFailed("no disk")


async def open_journal(place: Place) -> Journal:
    return Journal(await place.open(), place.clock, Batches("pulsar_txn_tc_bufferedwriter"))


def test_nothing_is_stored_that_was_appended_behind_a_record_that_could_not_be() -> None:
    async def body() -> None:
        place = Place()
        journal = await open_journal(place)
        await journal.append(Reserved(1000))
        place.store.hold_answers()
        place.store.fail_next(FAULT)
        begun = journal.append(Begun(0, "", 0, 1))
        while place.store.appends < 2:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        decided = journal.append(Decided(0, True, 1, ""))  # it waits for the next commit
        place.store.release_answers()
        late = journal.append(Reserved(2000))
        for refused in (begun, decided, late):
            with pytest.raises(StorageFailed):
                await refused
        assert journal.failure is FAULT
        await journal.close()
        again = await open_journal(place)
        assert await again.read() == [Reserved(1000)]
        await again.close()

    asyncio.run(body())


def test_what_follows_a_snapshot_that_a_crash_has_cut_off_is_read() -> None:
    """By later owners too: each adds to it, and none writes another snapshot for long."""

    async def body() -> None:
        place = Place()
        journal = await open_journal(place)
        await journal.append(Reserved(1000))
        await journal.append(SnapshotBegun(), Reserved(1000), Finished(3, True, 0))
        await journal.close()
        expected: list[object] = [Reserved(1000)]
        for least in range(3):
            journal = await open_journal(place)
            assert await journal.read() == expected
            await journal.append(Begun(least, "", 0, 1))
            expected.append(Begun(least, "", 0, 1))
            await journal.close()
        journal = await open_journal(place)
        await journal.append(SnapshotBegun(), Reserved(2000))
        await journal.append(SnapshotEnded())
        assert await journal.read() == [Reserved(2000)]
        await journal.close()

    asyncio.run(body())


@pytest.mark.parametrize("is_snapshot", [True, False])
def test_no_entry_is_larger_than_a_ledger_store_takes(is_snapshot: bool) -> None:
    async def body() -> None:
        place, id_ = Place(), TransactionId(0, 1)
        entries = tuple(Acknowledged(1 << 40, number, (1 << 63,)) for number in range(200_000))
        ranges = tuple(Range(1 << 40, 2 * each, 2 * each) for each in range(200_000))
        big = [Acked(id_, "s", False, entries), Hidden(id_, ranges)]
        journal = await open_journal(place)
        await journal.log.cursors.open("snapshot", start=EARLIEST)
        if is_snapshot:
            await journal.snapshot(lambda: big)
        else:
            await journal.append(*big)
        run = await journal.log.reader.read(EARLIEST, 1000, 1 << 30)
        assert run is not None and len(run.data) > 4
        assert max(map(len, run.data)) <= 1 << 20
        acked, hidden = [], []
        for record in await journal.read():
            assert isinstance(record, Acked | Hidden) and record.id == id_
            if isinstance(record, Acked):
                acked += record.entries
            else:
                hidden += record.ranges
        assert (tuple(acked), tuple(hidden)) == (entries, ranges)
        await journal.close()

    asyncio.run(body())
