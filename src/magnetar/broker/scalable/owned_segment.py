"""Segments of a topic where other brokers may own some: each call is made at the owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Concatenate, ParamSpec, TypeVar

from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.scalable.segment import LocalSegments, Segments, SegmentStats
from magnetar.broker.subscription import Subscription
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, Position
from magnetar.model.segment import SegmentRef
from magnetar.rules.drain import SeekTarget, SegmentUse
from magnetar.rules.hotspot import KeySample
from magnetar.rules.phase import SegmentSeen

P = ParamSpec("P")
R = TypeVar("R")


class OwnedSegments:
    reports_drained = False

    def __init__(self, calls: BrokerCalls, local: LocalSegments, topic: TopicName) -> None:
        self._calls = calls
        self._local: Segments = local
        self._topic = topic

    async def _ask(
        self,
        method: Callable[Concatenate[Segments, SegmentRef, P], Awaitable[R]],
        segment: SegmentRef,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        owned = segment.name_in(self._topic)
        return await self._calls.ask(
            owned, self._topic, method, self._local, segment, *args, **kwargs
        )

    async def see(self, segment: SegmentRef) -> SegmentSeen | None:
        return await self._ask(Segments.see, segment)

    async def create(self, segment: SegmentRef, subscriptions: Collection[str]) -> None:
        await self._ask(Segments.create, segment, tuple(subscriptions))

    async def seal(self, segment: SegmentRef) -> None:
        await self._ask(Segments.seal, segment)

    async def delete(self, segment: SegmentRef) -> None:
        await self._ask(Segments.delete, segment)

    async def subscriptions(self, segment: SegmentRef) -> frozenset[str]:
        return await self._ask(Segments.subscriptions, segment)

    async def create_subscription(
        self, segment: SegmentRef, name: str, start: Position = EARLIEST
    ) -> None:
        await self._ask(Segments.create_subscription, segment, name, start)

    async def delete_subscription(self, segment: SegmentRef, name: str) -> None:
        await self._ask(Segments.delete_subscription, segment, name)

    async def backlog(self, segment: SegmentRef, name: str) -> int | None:
        return await self._ask(Segments.backlog, segment, name)

    async def use(self, segment: SegmentRef) -> SegmentUse:
        return await self._ask(Segments.use, segment)

    async def move(self, segment: SegmentRef, name: str, target: SeekTarget) -> bool:
        return await self._ask(Segments.move, segment, name, target)

    async def expire(self, segment: SegmentRef, name: str, seconds: int) -> bool:
        return await self._ask(Segments.expire, segment, name, seconds)

    async def idle_since(self, segment: SegmentRef, name: str) -> int | None:
        return await self._ask(Segments.idle_since, segment, name)

    async def stats(self, segment: SegmentRef) -> SegmentStats:
        return await self._ask(Segments.stats, segment)

    async def is_used(self, segment: SegmentRef) -> bool:
        return await self._ask(Segments.is_used, segment)

    async def sample_keys(self, segment: SegmentRef) -> KeySample:
        return await self._ask(Segments.sample_keys, segment)

    def loaded_subscription(self, segment: SegmentRef, name: str) -> Subscription | None:
        return self._local.loaded_subscription(segment, name)
