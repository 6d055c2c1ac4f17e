"""Chunks at the end of a terminated topic whose message goes on somewhere else, or nowhere.

A producer that is sent away in the middle of a chunked message sends all of it to another segment.
Consumers acknowledge messages, so the chunks that are left here would hold the backlog for ever,
and with it every segment that came out of this one.
"""

from __future__ import annotations

from typing import Final

from magnetar.broker.entry import metadata_or_none
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.log import Log
from magnetar.model.position import Position
from magnetar.wire.chunk import find_abandoned, is_chunk
from magnetar.wire.command import MessageMetadata

_READ_ENTRIES: Final = 100
_READ_BYTES: Final = 1 << 20


async def read_abandoned(log: Log, cursor: Cursor) -> list[Position]:
    """The unacknowledged chunks that no consumer can make a message of."""
    assert log.record.terminated is not None, "the rest of a message may still come"
    chunks: list[tuple[Position, MessageMetadata]] = []
    position = cursor.first_unacked()
    while (run := await log.reader.read(position, _READ_ENTRIES, _READ_BYTES)) is not None:
        for index in cursor.unacked_in(run):
            metadata = metadata_or_none(run.data[index])
            if metadata is not None and is_chunk(metadata):
                chunks.append((Position(run.ledger_id, run.first + index), metadata))
        position = Position(run.ledger_id, run.first + len(run))
    return find_abandoned(chunks)
