"""How a topic finds out, when it is loaded, what transactions have left there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import ProtocolViolation
from magnetar.ledger.log import Log
from magnetar.model.position import Position
from magnetar.model.transaction import (
    Acked,
    Acking,
    Dropped,
    Ended,
    Hidden,
    Record,
    TransactionId,
    Writing,
)
from magnetar.rules.transaction.buffer import TransactionBuffer
from magnetar.wire.entry import transaction_of

_SCAN_ENTRIES: Final = 1000
_SCAN_BYTES: Final = 4 << 20


async def recover(topic: PersistentTopic, records: Iterable[Record]) -> list[Dropped]:
    """Follow the records of the journal, then look for entries of transactions that are open.
    Return what the journal does not tell yet: subscriptions that are gone.
    """
    buffer = topic.buffer
    for record in records:
        _replay(buffer, record)
    gone = [name for name in buffer.pending if name not in topic.subscriptions]
    dropped = [Dropped(name) for name in gone if buffer.pending.pop(name).joined]
    start = buffer.scan_start
    if start is not None:
        async for id_, position, size in _scan(topic.log, start):
            if id_ in buffer.open and position > buffer.open[id_].after:
                buffer.on_stored(id_, position, 1)
                buffer.open[id_].size += size
    buffer.forget(topic.log.sequence.by_id)
    buffer.counts.committed = buffer.counts.aborted = 0
    buffer.is_used = True
    return dropped


def _replay(buffer: TransactionBuffer, record: Record) -> None:
    match record:
        case Writing(id_, after, deadline_ms, owner):
            buffer.join(id_, after, deadline_ms, owner)
        case Hidden():
            buffer.hide(record)
        case Acking(id_, name, deadline_ms):
            buffer.pending_on(name).join(id_, name, deadline_ms)
        case Acked(_, name):
            buffer.pending_on(name).replay(record)
        case Ended(id_, is_commit):
            buffer.end(id_, is_commit=is_commit)
            for pending in buffer.pending.values():
                pending.end(id_)
        case Dropped(name):
            buffer.pending.pop(name, None)
        case _:
            raise AssertionError(f"{record} is none of a topic's journal")


async def find_lost(log: Log, buffer: TransactionBuffer, id_: TransactionId) -> None:
    """An entry that was refused may be in the log after all: look when its ledger is sealed."""
    await log.roll()
    writes = buffer.open[id_]
    writes.ranges.clear()
    async for found, position, _ in _scan(log, writes.after):
        if found == id_:
            buffer.on_stored(id_, position, 1)


async def _scan(log: Log, after: Position) -> AsyncIterator[tuple[TransactionId, Position, int]]:
    """The entries behind a position that say to which transaction they belong, and their sizes."""
    position = log.sequence.next_position(after)
    while (run := await log.reader.read(position, _SCAN_ENTRIES, _SCAN_BYTES)) is not None:
        for index, entry in enumerate(run.data):
            try:
                id_ = transaction_of(entry)
            except ProtocolViolation:
                continue
            if id_ is not None:
                yield id_, Position(run.ledger_id, run.first + index), len(entry)
        position = run.next_position


def describe(topic: PersistentTopic) -> Iterator[Record]:
    """Records that lead to the present state."""
    buffer = topic.buffer
    buffer.forget(topic.log.sequence.by_id)
    yield from buffer.records()
    for name, pending in buffer.pending.items():
        yield from pending.records(name)
