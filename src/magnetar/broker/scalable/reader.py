"""Readers: ordinary consumers of one segment that belong to a group, seen from the segment.

A segment that is given to another consumer is handed over by two clients that do not know of each
other, so the new reader may come before the old one has left. Then it waits instead of being
refused: some clients never ask a second time.
"""

from __future__ import annotations

from typing import Final

from magnetar.broker.catalog import AnyTopic
from magnetar.broker.consumer import Consumer
from magnetar.broker.scalable.coordinator import Coordinator
from magnetar.broker.scalable.group import GroupOwnersOf
from magnetar.broker.scalable.registration import reader_name
from magnetar.broker.subscription import Subscription
from magnetar.errors import ConsumerBusy
from magnetar.model.migration import READER_INFIX
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.scalable import ConsumerKind
from magnetar.model.segment import SegmentId, parse_segment, scalable_name
from magnetar.model.subscription import SubscriptionType
from magnetar.runtime.clock import Clock
from magnetar.wire.command import CommandSubscribe

_HAND_OVER_S: Final = 10.0
"""How long a new reader waits for the old one to leave."""
_REMIND_S: Final = 0.5
"""How long the old one has before its assignment is sent again."""


class SegmentReaders:
    """Knows the readers of this broker's groups."""

    def __init__(self, clock: Clock, owners_of: GroupOwnersOf) -> None:
        self._clock = clock
        self._owners_of = owners_of

    async def attach(self, topic: AnyTopic, consumer: Consumer, request: CommandSubscribe) -> None:
        """Attach any consumer; one that a group has sent waits for its predecessor."""
        try:
            await topic.subscribe(consumer, request)
        except ConsumerBusy as refusal:
            subscription = topic.subscriptions.get(request.subscription)
            if not isinstance(subscription, Subscription):
                raise
            if not self._is_sent(consumer, subscription):
                raise
            try:
                async with self._clock.timeout(_HAND_OVER_S):
                    await self._take_over(topic, consumer, request, subscription)
            except TimeoutError:
                raise refusal from None
        if isinstance(consumer.subscription, Subscription):
            for group, segment in self._find_groups(consumer.subscription):
                group.on_reader_attached(segment, consumer)

    async def _take_over(
        self,
        topic: AnyTopic,
        consumer: Consumer,
        request: CommandSubscribe,
        subscription: Subscription,
    ) -> None:
        while True:
            try:
                async with self._clock.timeout(_REMIND_S):
                    await subscription.await_vacancy()
            except TimeoutError:
                self._remind(subscription)
                continue
            try:
                return await topic.subscribe(consumer, request)
            except ConsumerBusy:
                if not self._is_sent(consumer, subscription):
                    raise

    def _remind(self, subscription: Subscription) -> None:
        for group, segment in self._find_groups(subscription):
            for present in subscription.consumers:
                group.remind(segment, present.name)

    def _is_sent(self, consumer: Consumer, subscription: Subscription) -> bool:
        """Whether a group wants this reader here; one of another kind will not make room."""
        if subscription.kind is SubscriptionType.SHARED:
            return False
        return any(
            reader_name(each, segment) == consumer.name
            for group, segment in self._find_groups(subscription)
            for each in group.assigner.owners_of(segment)
        )

    def on_closed(self, consumer: Consumer) -> None:
        """A client closed a consumer by its own wish; one that has read to the end may do so."""
        subscription = consumer.subscription
        if not isinstance(subscription, Subscription):
            return
        is_done = subscription.topic.log.record.terminated is not None and not subscription.backlog
        if not is_done:
            for group, segment in self._find_groups(subscription):
                group.on_reader_closed(segment, consumer.name, since_ms=consumer.connected_since_ms)

    def is_assigned(self, topic: TopicName, group: str | None, name: str) -> bool:
        """Whether a consumer of that name belongs to one that is registered with the group, or with
        any: readers of a group's checkpoints have subscriptions of their own.
        """
        return any(
            name.startswith(f"{each}{READER_INFIX}")
            for owner in self._owners_of(topic)
            for key, coordinator in owner.groups.coordinators.items()
            if group is None or key == group
            for each in coordinator.members.names
        )

    def _find_groups(self, subscription: Subscription) -> list[tuple[Coordinator, SegmentId]]:
        """The groups that may read a topic as one of its segments; what was a regular topic may be
        one.

        Readers of a CHECKPOINT group keep no place, so their subscriptions have names of their own.
        """
        name = subscription.topic.name
        owner = next(iter(self._owners_of(scalable_name(name))), None)
        if owner is None or not owner.groups.coordinators:
            return []
        if name.domain is TopicDomain.SEGMENT:
            segment = parse_segment(name).id
        else:
            same = (each.id for each in owner.layout.segments if each.legacy_topic == name.full)
            segment = next(same, SegmentId(-1))
        return [
            (group, segment)
            for group in owner.groups.coordinators.values()
            if group.subscription == subscription.name
            or (group.members.kind is ConsumerKind.CHECKPOINT and not subscription.durable)
        ]
