"""A persistent topic: a log, its producers, its subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from magnetar.broker.access import ProducerSet
from magnetar.broker.compaction import CURSOR_NAME as COMPACTION_CURSOR
from magnetar.broker.compaction import Compactor
from magnetar.broker.consumer import Consumer
from magnetar.broker.dedup import CURSOR_NAME as DEDUP_CURSOR
from magnetar.broker.dedup import Deduplicator
from magnetar.broker.dispatch.dispatcher import Source
from magnetar.broker.entry import metadata_or_none, published_ms
from magnetar.broker.limiter import RateLimiter
from magnetar.broker.producer import Producer
from magnetar.broker.publication import Publication
from magnetar.broker.stats import persistent_internal_stats, persistent_stats
from magnetar.broker.subscription import Subscription
from magnetar.broker.topic import Topic
from magnetar.errors import (
    BrokerError,
    Conflict,
    ConsumerBusy,
    EntryNotFound,
    NotAllowed,
    ProducerBusy,
    QuotaExceeded,
    QuotaHold,
    ResourceBusy,
    SubscriptionNotFound,
    TopicFenced,
    TopicTerminated,
)
from magnetar.ledger.chain import Chain
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.rules.policy import EffectivePolicy
from magnetar.runtime.rate import Rate
from magnetar.wire.command import CommandSubscribe
from magnetar.wire.run import SendRun

if TYPE_CHECKING:
    from magnetar.broker.service import Service

EPOCH_PROPERTY: Final = "pulsar.topic.epoch"
INTERNAL_CURSORS: Final = frozenset({DEDUP_CURSOR, COMPACTION_CURSOR})


class PersistentTopic(Topic):
    def __init__(
        self, service: Service, name: TopicName, policy: EffectivePolicy, chain: Chain
    ) -> None:
        super().__init__(service, name, policy)
        self.chain = chain
        self.subscriptions: dict[str, Subscription] = {}
        self.dedup: Deduplicator | None = None
        self.compactor = Compactor(self)
        self._publication = Publication(self)
        self._terminating: asyncio.Event | None = None
        self.dispatch_limiter: RateLimiter | None = None
        self.quota_refusal: BrokerError | None = None
        epoch = chain.properties.get(EPOCH_PROPERTY)
        self.producers = ProducerSet(None if epoch is None else int(epoch), self._store_epoch)
        self.removed_rate_out = Rate(service.clock.monotonic())
        """What subscriptions that are gone have delivered, so that the topic's counters never go
        back.
        """

    @classmethod
    async def open(
        cls, service: Service, name: TopicName, policy: EffectivePolicy, chain: Chain
    ) -> PersistentTopic:
        topic = cls(service, name, policy, chain)
        for cursor_name, cursor in chain.cursors.items():
            if cursor_name not in INTERNAL_CURSORS:
                topic.subscriptions[cursor_name] = Subscription(
                    topic, cursor_name, cursor, durable=True
                )
        if policy.dedup_enabled:
            topic.dedup = await Deduplicator.open(topic)
        await topic.compactor.open()
        chain.appended.append(topic._on_appended)
        topic._apply_limits()
        return topic

    # ------------------------------------------------------------------ producers

    async def add_producer(self, producer: Producer) -> Any:
        """Let a producer in; a future means it waits for its turn."""
        while self._terminating is not None:
            await self._terminating.wait()
        if self.closed:
            raise TopicFenced(f"Topic {self.name} is closing")
        if self.chain.terminated is not None:
            raise TopicTerminated(f"Topic {self.name} was terminated")
        limit = self.policy.max_producers
        if (
            limit
            and len(self.producers) >= limit
            and not producer.name.startswith("multiTopicsReader-")
        ):
            raise ProducerBusy("Topic reached max producers limit")
        if self.quota_refusal is not None:
            raise self.quota_refusal
        if self.policy.encryption_required and not producer.encrypted:
            raise NotAllowed(f"Encryption is required in {self.name}")
        return await self.producers.add(producer)

    async def _store_epoch(self, epoch: int) -> None:
        await self.chain.set_properties({**self.chain.properties, EPOCH_PROPERTY: str(epoch)})

    def last_sequence(self, producer_name: str) -> int:
        return self.dedup.last_sequence(producer_name) if self.dedup is not None else -1

    # ------------------------------------------------------------------ publishing

    def publish(self, producer: Producer, run: SendRun) -> None:
        self._publication.publish(producer, run)

    def _on_appended(self) -> None:
        self.last_publish_ms = self.service.clock.now_ms()
        for subscription in self.subscriptions.values():
            if subscription.dispatcher is not None:
                subscription.dispatcher.wake()

    # ------------------------------------------------------------------ subscriptions

    async def subscribe(self, consumer: Consumer, request: CommandSubscribe) -> None:
        """Attach a consumer; `request` is the SUBSCRIBE command, already checked for form."""
        if self.closed:
            raise TopicFenced(f"Topic {self.name} is closing")
        limit = self.policy.max_consumers
        if limit and sum(len(s.consumers) for s in self.subscriptions.values()) >= limit:
            raise ConsumerBusy("Topic reached max consumers limit")
        subscription = self.subscriptions.get(request.subscription)
        if subscription is not None and subscription.durable != request.durable:
            kind = "durable" if subscription.durable else "not durable"
            raise NotAllowed(f"Subscription {request.subscription} is {kind}")
        if subscription is None:
            subscription = await self._open_subscription(request)
        await subscription.add_consumer(consumer)

    async def _open_subscription(self, request: CommandSubscribe) -> Subscription:
        name = request.subscription
        self._check_subscription_limit()
        if not request.durable:
            start = await self._reader_start(request)
            cursor = self.chain.transient_cursor(name, start)
            subscription = Subscription(self, name, cursor, durable=False)
            self.subscriptions[name] = subscription
            return subscription
        if not self.policy.auto_subscription_creation:
            raise SubscriptionNotFound(
                f"Subscription {name} does not exist and may not be created by attaching"
            )
        earliest = request.initialPosition == 1
        start = EARLIEST if earliest else LATEST
        if request.start_message_rollback_duration_sec > 0:
            age_ms = request.start_message_rollback_duration_sec * 1000
            start = await self.position_at(self.service.clock.now_ms() - age_ms)
        properties = {each.key: each.value for each in request.subscription_properties}
        return await self.create_subscription(
            name,
            position=start,
            properties=properties,
            replicated=request.replicate_subscription_state,
        )

    async def _reader_start(self, request: CommandSubscribe) -> Position:
        from_initial = EARLIEST if request.initialPosition == 1 else LATEST
        if request.start_message_rollback_duration_sec > 0:
            age_ms = request.start_message_rollback_duration_sec * 1000
            return await self.position_at(self.service.clock.now_ms() - age_ms)
        if not request.HasField("start_message_id"):
            return from_initial
        ledger_id, entry_id = request.start_message_id.ledgerId, request.start_message_id.entryId
        if ledger_id >= 2**63:
            return EARLIEST
        if ledger_id == LATEST.ledger_id:
            return LATEST
        position = Position(ledger_id, -1 if entry_id >= 2**63 else entry_id)
        if position > self.chain.last_position:
            return from_initial
        return position

    def _check_subscription_limit(self) -> None:
        limit = self.policy.max_subscriptions
        if limit and len(self.subscriptions) >= limit:
            raise NotAllowed(
                f"Exceed the maximum number of subscriptions of the topic: {self.name}"
            )

    async def create_subscription(
        self,
        name: str,
        *,
        position: Position = LATEST,
        properties: Mapping[str, str] | None = None,
        replicated: bool = False,
    ) -> Subscription:
        """`position` is the first entry to read."""
        if name in self.subscriptions:
            raise Conflict("Subscription already exists for topic")
        self._check_subscription_limit()
        if position not in (EARLIEST, LATEST):
            position = max(position, self.chain.first_position)
        cursor = await self.chain.open_cursor(
            name, start=position, properties={}, cursor_properties=dict(properties or {})
        )
        if name in self.subscriptions:  # somebody else attached while the cursor was being made
            return self.subscriptions[name]
        subscription = Subscription(self, name, cursor, durable=True)
        subscription.replicated = replicated
        self.subscriptions[name] = subscription
        return subscription

    async def delete_subscription(self, name: str, *, force: bool = False) -> None:
        subscription = self.subscriptions.get(name)
        if subscription is None:
            raise SubscriptionNotFound(f"Subscription {name} not found for topic {self.name}")
        if subscription.consumers and not force:
            raise ResourceBusy("Subscription has active connected consumers")
        await subscription.close()
        self._forget(subscription)
        if subscription.durable:
            await self.chain.delete_cursor(name)

    def remove_transient(self, subscription: Subscription) -> None:
        """A reader left: its cursor lived in memory only."""
        if self.subscriptions.get(subscription.name) is subscription:
            if subscription.dispatcher is not None:
                subscription.dispatcher.close()
            self._forget(subscription)
            self.service.tasks.start(subscription.cursor.close(), name="close reader")

    def _forget(self, subscription: Subscription) -> None:
        self.subscriptions.pop(subscription.name, None)
        self.removed_rate_out.add(subscription.rate.count, subscription.rate.bytes)
        self.last_active_ms = self.service.clock.now_ms()

    def source(self, *, read_compacted: bool) -> Source:
        return self.compactor.view() if read_compacted else self.chain

    # ------------------------------------------------------------------ reading and asking

    async def last_message_id(self) -> tuple[Position, int]:
        """The last entry a consumer could see, and the index of the last message in its batch."""
        position = self.chain.last_position
        if not self.chain.total_entries or position.entry_id < 0:
            return EARLIEST, -1
        run = await self.chain.read(position, 1, 1)
        if run is None:
            return position, -1
        metadata = metadata_or_none(run.data[0])
        is_batch = metadata is not None and metadata.HasField("num_messages_in_batch")
        return position, run.counts[0] - 1 if is_batch else -1

    async def position_at(self, timestamp_ms: int) -> Position:
        """The first entry published at or after a time; the end when there is none."""
        found = await self.chain.find_first(lambda entry: published_ms(entry) >= timestamp_ms)
        return self.chain.next_position(self.chain.last_position) if found is None else found

    async def read_entry(self, position: Position) -> bytes:
        run = None
        if self.chain.first_position <= position <= self.chain.last_position:
            run = await self.chain.read(position, 1, 1)
        if run is None or (run.ledger_id, run.first) != position:
            raise EntryNotFound(f"Message not found: {position}")
        return run.data[0]

    @property
    def properties(self) -> Mapping[str, str]:
        return {k: v for k, v in self.chain.properties.items() if not k.startswith("pulsar.")}

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        kept = {k: v for k, v in self.chain.properties.items() if k.startswith("pulsar.")}
        await self.chain.set_properties({**kept, **properties})

    def stats(self, **options: bool) -> dict[str, Any]:
        return persistent_stats(self, **options)

    def internal_stats(self) -> dict[str, Any]:
        return persistent_internal_stats(self)

    def has_clients(self) -> bool:
        return bool(len(self.producers)) or any(s.consumers for s in self.subscriptions.values())

    # ------------------------------------------------------------------ administration

    async def terminate(self) -> Position:
        """Take no more messages. Producers are sent away first and hear the reason when they come
        back: an error for a message on its way would leave some clients waiting.
        """
        while self._terminating is not None:
            await self._terminating.wait()
        self._terminating = asyncio.Event()
        for producer in self.producers:
            producer.disconnect()
        try:
            last = await self.chain.terminate()
        finally:
            self._terminating.set()
            self._terminating = None
        self.producers.fail_waiting(TopicTerminated(f"Topic {self.name} was terminated"))
        for subscription in self.subscriptions.values():
            for consumer in subscription.consumers:
                subscription.on_end_reached(consumer)
        return last

    async def start_compaction(self) -> None:
        await self.compactor.start()

    def compaction_status(self) -> dict[str, Any]:
        return self.compactor.status()

    async def trim(self) -> None:
        await self.chain.trim()

    async def truncate(self) -> None:
        """Acknowledge everything everywhere, then let go of every ledger but the current one."""
        for subscription in list(self.subscriptions.values()):
            await subscription.skip_all()
        await self.chain.roll()
        await self.chain.trim()

    # ------------------------------------------------------------------ policies

    def on_policies_changed(self) -> None:
        self.policy = self.service.policies.effective(self.name)
        self._apply_limits()
        if self.policy.dedup_enabled != (self.dedup is not None):
            self.service.tasks.start(self._switch_dedup(), name="deduplication")

    def _apply_limits(self) -> None:
        self.chain.policy = self.service.chain_policy(self.policy)
        self.publish_limiter = self._make_limiter(self.policy.publish_rate)
        self.dispatch_limiter = self._make_limiter(self.policy.dispatch_rate)
        for subscription in self.subscriptions.values():
            subscription.apply_policy()

    async def _switch_dedup(self) -> None:
        if self.policy.dedup_enabled and self.dedup is None:
            self.dedup = await Deduplicator.open(self)
        elif not self.policy.dedup_enabled and self.dedup is not None:
            self.dedup = None
            await self.chain.delete_cursor(DEDUP_CURSOR)

    def refuse_producers(self, refusal: QuotaHold | QuotaExceeded | None) -> None:
        """The backlog quota is exceeded (or no longer): producers are sent away and kept out."""
        changed = (self.quota_refusal is None) != (refusal is None)
        self.quota_refusal = refusal
        if refusal is not None and changed:
            for producer in self.producers:
                producer.disconnect()

    # ------------------------------------------------------------------ the end

    async def close(self, *, tell_clients: bool = True) -> None:
        """Fence, tell the clients to come back, make everything durable."""
        if self.closed:
            return
        self.closed = True
        self.producers.fail_waiting(TopicFenced(f"Topic {self.name} is closing"))
        for producer in self.producers:
            producer.disconnect() if tell_clients else producer.detach()
        for subscription in list(self.subscriptions.values()):
            await subscription.close()
        await self.compactor.close()
        if self.dedup is not None:
            await self.dedup.close()
        await self.chain.close()

    async def delete(self) -> None:
        self.closed = True
        self.producers.fail_waiting(TopicFenced(f"Topic {self.name} is being deleted"))
        for producer in self.producers:
            producer.disconnect()
        for subscription in list(self.subscriptions.values()):
            await subscription.close()
        await self.compactor.close()
        await self.compactor.delete()
        await self.chain.delete()

    def tick(self, now: float) -> None:
        for rate in (self.rate_in, self.chunks_in, self.removed_rate_out):
            rate.tick(now)
        for producer in self.producers:
            producer.rate.tick(now)
            producer.chunk_rate.tick(now)
        for subscription in self.subscriptions.values():
            subscription.tick(now)
