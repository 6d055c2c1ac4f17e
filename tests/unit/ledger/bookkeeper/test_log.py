"""The log of a topic on bookies: rolling, taking over, trimming, deleting."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from magnetar.errors import BrokerError, LedgerFenced, TopicFenced
from magnetar.ledger.backends.bookkeeper import BookkeeperLedgerStore
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.log import Log
from magnetar.ledger.store import Replication
from magnetar.model.position import EARLIEST, Term
from magnetar.runtime.clock import SYSTEM
from magnetar.testing.log_record import MemoryLogRecords, RecordShelf
from tests.unit.ledger.bookkeeper.bookie_place import bookies
from tests.unit.ledger.log_place import append, read_all, until

POLICY = LogPolicy(entries_max=10, roll_min_ms=0, roll_max_ms=0, replication=Replication(3, 2, 2))


async def open_log(store: BookkeeperLedgerStore, shelf: RecordShelf, term: int) -> Log:
    log = Log(
        "persistent://t/n/x",
        store,
        MemoryLogRecords(shelf),
        POLICY,
        clock=SYSTEM,
        term=Term(term),
        count_messages=lambda _: 1,
        cache=EntryCache(0),
    )
    return await log.open()


def test_a_new_owner_takes_over_from_one_that_is_alive_whatever_their_terms() -> None:
    async def body() -> None:
        shelf = RecordShelf()
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(bookies(4))
            old_store = await stack.enter_async_context(place.store())
            new_store = await stack.enter_async_context(place.store())
            old = await open_log(old_store, shelf, term=9)
            sent = [b"%d" % number for number in range(25)]
            places = [await append(old, entry) for entry in sent]
            cursor = await old.cursors.open(
                "s", start=EARLIEST, properties={}, cursor_properties={}
            )
            cursor.acknowledge_through(places[11])
            await cursor.flush()
            await place.at(old.ledger.writer.metadata.segments[0].bookies[0]).stop()  # type: ignore[union-attr]
            sent.append(b"25")
            await append(old, sent[-1])
            new = await open_log(new_store, shelf, term=1)
            assert await read_all(new) == sent
            assert new.cursors["s"].mark_delete == places[11]
            with pytest.raises(BrokerError):
                await append(old, b"late")
            with pytest.raises(TopicFenced):
                await append(old, b"later")
            sent.append(b"26")
            await append(new, sent[-1])
            assert await read_all(new) == sent
            new.cursors["s"].acknowledge_through(new.sequence.last_position)
            await new.trim()
            await until(lambda: len(new.sequence.parts) == 1)
            await new.delete()
            assert await new_store.ledgers() == ()
            with pytest.raises(LedgerFenced, match="deleted by another owner"):
                await old.close()

    asyncio.run(body())
