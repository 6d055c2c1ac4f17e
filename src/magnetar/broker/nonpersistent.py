"""A non-persistent topic: a message goes to consumers that have permits, or is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from magnetar.broker.consumer import Consumer
from magnetar.broker.consumer_group import ConsumerGroup, check_subscription_limit
from magnetar.broker.dispatch.view import EntryView
from magnetar.broker.limiter import make_limiter
from magnetar.broker.producer import Producer
from magnetar.broker.producer_set import ProducerSet
from magnetar.broker.topic import Topic
from magnetar.broker.topic_host import TopicHost
from magnetar.errors import (
    NotAcceptable,
    ResourceBusy,
    SubscriptionNotFound,
    TopicFenced,
)
from magnetar.model.name import TopicName
from magnetar.rules.policy import EffectivePolicy
from magnetar.runtime.rate import Rate
from magnetar.wire.command import CommandAck, CommandAckResponse, CommandSubscribe, make_command
from magnetar.wire.run import SendRun


class TransientSubscription(ConsumerGroup):
    """Consumers of one name on a non-persistent topic; there is no cursor."""

    topic: NonPersistentTopic

    def __init__(self, topic: NonPersistentTopic, name: str) -> None:
        super().__init__(topic, name)
        self.drop_rate = Rate(topic.host.clock.monotonic())

    @property
    def properties(self) -> Mapping[str, str]:
        return {}

    async def _await_turn(self) -> None:
        if self.topic.closed:
            raise TopicFenced(f"Topic {self.topic.name} is closing")

    def _make_backlog(self) -> None:
        return None

    def _leave_if_unused(self) -> None:
        if not (self.consumer_count or self._joining):
            self.topic.subscriptions.forget(self)

    def apply_policy(self) -> None:
        """Dispatch rates and limits of what is unacknowledged are for topics that keep entries."""

    def deliver(self, view: EntryView, messages: int, size: int) -> None:
        """Hand out so many messages to consumers with permits; the others are dropped."""
        delivered, delivered_size = 0, 0
        if self.dispatcher is not None:
            delivered, delivered_size = self.dispatcher.offer(view)
        if delivered < messages:
            self.drop_rate.add(messages - delivered, size - delivered_size)
            self.topic.dropped.add(messages - delivered, size - delivered_size)

    def on_end_reached(self) -> None:
        """Nothing is read, so there is no end."""

    # A message that was handed over is never redelivered, so there is nothing to acknowledge.

    def on_ack(self, consumer: Consumer, ack: CommandAck) -> None:
        if ack.HasField("request_id"):
            response = CommandAckResponse(consumer_id=consumer.id, request_id=ack.request_id)
            consumer.connection.send_command(make_command(response))

    async def close(self) -> None:
        self.disconnect_all()

    def tick(self, now: float) -> None:
        super().tick(now)
        self.drop_rate.tick(now)


class TransientSubscriptions(dict[str, TransientSubscription]):
    """The subscriptions of a non-persistent topic, by name."""

    def __init__(self, topic: NonPersistentTopic) -> None:
        super().__init__()
        self._topic = topic
        self.removed_rate_out: Final = Rate(topic.host.clock.monotonic())

    def open(self, name: str) -> TransientSubscription:
        """The one that a client attaches to."""
        if name not in self:
            check_subscription_limit(self._topic, len(self))
            self[name] = TransientSubscription(self._topic, name)
        return self[name]

    def forget(self, subscription: TransientSubscription) -> None:
        if self.get(subscription.name) is subscription:
            del self[subscription.name]
            self.removed_rate_out.add(subscription.rate.count, subscription.rate.bytes)
        self._topic.touch()

    async def delete(self, name: str, *, force: bool = False) -> None:
        subscription = self.get(name)
        if subscription is None:
            raise SubscriptionNotFound(
                f"Subscription {name} not found for topic {self._topic.name}"
            )
        if subscription.consumer_count and not force:
            raise ResourceBusy("Subscription has active connected consumers")
        await subscription.close()
        self.forget(subscription)


class NonPersistentTopic(Topic):
    def __init__(self, host: TopicHost, name: TopicName, policy: EffectivePolicy) -> None:
        super().__init__(host, name, policy)
        self.subscriptions: Final = TransientSubscriptions(self)
        self.producers = ProducerSet(None, self._keep_epoch)
        self.dropped: Final = Rate(host.clock.monotonic())
        self._next_entry = 0
        self.throttle.limiter = make_limiter(policy.publish_rate, now=host.clock.monotonic())

    async def _keep_epoch(self, epoch: int) -> None:
        """Nothing of a non-persistent topic outlives the broker, its epoch neither."""

    def last_sequence(self, producer_name: str) -> int:
        return -1

    def publish(self, producer: Producer, run: SendRun) -> None:
        refusal = self.refusal_of(run)
        if refusal is not None:
            producer.refuse(run, refusal)
            return
        size, messages = sum(map(len, run.entries)), sum(run.counts)
        self.rate_in.add(messages, size)
        producer.rate.add(messages, size)
        self.last_publish_ms = self.host.clock.now_ms()
        self.throttle.spend(producer.connection, messages, size)
        view = EntryView(0, self._next_entry, run.entries, run.counts)
        self._next_entry += len(run.entries)
        for subscription in list(self.subscriptions.values()):
            subscription.deliver(view, messages, size)
        receipts = b"".join(
            producer.receipts.encode([sequence], [highest], 0, 0)
            for sequence, highest in zip(run.sequences, run.highests, strict=True)
        )
        producer.answer_at_once(receipts)

    async def subscribe(self, consumer: Consumer, request: CommandSubscribe) -> None:
        self._check_consumers(self.subscriptions.values())
        await self.subscriptions.open(request.subscription).add_consumer(consumer)

    @property
    def entries_added(self) -> int:
        """Entries published since the topic was loaded."""
        return self._next_entry

    def has_clients(self) -> bool:
        return bool(len(self.producers)) or bool(self.subscriptions)

    @property
    def properties(self) -> Mapping[str, str]:
        return {}

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        if properties:
            raise NotAcceptable("Need to provide a persistent topic name")

    def on_policies_changed(self, policy: EffectivePolicy) -> None:
        self.policy = policy
        self.throttle.limiter = make_limiter(policy.publish_rate, now=self.host.clock.monotonic())

    async def close(self) -> None:
        self.disconnect_producers()
        for subscription in list(self.subscriptions.values()):
            await subscription.close()

    async def delete(self) -> None:
        await self.close()

    def tick(self, now: float) -> None:
        for rate in (
            self.rate_in,
            self.chunks_in,
            self.dropped,
            self.subscriptions.removed_rate_out,
        ):
            rate.tick(now)
        for producer in self.producers:
            producer.rate.tick(now)
            producer.chunk_rate.tick(now)
        for subscription in self.subscriptions.values():
            subscription.tick(now)
