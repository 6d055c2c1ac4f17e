"""How far a reader has come in a topic, as a value to keep.

Its bytes are Apache Pulsar's, save those of a point in time, which are our own. Its JSON is for
people: `{"positions": {"0": "12:3:-1:-1"}}`, `{"start": "earliest"}` or `{"at": "2026-…"}`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, ClassVar, Final

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import (
    ByteSource,
    MessageId,
    Vector,
    decode_vector,
    encode_vector,
)
from magnetar.client.quantity import to_ms
from magnetar.model.segment import SegmentId

_LONG: Final = struct.Struct(">q")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Kind(IntEnum):
    POSITIONS = 0
    EARLIEST = 1
    LATEST = 2
    TIME = 3


@dataclass(frozen=True)
class Checkpoint:
    """`EARLIEST`, `LATEST`, `Checkpoint.at(moment)`, or what a consumer's `checkpoint()` gave.

    Positions name the last message that was received of each segment; a segment that is not
    named is read from its beginning.
    """

    kind: int = _Kind.POSITIONS
    positions: Vector = field(default_factory=dict)
    at_ms: int | None = None

    EARLIEST: ClassVar[Checkpoint]
    LATEST: ClassVar[Checkpoint]

    @classmethod
    def earliest(cls) -> Checkpoint:
        return cls.EARLIEST

    @classmethod
    def latest(cls) -> Checkpoint:
        return cls.LATEST

    @classmethod
    def at(cls, moment: datetime) -> Checkpoint:
        """The first message published at that time or later, in every segment."""
        return cls(_Kind.TIME, at_ms=to_ms("moment", moment))

    @property
    def is_earliest(self) -> bool:
        return self.kind == _Kind.EARLIEST

    @property
    def is_latest(self) -> bool:
        return self.kind == _Kind.LATEST

    @property
    def moment(self) -> datetime | None:
        return None if self.at_ms is None else _EPOCH + timedelta(milliseconds=self.at_ms)

    def merge(self, other: Checkpoint) -> Checkpoint:
        """Of two members of a group: what either has come to in each segment."""
        if self.kind != _Kind.POSITIONS or other.kind != _Kind.POSITIONS:
            raise ConfigurationError("Only checkpoints with positions can be merged")
        merged = dict(self.positions)
        for number, entry in other.positions.items():
            mine = merged.get(number)
            merged[number] = entry if mine is None else max(mine, entry)
        return Checkpoint(positions=merged)

    def __bytes__(self) -> bytes:
        first = bytes((self.kind,))
        if self.kind == _Kind.POSITIONS:
            return first + encode_vector(self.positions)
        return first if self.at_ms is None else first + _LONG.pack(self.at_ms)

    @classmethod
    def from_bytes(cls, data: bytes) -> Checkpoint:
        source = ByteSource(data, "checkpoint")
        try:
            kind = _Kind(source.read(1)[0])
        except ValueError:
            raise ConfigurationError("Not the bytes of a checkpoint: unknown kind") from None
        made = cls(kind)
        if kind is _Kind.POSITIONS:
            made = cls(positions=decode_vector(source))
        elif kind is _Kind.TIME:
            made = cls(kind, at_ms=source.read_long())
        source.check_end()
        return made

    def to_json(self) -> str:
        if self.kind == _Kind.POSITIONS:
            places = {str(number): _format(entry) for number, entry in self.positions.items()}
            return json.dumps({"positions": places})
        if self.moment is not None:
            return json.dumps({"at": self.moment.isoformat()})
        return json.dumps({"start": "earliest" if self.is_earliest else "latest"})

    @classmethod
    def from_json(cls, text: str) -> Checkpoint:
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        match document:
            case {"positions": dict() as places}:
                return cls(positions=_parse_places(places))
            case {"at": str() as moment}:
                return cls.at(_parse_moment(moment))
            case {"start": "earliest"}:
                return cls.EARLIEST
            case {"start": "latest"}:
                return cls.LATEST
            case _:
                raise ConfigurationError(
                    'Not the JSON of a checkpoint; expected {"positions": ...}, {"at": ...}'
                    ' or {"start": "earliest"}'
                )

    def __str__(self) -> str:
        return self.to_json()


Checkpoint.EARLIEST = Checkpoint(_Kind.EARLIEST)
Checkpoint.LATEST = Checkpoint(_Kind.LATEST)


def _format(entry: MessageId) -> str:
    return f"{entry.text}/{entry.batch_size}" if entry.batch_size else entry.text


def _parse_places(places: Mapping[str, Any]) -> dict[SegmentId, MessageId]:
    positions = {}
    for number, text in places.items():
        place, _, size = str(text).partition("/")
        if not number.isdecimal() or (size and not size.isdecimal()):
            raise ConfigurationError(f"Not a position in a checkpoint: {number}: {text!r}")
        entry = MessageId.parse(place)
        positions[SegmentId(int(number))] = MessageId(
            entry.ledger_id, entry.entry_id, entry.partition, entry.batch_index, int(size or 0)
        )
    return positions


def _parse_moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"Not a time in a checkpoint: {text!r}") from None


def check_start(start: object) -> None:
    if not isinstance(start, Checkpoint):
        raise ConfigurationError(
            "start is a Checkpoint: Checkpoint.EARLIEST, LATEST, .at(moment) or .from_bytes(saved),"
            f" not {start!r}"
        )
