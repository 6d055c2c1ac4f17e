"""Messages too large for one entry: cut by the producer, put together by the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import MessageMetadata

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One slice of a payload: bytes from `start` to `end`, the end excluded."""

    index: int
    count: int
    start: int
    end: int


def plan_chunks(size: int, *, chunk_bytes_max: int) -> tuple[Chunk, ...]:
    """Cut a (compressed) payload of `size` bytes; an empty one is a single empty chunk."""
    assert chunk_bytes_max > 0
    count = max(1, -(-size // chunk_bytes_max))
    starts = (index * chunk_bytes_max for index in range(count))
    return tuple(
        Chunk(index, count, start, min(start + chunk_bytes_max, size))
        for index, start in enumerate(starts)
    )


def stamp_chunk(
    metadata: MessageMetadata, chunk: Chunk, *, uuid: str, total_bytes: int
) -> MessageMetadata:
    """The metadata of one chunk; all chunks of a message share sequence id and uuid."""
    stamped = MessageMetadata()
    stamped.CopyFrom(metadata)
    stamped.ClearField("num_messages_in_batch")
    stamped.uuid = uuid
    stamped.chunk_id = chunk.index
    stamped.num_chunks_from_msg = chunk.count
    stamped.total_chunk_msg_size = total_bytes
    return stamped


def is_chunk(metadata: MessageMetadata) -> bool:
    return metadata.num_chunks_from_msg > 1


def find_abandoned(chunks: Iterable[tuple[T, MessageMetadata]]) -> list[T]:
    """Of all the chunks that there will ever be, in order, those that no message comes out of."""
    held: dict[str, list[T]] = {}
    abandoned: list[T] = []
    for id, metadata in chunks:
        ids = held.setdefault(metadata.uuid, [])
        if metadata.chunk_id == 0 or metadata.chunk_id > len(ids):
            abandoned += ids  # sent once more from the start, or one in between is missing
            ids.clear()
        if metadata.chunk_id != len(ids):
            abandoned.append(id)
            continue
        ids.append(id)
        if metadata.chunk_id == metadata.num_chunks_from_msg - 1:
            del held[metadata.uuid]
    for ids in held.values():
        abandoned += ids
    return abandoned


class Whole(NamedTuple, Generic[T]):
    payload: bytes
    ids: tuple[T, ...]
    """The id of every chunk, in order."""


@dataclass(slots=True)
class _Unfinished(Generic[T]):
    count: int
    total_bytes: int
    started_ms: int
    size: int = 0
    pieces: list[bytes] = field(default_factory=list)
    ids: list[T] = field(default_factory=list)


class Reassembly(Generic[T]):
    """Add chunks as they come; take a message when its last chunk is there.

    Bounded: when too many messages or bytes are unfinished, the oldest message is given up. The
    ids of chunks given up, repeated or found without their beginning wait in `take_dropped`.
    """

    def __init__(self, *, messages_max: int, message_bytes_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._message_bytes_max = message_bytes_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._unfinished: dict[str, _Unfinished[T]] = {}  # oldest first
        self._dropped: deque[T] = deque()

    def add(
        self, metadata: MessageMetadata, payload: bytes, chunk_id: T, *, now_ms: int
    ) -> Whole[T] | None:
        """Return the message when this was its last chunk; refuse an inconsistent chunk."""
        uuid = metadata.uuid
        index, count = metadata.chunk_id, metadata.num_chunks_from_msg
        total_bytes = metadata.total_chunk_msg_size
        if not (uuid and 0 <= index < count and 0 <= total_bytes <= self._message_bytes_max):
            raise ProtocolViolation(f"chunk {index} of {count} of a message of {total_bytes} bytes")
        if index == 0:
            self._give_up(uuid)
            self._unfinished[uuid] = _Unfinished(count, total_bytes, now_ms)
        message = self._unfinished.get(uuid)
        if message is None or index < len(message.ids):
            self._dropped.append(chunk_id)
            return None
        if index > len(message.ids):  # one in between is missing and will not come any more
            self._give_up(uuid)
            self._dropped.append(chunk_id)
            return None
        is_same = (message.count, message.total_bytes) == (count, total_bytes)
        size = message.size + len(payload)
        is_last = index == count - 1
        if not is_same or size > total_bytes or (is_last and size < total_bytes):
            self._give_up(uuid)
            raise ProtocolViolation(f"chunk {index} of {count} does not fit its message")
        message.pieces.append(payload)
        message.ids.append(chunk_id)
        message.size = size
        self._bytes += len(payload)
        if is_last:
            self._forget(uuid)
            return Whole(b"".join(message.pieces), tuple(message.ids))
        self._make_room()
        return None

    def expire(self, *, before_ms: int) -> None:
        """Give up messages whose first chunk came before that time."""
        for uuid in [u for u, m in self._unfinished.items() if m.started_ms < before_ms]:
            self._give_up(uuid)

    def take_dropped(self) -> tuple[T, ...]:
        dropped = tuple(self._dropped)
        self._dropped.clear()
        return dropped

    def _make_room(self) -> None:
        while len(self._unfinished) > self._messages_max or self._bytes > self._bytes_max:
            self._give_up(next(iter(self._unfinished)))

    def _give_up(self, uuid: str) -> None:
        if uuid in self._unfinished:
            self._dropped.extend(self._forget(uuid).ids)

    def _forget(self, uuid: str) -> _Unfinished[T]:
        message = self._unfinished.pop(uuid)
        self._bytes -= message.size
        return message
