"""A topic that keeps nothing: a message goes to whoever is there and has permits, or is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from magnetar.broker.access import ProducerSet
from magnetar.broker.consumer import Consumer, SubscriptionType
from magnetar.broker.dispatch.choice import check_agreement
from magnetar.broker.dispatch.selector import (
    ConsumerSelector,
    add_to,
    make_selector,
    rival_in,
)
from magnetar.broker.entry import metadata_or_none
from magnetar.broker.producer import Producer
from magnetar.broker.stats import transient_internal_stats, transient_stats
from magnetar.broker.topic import Topic
from magnetar.errors import (
    Conflict,
    ConsumerBusy,
    MethodNotAllowed,
    NotAcceptable,
    NotAllowed,
    ResourceBusy,
    SubscriptionNotFound,
    TopicFenced,
)
from magnetar.model.name import TopicName
from magnetar.model.position import Position
from magnetar.rules.failover import Candidate, choose_active
from magnetar.rules.policy import EffectivePolicy
from magnetar.runtime.rate import Rate
from magnetar.wire.command import (
    CommandAck,
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandRedeliverUnacknowledgedMessages,
    CommandSubscribe,
    make_command,
)
from magnetar.wire.entry import sticky_key, strip_checksum
from magnetar.wire.run import SendRun, encode_message

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class TransientSubscription:
    """Consumers of one name on a non-persistent topic; there is no cursor."""

    def __init__(self, topic: NonPersistentTopic, name: str, kind: SubscriptionType) -> None:
        self.topic = topic
        self.name = name
        self.kind = kind
        self.rate = Rate(topic.service.clock.monotonic())
        self.drop_rate = Rate(topic.service.clock.monotonic())
        self.consumers: list[Consumer] = []
        self.active: Consumer | None = None
        self.last_consumed_ms = 0
        self._turn = 0
        self._joining = 0
        self._selector: ConsumerSelector | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        return {}

    async def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer. Whoever keeps it out is asked for a sign of life before it is
        refused.
        """
        alive: set[Consumer] = set()
        self._joining += 1
        try:
            while True:
                self._check_newcomer(consumer)
                rival = self._rival_of(consumer)
                if rival is None or rival in alive or rival.connection is consumer.connection:
                    break
                if await rival.connection.is_alive():
                    alive.add(rival)
                else:
                    rival.detach()
            self._join(consumer)
        finally:
            self._joining -= 1
            self._leave_if_unused()

    def _check_newcomer(self, consumer: Consumer) -> None:
        if self.topic.closed:
            raise TopicFenced(f"Topic {self.topic.name} is closing")
        if self.consumers:
            check_agreement(self.consumers[0], consumer)
        limit = self.topic.policy.max_consumers_per_subscription
        if limit and len(self.consumers) >= limit:
            raise ConsumerBusy("Subscription reached max consumers limit")

    def _rival_of(self, consumer: Consumer) -> Consumer | None:
        if not self.consumers:
            return None
        if consumer.kind is SubscriptionType.EXCLUSIVE:
            return self.consumers[0]
        return None if self._selector is None else rival_in(self._selector, consumer)

    def _join(self, consumer: Consumer) -> None:
        if consumer.kind is SubscriptionType.EXCLUSIVE and self.consumers:
            raise ConsumerBusy("Exclusive consumer is already connected")
        if not self.consumers:
            self.kind = consumer.kind
            self._selector = None
        if consumer.kind is SubscriptionType.KEY_SHARED:
            config = self.topic.service.config
            selector = self._selector or make_selector(config, is_sticky=consumer.is_sticky)
            self._selector = add_to(selector, consumer)
        consumer.subscription = self
        self.consumers.append(consumer)
        self._elect(newcomer=consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            if self._selector is not None:
                self._selector = self._selector.remove(consumer)
            if self.active is consumer:
                self.active = None
            self._elect()
        self._leave_if_unused()

    def _leave_if_unused(self) -> None:
        if not self.consumers and not self._joining:
            self.topic.forget(self)

    def _elect(self, newcomer: Consumer | None = None) -> None:
        if self.kind.is_individual or not self.consumers:
            return
        candidates = [Candidate(each.name, each.priority) for each in self.consumers]
        name = self.topic.name
        chosen = choose_active(candidates, topic=name.full, partition_index=name.partition_index)
        previous, self.active = self.active, self.consumers[chosen]
        if self.kind is not SubscriptionType.FAILOVER:
            return
        for consumer in self.consumers:
            if previous is not self.active or consumer is newcomer:
                self._notify(consumer)

    def _notify(self, consumer: Consumer) -> None:
        """Tell a consumer after the answer to its SUBSCRIBE: some drop what comes before."""
        if consumer.connection.protocol_version >= 12:
            change = CommandActiveConsumerChange(
                consumer_id=consumer.id, is_active=consumer is self.active
            )
            loop = self.topic.service.loop
            loop.call_soon(consumer.connection.send_command, make_command(change))

    def deliver(self, position: Position, entry: bytes, count: int) -> None:
        consumer = self._choose(entry)
        if consumer is None or not consumer.can_receive:
            self.drop_rate.add(count, len(entry))
            self.topic.dropped.add(count, len(entry))
            return
        partition = self.topic.name.partition_index
        known = entry if consumer.knows_checksums else strip_checksum(entry)
        consumer.connection.send(encode_message(consumer.id, *position, known, partition=partition))
        consumer.permits -= count
        consumer.rate.add(count, len(entry))
        self.rate.add(count, len(entry))
        now_ms = self.topic.service.clock.now_ms()
        consumer.last_consumed_ms = self.last_consumed_ms = now_ms
        if not consumer.first_consumed_ms:
            consumer.first_consumed_ms = now_ms

    def _choose(self, entry: bytes) -> Consumer | None:
        match self.kind:
            case SubscriptionType.EXCLUSIVE | SubscriptionType.FAILOVER:
                return self.active
            case SubscriptionType.SHARED:
                ready = [consumer for consumer in self.consumers if consumer.can_receive]
                self._turn += 1
                return ready[self._turn % len(ready)] if ready else None
            case SubscriptionType.KEY_SHARED:
                if self._selector is None:
                    return None
                metadata = metadata_or_none(entry)
                slot = 1 if metadata is None else self._selector.slot_of(sticky_key(metadata))
                return self._selector.owner(slot)

    # A message that was handed over is never given again, so there is nothing to acknowledge or
    # repeat.

    def on_flow(self, consumer: Consumer) -> None:
        """Permits are looked at when a message comes."""

    def on_ack(self, consumer: Consumer, ack: CommandAck) -> None:
        if ack.HasField("request_id"):
            response = CommandAckResponse(consumer_id=consumer.id, request_id=ack.request_id)
            consumer.connection.send_command(make_command(response))

    def on_redeliver(
        self, consumer: Consumer, command: CommandRedeliverUnacknowledgedMessages
    ) -> None:
        """Nothing is kept that could be delivered again."""

    async def close(self) -> None:
        for consumer in list(self.consumers):
            consumer.disconnect()

    async def _refuse(self, *_: Any, **__: Any) -> Any:
        raise MethodNotAllowed("This operation needs a persistent topic")

    reset_to_time = reset_to_position = skip = skip_all = expire = expire_to = peek = _refuse
    set_properties = seek = _refuse

    def tick(self, now: float) -> None:
        self.rate.tick(now)
        self.drop_rate.tick(now)
        for consumer in self.consumers:
            consumer.tick(now)


class NonPersistentTopic(Topic):
    def __init__(self, service: Service, name: TopicName, policy: EffectivePolicy) -> None:
        super().__init__(service, name, policy)
        self.subscriptions: dict[str, TransientSubscription] = {}
        self.producers = ProducerSet(None, self._keep_epoch)
        self.dropped = Rate(service.clock.monotonic())
        self.removed_rate_out = Rate(service.clock.monotonic())
        self._next_entry = 0
        self.publish_limiter = self._make_limiter(policy.publish_rate)

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
        self.last_publish_ms = self.service.clock.now_ms()
        if self.publish_limiter is not None:
            self.throttle(producer, messages, size)
        for entry, count in zip(run.entries, run.counts, strict=True):
            position = Position(0, self._next_entry)
            self._next_entry += 1
            for subscription in list(self.subscriptions.values()):
                subscription.deliver(position, entry, count)
        receipts = b"".join(
            producer.receipts.encode([sequence], [highest], 0, 0)
            for sequence, highest in zip(run.sequences, run.highests, strict=True)
        )
        producer.answer_at_once(receipts)

    async def subscribe(self, consumer: Consumer, request: CommandSubscribe) -> None:
        self._check_consumers(sum(len(s.consumers) for s in self.subscriptions.values()))
        subscription = self.subscriptions.get(request.subscription)
        if subscription is None:
            limit = self.policy.max_subscriptions
            if limit and len(self.subscriptions) >= limit:
                raise NotAllowed(
                    f"Exceed the maximum number of subscriptions of the topic: {self.name}"
                )
            subscription = TransientSubscription(self, request.subscription, consumer.kind)
            self.subscriptions[request.subscription] = subscription
        await subscription.add_consumer(consumer)

    def forget(self, subscription: TransientSubscription) -> None:
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            self.removed_rate_out.add(subscription.rate.count, subscription.rate.bytes)
        self.last_active_ms = self.service.clock.now_ms()

    async def create_subscription(self, name: str, **_: Any) -> Any:
        raise Conflict(
            "Create subscription on non-persistent topic can only be done through client"
        )

    async def delete_subscription(self, name: str, *, force: bool = False) -> None:
        subscription = self.subscriptions.get(name)
        if subscription is None:
            raise SubscriptionNotFound(f"Subscription {name} not found for topic {self.name}")
        if subscription.consumers and not force:
            raise ResourceBusy("Subscription has active connected consumers")
        await subscription.close()
        self.forget(subscription)

    @property
    def entries_added(self) -> int:
        """Entries published since the topic was loaded."""
        return self._next_entry

    def has_clients(self) -> bool:
        return bool(len(self.producers)) or bool(self.subscriptions)

    def stats(self, **options: bool) -> dict[str, Any]:
        return transient_stats(self, **options)

    def internal_stats(self) -> dict[str, Any]:
        return transient_internal_stats(self)

    @property
    def properties(self) -> Mapping[str, str]:
        return {}

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        if properties:
            raise NotAcceptable("Need to provide a persistent topic name")

    async def _refuse(self, *_: Any, **__: Any) -> Any:
        raise MethodNotAllowed("This operation needs a persistent topic")

    terminate = start_compaction = trim = truncate = last_message_id = position_at = read_entry = (
        _refuse
    )

    def compaction_status(self) -> dict[str, Any]:
        raise MethodNotAllowed("A non-persistent topic is not compacted")

    def on_policies_changed(self, policy: EffectivePolicy) -> None:
        self.policy = policy
        self.publish_limiter = self._make_limiter(self.policy.publish_rate)

    async def close(self, *, tell_clients: bool = True) -> None:
        self.closed = True
        self.producers.close(TopicFenced(f"Topic {self.name} is closing"))
        for producer in self.producers:
            producer.disconnect() if tell_clients else producer.detach()
        for subscription in list(self.subscriptions.values()):
            await subscription.close()

    async def delete(self) -> None:
        await self.close()

    def tick(self, now: float) -> None:
        for rate in (self.rate_in, self.chunks_in, self.dropped, self.removed_rate_out):
            rate.tick(now)
        for producer in self.producers:
            producer.rate.tick(now)
            producer.chunk_rate.tick(now)
        for subscription in self.subscriptions.values():
            subscription.tick(now)
