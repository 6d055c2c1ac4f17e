"""Entries of a log by time and by position."""

from __future__ import annotations

from typing import NamedTuple

from magnetar.broker.entry import metadata_or_none, published_ms
from magnetar.errors import EntryNotFound, NotFound
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.log import Log
from magnetar.model.position import EARLIEST, Position
from magnetar.rules.transaction.buffer import TransactionBuffer


async def position_at(log: Log, timestamp_ms: int) -> Position:
    """The first entry published at or after a time; the end when there is none."""
    found = await log.reader.find_first(lambda entry: published_ms(entry) >= timestamp_ms)
    return log.sequence.end_position if found is None else found


async def read_entry(log: Log, position: Position) -> bytes:
    run = None
    if log.sequence.first_position <= position <= log.sequence.last_position:
        run = await log.reader.read(position, 1, 1)
    if run is None or (run.ledger_id, run.first) != position:
        raise EntryNotFound(f"Message not found: {position}")
    return run.data[0]


def last_visible(log: Log, buffer: TransactionBuffer) -> Position:
    """The last entry that belongs to no transaction which is open or was aborted, nor waits for
    one; or the place before the first.
    """
    sequence = log.sequence
    position = sequence.last_position
    if buffer.pin is not None:
        position = sequence.previous_position(buffer.pin)
    while position.entry_id >= 0 and buffer.is_aborted(position):
        position = sequence.previous_position(position)
    return position


async def last_message_id(log: Log, buffer: TransactionBuffer) -> tuple[Position, int]:
    """The last entry a consumer could see, and the index of the last message in its batch."""
    sequence = log.sequence
    position = last_visible(log, buffer)
    while True:
        if not sequence.total_entries or position.entry_id < 0:
            return EARLIEST, -1
        run = await log.reader.read(position, 1, 1)
        if run is None:
            return position, -1
        if run.counts[0]:
            break
        position = sequence.previous_position(position)  # before a marker
    metadata = metadata_or_none(run.data[0])
    is_batch = metadata is not None and metadata.HasField("num_messages_in_batch")
    return position, run.counts[0] - 1 if is_batch else -1


class SeenEntry(NamedTuple):
    """An entry as operators see it, whatever readers do."""

    position: Position
    data: bytes
    is_aborted: bool = False
    """By the transaction that it is of."""
    is_uncommitted: bool = False
    """Readers wait in front of it, for its own transaction or for one before it."""


def see_entry(buffer: TransactionBuffer, position: Position, data: bytes) -> SeenEntry:
    is_uncommitted = buffer.pin is not None and position >= buffer.pin
    return SeenEntry(position, data, buffer.is_aborted(position), is_uncommitted)


async def peek(log: Log, cursor: Cursor, number: int) -> tuple[Position, bytes]:
    """The nth unacknowledged entry, counted from 1."""
    position, seen = cursor.first_unacked(), 0
    while (run := await log.reader.read(position, 100, 1 << 20)) is not None:
        for index, entry in enumerate(run.data):
            if not cursor.is_acknowledged(run.ledger_id, run.first + index):
                seen += 1
                if seen == number:
                    return Position(run.ledger_id, run.first + index), entry
        position = Position(run.ledger_id, run.first + len(run))
    raise NotFound("Message not found")
