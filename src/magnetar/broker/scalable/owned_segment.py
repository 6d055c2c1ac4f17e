"""Segments of a topic where other brokers may own some: each call is made at the owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias, cast

from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.scalable.segment import NO_PROPERTIES, Segments
from magnetar.broker.subscription import Subscription
from magnetar.model.name import TopicName
from magnetar.model.segment import SegmentRef
from magnetar.rules.phase import SubscriptionProperties

Place: TypeAlias = Callable[[TopicName], Awaitable[None]]
"""Sees to it that a segment that is about to be made gets a broker with little load."""


def own_segments(
    calls: BrokerCalls, local: Segments, topic: TopicName, place: Place | None
) -> Segments:
    return cast(Segments, _OwnedSegments(calls, local, topic, place))


class _OwnedSegments:
    """Has every method of the port: each takes a segment first, whose owner is called."""

    reports_drained = False

    def __init__(
        self, calls: BrokerCalls, local: Segments, topic: TopicName, place: Place | None
    ) -> None:
        self._calls = calls
        self._place = place
        self._local = local
        self._topic = topic

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        method = getattr(Segments, name)

        def ask(segment: SegmentRef, *args: object, **kwargs: object) -> Awaitable[object]:
            owned, here = segment.name_in(self._topic), self._local
            return self._calls.ask(owned, self._topic, method, here, segment, *args, **kwargs)

        return ask

    async def create(
        self,
        segment: SegmentRef,
        subscriptions: Collection[str],
        properties: SubscriptionProperties = NO_PROPERTIES,
    ) -> None:
        owned = segment.name_in(self._topic)
        if self._place is not None:
            await self._place(owned)
        names, known, method = tuple(subscriptions), dict(properties), Segments.create
        await self._calls.ask(owned, self._topic, method, self._local, segment, names, known)

    def loaded_subscription(self, segment: SegmentRef, name: str) -> Subscription | None:
        return self._local.loaded_subscription(segment, name)
