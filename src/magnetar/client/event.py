"""What happens to a client by itself, for an application that wants to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from magnetar.client.error import AlreadyClosedError, PulsarError
from magnetar.model.layout import Layout
from magnetar.model.segment import SegmentId
from magnetar.runtime.log import Logger

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """A broker was connected to, the first time or again."""

    address: str
    server_version: str


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A connection ended that the client did not close; it connects again as it needs to."""

    address: str
    reason: PulsarError


@dataclass(frozen=True, slots=True)
class SegmentsAssigned:
    """A stream consumer, or a member of a group, reads these segments from now on."""

    topic: str
    subscription: str
    consumer: str
    segments: tuple[SegmentId, ...]


@dataclass(frozen=True)
class LayoutChange:
    """One layout after another; `before` is None for the one the watch began with."""

    topic: str
    before: Layout | None
    after: Layout

    @property
    def epoch(self) -> int:
        return self.after.epoch

    @property
    def added(self) -> tuple[SegmentId, ...]:
        known = self.before.by_id if self.before is not None else {}
        return tuple(each for each in self.after.by_id if each not in known)

    @property
    def sealed(self) -> tuple[SegmentId, ...]:
        """Segments that took writes before and take none now."""
        active = self.before.active if self.before is not None else ()
        now = {segment.id for segment in self.after.active}
        return tuple(sorted(segment.id for segment in active if segment.id not in now))

    @property
    def removed(self) -> tuple[SegmentId, ...]:
        known = self.before.by_id if self.before is not None else {}
        return tuple(each for each in known if each not in self.after.by_id)


Event: TypeAlias = ConnectionOpened | ConnectionLost | SegmentsAssigned | LayoutChange
OnEvent: TypeAlias = Callable[[Event], object]


class Events:
    """Calls `on_event` on the loop; what it raises is logged and stops nothing."""

    def __init__(self, on_event: OnEvent | None = None) -> None:
        self._on_event = on_event
        self._epochs: dict[str, int] = {}
        """Of the layouts that were reported: several handles may watch one topic."""

    def report(self, event: Event) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception as error:  # an application's code may raise anything
            _log.error("on_event failed", error=error, kind=type(event).__name__)

    def report_lost(self, address: str, reason: PulsarError) -> None:
        if not isinstance(reason, AlreadyClosedError):
            self.report(ConnectionLost(address, reason))

    def report_layout(self, topic: str, before: Layout, after: Layout) -> None:
        if self._on_event is not None and after.epoch > self._epochs.get(topic, before.epoch):
            self._epochs[topic] = after.epoch
            self.report(LayoutChange(topic, before, after))
