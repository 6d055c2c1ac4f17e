"""Readers: ordinary consumers of one segment that belong to a group, seen from the segment.

A segment that is given to another consumer is handed over by two clients that do not know of each
other, so the new reader may come before the old one has left. Then it waits instead of being
refused: some clients never ask a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.broker.consumer import Consumer
from magnetar.broker.subscription import Subscription
from magnetar.errors import ConsumerBusy
from magnetar.model.migration import READER_INFIX
from magnetar.model.name import TopicDomain
from magnetar.model.scalable import ConsumerKind
from magnetar.model.segment import SegmentId, parse_segment, scalable_name
from magnetar.model.subscription import SubscriptionType
from magnetar.wire.command import CommandSubscribe

if TYPE_CHECKING:
    from magnetar.broker.catalog import AnyTopic
    from magnetar.broker.scalable.coordinator import Coordinator

_HAND_OVER_S: Final = 10.0
"""How long a new reader waits for the old one to leave."""
_REMIND_S: Final = 0.5
"""How long the old one has before it is told again."""


def reader_name(consumer: str, segment: SegmentId) -> str:
    """What clients call the consumer of one segment."""
    return f"{consumer}{READER_INFIX}{segment}"


async def attach_reader(topic: AnyTopic, consumer: Consumer, request: CommandSubscribe) -> None:
    """Attach any consumer; one that a group has sent waits for its predecessor."""
    try:
        await topic.subscribe(consumer, request)
    except ConsumerBusy as refusal:
        subscription = topic.subscriptions.get(request.subscription)
        if not isinstance(subscription, Subscription) or not _is_sent(consumer, subscription):
            raise
        try:
            async with topic.service.clock.timeout(_HAND_OVER_S):
                await _take_turn(topic, consumer, request, subscription)
        except TimeoutError:
            raise refusal from None
    if isinstance(consumer.subscription, Subscription):
        for group, segment in _find_groups(consumer.subscription):
            group.on_reader_attached(segment, consumer)


async def _take_turn(
    topic: AnyTopic, consumer: Consumer, request: CommandSubscribe, subscription: Subscription
) -> None:
    while True:
        try:
            async with topic.service.clock.timeout(_REMIND_S):
                await subscription.await_vacancy()
        except TimeoutError:
            _remind(subscription)
            continue
        try:
            return await topic.subscribe(consumer, request)
        except ConsumerBusy:
            if not _is_sent(consumer, subscription):
                raise


def _remind(subscription: Subscription) -> None:
    for group, segment in _find_groups(subscription):
        for present in subscription.consumers:
            group.remind(segment, present.name)


def _is_sent(consumer: Consumer, subscription: Subscription) -> bool:
    """Whether a group wants this reader here; one that is not of its kind will not make room."""
    if subscription.kind is SubscriptionType.SHARED:
        return False
    return any(
        reader_name(each, segment) == consumer.name
        for group, segment in _find_groups(subscription)
        for each in group.owners_of(segment)
    )


def on_reader_closed(consumer: Consumer) -> None:
    """A client closed a consumer by its own wish; one that has read to the end may well do so."""
    subscription = consumer.subscription
    if not isinstance(subscription, Subscription):
        return
    is_done = subscription.topic.log.record.terminated is not None and not subscription.backlog
    if not is_done:
        for group, segment in _find_groups(subscription):
            group.on_reader_closed(segment, consumer.name, since_ms=consumer.connected_since_ms)


def _find_groups(subscription: Subscription) -> list[tuple[Coordinator, SegmentId]]:
    """The groups that may read a topic as one of its segments; what was a regular topic may be one.

    Readers of a CHECKPOINT group keep no place, so their subscriptions have names of their own.
    """
    name, service = subscription.topic.name, subscription.topic.service
    topic = scalable_name(name)
    host = service.scalable.loaded_controller(topic) or service.scalable.regular.find(topic)
    if host is None or not host.coordinators:
        return []
    if name.domain is TopicDomain.SEGMENT:
        segment = parse_segment(name).id
    else:
        same = (each.id for each in host.layout.segments if each.legacy_topic == name.full)
        segment = next(same, SegmentId(-1))
    return [
        (group, segment)
        for group in host.coordinators.values()
        if group.subscription == subscription.name
        or (group.kind is ConsumerKind.CHECKPOINT and not subscription.durable)
    ]
