"""Entries as they arrive, for readers that take them apart themselves."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.client.message_id import MessageId
from magnetar.client.subscription import Floor
from magnetar.errors import ProtocolViolation
from magnetar.wire.command import CommandMessage, position_of
from magnetar.wire.entry import decode_metadata


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An entry, and how much of it is wanted."""

    place: MessageId
    """Of its last message."""
    origin: int
    data: bytes
    start: int
    """The first message of a batch that is wanted."""
    permits: int
    """How many messages it has, as the broker counts."""


def make_raw(
    command: CommandMessage, data: bytes, floor: Floor | None, origin: int
) -> RawEntry | int:
    """What to hand out; the permits of an entry of which nothing is wanted.

    An unreadable one is handed out too: the decoder says what is wrong with it.
    """
    position, partition = position_of(command.message_id), command.message_id.partition
    try:
        metadata = decode_metadata(data)
        size = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 0
    except ProtocolViolation:
        size = 0
    batch = (size - 1, size) if size else (-1, 0)
    last = MessageId(*position, partition, *batch)
    start, count = 0, max(1, size)
    if floor is not None and position == floor.id.position:
        if size and floor.id.batch_index >= 0:
            start = floor.id.batch_index + (0 if floor.is_included else 1)
        elif not floor.is_included:
            start = count
        if start >= count:
            return count
    return RawEntry(last, origin, data, start, count)
