"""The registration of one consumer with a group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from magnetar.broker.attachment import AttachmentOwner, Link
from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.model.migration import READER_INFIX
from magnetar.model.scalable import ConsumerAssignment, ConsumerRecord
from magnetar.model.segment import SegmentId
from magnetar.runtime.clock import Timer


class ClientLink(Link, AttachmentOwner, Protocol):
    """The connection of a registered consumer."""

    @property
    def client_version(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...


def reader_name(consumer: str, segment: SegmentId) -> str:
    """What clients call the consumer of one segment."""
    return f"{consumer}{READER_INFIX}{segment}"


@dataclass(slots=True, eq=False)
class Registration:
    """Known by its name; without a connection the consumer is expected back."""

    name: str
    record: ConsumerRecord = field(default_factory=ConsumerRecord)
    connection: ClientLink | None = None
    consumer_id: int = 0
    shares: bool = False
    """Whether it understands entry buckets."""
    registered_ms: int = 0
    grace: Timer | None = None
    withdrawn: set[SegmentId] = field(default_factory=set)
    """Its segments that it is to close before it is assigned them again."""
    _gained_ms: dict[SegmentId, int] = field(default_factory=dict)
    _readers: dict[SegmentId, object] = field(default_factory=dict)
    """The last one of each segment since it was gained; None: an earlier controller knew it."""

    def __post_init__(self) -> None:
        self._readers = dict.fromkeys(self.record.segments)

    def take(self, segments: Iterable[SegmentId], *, now_ms: int) -> None:
        self._gained_ms = {each: self._gained_ms.get(each, now_ms) for each in segments}
        self._readers = {n: r for n, r in self._readers.items() if n in self._gained_ms}

    def withdraw(self, segment: SegmentId, *, now_ms: int) -> None:
        """Count a segment as gained just now, with no reader yet."""
        self.withdrawn.add(segment)
        self._gained_ms[segment] = now_ms
        self._readers.pop(segment, None)

    def note_reader(self, segment: SegmentId, reader: object) -> bool:
        """A reader is attached, which differs from any other; return whether there was one before
        it.
        """
        has_returned = segment in self._readers and self._readers[segment] != reader
        self._readers[segment] = reader
        return has_returned

    def holds_since_ms(self, segment: SegmentId) -> int:
        """Since when the consumer, as it is now, is to read a segment."""
        return max(self.registered_ms, self._gained_ms.get(segment, 0))

    def send(self, assignment: ConsumerAssignment) -> None:
        if self.connection is not None:
            registry = self.connection.attached(ConnectionRegistry)
            registry.send_assignment(self.consumer_id, assignment)

    def stop_grace(self) -> None:
        if self.grace is not None:
            self.grace.cancel()
            self.grace = None
