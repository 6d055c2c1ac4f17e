"""Readers: ordinary consumers of one segment that belong to a group, seen from the segment.

A segment that is given to another consumer is handed over by two clients that do not know of each
other, so the new reader may come before the old one has left. Then it waits instead of being
refused: some clients never ask a second time.
"""

from __future__ import annotations

from typing import Final

from magnetar.broker.catalog import AnyTopic
from magnetar.broker.consumer import Consumer
from magnetar.broker.scalable.control import Controls, ReaderRef, find_groups
from magnetar.broker.scalable.coordinator import Coordinator
from magnetar.broker.scalable.group import GroupOwnersOf
from magnetar.broker.scalable.redelivery import await_leave, await_stall
from magnetar.broker.subscription import Subscription
from magnetar.errors import BrokerError, ConsumerBusy
from magnetar.model.migration import READER_INFIX, is_reader_name
from magnetar.model.name import TopicName
from magnetar.model.segment import SegmentId, scalable_name
from magnetar.model.subscription import SubscriptionType
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope
from magnetar.wire.command import CommandSubscribe

_HAND_OVER_S: Final = 10.0
"""How long a new reader waits for the old one to leave."""
_REMIND_S: Final = 0.5
"""How long the old one has before its assignment is sent again."""
_MEMBERS_MAX: Final = 1000
"""Topics of other brokers whose groups are remembered."""

_log = Logger(__name__)


class SegmentReaders:
    """Knows the readers of this broker's groups, and asks other brokers about theirs."""

    def __init__(
        self,
        clock: Clock,
        config: Configuration,
        owners_of: GroupOwnersOf,
        controls: Controls,
        tasks: TaskScope,
    ) -> None:
        self._clock = clock
        self._config = config
        self._owners_of = owners_of
        self._controls = controls
        self._tasks = tasks
        self._members: dict[TopicName, dict[str, tuple[str, ...]]] = {}
        """The consumers of topics that other brokers control, by group, as of the last question."""

    async def attach(self, topic: AnyTopic, consumer: Consumer, request: CommandSubscribe) -> None:
        """Attach any consumer; one that a group has sent waits for its predecessor."""
        try:
            await topic.subscribe(consumer, request)
        except ConsumerBusy as refusal:
            subscription = topic.subscriptions.get(request.subscription)
            if not isinstance(subscription, Subscription):
                raise
            if not await self._is_sent(consumer, subscription):
                raise
            try:
                async with self._clock.timeout(_HAND_OVER_S):
                    await self._take_over(topic, consumer, request, subscription)
            except TimeoutError:
                raise refusal from None
        if isinstance(consumer.subscription, Subscription):
            groups = self._find_groups(consumer.subscription)
            for group, segment in groups:
                group.on_reader_attached(segment, consumer)
            if not groups and self._is_watched(consumer, consumer.subscription):
                watch = self._watch(consumer, consumer.subscription)
                self._tasks.start(watch, name="stalled")

    def _is_watched(self, consumer: Consumer, subscription: Subscription) -> bool:
        """Whether a controller elsewhere may have to assign its segment anew should it stall."""
        return (
            self._controls.is_shared
            and subscription.durable
            and is_reader_name(consumer.name)
            and not consumer.sharing.kind.is_individual
            and self._config.scalableTopicStalledSegmentSeconds > 0
        )

    async def _watch(self, consumer: Consumer, subscription: Subscription) -> None:
        topic, reader = subscription.topic.name, _refer(consumer, subscription)
        since_ms = consumer.connected_since_ms
        try:
            control = self._controls.at(topic)
            if await control.on_reader_attached(reader, since_ms) and await await_stall(
                subscription, consumer, clock=self._clock, config=self._config
            ):
                await control.recall(reader, has_left=False)
                await await_leave(subscription, clock=self._clock)
                await control.recall(reader, has_left=True)
        except BrokerError as failure:
            _log.warning("stalled reader not reported", topic=topic.full, reason=failure.sentence)

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
                await self._remind(subscription)
                continue
            try:
                return await topic.subscribe(consumer, request)
            except ConsumerBusy:
                if not await self._is_sent(consumer, subscription):
                    raise

    async def _remind(self, subscription: Subscription) -> None:
        for present in tuple(subscription.consumers):
            reader = _refer(present, subscription)
            await self._controls.at(subscription.topic.name).remind(reader)

    async def _is_sent(self, consumer: Consumer, subscription: Subscription) -> bool:
        """Whether a group wants this reader here; one of another kind will not make room."""
        if subscription.kind is SubscriptionType.SHARED or not is_reader_name(consumer.name):
            return False
        reader = _refer(consumer, subscription)
        return await self._controls.at(subscription.topic.name).awaits(reader)

    def on_closed(self, consumer: Consumer) -> None:
        """A client closed a consumer by its own wish; one that has read to the end may do so."""
        subscription = consumer.subscription
        if not isinstance(subscription, Subscription):
            return
        if subscription.topic.log.record.terminated is not None and not subscription.backlog:
            return
        since_ms = consumer.connected_since_ms
        groups = self._find_groups(subscription)
        for group, segment in groups:
            group.on_reader_closed(segment, consumer.name, since_ms=since_ms)
        if not groups and self._controls.is_shared and is_reader_name(consumer.name):
            reader = _refer(consumer, subscription)
            self._tasks.start(
                self._report_closed(subscription.topic.name, reader, since_ms), name="reader closed"
            )

    async def _report_closed(self, topic: TopicName, reader: ReaderRef, since_ms: int) -> None:
        try:
            await self._controls.at(topic).on_reader_closed(reader, since_ms)
        except BrokerError as failure:  # then its consumer is missed when its grace is over
            _log.warning("reader not reported", topic=topic.full, reason=failure.sentence)

    async def load_groups(self, topic: TopicName) -> None:
        """Return when `is_assigned` knows the groups of a topic."""
        found = await self._controls.at(topic).members()
        self._members.pop(topic, None)
        if not self._owners_of(topic):
            if len(self._members) >= _MEMBERS_MAX:
                del self._members[next(iter(self._members))]
            self._members[topic] = found

    def is_assigned(self, topic: TopicName, group: str | None, name: str) -> bool:
        """Whether a consumer of that name belongs to one that is registered with the group, or with
        any: readers of a group's checkpoints have subscriptions of their own.
        """
        known = [*self._members.get(topic, {}).items()] + [
            (key, coordinator.members.names)
            for owner in self._owners_of(topic)
            for key, coordinator in owner.groups.coordinators.items()
        ]
        return any(
            name.startswith(f"{each}{READER_INFIX}")
            for key, names in known
            if group is None or key == group
            for each in names
        )

    def _find_groups(self, subscription: Subscription) -> list[tuple[Coordinator, SegmentId]]:
        name = subscription.topic.name
        return find_groups(
            self._owners_of(scalable_name(name)),
            name,
            subscription.name,
            durable=subscription.durable,
        )


def _refer(consumer: Consumer, subscription: Subscription) -> ReaderRef:
    topic = subscription.topic.name.full
    return ReaderRef(topic, subscription.name, subscription.durable, consumer.name)
