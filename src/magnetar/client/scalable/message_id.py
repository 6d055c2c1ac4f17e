"""Ids of messages of scalable topics, and how they and checkpoints are written as bytes.

The bytes are Apache Pulsar's: an id that one client saved, another can use.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import total_ordering
from types import MappingProxyType
from typing import Final, TypeAlias

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import EARLIEST, LATEST
from magnetar.client.message_id import MessageId as EntryId
from magnetar.model.segment import SegmentId
from magnetar.wire.command import message_id as make_id_data

Vector: TypeAlias = Mapping[SegmentId, EntryId]
"""How far an application has come in each segment of one topic."""

_NOWHERE: Final = SegmentId(-1)
NO_VECTOR: Final[Vector] = MappingProxyType({})
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")


@total_ordering
@dataclass(slots=True, unsafe_hash=True)
class MessageId:
    """Equal by segment and entry. Ordered inside one segment only: others have no order.

    Ids that a stream consumer gave carry how far the application had come everywhere when it
    received the message, so that one cumulative acknowledgement says it all.
    """

    segment_id: SegmentId
    entry: EntryId
    vector: Vector = field(default_factory=lambda: NO_VECTOR, compare=False, repr=False)
    topic: str | None = field(default=None, compare=False)
    vectors: Mapping[str, Vector] | None = field(default=None, compare=False, repr=False)
    """The same for every topic, when a consumer has several."""

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        if self.segment_id != other.segment_id:
            raise TypeError(
                f"{self} and {other} are of different segments: neither comes before the other"
            )
        return self.entry < other.entry

    def __bytes__(self) -> bytes:
        topic = self.topic.encode() if self.topic is not None else None
        parts = [_LONG.pack(self.segment_id), _sized(encode_entry_id(self.entry))]
        parts.append(encode_vector(self.vector))
        parts.append(_INT.pack(-1) if topic is None else _sized(topic))
        if self.vectors is None:
            parts.append(_INT.pack(-1))
        else:
            parts.append(_INT.pack(len(self.vectors)))
            for name, vector in self.vectors.items():
                parts += (_sized(name.encode()), encode_vector(vector))
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> MessageId:
        """Read what `bytes(id)` gave here or in another client; later parts may be missing."""
        source = ByteSource(data, "message id")
        segment = SegmentId(source.read_long())
        entry = EntryId.from_bytes(source.read_sized())
        vector = decode_vector(source) if source.is_left else {}
        topic = source.read_optional_text() if source.is_left else None
        vectors = None
        if source.is_left and (count := source.read_int()) >= 0:
            vectors = {source.read_text(): decode_vector(source) for _ in range(count)}
        source.check_end()
        return cls(segment, entry, vector, topic, vectors)

    def __str__(self) -> str:
        return f"{self.segment_id}/{self.entry}"


EARLIEST_ID: Final = MessageId(_NOWHERE, EARLIEST)
LATEST_ID: Final = MessageId(_NOWHERE, LATEST)


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


def encode_entry_id(id: EntryId) -> bytes:
    data = make_id_data(id.position, partition=id.partition, batch_index=id.batch_index)
    data.batch_size = id.batch_size
    encoded: bytes = data.SerializeToString()
    return encoded


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def encode_vector(vector: Vector) -> bytes:
    parts = [_INT.pack(len(vector))]
    for segment, entry in vector.items():
        parts += (_LONG.pack(segment), _sized(encode_entry_id(entry)))
    return b"".join(parts)


def decode_vector(source: ByteSource) -> dict[SegmentId, EntryId]:
    count = source.read_int()
    return {
        SegmentId(source.read_long()): EntryId.from_bytes(source.read_sized()) for _ in range(count)
    }
