"""Observations of the loads of a topic's segments: what was reported, and since when it holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.segment import together
from magnetar.errors import RecordUnreadable
from magnetar.metadata.store import Cancel
from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.scale import Sample, is_cold
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class _Observation:
    load: SegmentLoad
    since_s: float
    """Since when it is like that, in seconds of the clock that never goes back."""
    cold_since_s: float | None
    """Since when every report was cold: a cold segment whose load trembles stays cold."""


class LoadObserver:
    """Each report is read once, when it comes; nothing is asked of the store in between."""

    def __init__(
        self,
        records: ScalableRecords,
        topic: TopicName,
        clock: Clock,
        *,
        is_outdated: Callable[[Segment, int], Awaitable[bool]],
        on_report: Callable[[], None],
    ) -> None:
        self._records = records
        self._topic = topic
        self._clock = clock
        self._is_outdated = is_outdated
        """Whether a report of a time, in milliseconds, says nothing about now."""
        self._on_report = on_report
        self._seen: dict[SegmentId, _Observation | None] = {}
        """None: read, and nothing is there."""
        self._stale: set[SegmentId] = set()
        self._policy: AutoScalePolicy | None = None
        self._cancel: Cancel | None = None

    def start(self) -> None:
        if self._cancel is None:
            self._cancel = self._records.scaling.watch_loads(self._topic, self._on_load)

    def stop(self) -> None:
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        self._seen.clear()
        self._stale.clear()

    def _on_load(self, segment: SegmentId | None) -> None:
        if segment is None:
            self._stale.update(self._seen)
        else:
            self._stale.add(segment)
        self._on_report()

    async def load(self, layout: Layout, policy: AutoScalePolicy | None) -> dict[SegmentId, Sample]:
        """What is known of the active segments; those without a report are left out."""
        if policy != self._policy:  # what was cold by other limits says nothing
            self._policy = policy
            self._stale.update(self._seen)
            self._seen.clear()
        wanted = {segment.id: segment for segment in layout.active}
        due = [each for each in wanted if each in self._stale or each not in self._seen]
        self._stale.clear()
        try:
            await together(self._read(wanted[each]) for each in due)
        except BaseException:
            self._stale.update(due)
            raise
        self._seen = {each: self._seen[each] for each in wanted if each in self._seen}
        return self._sample(self._seen)

    async def peek(self, layout: Layout, policy: AutoScalePolicy | None) -> dict[SegmentId, Sample]:
        """The same, without keeping what is read."""
        found = await together(self._see(each, policy) for each in layout.active)
        wanted = [segment.id for segment in layout.active]
        return self._sample(dict(zip(wanted, found, strict=True)))

    def _sample(self, seen: Mapping[SegmentId, _Observation | None]) -> dict[SegmentId, Sample]:
        now_s = self._clock.monotonic()
        return {
            each: Sample(observed.load, (now_s - _first(observed)) * 1000)
            for each, observed in seen.items()
            if observed is not None
        }

    async def _read(self, segment: Segment) -> None:
        observed = self._seen[segment.id] = await self._see(segment, self._policy)
        if observed is None:  # it may become true again without being written again
            self._stale.add(segment.id)

    async def _see(self, segment: Segment, policy: AutoScalePolicy | None) -> _Observation | None:
        try:
            found = await self._records.scaling.get_load(self._topic, segment.id)
        except RecordUnreadable as failure:
            reason, number = failure.sentence, segment.id
            _log.warning("load unreadable", topic=self._topic.full, segment=number, reason=reason)
            found = None
        if found is None or await self._is_outdated(segment, found[1]):
            return None
        load, reported_ms = found
        now_s = self._clock.monotonic()
        # The store's clock may be ahead of this one: then the report is as old as its reading.
        since_s = now_s - max(0, self._clock.now_ms() - reported_ms) / 1000
        before = self._seen.get(segment.id)
        cold_since_s: float | None = None
        if policy is not None and is_cold(load, policy.merge_below):
            cold_since_s = since_s
            if before is not None and before.cold_since_s is not None:
                cold_since_s = min(since_s, before.cold_since_s)
        return _Observation(load, since_s, cold_since_s)


def _first(observed: _Observation) -> float:
    return observed.since_s if observed.cold_since_s is None else observed.cold_since_s
