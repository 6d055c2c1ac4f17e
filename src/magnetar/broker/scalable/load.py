"""Load reports: how much each segment carries, measured by its owner and published to all brokers.

Rates come from counters, over a short window and a long one; the higher of the two is reported. So
a rise shows at once, and a lull of a moment is not taken for the end of a load: topics split fast
and merge late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from magnetar.broker.ownership import Ownership
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.autoscale import ScalePolicies
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.segment import Segments, together
from magnetar.broker.topic import Topic
from magnetar.errors import BrokerError, StoreClosed
from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.layout import Layout
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import Segment, SegmentId, parse_segment
from magnetar.rules.report import decide_report
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope, yield_to_loop

LONG_WINDOW: Final = 6
"""How many short windows make a long one."""
_SECONDS_LEAST: Final = 0.1
_TURN_SEGMENTS: Final = 64

_log = Logger(__name__)


class Count(NamedTuple):
    """Totals of one segment at one time."""

    at_s: float
    msgs_in: int = 0
    bytes_in: int = 0
    msgs_out: int = 0
    bytes_out: int = 0


class Meter:
    """The latest counts of one segment."""

    __slots__ = ("_counts",)

    def __init__(self, first: Count) -> None:
        self._counts = deque([first], LONG_WINDOW + 1)

    def measure(self, count: Count) -> SegmentLoad | None:
        """The load up to now; None while the window has no length."""
        if count.at_s - self._counts[-1].at_s < _SECONDS_LEAST:
            return None
        short, long = _rates(self._counts[-1], count), _rates(self._counts[0], count)
        self._counts.append(count)
        return SegmentLoad(*map(max, short, long))


def _rates(before: Count, now: Count) -> tuple[float, ...]:
    """A counter that went back belongs to another life of the topic: it counts from 0."""
    seconds = now.at_s - before.at_s
    return tuple(
        (after - start if after >= start else after) / seconds
        for start, after in zip(before[1:], now[1:], strict=True)
    )


def count_of(topic: PersistentTopic, now_s: float) -> Count:
    rates = [each.rate for each in topic.subscriptions.values()] + [
        topic.subscriptions.removed_rate_out
    ]
    return Count(
        now_s,
        topic.rate_in.count,
        topic.rate_in.bytes,
        sum(rate.count for rate in rates),
        sum(rate.bytes for rate in rates),
    )


@dataclass(slots=True)
class _Watched:
    """A segment that this broker reports; one that is not served is not in use."""

    meter: Meter | None = None
    served: PersistentTopic | None = None
    reported: SegmentLoad | None = None
    is_seeded: bool = False


@dataclass(slots=True)
class _Round:
    """What one round knows of each scalable topic."""

    active: dict[TopicName, frozenset[SegmentId]] = field(default_factory=dict)
    policies: dict[TopicName, AutoScalePolicy | None] = field(default_factory=dict)


class LedTopic(Protocol):
    """A scalable topic that this broker controls."""

    @property
    def topic(self) -> TopicName: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def segments(self) -> Segments: ...


class SegmentLoadReporter:
    def __init__(
        self,
        topics: Mapping[str, Topic],
        records: ScalableRecords,
        policies: ScalePolicies,
        ownership: Ownership,
        *,
        config: Configuration,
        clock: Clock,
        led: Callable[[], Iterable[LedTopic]],
    ) -> None:
        """`topics` are those that are loaded, `led` the scalable ones controlled here."""
        self._topics = topics
        self._records = records
        self._policies = policies
        self._ownership = ownership
        self._config = config
        self._clock = clock
        self._led = led
        self.started_ms = clock.now_ms()
        self._watched: dict[tuple[TopicName, SegmentId], _Watched] = {}
        self.writes = 0

    def start(self, tasks: TaskScope) -> None:
        if self._is_reporting:
            interval_s = self._config.scalableTopicLoadReportIntervalSeconds
            tasks.periodic(interval_s, self.report, "load of segments")

    @property
    def _is_reporting(self) -> bool:
        config = self._config
        return config.scalableTopicsEnabled and config.scalableTopicLoadReportIntervalSeconds > 0

    async def is_outdated(self, topic: TopicName, segment: Segment, reported_ms: int) -> bool:
        """Whether a report was made before this broker started, of a segment that it serves and
        has not measured yet: how much of it still holds is unknown.
        """
        if reported_ms >= self.started_ms or not self._is_reporting:
            return False
        watched = self._watched.get((topic, segment.id))
        if watched is not None and watched.is_seeded:
            return False
        return await self._is_own(segment.name_in(topic))

    async def report(self) -> None:
        """Measure every active segment served here, and report what has changed enough."""
        seen: set[tuple[TopicName, SegmentId]] = set()
        due: list[tuple[TopicName, SegmentId, SegmentLoad]] = []
        now_s, this = self._clock.monotonic(), _Round()
        for number, live in enumerate(list(self._topics.values()), start=1):
            if number % _TURN_SEGMENTS == 0:
                await yield_to_loop()
            if not isinstance(live, PersistentTopic) or live.name.domain is not TopicDomain.SEGMENT:
                continue
            name = parse_segment(live.name)
            if live.closed or name.id not in await self._active(name.topic, this):
                continue
            key = (name.topic, name.id)
            seen.add(key)
            load = self._measure(key, live, now_s)
            if load is not None:
                due.append((*key, load))
        for key in await self._unserved(this):
            seen.add(key)
            self._on_unserved(key)
            due.append((*key, SegmentLoad()))
        for key in self._watched.keys() - seen:
            del self._watched[key]
        await together(self._report(*each, this) for each in due)

    async def _active(self, topic: TopicName, this: _Round) -> frozenset[SegmentId]:
        if topic not in this.active:
            record = await self._records.get(topic)
            if record is None or record.is_deleting:
                this.active[topic] = frozenset()
            else:
                this.active[topic] = frozenset(segment.id for segment in record.layout.active)
                this.policies[topic] = await self._policies.load_valid(topic.namespace, record)
        return this.active[topic]

    def _measure(
        self, key: tuple[TopicName, SegmentId], live: PersistentTopic, now_s: float
    ) -> SegmentLoad | None:
        watched = self._watched.get(key)
        if watched is None or watched.served is not live:
            # It counts from when it was loaded, and was reported by its owner before.
            since_s = now_s - (self._clock.now_ms() - live.created_ms) / 1000
            watched = self._watched[key] = _Watched(Meter(Count(since_s)), live)
        assert watched.meter is not None
        return watched.meter.measure(count_of(live, now_s))

    def _on_unserved(self, key: tuple[TopicName, SegmentId]) -> None:
        watched = self._watched.get(key)
        if watched is None or watched.served is not None:
            self._watched[key] = _Watched()

    async def _unserved(self, this: _Round) -> list[tuple[TopicName, SegmentId]]:
        """Active segments without clients, of topics controlled here: what was last reported of
        them may be long over. Other brokers report what they serve.
        """
        found = []
        for led in self._led():
            await self._active(led.topic, this)
            for segment in led.layout.active:
                if await self._is_unserved(led, segment):
                    found.append((led.topic, segment.id))
        return found

    async def _is_unserved(self, led: LedTopic, segment: Segment) -> bool:
        name = segment.name_in(led.topic)
        if segment.is_legacy or name.full in self._topics:
            return False
        return await self._is_own(name) or await self._is_left(led, segment)

    async def _is_left(self, led: LedTopic, segment: Segment) -> bool:
        """Whether there is a report of a segment that its owner, another broker, has not loaded:
        of an earlier owner, or of before it was unloaded.
        """
        try:
            stored = await self._records.scaling.get_load(led.topic, segment.id)
            if stored is None or stored[0] == SegmentLoad():
                return False
            return not (await led.segments.stats(segment.ref)).is_loaded
        except BrokerError:
            return False

    async def _is_own(self, name: TopicName) -> bool:
        try:
            return (await self._ownership.owner_of(name)).is_self
        except BrokerError:
            return False

    async def _report(
        self, topic: TopicName, segment: SegmentId, load: SegmentLoad, this: _Round
    ) -> None:
        watched = self._watched[topic, segment]
        try:
            last = watched.reported
            if not watched.is_seeded:
                stored = await self._records.scaling.get_load(topic, segment)
                last = None if stored is None else stored[0]
            if decide_report(
                last,
                load,
                change=self._config.scalableTopicLoadReportRateChangeThreshold,
                policy=this.policies.get(topic),
            ):
                await self._store(topic, segment, load)
                last = load
        except StoreClosed:
            return
        except BrokerError as failure:
            reason = failure.sentence
            _log.warning("load not reported", topic=topic.full, segment=segment, reason=reason)
            return
        watched.reported, watched.is_seeded = last, True

    async def _store(self, topic: TopicName, segment: SegmentId, load: SegmentLoad) -> None:
        await self._records.scaling.store_load(topic, segment, load)
        self.writes += 1
        record = await self._records.get(topic)
        if record is None or segment not in record.layout.by_id:
            # The segment was removed while its load was written: nothing else removes that.
            await self._records.scaling.delete_load(topic, segment)
