"""What a controller does to the topics of segments. Whoever owns a segment does it; a broker that
runs alone owns all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.key_sample import load_key_sample
from magnetar.broker.subscription import Subscription
from magnetar.errors import SubscriptionNotFound, TopicNotFound
from magnetar.ledger.birth import parse_born
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.segment import SegmentRef
from magnetar.model.subscription import INTERNAL_CURSORS
from magnetar.rules.drain import SeekTarget, SegmentUse, ToEnd, ToStart, ToTime
from magnetar.rules.hotspot import KeySample
from magnetar.rules.phase import SegmentSeen
from magnetar.runtime.task import yield_to_loop

if TYPE_CHECKING:
    from magnetar.broker.service import Service

T = TypeVar("T")

_AT_ONCE_MAX: Final = 32
_A_TURN: Final = 64
"""Calls, or things looked at, between two chances for others to run."""


class SegmentAccess(Protocol):
    """Every call may be repeated: what is done already is not an error."""

    async def see(self, segment: SegmentRef) -> SegmentSeen | None:
        """How it is; None when there is no such topic."""

    async def create(self, segment: SegmentRef, subscriptions: Iterable[str]) -> None:
        """Make the topic and a cursor at its start for each subscription."""

    async def seal(self, segment: SegmentRef) -> None: ...

    async def delete(self, segment: SegmentRef) -> None: ...

    async def subscriptions(self, segment: SegmentRef) -> frozenset[str]:
        """The durable ones that have a cursor there."""

    async def create_subscription(
        self, segment: SegmentRef, name: str, start: Position = EARLIEST
    ) -> None: ...

    async def delete_subscription(self, segment: SegmentRef, name: str) -> None: ...

    async def backlog(self, segment: SegmentRef, name: str) -> int | None:
        """Entries left to acknowledge; None when the subscription has no cursor there."""

    async def use(self, segment: SegmentRef) -> SegmentUse:
        """What it takes up, and who needs it."""

    async def move(self, segment: SegmentRef, name: str, target: SeekTarget) -> bool:
        """Move a cursor; False when the subscription has none there."""

    async def expire(self, segment: SegmentRef, name: str, seconds: int) -> bool: ...

    async def idle_since(self, segment: SegmentRef, name: str) -> int | None:
        """When the last consumer left, in milliseconds; None: one is there, or no cursor."""

    async def attached(self, segment: SegmentRef) -> list[str]:
        """Words for each client."""

    async def stats(self, segment: SegmentRef) -> dict[str, Any]: ...

    async def sample_keys(self, segment: SegmentRef) -> KeySample:
        """Keys of its latest messages."""


class LocalSegments:
    """Segments of one scalable topic, all served by this broker."""

    def __init__(self, service: Service, topic: TopicName) -> None:
        self._service = service
        self._topic = topic

    async def see(self, segment: SegmentRef) -> SegmentSeen | None:
        name = segment.name_in(self._topic)
        live = self._loaded(name)
        if live is not None:
            return SegmentSeen(live.log.record.terminated is not None, _durable_names(live))
        records = await self._service.tree.records(name)
        stored = await records.load()
        if stored is None:
            return None
        born = parse_born(stored[0].properties)
        cursors = frozenset((*born, *await records.load_cursors())) - INTERNAL_CURSORS
        return SegmentSeen(stored[0].terminated is not None, cursors)

    async def create(self, segment: SegmentRef, subscriptions: Iterable[str]) -> None:
        names = frozenset(subscriptions)
        topic = await self._load(segment, create=True, cursors=names)
        missing = sorted(names - topic.subscriptions.keys())
        if missing:
            await together(_create_subscription(topic, name, EARLIEST) for name in missing)

    async def seal(self, segment: SegmentRef) -> None:
        await (await self._load(segment, create=True)).terminate()

    async def delete(self, segment: SegmentRef) -> None:
        name = segment.name_in(self._topic)
        if segment.legacy_topic and name.is_partition:
            await self._forget_partitions(name.base)
        try:
            await self._service.delete_topic(name, force=True)
        except TopicNotFound:
            pass

    async def _forget_partitions(self, name: TopicName) -> None:
        """With the first partition that goes: none of them may ever be made again."""
        try:
            await self._service.resources.partitioned.delete(name)
        except TopicNotFound:
            pass

    async def subscriptions(self, segment: SegmentRef) -> frozenset[str]:
        seen = await self.see(segment)
        return frozenset() if seen is None else seen.cursors

    async def create_subscription(
        self, segment: SegmentRef, name: str, start: Position = EARLIEST
    ) -> None:
        await _create_subscription(await self._load(segment), name, start)

    async def delete_subscription(self, segment: SegmentRef, name: str) -> None:
        try:
            await (await self._load(segment)).delete_subscription(name, force=True)
        except (SubscriptionNotFound, TopicNotFound):
            pass

    async def backlog(self, segment: SegmentRef, name: str) -> int | None:
        subscription = await self._find(segment, name)
        if subscription is None:
            return None
        if not subscription.backlog:  # whoever acts on it must find it so after a crash
            await subscription.cursor.flush()
        return subscription.backlog

    async def use(self, segment: SegmentRef) -> SegmentUse:
        name = segment.name_in(self._topic)
        topic = self._loaded(name)
        if topic is None:
            stored = await (await self._service.tree.records(name)).load()
            if stored is None:
                return SegmentUse()
            if not await self.subscriptions(segment):  # nobody's backlog can be there
                return SegmentUse(sum(part.size for part in stored[0].ledgers))
            topic = await self._load(segment)
        durable = (each for each in topic.subscriptions.values() if each.durable)
        waiting = tuple(sorted(each.name for each in durable if each.backlog))
        return SegmentUse(topic.log.sequence.total_bytes, waiting)

    async def move(self, segment: SegmentRef, name: str, target: SeekTarget) -> bool:
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
        await subscription.expire(seconds)
        return True

    async def idle_since(self, segment: SegmentRef, name: str) -> int | None:
        subscription = await self._find(segment, name)
        if subscription is None or subscription.consumers:
            return None
        return subscription.last_active_ms

    async def attached(self, segment: SegmentRef) -> list[str]:
        live = self._loaded(segment.name_in(self._topic))
        if live is None:
            return []
        producers = [f"producer {each.name}" for each in live.producers]
        consumers = [
            f"consumer {consumer.name} of {subscription.name}"
            for subscription in live.subscriptions.values()
            for consumer in subscription.consumers
        ]
        return producers + consumers

    async def stats(self, segment: SegmentRef) -> dict[str, Any]:
        return (await self._load(segment)).stats()

    async def sample_keys(self, segment: SegmentRef) -> KeySample:
        live = self._loaded(segment.name_in(self._topic))
        return KeySample() if live is None else await load_key_sample(live, segment.range)

    def _loaded(self, name: TopicName) -> PersistentTopic | None:
        topic = self._service.topics.get(name.full)
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
        topic = await self._service.load_topic(name, create=may_create, cursors=cursors)
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
        for call in waiting:  # whoever is cancelled before its turn never began
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
    """A reader of the same name is in nobody's way: durable names win."""
    present = topic.subscriptions.get(name)
    if present is None:
        await topic.create_subscription(name, position=start, is_limited=False)


END: Final = LATEST
"""Where a subscription stands that has nothing to read in a segment."""
