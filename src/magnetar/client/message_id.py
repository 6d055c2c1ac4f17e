"""Where one message stands, and how its id and checkpoints are written as bytes.

The bytes are Apache Pulsar's: an id that one client saved, another can use.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import total_ordering
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from magnetar.client.error import ConfigurationError
from magnetar.errors import ProtocolViolation
from magnetar.model.position import EARLIEST as EARLIEST_POSITION
from magnetar.model.position import LATEST as LATEST_POSITION
from magnetar.model.position import Position
from magnetar.model.segment import SegmentId

NO_SEGMENT: Final = SegmentId(-1)
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_LEDGER_TAG: Final = 8
"""The first byte of an id as all releases write it; those with a segment begin with 0 or 255."""


@total_ordering
@dataclass(slots=True, unsafe_hash=True)
class MessageId:
    """Equal by entry and place in it: a ledger belongs to one segment or partition. Ordered inside
    one segment or partition; `batch_index` is -1 for a message that is a whole entry.

    Nobody may change one. That is not enforced, as it is elsewhere by `frozen`: to make a frozen
    object takes four times as long, and every message has an id.
    """

    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1
    batch_size: int = field(default=0, compare=False)
    segment_id: SegmentId = field(default=NO_SEGMENT, compare=False)
    """-1 where a regular topic was read or written as such."""
    topic: str | None = field(default=None, compare=False)
    """Named where a consumer has several."""
    vectors: Vectors | None = field(default=None, compare=False, repr=False)
    """How far a stream consumer's application had come everywhere when it received the message, so
    that one cumulative acknowledgement says it all.
    """

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        if self.segment_id != other.segment_id and NO_SEGMENT not in (
            self.segment_id,
            other.segment_id,
        ):
            raise TypeError(
                f"{self} and {other} are of different segments: neither comes before the other"
            )
        return (self.ledger_id, self.entry_id, self.partition, self.batch_index) < (
            other.ledger_id,
            other.entry_id,
            other.partition,
            other.batch_index,
        )

    @property
    def position(self) -> Position:
        return Position(self.ledger_id, self.entry_id)

    @property
    def entry(self) -> MessageId:
        """The id of the whole entry this message arrived in."""
        return MessageId(self.ledger_id, self.entry_id, self.partition)

    def __bytes__(self) -> bytes:
        """As every Pulsar client writes it, and with a segment as those of scalable topics do;
        `from_bytes` reads both.
        """
        if self.segment_id == NO_SEGMENT:
            return self.encode_place()
        vectors = self.vectors or {}
        parts = [_LONG.pack(self.segment_id), _sized(self.encode_place(always_sized=True))]
        parts.append(encode_vector(vectors.get(self.topic) or {}))
        if self.topic is None:
            parts += (_INT.pack(-1), _INT.pack(-1))
        else:
            parts.append(_sized(self.topic.encode()))
            parts.append(_INT.pack(len(vectors) if self.vectors is not None else -1))
            for name, vector in vectors.items():
                parts += (_sized((name or "").encode()), encode_vector(vector))
        return b"".join(parts)

    def encode_place(self, *, always_sized: bool = False) -> bytes:
        """Without the segment; brokers want to know no more."""
        from magnetar.wire.command import message_id

        data = message_id(self.position, partition=self.partition, batch_index=self.batch_index)
        if self.batch_size or always_sized:
            data.batch_size = self.batch_size
        encoded: bytes = data.SerializeToString()
        return encoded

    @classmethod
    def from_bytes(cls, encoded: bytes) -> MessageId:
        """Read what `bytes(id)` gave here or in another client; later parts may be missing."""
        if encoded[:1] == bytes((_LEDGER_TAG,)):
            return decode_place(encoded)
        source = ByteSource(encoded, "message id")
        segment = SegmentId(source.read_long())
        place = decode_place(source.read_sized())
        vector = decode_vector(source) if source.is_left else {}
        topic = source.read_optional_text() if source.is_left else None
        vectors: dict[str | None, Vector] | None = {topic: vector} if vector else None
        if source.is_left and (count := source.read_int()) >= 0:
            vectors = {source.read_text(): decode_vector(source) for _ in range(count)}
        source.check_end()
        return cls(
            place.ledger_id,
            place.entry_id,
            place.partition,
            place.batch_index,
            place.batch_size,
            segment,
            topic,
            vectors,
        )

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read `earliest`, `latest`, `ledger:entry`, `ledger:entry:partition` or all four numbers,
        behind `segment/` where there is one.
        """
        if text == "earliest":
            return EARLIEST_ID
        if text == "latest":
            return LATEST_ID
        number, _, place = text.rpartition("/")
        try:
            segment = SegmentId(int(number)) if number else NO_SEGMENT
            numbers = [int(part) for part in place.split(":")]
        except ValueError:
            numbers, segment = [], NO_SEGMENT
        if not 2 <= len(numbers) <= 4:
            raise ConfigurationError(
                f"Not a message id: {text!r};"
                " expected earliest, latest or ledger:entry[:partition[:batch]]"
            )
        ledger, entry, partition, batch = *numbers, *(-1,) * (4 - len(numbers))
        return cls(ledger, entry, partition, batch, segment_id=segment)

    @property
    def text(self) -> str:
        """The same without the segment, as other clients and brokers write it."""
        return f"{self.ledger_id}:{self.entry_id}:{self.partition}:{self.batch_index}"

    def __str__(self) -> str:
        return self.text if self.segment_id == NO_SEGMENT else f"{self.segment_id}/{self.text}"


Vector: TypeAlias = Mapping[SegmentId, MessageId]
"""How far an application has come in each segment of one topic."""
Vectors: TypeAlias = Mapping[str | None, Vector]
"""The same by topic; the only one of a consumer is not named."""

EARLIEST_ID: Final = MessageId(*EARLIEST_POSITION)
LATEST_ID: Final = MessageId(*LATEST_POSITION)


@runtime_checkable
class Identified(Protocol):
    """A message."""

    @property
    def id(self) -> MessageId: ...


Start: TypeAlias = MessageId | Identified | Literal["earliest", "latest"]
"""Where to begin: at a message or its id, or at one of the ends."""
Target: TypeAlias = Start | datetime | int
"""Where to move to; a time may also be ms since 1970."""


def choose_start(start: Start) -> MessageId:
    """An id, or a word for one of the ends."""
    if isinstance(start, MessageId):
        return start
    if isinstance(start, Identified) and isinstance(start.id, MessageId):
        return start.id
    if isinstance(start, str) and start in ("earliest", "latest"):
        return MessageId.parse(start)
    raise ConfigurationError(
        f"Not a place to start: {start!r}; give a message or its id, earliest or latest"
    )


def choose_target(target: Target) -> MessageId | int:
    """An id, or a publish time in ms."""
    if isinstance(target, datetime):
        if target.tzinfo is None:
            raise ConfigurationError(
                f"{target!r} has no time zone; write datetime(..., tzinfo=UTC)"
            )
        return int(target.timestamp() * 1000)
    if isinstance(target, int):
        return target
    return choose_start(target)


class ByteSource:
    """Reads big-endian parts in order; what does not fit is a ConfigurationError."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._at = 0

    @property
    def is_left(self) -> bool:
        return self._at < len(self._data)

    def read(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise ConfigurationError(f"Not the bytes of a {self._what}: they end too early")
        data, self._at = self._data[self._at : end], end
        return data

    def read_int(self) -> int:
        value: int = _INT.unpack(self.read(4))[0]
        return value

    def read_long(self) -> int:
        value: int = _LONG.unpack(self.read(8))[0]
        return value

    def read_sized(self) -> bytes:
        return self.read(self.read_int())

    def read_text(self) -> str:
        try:
            return self.read_sized().decode()
        except UnicodeDecodeError:
            raise ConfigurationError(f"Not the bytes of a {self._what}: bad text") from None

    def read_optional_text(self) -> str | None:
        size = self.read_int()
        if size < 0:
            return None
        self._at -= 4
        return self.read_text()

    def check_end(self) -> None:
        if self.is_left:
            raise ConfigurationError(f"Not the bytes of a {self._what}: there are too many")


def decode_place(encoded: bytes) -> MessageId:
    from magnetar.wire.command import position_of
    from magnetar.wire.message_id import decode_message_id

    try:
        data = decode_message_id(encoded)
    except ProtocolViolation as error:
        raise ConfigurationError(f"Not the bytes of a message id: {error.sentence}") from None
    return MessageId(*position_of(data), data.partition, data.batch_index, data.batch_size)


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def encode_vector(vector: Vector) -> bytes:
    parts = [_INT.pack(len(vector))]
    for segment, last in vector.items():
        parts += (_LONG.pack(segment), _sized(last.encode_place(always_sized=True)))
    return b"".join(parts)


def decode_vector(source: ByteSource) -> dict[SegmentId, MessageId]:
    count = source.read_int()
    return {SegmentId(source.read_long()): decode_place(source.read_sized()) for _ in range(count)}
