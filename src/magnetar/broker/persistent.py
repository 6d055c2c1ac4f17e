"""A persistent topic: a log, its producers, its subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from magnetar.broker.compaction import Compactor
from magnetar.broker.consumer import Consumer
from magnetar.broker.dedup import Deduplicator, Verdict
from magnetar.broker.dispatch.committed import CommittedSource, Source
from magnetar.broker.entry import delay_ms
from magnetar.broker.limiter import RateLimiter, make_limiter
from magnetar.broker.policy_default import plan_log
from magnetar.broker.producer import Producer
from magnetar.broker.producer_set import ProducerSet
from magnetar.broker.subscription import ANSWERED_S_MAX, SubscriptionListener
from magnetar.broker.subscription_set import SubscriptionSet
from magnetar.broker.termination import Termination
from magnetar.broker.topic import Topic
from magnetar.broker.topic_host import TopicHost
from magnetar.broker.transactional import TopicTransactions
from magnetar.errors import (
    BrokerError,
    NotAllowed,
    QuotaExceeded,
    QuotaHold,
    ServiceNotReady,
    StorageFailed,
    TopicTerminated,
    TransactionsDisabled,
)
from magnetar.ledger.log import Log
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.subscription import DEDUP_CURSOR
from magnetar.rules.policy import EffectivePolicy
from magnetar.rules.transaction.buffer import TransactionBuffer
from magnetar.runtime.log import Logger
from magnetar.wire.command import CommandSubscribe
from magnetar.wire.run import SendRun

_log = Logger(__name__)

_NOWHERE: Final = 2**64 - 1
EPOCH_PROPERTY: Final = "pulsar.topic.epoch"


class TopicListener(SubscriptionListener, Protocol):
    """Follows what happens to persistent topics."""

    async def on_subscribed(self, topic: TopicName, request: CommandSubscribe) -> None:
        """A client attaches to a durable subscription on a part of a scalable topic; it is
        answered when this returns.
        """


class TopicGuard(Protocol):
    """Refuses clients that cannot follow a topic to the scalable topic that it became part of."""

    def check_writable(self, topic: TopicName, successor: TopicName) -> None: ...

    def check_readable(
        self,
        topic: TopicName,
        successor: TopicName,
        consumer: Consumer,
        request: CommandSubscribe,
    ) -> None: ...


class PersistentTopic(Topic):
    log: Log
    transactions: TopicTransactions | None = None
    """None where transactions are not enabled."""

    def __init__(
        self,
        host: TopicHost,
        name: TopicName,
        policy: EffectivePolicy,
        log: Log,
        *,
        listeners: Sequence[TopicListener] = (),
        guards: Sequence[TopicGuard] = (),
    ) -> None:
        """`listeners` follow what happens to the topic; `guards` are asked when clients attach to a
        topic that has a successor.
        """
        super().__init__(host, name, policy)
        self.log = log
        self._changes = host.activity.of(name.namespace)
        self.listeners: Final = listeners
        self._guards = guards
        self._buffer = TransactionBuffer()
        log.cursors.find_needed = lambda: self._buffer.pin
        self.subscriptions: Final = SubscriptionSet(self)
        self.compactor: Final = Compactor(name, log, host, self.subscriptions, self._buffer)
        self.successor: TopicName | None = None
        """The scalable topic that this one has become a part of."""
        self.dispatch_limiter: RateLimiter | None = None
        self.quota_refusal: BrokerError | None = None
        self._batch_max = host.limits.batch_messages
        self._is_choosy = True
        """Whether messages themselves must be looked at before they are taken."""
        self._is_switching = False
        epoch = log.record.properties.get(EPOCH_PROPERTY)
        self.producers = ProducerSet(
            None if epoch is None else int(epoch), partial(_store_epoch, log)
        )
        self.termination: Final = Termination(name, log, self.producers, self.subscriptions)

    @classmethod
    async def open(
        cls,
        host: TopicHost,
        name: TopicName,
        policy: EffectivePolicy,
        log: Log,
        *,
        listeners: Sequence[TopicListener] = (),
        guards: Sequence[TopicGuard] = (),
    ) -> PersistentTopic:
        topic = cls(host, name, policy, log, listeners=listeners, guards=guards)
        topic.subscriptions.restore()
        if policy.dedup_enabled:
            topic.dedup = await Deduplicator.open(topic)
        await topic.compactor.open()
        log.appended.append(topic._on_appended)
        return topic

    # ------------------------------------------------------------------ producers

    async def add_producer(self, producer: Producer) -> asyncio.Future[None] | None:
        """Let a producer in; a future means it waits for its turn."""
        await self.termination.wait()
        if self.successor is not None:
            for guard in self._guards:
                guard.check_writable(self.name, self.successor)
        if self.log.record.terminated is not None:
            raise TopicTerminated(f"Topic {self.name} was terminated")
        if self.quota_refusal is not None:
            raise self.quota_refusal
        self.check_dedup_open()
        return await super().add_producer(producer)

    def check_dedup_open(self) -> None:
        """Raise ServiceNotReady while the policy asks for deduplication and it is not open."""
        if self.policy.dedup_enabled and self.dedup is None:
            self.host.tasks.start(self._switch_dedup(), name="deduplication")
            raise ServiceNotReady(f"The deduplication of {self.name} is being opened; try again")

    def on_producer_idle(self, producer: Producer) -> None:
        if self.termination.is_under_way:
            self.termination.on_quiet()

    def remove_producer(self, producer: Producer) -> None:
        super().remove_producer(producer)
        self.termination.on_quiet()

    def last_sequence(self, producer_name: str) -> int:
        return self.dedup.last_sequence(producer_name) if self.dedup is not None else -1

    # ------------------------------------------------------------------ publishing

    def publish(self, producer: Producer, run: SendRun) -> None:
        if self.termination.is_under_way:
            return  # its client is about to be closed, and sends this elsewhere
        is_plain = not (producer.failed or run.corrupt or self._is_choosy or self.closed)
        is_usual = run.command is None and run.transaction is None and run.most <= self._batch_max
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
        limit_ms = self.policy.delayed_delivery_max_delay_ms
        if limit_ms > 0 and any(delay_ms(entry) > limit_ms for entry in run.entries):
            return NotAllowed(f"Exceeds max allowed delivery delay of {limit_ms} milliseconds")
        refusal = super().refusal_of(run)
        if refusal is None and run.transaction is not None:
            if self.transactions is None:
                return TransactionsDisabled("Transactions are not enabled.")
            return self.transactions.prepare(run)
        return refusal

    def _append(self, producer: Producer, run: SendRun) -> None:
        size = run.size = sum(map(len, run.entries))
        messages = len(run) if run.most == 1 else sum(run.counts)
        producer.rate.add(messages, size)
        self.rate_in.add(messages, size)
        if run.command is not None and run.command.is_chunk:
            self.chunks_in.add(1, size)
            producer.chunk_rate.add(1, size)
        if self.throttle.limiter is not None:
            self.throttle.spend(producer.connection, messages, size)
        if run.transaction is None or self.transactions is None:
            producer.append(run, self.log)
        else:
            self.transactions.append(producer, run)

    def _on_appended(self) -> None:
        self._changes.count += 1
        self.last_publish_ms = self.host.clock.now_ms()
        for subscription in self.subscriptions.values():
            if subscription.dispatcher is not None:
                subscription.dispatcher.wake()

    # ------------------------------------------------------------------ subscriptions

    async def subscribe(self, consumer: Consumer, request: CommandSubscribe) -> None:
        """Attach a consumer; `request` is the SUBSCRIBE command, already checked for form."""
        await self.termination.wait()
        if self.successor is not None:
            for guard in self._guards:
                guard.check_readable(self.name, self.successor, consumer, request)
        self._check_consumers(self.subscriptions.values())
        subscription = await self.subscriptions.open(request)
        if subscription.durable != request.durable:
            kind = "durable" if subscription.durable else "not durable"
            raise NotAllowed(f"Subscription {request.subscription} is {kind}")
        if request.durable and (self.successor or self.name.domain is TopicDomain.SEGMENT):
            for listener in self.listeners:
                await listener.on_subscribed(self.name, request)
        await subscription.add_consumer(consumer)

    def source(self, *, read_compacted: bool) -> Source:
        source = self.compactor.view() if read_compacted else self.log.reader
        return CommittedSource(source, self._buffer) if self._buffer.is_used else source

    # ------------------------------------------------------------------ properties

    @property
    def buffer(self) -> TransactionBuffer:
        """What it hides of transactions."""
        return self._buffer

    @property
    def properties(self) -> Mapping[str, str]:
        return {k: v for k, v in self.log.record.properties.items() if not k.startswith("pulsar.")}

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        def change(known: Mapping[str, str]) -> Mapping[str, str]:
            return {k: v for k, v in known.items() if k.startswith("pulsar.")} | dict(properties)

        await self.log.record.change_properties(change)

    def has_clients(self) -> bool:
        return bool(len(self.producers)) or any(
            s.consumer_count for s in self.subscriptions.values()
        )

    async def truncate(self) -> None:
        """Acknowledge everything everywhere, then let go of every ledger but the current one."""
        for subscription in list(self.subscriptions.values()):
            await subscription.skip_all()
        await self.log.roll()
        await self.log.trim()

    # ------------------------------------------------------------------ policies

    def on_policies_changed(self, policy: EffectivePolicy) -> None:
        self.policy = policy
        self._is_choosy = policy.is_choosy(self.host.config.maxMessageSize)
        self.log.policy = plan_log(policy)
        now = self.host.clock.monotonic()
        self.throttle.limiter = make_limiter(policy.publish_rate, now=now)
        self.dispatch_limiter = make_limiter(policy.dispatch_rate, now=now)
        for subscription in self.subscriptions.values():
            subscription.apply_policy()
        if policy.dedup_enabled != (self.dedup is not None) and not self.closed:
            self.host.tasks.start(self._switch_dedup(), name="deduplication")

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

    async def close(self) -> None:
        """Fence, answer what was taken, tell the clients to come back, make everything durable."""
        if self.closed:
            return
        self.closed = True
        try:
            async with self.host.clock.timeout(ANSWERED_S_MAX):
                await self.termination.quiesce()
        except TimeoutError:
            _log.warning("closed with unanswered messages", topic=self.name.full)
        await self._disconnect_clients()
        await self.compactor.close()
        if self.dedup is not None:
            await self.dedup.close()
        if self.transactions is not None:
            await self.transactions.close()
        await self.log.close()

    async def delete(self) -> None:
        await self._disconnect_clients()
        await self.compactor.close()
        await self.compactor.delete()
        if self.transactions is not None:
            await self.transactions.delete()
        await self.log.delete()

    async def _disconnect_clients(self) -> None:
        self.disconnect_producers()
        for subscription in list(self.subscriptions.values()):
            await subscription.close()

    def tick(self, now: float) -> None:
        for rate in (self.rate_in, self.chunks_in, self.subscriptions.removed_rate_out):
            rate.tick(now)
        for producer in self.producers:
            producer.rate.tick(now)
            producer.chunk_rate.tick(now)
        for subscription in list(self.subscriptions.values()):
            subscription.tick(now)


async def _store_epoch(log: Log, epoch: int) -> None:
    await log.record.change_properties(lambda own: {**own, EPOCH_PROPERTY: str(epoch)})
