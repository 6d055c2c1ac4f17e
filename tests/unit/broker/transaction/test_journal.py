"""A journal whose disk fails."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.transaction.batch import Batches
from magnetar.broker.transaction.journal import Journal
from magnetar.errors import StorageFailed
from magnetar.model.transaction import Begun, Decided, Reserved
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
