"""The topics of a scalable topic's segments, and what its controller does to them.

Each is owned by a broker of its own choice: what is done to it is done there.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.hold import parse_passed
from magnetar.broker.lag import Lag, count_lag
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.resource import PartitionedTopics
from magnetar.broker.scalable.key_sample import load_key_sample
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.subscription import Subscription
from magnetar.errors import PreconditionFailed, SubscriptionNotFound, TopicNotFound
from magnetar.ledger.birth import parse_born
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import SegmentRef
from magnetar.model.subscription import INTERNAL_CURSORS
from magnetar.rules.drain import SeekTarget, SegmentUse, ToEnd, ToStart, ToTime
from magnetar.rules.hotspot import KeySample
from magnetar.rules.layout import is_kept
from magnetar.rules.phase import SegmentSeen, SubscriptionProperties
from magnetar.runtime.task import yield_to_loop

T = TypeVar("T")

_NO_LOAD: Final = SegmentLoad()
NO_PROPERTIES: Final[Mapping[str, Any]] = MappingProxyType({})
AT_ONCE_MAX: Final = 32
_A_TURN: Final = 64
"""Calls, or things looked at, between two chances for others to run."""


@dataclass(frozen=True, slots=True)
class SegmentClient:
    """A producer of a segment, or a consumer of one of its subscriptions."""

    name: str
    subscription: str | None = None

    def __str__(self) -> str:
        if self.subscription is None:
            return f"producer {self.name}"
        return f"consumer {self.name} of {self.subscription}"


@dataclass(frozen=True, slots=True)
class SegmentStats:
    """What a segment's topic does at present; one that is not loaded does nothing."""

    is_missing: bool = False
    is_loaded: bool = False
    load: SegmentLoad = _NO_LOAD
    msgs_in: int = 0
    bytes_in: int = 0
    storage_bytes: int = 0
    clients: tuple[SegmentClient, ...] = ()


class Segments:
    """Segments of one scalable topic, as the broker that serves them answers. Every call may be
    repeated: what is done already is not an error.
    """

    reports_drained = True
    """Whether every segment that is drained is reported to the broker that asks."""

    def __init__(
        self,
        catalog: TopicCatalog,
        records: ScalableRecords,
        partitioned: PartitionedTopics,
        topic: TopicName,
    ) -> None:
        self._catalog = catalog
        self._records = records
        self._partitioned = partitioned
        self._topic = topic

    async def see(self, segment: SegmentRef) -> SegmentSeen | None:
        """How it is; None when there is no such topic."""
        name = segment.name_in(self._topic)
        live = self._loaded(name)
        if live is not None:
            found = {each.name: each.properties for each in _durable(live)}
            return _see(is_sealed=live.log.record.terminated is not None, found=found)
        records = await self._catalog.logs.tree.records(name)
        stored = await records.load()
        if stored is None:
            return None
        found = dict.fromkeys(parse_born(stored[0].properties), NO_PROPERTIES)
        for cursor, (info, _) in (await records.load_cursors()).items():
            found[cursor] = info.cursor_properties
        return _see(is_sealed=stored[0].terminated is not None, found=found)

    async def create(
        self,
        segment: SegmentRef,
        subscriptions: Collection[str],
        properties: SubscriptionProperties = NO_PROPERTIES,
    ) -> None:
        """Make the topic and a cursor at its start for each subscription."""
        names = frozenset(subscriptions)
        plain = names - properties.keys()
        topic = await self._load(segment, create=True, cursors=plain)
        missing = sorted(names - topic.subscriptions.keys())
        if missing:
            await together(
                _create_subscription(topic, name, EARLIEST, properties.get(name, {}))
                for name in missing
            )

    async def seal(self, segment: SegmentRef) -> None:
        await (await self._load(segment, create=True)).termination.run()

    async def delete(self, segment: SegmentRef) -> None:
        held = await self._records.load(self._topic, refresh=True)
        if held is not None and is_kept(held.value, segment):
            raise PreconditionFailed(f"Segment {segment.id} is part of the layout of {self._topic}")
        name = segment.name_in(self._topic)
        if segment.legacy_topic and name.is_partition:
            await self._forget_partitions(name.base)
        try:
            await self._catalog.delete_topic(name, force=True)
        except TopicNotFound:
            pass

    async def _forget_partitions(self, name: TopicName) -> None:
        """With the first partition that goes: none of them may ever be made again."""
        try:
            await self._partitioned.delete(name)
        except TopicNotFound:
            pass

    async def subscriptions(self, segment: SegmentRef) -> frozenset[str]:
        """The durable ones that have a cursor there."""
        seen = await self.see(segment)
        return frozenset() if seen is None else seen.cursors

    async def create_subscription(
        self,
        segment: SegmentRef,
        name: str,
        start: Position = EARLIEST,
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> None:
        await _create_subscription(await self._load(segment), name, start, properties)

    async def delete_subscription(self, segment: SegmentRef, name: str) -> None:
        try:
            await (await self._load(segment)).subscriptions.delete(name, force=True)
        except (SubscriptionNotFound, TopicNotFound):
            pass

    async def backlog(self, segment: SegmentRef, name: str) -> int | None:
        """Entries left to acknowledge; None when the subscription has no cursor there."""
        subscription = await self._find(segment, name)
        if subscription is None:
            return None
        if not subscription.backlog:  # what is done about it must hold after a crash
            await subscription.cursor.flush()
        return subscription.backlog

    async def lag(self, segment: SegmentRef, name: str) -> Lag | None:
        """The same in entries and in messages."""
        subscription = await self._find(segment, name)
        return None if subscription is None else await count_lag(subscription)

    async def use(self, segment: SegmentRef) -> SegmentUse:
        """What it takes up, and who needs it."""
        name = segment.name_in(self._topic)
        topic = self._loaded(name)
        if topic is None:
            stored = await (await self._catalog.logs.tree.records(name)).load()
            if stored is None:
                return SegmentUse()
            if not await self.subscriptions(segment):  # nor any backlog
                return SegmentUse(sum(part.size for part in stored[0].ledgers))
            topic = await self._load(segment)
        behind = (
            each
            for each in _durable(topic)
            if each.backlog or parse_passed(each.cursor.properties) is not None
        )
        waiting = tuple(sorted(each.name for each in behind))
        return SegmentUse(topic.log.sequence.total_bytes, waiting)

    async def move(self, segment: SegmentRef, name: str, target: SeekTarget) -> bool:
        """Move a cursor; False when the subscription has none there."""
        subscription = await self._find(segment, name)
        if subscription is None:
            return False
        match target:
            case ToStart():
                await subscription.seek(EARLIEST)
            case ToTime(at_ms):
                await subscription.reset_to_time(at_ms)
            case ToEnd():
                await subscription.skip_all()
        return True

    async def expire(self, segment: SegmentRef, name: str, seconds: int) -> bool:
        subscription = await self._find(segment, name)
        if subscription is None:
            return False
        await subscription.expiry.expire(seconds)
        return True

    async def idle_since(self, segment: SegmentRef, name: str) -> int | None:
        """When the last consumer left, in milliseconds; None: one is there, or no cursor."""
        subscription = await self._find(segment, name)
        if subscription is None or subscription.consumer_count:
            return None
        return subscription.last_active_ms

    async def stats(self, segment: SegmentRef) -> SegmentStats:
        name = segment.name_in(self._topic)
        live = self._loaded(name)
        if live is None:
            return SegmentStats(is_missing=not await self._catalog.topic_exists(name))
        out = [each.rate for each in live.subscriptions.values()]
        return SegmentStats(
            is_loaded=True,
            load=SegmentLoad(
                live.rate_in.count_per_s,
                live.rate_in.bytes_per_s,
                sum(rate.count_per_s for rate in out),
                sum(rate.bytes_per_s for rate in out),
            ),
            msgs_in=live.rate_in.count,
            bytes_in=live.rate_in.bytes,
            storage_bytes=live.log.sequence.total_bytes,
            clients=tuple(_clients(live)),
        )

    async def is_used(self, segment: SegmentRef) -> bool:
        """Whether it has clients, or messages that are not acknowledged."""
        live = self._loaded(segment.name_in(self._topic))
        return live is not None and (
            live.has_clients() or any(each.backlog for each in live.subscriptions.values())
        )

    def loaded_subscription(self, segment: SegmentRef, name: str) -> Subscription | None:
        """The subscription on a segment that is loaded here."""
        live = self._loaded(segment.name_in(self._topic))
        return None if live is None else live.subscriptions.get(name)

    async def sample_keys(self, segment: SegmentRef) -> KeySample:
        """Keys of its latest messages."""
        live = self._loaded(segment.name_in(self._topic))
        return KeySample() if live is None else await load_key_sample(live, segment.range)

    def _loaded(self, name: TopicName) -> PersistentTopic | None:
        topic = self._catalog.topics.get(name.full)
        if topic is None or topic.closed:
            return None
        assert isinstance(topic, PersistentTopic), "segments keep what they are sent"
        return topic

    async def _load(
        self, segment: SegmentRef, *, create: bool = False, cursors: frozenset[str] = frozenset()
    ) -> PersistentTopic:
        """What was a regular topic is never made again."""
        may_create = create and not segment.legacy_topic
        name = segment.name_in(self._topic)
        topic = await self._catalog.load_topic(name, create=may_create, cursors=cursors)
        assert isinstance(topic, PersistentTopic), "segments keep what they are sent"
        return topic

    async def _find(self, segment: SegmentRef, name: str) -> Subscription | None:
        """A durable subscription, if there is one; only a topic that has it is loaded."""
        live = self._loaded(segment.name_in(self._topic))
        if live is None:
            if name not in await self.subscriptions(segment):
                return None
            live = await self._load(segment)
        subscription = live.subscriptions.get(name)
        return subscription if subscription is not None and subscription.durable else None


SegmentsOf: TypeAlias = Callable[[TopicName], Segments]
"""The segments of any scalable topic."""


async def load_clients(segments: Segments, layout: Layout) -> list[SegmentClient]:
    """Of all segments."""
    found = await together(segments.stats(each.ref) for each in layout.segments)
    return [client for stats in found for client in stats.clients]


async def together(calls: Iterable[Awaitable[T]], *, at_once: int = AT_ONCE_MAX) -> Sequence[T]:
    """Run calls side by side, not too many at once; the first failure is raised when all ended.

    There may be thousands, many of which wait for nothing: others get the loop in between.
    """
    waiting = tuple(calls)
    outcomes: dict[int, T] = {}
    failures: dict[int, BaseException] = {}
    places = iter(range(len(waiting)))

    async def work() -> None:
        for place in places:
            try:
                outcomes[place] = await waiting[place]
            except BaseException as failure:
                if _is_cancelled():
                    raise
                failures[place] = failure
            if place % _A_TURN == 0:
                await yield_to_loop()

    try:
        await asyncio.gather(*(work() for _ in range(min(at_once, len(waiting)))))
    finally:
        for call in waiting:  # those that were cancelled before they began
            if asyncio.iscoroutine(call):
                call.close()
    if failures:
        raise failures[min(failures)]
    return [outcomes[place] for place in range(len(waiting))]


def _is_cancelled() -> bool:
    """Whether the caller gave up, not the call."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _clients(topic: PersistentTopic) -> Iterable[SegmentClient]:
    yield from (SegmentClient(each.name) for each in topic.producers)
    for subscription in topic.subscriptions.values():
        yield from (SegmentClient(each.name, subscription.name) for each in subscription.consumers)


def _durable(topic: PersistentTopic) -> Iterable[Subscription]:
    return (each for each in topic.subscriptions.values() if each.durable)


def _see(*, is_sealed: bool, found: Mapping[str, Mapping[str, str]]) -> SegmentSeen:
    names = frozenset(found) - INTERNAL_CURSORS
    properties = {name: dict(own) for name, own in found.items() if own and name in names}
    return SegmentSeen(is_sealed, names, properties)


async def _create_subscription(
    topic: PersistentTopic, name: str, start: Position, properties: Mapping[str, str]
) -> None:
    """A reader of the same name is not in the way: durable names win."""
    present = topic.subscriptions.get(name)
    if present is None:
        await topic.subscriptions.create(
            name, position=start, properties=properties, is_limited=False
        )


END: Final = LATEST
"""Where a subscription stands that has nothing to read in a segment."""
