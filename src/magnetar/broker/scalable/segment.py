"""The topics of a scalable topic's segments, and what its controller does to them. One broker owns
the topic and all its segments.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.resource import PartitionedTopics
from magnetar.broker.scalable.key_sample import load_key_sample
from magnetar.broker.subscription import Subscription
from magnetar.errors import SubscriptionNotFound, TopicNotFound
from magnetar.ledger.birth import parse_born
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.segment import SegmentRef
from magnetar.model.subscription import INTERNAL_CURSORS
from magnetar.rules.drain import SeekTarget, SegmentUse, ToEnd, ToStart, ToTime
from magnetar.rules.hotspot import KeySample
from magnetar.rules.phase import SegmentSeen
from magnetar.runtime.task import yield_to_loop

T = TypeVar("T")

_AT_ONCE_MAX: Final = 32
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


class LocalSegments:
    """Segments of one scalable topic, all served by this broker.

    Every call may be repeated: what is done already is not an error.
    """

    def __init__(
        self, catalog: TopicCatalog, partitioned: PartitionedTopics, topic: TopicName
    ) -> None:
        self._catalog = catalog
        self._partitioned = partitioned
        self._topic = topic

    async def see(self, segment: SegmentRef) -> SegmentSeen | None:
        """How it is; None when there is no such topic."""
        name = segment.name_in(self._topic)
        live = self._loaded(name)
        if live is not None:
            return SegmentSeen(live.log.record.terminated is not None, _durable_names(live))
        records = await self._catalog.logs.tree.records(name)
        stored = await records.load()
        if stored is None:
            return None
        born = parse_born(stored[0].properties)
        cursors = frozenset((*born, *await records.load_cursors())) - INTERNAL_CURSORS
        return SegmentSeen(stored[0].terminated is not None, cursors)

    async def create(self, segment: SegmentRef, subscriptions: Iterable[str]) -> None:
        """Make the topic and a cursor at its start for each subscription."""
        names = frozenset(subscriptions)
        topic = await self._load(segment, create=True, cursors=names)
        missing = sorted(names - topic.subscriptions.keys())
        if missing:
            await together(_create_subscription(topic, name, EARLIEST) for name in missing)

    async def seal(self, segment: SegmentRef) -> None:
        await (await self._load(segment, create=True)).termination.run()

    async def delete(self, segment: SegmentRef) -> None:
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
        self, segment: SegmentRef, name: str, start: Position = EARLIEST
    ) -> None:
        await _create_subscription(await self._load(segment), name, start)

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
        durable = (each for each in topic.subscriptions.values() if each.durable)
        waiting = tuple(sorted(each.name for each in durable if each.backlog))
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
        if subscription is None or subscription.consumers:
            return None
        return subscription.last_active_ms

    def clients(self, segment: SegmentRef) -> list[SegmentClient]:
        live = self._loaded(segment.name_in(self._topic))
        if live is None:
            return []
        producers = [SegmentClient(each.name) for each in live.producers]
        consumers = [
            SegmentClient(consumer.name, subscription.name)
            for subscription in live.subscriptions.values()
            for consumer in subscription.consumers
        ]
        return producers + consumers

    def clients_of(self, layout: Layout) -> list[SegmentClient]:
        """Of all segments."""
        return [each for segment in layout.segments for each in self.clients(segment.ref)]

    def is_used(self, segment: SegmentRef) -> bool:
        """Whether it has clients, or messages that are not acknowledged."""
        live = self._loaded(segment.name_in(self._topic))
        return live is not None and (
            live.has_clients() or any(each.backlog for each in live.subscriptions.values())
        )

    def loaded_subscription(self, segment: SegmentRef, name: str) -> Subscription | None:
        """The subscription on a segment that is loaded."""
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


SegmentsOf: TypeAlias = Callable[[TopicName], LocalSegments]
"""The segments of any scalable topic."""


async def together(calls: Iterable[Awaitable[T]], *, at_once: int = _AT_ONCE_MAX) -> Sequence[T]:
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


async def in_turns(found: Iterable[T]) -> AsyncIterator[T]:
    """Each of them, while others get the loop in between."""
    for place, each in enumerate(found):
        yield each
        if place % _A_TURN == _A_TURN - 1:
            await yield_to_loop()


def _durable_names(topic: PersistentTopic) -> frozenset[str]:
    return frozenset(name for name, each in topic.subscriptions.items() if each.durable)


async def _create_subscription(topic: PersistentTopic, name: str, start: Position) -> None:
    """A reader of the same name is not in the way: durable names win."""
    present = topic.subscriptions.get(name)
    if present is None:
        await topic.subscriptions.create(name, position=start, is_limited=False)


END: Final = LATEST
"""Where a subscription stands that has nothing to read in a segment."""
