"""A persistent topic: a log, its producers, its subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from magnetar.broker.access import ProducerSet
from magnetar.broker.compaction import Compactor
from magnetar.broker.consumer import Consumer
from magnetar.broker.dedup import Deduplicator, Verdict
from magnetar.broker.default import plan_log
from magnetar.broker.dispatch.backlog import Source
from magnetar.broker.entry import delay_ms, metadata_or_none, published_ms
from magnetar.broker.limiter import RateLimiter
from magnetar.broker.producer import Producer
from magnetar.broker.scalable.guard import check_readable, check_writable
from magnetar.broker.start import find_start
from magnetar.broker.stats import persistent_internal_stats, persistent_stats
from magnetar.broker.subscription import Subscription
from magnetar.broker.termination import Termination
from magnetar.broker.topic import Topic
from magnetar.errors import (
    BrokerError,
    Conflict,
    EntryNotFound,
    NotAllowed,
    QuotaExceeded,
    QuotaHold,
    ResourceBusy,
    ServiceNotReady,
    StorageFailed,
    SubscriptionNotFound,
    TopicFenced,
    TopicTerminated,
    TransactionsNotSupported,
)
from magnetar.ledger.log import Log
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.subscription import DEDUP_CURSOR, INTERNAL_CURSORS, check_subscription_name
from magnetar.rules.policy import EffectivePolicy
from magnetar.runtime.rate import Rate
from magnetar.wire.command import CommandSubscribe
from magnetar.wire.run import SendRun

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_NOWHERE: Final = 2**64 - 1
EPOCH_PROPERTY: Final = "pulsar.topic.epoch"


class PersistentTopic(Topic):
    log: Log

    def __init__(
        self, service: Service, name: TopicName, policy: EffectivePolicy, log: Log
    ) -> None:
        super().__init__(service, name, policy)
        self.log = log
        self.subscriptions: dict[str, Subscription] = {}
        self.compactor = Compactor(self)
        self.termination = Termination(self)
        self.successor: TopicName | None = None
        """The scalable topic that this one has become a part of."""
        self.dispatch_limiter: RateLimiter | None = None
        self.quota_refusal: BrokerError | None = None
        self._batch_max = service.limits.batch_messages
        self.is_choosy = True
        """Whether messages themselves must be looked at before they are taken."""
        self._is_switching = False
        epoch = log.record.properties.get(EPOCH_PROPERTY)
        self.producers = ProducerSet(None if epoch is None else int(epoch), self._store_epoch)
        self.removed_rate_out = Rate(service.clock.monotonic())
        """What subscriptions that are gone have delivered, so that the topic's counters never go
        back.
        """

    @classmethod
    async def open(
        cls, service: Service, name: TopicName, policy: EffectivePolicy, log: Log
    ) -> PersistentTopic:
        topic = cls(service, name, policy, log)
        for cursor_name, cursor in log.cursors.items():
            if cursor_name not in INTERNAL_CURSORS:
                topic.subscriptions[cursor_name] = Subscription(
                    topic,
                    cursor_name,
                    cursor,
                    durable=True,
                    from_start=cursor.mark_delete.entry_id < 0,
                )
        if policy.dedup_enabled:
            topic.dedup = await Deduplicator.open(topic)
        await topic.compactor.open()
        log.appended.append(topic._on_appended)
        log.record.fenced.append(topic._on_fenced)
        return topic

    # ------------------------------------------------------------------ producers

    async def add_producer(self, producer: Producer) -> asyncio.Future[None] | None:
        """Let a producer in; a future means it waits for its turn."""
        await self.termination.wait()
        check_writable(self)
        if self.quota_refusal is not None:
            raise self.quota_refusal
        if self.policy.dedup_enabled and self.dedup is None:
            self.service.tasks.start(self._switch_dedup(), name="deduplication")
            raise ServiceNotReady(f"The deduplication of {self.name} is being opened; try again")
        return await super().add_producer(producer)

    def on_producer_idle(self, producer: Producer) -> None:
        if self.termination.is_under_way:
            self.termination.on_quiet()

    def remove_producer(self, producer: Producer) -> None:
        super().remove_producer(producer)
        self.termination.on_quiet()

    async def _store_epoch(self, epoch: int) -> None:
        record = self.log.record
        await record.set_properties({**record.properties, EPOCH_PROPERTY: str(epoch)})

    def last_sequence(self, producer_name: str) -> int:
        return self.dedup.last_sequence(producer_name) if self.dedup is not None else -1

    # ------------------------------------------------------------------ publishing

    def publish(self, producer: Producer, run: SendRun) -> None:
        if self.termination.is_under_way:
            return  # its client is about to hear that it must send this elsewhere
        is_plain = not (producer.failed or run.corrupt or self.is_choosy or self.closed)
        is_usual = run.command is None and run.most <= self._batch_max
        if not is_plain or not is_usual or self.termination.is_over:
            refusal = self.refusal_of(run)
            if producer.failed:
                # Something before this is not stored: taking it would store it out of order.
                refusal = StorageFailed("An earlier message could not be stored")
            if refusal is not None:
                producer.refuse(run, refusal)
                return
        if self.dedup is None:
            self._append(producer, run)
            return
        for verdict, part in self.dedup.sort(producer.name, run):
            match verdict:
                case Verdict.ACCEPT:
                    self._append(producer, part)
                case Verdict.DUPLICATE:
                    receipts = b"".join(
                        producer.receipts.encode([sequence], [highest], _NOWHERE, _NOWHERE)
                        for sequence, highest in zip(part.sequences, part.highests, strict=True)
                    )
                    producer.answer_at_once(receipts)
                case Verdict.UNKNOWN:
                    producer.refuse(
                        part, StorageFailed("Cannot determine whether the message is a duplicate")
                    )

    def refusal_of(self, run: SendRun) -> BrokerError | None:
        if self.termination.is_over:
            return TopicTerminated(f"Topic {self.name} was terminated")
        if run.command is not None:
            if run.command.HasField("message_id"):
                return NotAllowed("Only a shadow topic accepts message ids")
            if run.command.marker:  # no message, so no consumer may get it
                return NotAllowed("Markers are for replication, which this broker does not do")
            if run.command.txnid_most_bits or run.command.txnid_least_bits:
                return TransactionsNotSupported("transactions are not supported by this broker")
        limit_ms = self.policy.delayed_delivery_max_delay_ms
        if limit_ms > 0 and any(delay_ms(entry) > limit_ms for entry in run.entries):
            return NotAllowed(f"Exceeds max allowed delivery delay of {limit_ms} milliseconds")
        return super().refusal_of(run)

    def _append(self, producer: Producer, run: SendRun) -> None:
        size = run.size = sum(map(len, run.entries))
        messages = len(run) if run.most == 1 else sum(run.counts)
        producer.rate.add(messages, size)
        self.rate_in.add(messages, size)
        if run.command is not None and run.command.is_chunk:
            self.chunks_in.add(1, size)
            producer.chunk_rate.add(1, size)
        if self.publish_limiter is not None:
            self.throttle(producer, messages, size)
        producer.append(run, self.log)

    def _on_appended(self) -> None:
        self.last_publish_ms = self.service.clock.now_ms()
        for subscription in self.subscriptions.values():
            if subscription.dispatcher is not None:
                subscription.dispatcher.wake()

    # ------------------------------------------------------------------ subscriptions

    async def subscribe(self, consumer: Consumer, request: CommandSubscribe) -> None:
        """Attach a consumer; `request` is the SUBSCRIBE command, already checked for form."""
        await self.termination.wait()
        check_readable(self, consumer, request)
        self._check_consumers(sum(len(s.consumers) for s in self.subscriptions.values()))
        subscription = self.subscriptions.get(request.subscription)
        if subscription is None:
            subscription = await self._open_subscription(request)
        if subscription.durable != request.durable:
            kind = "durable" if subscription.durable else "not durable"
            raise NotAllowed(f"Subscription {request.subscription} is {kind}")
        if request.durable and (self.successor or self.name.domain is TopicDomain.SEGMENT):
            await self.service.scalable.on_subscribed(self.name, request)
        await subscription.add_consumer(consumer)

    async def _open_subscription(self, request: CommandSubscribe) -> Subscription:
        name = request.subscription
        self._check_subscription_limit()
        if request.durable and not self.policy.auto_subscription_creation:
            raise SubscriptionNotFound(
                f"Subscription {name} does not exist and may not be created by attaching"
            )
        start = await find_start(self, request)
        if name in self.subscriptions:  # somebody else attached meanwhile
            return self.subscriptions[name]
        if not request.durable:
            return self._open_reader(name, start)
        return await self.create_subscription(
            name,
            position=start,
            properties={each.key: each.value for each in request.subscription_properties},
            replicated=request.replicate_subscription_state,
        )

    def _open_reader(self, name: str, start: Position) -> Subscription:
        if self.closed:
            raise TopicFenced(f"Topic {self.name} is closing")
        cursor = self.log.cursors.open_transient(name, start)
        from_start = start == EARLIEST
        subscription = Subscription(self, name, cursor, durable=False, from_start=from_start)
        self.subscriptions[name] = subscription
        return subscription

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
        is_limited: bool = True,
    ) -> Subscription:
        """`position` is the first entry to read."""
        check_subscription_name(name)
        await self.termination.wait()
        if name in self.subscriptions:
            raise Conflict("Subscription already exists for topic")
        if is_limited:
            self._check_subscription_limit()
        if position not in (EARLIEST, LATEST):
            position = max(position, self.log.sequence.first_position)
        cursor = await self.log.cursors.open(
            name, start=position, properties={}, cursor_properties=dict(properties or {})
        )
        if self.closed:
            raise TopicFenced(f"Topic {self.name} is closing")
        if name in self.subscriptions:  # somebody else attached while the cursor was being made
            return self.subscriptions[name]
        subscription = Subscription(
            self, name, cursor, durable=True, from_start=position == EARLIEST
        )
        subscription.replicated = replicated
        self.subscriptions[name] = subscription
        return subscription

    async def delete_subscription(self, name: str, *, force: bool = False) -> None:
        check_subscription_name(name)
        subscription = self.subscriptions.get(name)
        if subscription is None:
            raise SubscriptionNotFound(f"Subscription {name} not found for topic {self.name}")
        if subscription.is_closed or (subscription.consumers and not force):
            raise ResourceBusy("Subscription has active connected consumers")
        await subscription.close()
        if not subscription.durable:
            self.remove_transient(subscription)
            return
        try:
            # The subscription stays in its place meanwhile: whoever attaches now must not be given
            # the cursor that goes.
            await self.log.cursors.delete(name)
        except BrokerError:
            subscription.reopen()
            raise
        self._forget(subscription)

    def remove_transient(self, subscription: Subscription) -> None:
        """A reader left: its cursor lived in memory only."""
        if self.subscriptions.get(subscription.name) is subscription:
            if subscription.dispatcher is not None:
                subscription.dispatcher.close()
            self._forget(subscription)
            if not self.closed:  # closing takes the cursors along
                self.service.tasks.start(subscription.cursor.close(), name="close reader")

    def _forget(self, subscription: Subscription) -> None:
        self.subscriptions.pop(subscription.name, None)
        self.removed_rate_out.add(subscription.rate.count, subscription.rate.bytes)
        self.last_active_ms = self.service.clock.now_ms()

    def source(self, *, read_compacted: bool) -> Source:
        return self.compactor.view() if read_compacted else self.log.reader

    # ------------------------------------------------------------------ reading and asking

    async def last_message_id(self) -> tuple[Position, int]:
        """The last entry a consumer could see, and the index of the last message in its batch."""
        position = self.log.sequence.last_position
        if not self.log.sequence.total_entries or position.entry_id < 0:
            return EARLIEST, -1
        run = await self.log.reader.read(position, 1, 1)
        if run is None:
            return position, -1
        metadata = metadata_or_none(run.data[0])
        is_batch = metadata is not None and metadata.HasField("num_messages_in_batch")
        return position, run.counts[0] - 1 if is_batch else -1

    async def position_at(self, timestamp_ms: int) -> Position:
        """The first entry published at or after a time; the end when there is none."""
        found = await self.log.reader.find_first(lambda entry: published_ms(entry) >= timestamp_ms)
        return self.log.sequence.end_position if found is None else found

    async def read_entry(self, position: Position) -> bytes:
        run = None
        if self.log.sequence.first_position <= position <= self.log.sequence.last_position:
            run = await self.log.reader.read(position, 1, 1)
        if run is None or (run.ledger_id, run.first) != position:
            raise EntryNotFound(f"Message not found: {position}")
        return run.data[0]

    @property
    def properties(self) -> Mapping[str, str]:
        return {k: v for k, v in self.log.record.properties.items() if not k.startswith("pulsar.")}

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        kept = {k: v for k, v in self.log.record.properties.items() if k.startswith("pulsar.")}
        await self.log.record.set_properties({**kept, **properties})

    def stats(self, **options: bool) -> dict[str, Any]:
        return persistent_stats(self, **options)

    def internal_stats(self) -> dict[str, Any]:
        return persistent_internal_stats(self)

    def has_clients(self) -> bool:
        return bool(len(self.producers)) or any(s.consumers for s in self.subscriptions.values())

    # ------------------------------------------------------------------ administration

    async def terminate(self) -> Position:
        """Take no more messages, for ever; return the last one."""
        return await self.termination.run()

    async def start_compaction(self) -> None:
        await self.compactor.start()

    def compaction_status(self) -> dict[str, Any]:
        return self.compactor.status()

    async def trim(self) -> None:
        await self.log.trim()

    async def truncate(self) -> None:
        """Acknowledge everything everywhere, then let go of every ledger but the current one."""
        for subscription in list(self.subscriptions.values()):
            await subscription.skip_all()
        await self.log.roll()
        await self.log.trim()

    # ------------------------------------------------------------------ policies

    def on_policies_changed(self, policy: EffectivePolicy) -> None:
        self.policy = policy
        self._apply_limits()
        if self.policy.dedup_enabled != (self.dedup is not None) and not self.closed:
            self.service.tasks.start(self._switch_dedup(), name="deduplication")

    def _apply_limits(self) -> None:
        self.is_choosy = self.policy.is_choosy(self.service.config.maxMessageSize)
        self.log.policy = plan_log(self.policy)
        self.publish_limiter = self.make_limiter(self.policy.publish_rate)
        self.dispatch_limiter = self.make_limiter(self.policy.dispatch_rate)
        for subscription in self.subscriptions.values():
            subscription.apply_policy()

    async def _switch_dedup(self) -> None:
        if self._is_switching:
            return  # the one under way goes on until it is as the policy says
        self._is_switching = True
        try:
            while not self.closed and self.policy.dedup_enabled != (self.dedup is not None):
                if self.dedup is None:
                    self.dedup = await Deduplicator.open(self)
                else:
                    self.dedup = None
                    await self.log.cursors.delete(DEDUP_CURSOR)
        finally:
            self._is_switching = False

    def refuse_producers(self, refusal: QuotaHold | QuotaExceeded | None) -> None:
        """The backlog quota is exceeded (or no longer): producers are sent away and kept out."""
        changed = (self.quota_refusal is None) != (refusal is None)
        self.quota_refusal = refusal
        if refusal is not None and changed:
            self.producers.fail_waiting(refusal)
            for producer in self.producers:
                producer.disconnect()

    # ------------------------------------------------------------------ the end

    async def close(self, *, tell_clients: bool = True) -> None:
        """Fence, tell the clients to come back, make everything durable."""
        if self.closed:
            return
        await self._send_clients_away(tell=tell_clients)
        await self.compactor.close()
        if self.dedup is not None:
            await self.dedup.close()
        await self.log.close()

    async def delete(self) -> None:
        await self._send_clients_away()
        await self.compactor.close()
        await self.compactor.delete()
        await self.log.delete()

    async def _send_clients_away(self, *, tell: bool = True) -> None:
        self.closed = True
        self.producers.close(TopicFenced(f"Topic {self.name} is closing"))
        for producer in self.producers:
            producer.disconnect() if tell else producer.detach()
        for subscription in list(self.subscriptions.values()):
            await subscription.close()

    def _on_fenced(self) -> None:
        """Another owner has the log: the clients must look for it."""
        if not self.closed:
            self.service.tasks.start(self.service.catalog.unload_topic(self.name), name="unload")

    def tick(self, now: float) -> None:
        for rate in (self.rate_in, self.chunks_in, self.removed_rate_out):
            rate.tick(now)
        for producer in self.producers:
            producer.rate.tick(now)
            producer.chunk_rate.tick(now)
        for subscription in list(self.subscriptions.values()):
            subscription.tick(now)
