"""How far a reader has come in a topic: as a value to keep, and while it reads.

The bytes of a checkpoint are Apache Pulsar's, save those of a point in time, which are our own. Its
JSON is for people: `{"positions": {"0": "12:3:-1:-1"}}`, `{"start": "earliest"}` or
`{"at": "2026-…"}`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, ClassVar, Final, TypeVar

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import (
    EARLIEST_ID,
    LATEST_ID,
    ByteSource,
    MessageId,
    Vector,
    decode_vector,
    encode_vector,
)
from magnetar.client.progress import Floor, Placed
from magnetar.client.quantity import to_ms
from magnetar.model.layout import Layout
from magnetar.model.segment import Segment, SegmentId

R = TypeVar("R")

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


class ReadPositions:
    """Where a reader stands in every segment, and which of them are read to their end."""

    def __init__(self, *, is_alone: bool) -> None:
        self.places: dict[SegmentId, MessageId] = {}
        """The message before the first one to come of each segment."""
        self.ends: dict[SegmentId, MessageId] = {}
        self.finished: set[SegmentId] = set()
        self.taken: dict[SegmentId, Placed] = {}
        """The last message received of each segment."""
        self._is_alone = is_alone
        self._start = Checkpoint.LATEST
        self._began_at_ms = 0
        self._first: frozenset[SegmentId] = frozenset()

    def begin(self, start: Checkpoint, layout: Layout, *, now_ms: int) -> None:
        self._start = start
        self._began_at_ms = now_ms
        self._first = frozenset(layout.by_id)
        self.places = dict(start.positions)
        self.ends.clear()
        self.taken.clear()
        self.finished = {
            segment.id
            for segment in layout.segments
            if segment.is_sealed and self.places.get(segment.id) == LATEST_ID
        }
        for segment in layout.sealed:
            if self._is_skipped(segment):
                self.places[segment.id] = LATEST_ID
                self.finished.add(segment.id)

    def reached(self) -> dict[SegmentId, MessageId]:
        """The last message received of each segment, or the one before the first to come."""
        return self.places | {number: message.place for number, message in self.taken.items()}

    def _is_skipped(self, segment: Segment) -> bool:
        """Whether everything in a sealed segment is older than the start."""
        if self._start.is_latest:
            return True
        at_ms, sealed_at_ms = self._start.at_ms, segment.sealed_at_ms
        return at_ms is not None and sealed_at_ms is not None and sealed_at_ms < at_ms

    def start_ms(self, segment: Segment | None) -> int | None:
        """The time to begin a segment at that has no place yet.

        "Latest" in a group is the time the member came: it may get a segment only after another
        member has let go of it, and what came in between must not be lost.
        """
        at_ms = self._start.at_ms
        if self._start.is_latest and not self._is_alone:
            at_ms = self._began_at_ms
        if at_ms is None or segment is None or segment.created_at_ms >= at_ms:
            return None
        return at_ms

    def floor(self, number: SegmentId) -> Floor:
        place = self.reached().get(number)
        if place is not None:
            return Floor(place, is_included=False)
        if self._start.is_latest and self._is_alone and number in self._first:
            return Floor(LATEST_ID, is_included=False)
        return Floor(EARLIEST_ID, is_included=True)

    def plan(self, reads: Mapping[SegmentId, R], layout: Layout) -> dict[SegmentId, R]:
        """Segments that are not read to the end and whose parents are."""
        by_id = layout.by_id
        return {
            number: read
            for number, read in reads.items()
            if number not in self.finished
            and all(
                parent in self.finished or parent not in reads
                for parent in (by_id[number].parents if number in by_id else ())
            )
        }
