"""The consumers of one subscription, on any kind of topic, and the driver that serves them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from magnetar.broker.consumer import ConsumedTopic, Consumer
from magnetar.broker.dispatch.backlog import Backlog
from magnetar.broker.dispatch.driver import Driver
from magnetar.broker.topic_host import TopicHost
from magnetar.errors import ConsumerBusy, NotAllowed
from magnetar.model.subscription import SubscriptionType
from magnetar.rules.dispatch.keyshared import KeyShared
from magnetar.rules.dispatch.machine import DispatchLimits, Machine
from magnetar.rules.dispatch.member import Sharing, check_agreement
from magnetar.rules.dispatch.shared import Shared
from magnetar.rules.dispatch.single import SingleActive
from magnetar.rules.policy import EffectivePolicy
from magnetar.runtime.rate import Rate
from magnetar.wire.command import (
    CommandAck,
    CommandRedeliverUnacknowledgedMessages,
    position_of,
    signed64,
)


class GroupSet(Protocol):
    """The subscriptions of a topic."""

    def get(self, name: str, /) -> ConsumerGroup | None: ...
    async def delete(self, name: str, *, force: bool = False) -> None: ...


class GroupTopic(ConsumedTopic, Protocol):
    """The topic that a subscription belongs to."""

    @property
    def policy(self) -> EffectivePolicy: ...

    @property
    def closed(self) -> bool: ...

    @property
    def host(self) -> TopicHost: ...

    @property
    def subscriptions(self) -> GroupSet: ...


def check_subscription_limit(topic: GroupTopic, count: int) -> None:
    limit = topic.policy.max_subscriptions
    if limit and count >= limit:
        raise NotAllowed(f"Exceed the maximum number of subscriptions of the topic: {topic.name}")


class ConsumerGroup(ABC):
    def __init__(self, topic: GroupTopic, name: str) -> None:
        self.topic = topic
        self.name = name
        self.kind: SubscriptionType | None = None
        """As of the consumers that are attached, or were last."""
        self.dispatcher: Driver | None = None
        self.rate = Rate(topic.host.clock.monotonic())
        self.last_consumed_ms = 0
        self._joining = 0

    # ------------------------------------------------------------------ what a kind of topic says

    @abstractmethod
    async def _await_turn(self) -> None:
        """Until a newcomer may attach; raise when none may any more."""

    @abstractmethod
    def _make_backlog(self) -> Backlog | None:
        """Where entries are read, unless producers hand them over."""

    @abstractmethod
    def _leave_if_unused(self) -> None: ...

    @abstractmethod
    def apply_policy(self) -> None: ...

    @abstractmethod
    def on_ack(self, consumer: Consumer, ack: CommandAck) -> None: ...

    @abstractmethod
    def on_end_reached(self) -> None: ...

    # ------------------------------------------------------------------ consumers

    @property
    def consumers(self) -> list[Consumer]:
        if self.dispatcher is None:
            return []
        return [member.consumer for member in self.dispatcher.machine.members]

    @property
    def consumer_count(self) -> int:
        """Asked at every arrival and departure, so no list is made."""
        return 0 if self.dispatcher is None else len(self.dispatcher.machine.members)

    async def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer. A rival that keeps it out is asked for a sign of life before the
        newcomer is refused.
        """
        alive: set[Consumer] = set()
        self._joining += 1
        try:
            while True:
                await self._await_turn()
                dispatcher = self._dispatcher_for(consumer)
                rival = dispatcher.rival_of(consumer)
                if rival is None or rival in alive or rival.connection is consumer.connection:
                    break
                if await rival.connection.is_alive():
                    alive.add(rival)
                else:
                    rival.detach()
            dispatcher.add(consumer)
            consumer.subscription = self
        finally:
            self._joining -= 1
            self._leave_if_unused()

    def _dispatcher_for(self, consumer: Consumer) -> Driver:
        """The driver that serves a newcomer; raise when its wishes do not fit."""
        dispatcher = self.dispatcher
        if dispatcher is not None and dispatcher.machine.members:
            check_agreement(dispatcher.sharing, consumer.sharing)
        elif dispatcher is None or dispatcher.sharing != consumer.sharing:
            if dispatcher is not None:
                dispatcher.close()
            dispatcher = self.dispatcher = self._make_dispatcher(consumer.sharing)
            self.kind = consumer.sharing.kind
            self.apply_policy()
        limit = self.topic.policy.max_consumers_per_subscription
        if limit and len(dispatcher.machine.members) >= limit:
            raise ConsumerBusy("Subscription reached max consumers limit")
        return dispatcher

    def _make_dispatcher(self, sharing: Sharing) -> Driver:
        backlog = self._make_backlog()
        machine = self._make_machine(sharing, is_tracked=backlog is not None)
        return Driver(self, self.topic.name, self.topic.host, sharing, machine, backlog)

    def _make_machine(self, sharing: Sharing, *, is_tracked: bool) -> Machine[Consumer]:
        config, name = self.topic.host.config, self.topic.name
        match sharing.kind:
            case SubscriptionType.EXCLUSIVE | SubscriptionType.FAILOVER:
                delay_ms = config.activeConsumerFailoverDelayTimeMillis if is_tracked else 0
                return SingleActive(
                    is_failover=sharing.kind is SubscriptionType.FAILOVER,
                    topic=name.full,
                    partition_index=name.partition_index,
                    switch_delay_s=delay_ms / 1000,
                )
            case SubscriptionType.SHARED:
                return Shared(DispatchLimits(), is_tracked=is_tracked)
            case SubscriptionType.KEY_SHARED:
                points = config.subscriptionKeySharedConsistentHashingReplicaPoints
                if not config.subscriptionKeySharedUseConsistentHashing:
                    points = 0
                return KeyShared(
                    sharing, DispatchLimits(), ring_points=points, is_tracked=is_tracked
                )

    def remove_consumer(self, consumer: Consumer) -> None:
        if self.dispatcher is not None:
            self.dispatcher.remove(consumer)
        self._leave_if_unused()

    # ------------------------------------------------------------------ what consumers say

    def on_flow(self, consumer: Consumer, permits: int) -> None:
        if self.dispatcher is not None:
            self.dispatcher.grant(consumer, permits)

    def on_writable(self, consumer: Consumer, writable: bool) -> None:
        if self.dispatcher is not None:
            self.dispatcher.set_writable(consumer, writable)

    def on_redeliver(
        self, consumer: Consumer, command: CommandRedeliverUnacknowledgedMessages
    ) -> None:
        if command.HasField("consumer_epoch"):
            consumer.raise_epoch(signed64(command.consumer_epoch))
        if self.dispatcher is not None:
            positions = [position_of(each) for each in command.message_ids]
            self.dispatcher.redeliver(consumer, positions)

    def on_delivered(self, consumer: Consumer, messages: int, size: int) -> None:
        stats = consumer.stats
        stats.rate.add(messages, size)
        self.rate.add(messages, size)
        now_ms = self.topic.host.clock.now_ms()
        stats.last_consumed_ms = self.last_consumed_ms = now_ms
        if not stats.first_consumed_ms:
            stats.first_consumed_ms = now_ms

    def disconnect_all(self) -> None:
        """Their clients come back."""
        for consumer in self.consumers:
            consumer.disconnect()

    def tick(self, now: float) -> None:
        self.rate.tick(now)
        for consumer in self.consumers:
            consumer.stats.tick(now)
