"""A subscription on a persistent topic: its cursor, its consumers, and the dispatcher of their
kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from magnetar.broker.acknowledgement import apply_ack
from magnetar.broker.consumer import Consumer, SubscriptionType
from magnetar.broker.dispatch.dispatcher import Dispatcher
from magnetar.broker.dispatch.keyshared import KeySharedDispatcher
from magnetar.broker.dispatch.shared import SharedDispatcher
from magnetar.broker.dispatch.single import SingleActiveDispatcher
from magnetar.broker.entry import published_ms
from magnetar.broker.limiter import RateLimiter
from magnetar.errors import (
    BrokerError,
    ConsumerBusy,
    NotAllowed,
    NotFound,
    ResourceBusy,
    TopicFenced,
    TransactionsNotSupported,
    fault_of,
)
from magnetar.ledger.cursor import Cursor
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.runtime.rate import Rate
from magnetar.wire.ackset import full_ack_set
from magnetar.wire.command import (
    CommandAck,
    CommandAckResponse,
    CommandReachedEndOfTopic,
    CommandRedeliverUnacknowledgedMessages,
    ServerError,
    make_command,
    position_of,
)

if TYPE_CHECKING:
    from magnetar.broker.persistent import PersistentTopic


class Subscription:
    topic: PersistentTopic
    cursor: Cursor

    def __init__(self, topic: PersistentTopic, name: str, cursor: Cursor, *, durable: bool) -> None:
        now = topic.service.clock.monotonic()
        self.topic = topic
        self.name = name
        self.cursor = cursor
        self.durable = durable
        self.replicated = False
        self.dispatcher: Dispatcher | None = None
        self.kind: SubscriptionType | None = None
        self.rate = Rate(now)
        self.expire_rate = Rate(now)
        self.last_consumed_ms = 0
        self.last_acked_ms = 0
        self.last_flow_ms = 0
        self.last_expire_ms = 0
        self.last_mark_delete_ms = 0
        self.oldest: tuple[Position, int] | None = None
        """The first unacknowledged entry when the upkeep last looked, and its publish time."""
        self.last_active_ms = topic.service.clock.now_ms()
        self._mark_seen = cursor.mark_delete
        self._moving: asyncio.Event | None = None
        self._closed = False
        self._end_told: set[Consumer] = set()

    @property
    def consumers(self) -> list[Consumer]:
        return self.dispatcher.consumers if self.dispatcher is not None else []

    @property
    def properties(self) -> Mapping[str, str]:
        return self.cursor.cursor_properties

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        await self.cursor.set_properties(cursor_properties=properties)

    @property
    def backlog(self) -> int:
        return self.cursor.backlog

    # ------------------------------------------------------------------ consumers

    async def add_consumer(self, consumer: Consumer) -> None:
        while self._moving is not None:  # a seek is under way
            await self._moving.wait()
        if self._closed:
            raise TopicFenced("Subscription is fenced")
        dispatcher = self.dispatcher
        if dispatcher is not None and dispatcher.consumers:
            self._check_same_kind(consumer)
        if dispatcher is None or (
            not dispatcher.consumers and not self._fits(dispatcher, consumer)
        ):
            if dispatcher is not None:
                dispatcher.close()
            dispatcher = self.dispatcher = self._make_dispatcher(consumer)
            self.kind = consumer.kind
            self.apply_policy()
        policy = self.topic.policy
        limit = policy.max_consumers_per_subscription
        if limit and len(dispatcher.consumers) >= limit:
            raise ConsumerBusy("Subscription reached max consumers limit")
        consumer.subscription = self
        await dispatcher.add_consumer(consumer)
        self.last_active_ms = self.topic.service.clock.now_ms()

    def _check_same_kind(self, consumer: Consumer) -> None:
        assert self.kind is not None
        if consumer.kind is not self.kind:
            raise ConsumerBusy(
                f"Subscription is of different type: {self.kind.label} is in use,"
                f" {consumer.kind.label} was asked for"
            )
        if consumer.kind is SubscriptionType.KEY_SHARED:
            first = self.consumers[0]
            if (
                first.is_sticky != consumer.is_sticky
                or first.allow_out_of_order != consumer.allow_out_of_order
            ):
                raise ConsumerBusy("Subscription is of different type: the Key_Shared modes differ")

    def _fits(self, dispatcher: Dispatcher, consumer: Consumer) -> bool:
        if self.kind is not consumer.kind:
            return False
        return not isinstance(dispatcher, KeySharedDispatcher) or dispatcher.fits(consumer)

    def _make_dispatcher(self, consumer: Consumer) -> Dispatcher:
        match consumer.kind:
            case SubscriptionType.EXCLUSIVE | SubscriptionType.FAILOVER:
                return SingleActiveDispatcher(self, consumer.kind)
            case SubscriptionType.SHARED:
                return SharedDispatcher(self)
            case SubscriptionType.KEY_SHARED:
                return KeySharedDispatcher(
                    self,
                    is_sticky=consumer.is_sticky,
                    allow_out_of_order=consumer.allow_out_of_order,
                )

    def remove_consumer(self, consumer: Consumer) -> None:
        self._end_told.discard(consumer)
        if self.dispatcher is not None:
            self.dispatcher.remove_consumer(consumer)
        self.last_active_ms = self.topic.service.clock.now_ms()
        if not self.durable and not self.consumers:
            self.topic.remove_transient(self)

    def apply_policy(self) -> None:
        rate = self.topic.policy.dispatch_rate_of(self.name)
        if self.dispatcher is not None:
            self.dispatcher.limiter = (
                None
                if rate is None
                else RateLimiter(
                    rate.messages, rate.bytes, rate.period_s, self.topic.service.clock.monotonic()
                )
            )
            self.dispatcher.wake()

    # ------------------------------------------------------------------ what consumers say

    def on_flow(self, consumer: Consumer) -> None:
        self.last_flow_ms = consumer.last_flow_ms
        if self.dispatcher is not None:
            self.dispatcher.wake()

    def on_redeliver(
        self, consumer: Consumer, command: CommandRedeliverUnacknowledgedMessages
    ) -> None:
        if self.dispatcher is None:
            return
        epoch = command.consumer_epoch if command.HasField("consumer_epoch") else None
        self.dispatcher.redeliver(
            consumer, [position_of(each) for each in command.message_ids], epoch
        )

    def on_ack(self, consumer: Consumer, ack: CommandAck) -> None:
        refusal: BrokerError | None = None
        if ack.txnid_most_bits and ack.txnid_least_bits:
            refusal = TransactionsNotSupported("transactions are not supported by this broker")
        else:
            apply_ack(self, consumer, ack)
        if refusal is None:
            now_ms = self.topic.service.clock.now_ms()
            consumer.last_acked_ms = self.last_acked_ms = now_ms
        if ack.HasField("request_id"):
            self.topic.service.tasks.start(
                self._confirm(consumer, ack.request_id, refusal), name="ack"
            )
        if self.topic.chain.terminated is not None:
            self.on_end_reached(consumer)

    async def _confirm(
        self, consumer: Consumer, request_id: int, refusal: BrokerError | None
    ) -> None:
        response = CommandAckResponse(consumer_id=consumer.id, request_id=request_id)
        if refusal is None:
            try:
                await self.cursor.flush()
            except BrokerError as failure:
                refusal = failure
        if refusal is not None:
            response.error = ServerError.Name(fault_of(refusal).code)  # type: ignore[assignment]
            response.message = refusal.sentence
        consumer.connection.send_command(make_command(response))

    # ------------------------------------------------------------------ what the dispatcher says

    def on_delivered(self, consumer: Consumer, messages: int, size: int) -> None:
        consumer.rate.add(messages, size)
        self.rate.add(messages, size)
        now_ms = self.topic.service.clock.now_ms()
        consumer.last_consumed_ms = self.last_consumed_ms = now_ms
        if not consumer.first_consumed_ms:
            consumer.first_consumed_ms = now_ms

    def on_end_reached(self, consumer: Consumer) -> None:
        """Nothing is left to read. On a terminated topic with no backlog, say so once."""
        if self.topic.chain.terminated is None or consumer in self._end_told or self.cursor.backlog:
            return
        self._end_told.add(consumer)
        connection = consumer.connection
        # The C++ client takes this command for an error and reconnects for ever.
        if connection.protocol_version >= 9 and not connection.client_version.startswith(
            "Pulsar-CPP"
        ):
            connection.send_command(make_command(CommandReachedEndOfTopic(consumer_id=consumer.id)))

    # ------------------------------------------------------------------ moving the cursor

    async def seek(self, target: Position) -> None:
        """Move to `target` (the first entry to read); attached consumers subscribe again."""
        if self._moving is not None:
            raise ResourceBusy("Failed for Subscription Busy: another seek is under way")
        self._moving = asyncio.Event()
        try:
            for consumer in list(self.consumers):
                consumer.disconnect()
            if self.dispatcher is not None:
                self.dispatcher.close()
                self.dispatcher = None
            await self.cursor.reset(self._valid(target))
        finally:
            self._moving.set()
            self._moving = None

    def _valid(self, target: Position) -> Position:
        chain = self.topic.chain
        if target.ledger_id >= LATEST.ledger_id:
            return chain.next_position(chain.last_position)
        first = chain.first_position
        if target == EARLIEST or target < first:
            return first
        return min(target, chain.next_position(chain.last_position))

    async def reset_to_time(self, timestamp_ms: int) -> None:
        await self.seek(await self.topic.position_at(timestamp_ms))

    async def reset_to_position(
        self, position: Position, *, excluded: bool = False, batch_index: int = -1
    ) -> None:
        if excluded and EARLIEST < position < LATEST:
            position = self.topic.chain.next_position(position)
        await self.seek(position)
        if batch_index > 0:
            run = await self.topic.chain.read(position, 1, 1)
            if run is not None and (run.ledger_id, run.first) == position:
                await self.seek_inside(
                    position, full_ack_set(run.counts[0]) >> batch_index << batch_index
                )

    async def seek_inside(self, position: Position, remaining: int) -> None:
        """Count the messages of a batch before the wanted one as acknowledged."""
        self.cursor.acknowledge_batch(*position, remaining)
        await self.cursor.flush()

    async def skip(self, count: int) -> None:
        """Acknowledge the next `count` entries of the backlog."""
        target = self.cursor.position_after(min(count, self.backlog))
        await self._acknowledge_through(self.topic.chain.previous_position(target))

    async def skip_all(self) -> None:
        await self._acknowledge_through(self.topic.chain.last_position)

    async def _acknowledge_through(self, position: Position) -> int:
        before = self.cursor.backlog
        self.cursor.acknowledge_through(position)
        if isinstance(self.dispatcher, SharedDispatcher):
            self.dispatcher.release_through(position)
        if self.dispatcher is not None:
            if self.dispatcher.read_position <= position:
                self.dispatcher.read_position = self.topic.chain.next_position(position)
            self.dispatcher.wake()
        await self.cursor.flush()
        return before - self.cursor.backlog

    async def expire(self, seconds: int) -> int:
        """Acknowledge what is older than `seconds`; return how many entries that was."""
        self.last_expire_ms = self.topic.service.clock.now_ms()
        limit_ms = self.last_expire_ms - seconds * 1000
        return await self._expire_before(limit_ms)

    async def _expire_before(self, limit_ms: int) -> int:
        if not self.backlog:
            return 0
        first_young = await self.topic.chain.find_first(
            lambda entry: published_ms(entry) > limit_ms
        )
        chain = self.topic.chain
        last_old = (
            chain.last_position if first_young is None else chain.previous_position(first_young)
        )
        if last_old <= self.cursor.mark_delete:
            return 0
        expired = await self._acknowledge_through(last_old)
        self.expire_rate.add(expired, 0)
        return expired

    async def expire_to(self, position: Position, *, excluded: bool = False) -> None:
        target = self.topic.chain.previous_position(position) if excluded else position
        if target > self.topic.chain.last_position:
            raise NotAllowed(f"Invalid position {position}: it is past the end of the topic")
        self.last_expire_ms = self.topic.service.clock.now_ms()
        self.expire_rate.add(await self._acknowledge_through(target), 0)

    async def peek(self, number: int) -> tuple[Position, bytes]:
        """The nth unacknowledged entry, counted from 1."""
        position, seen = self.cursor.first_unacked(), 0
        while (run := await self.topic.chain.read(position, 100, 1 << 20)) is not None:
            for index, entry in enumerate(run.data):
                if not self.cursor.is_acknowledged(run.ledger_id, run.first + index):
                    seen += 1
                    if seen == number:
                        return Position(run.ledger_id, run.first + index), entry
            position = Position(run.ledger_id, run.first + len(run))
        raise NotFound("Message not found")

    # ------------------------------------------------------------------ the end

    async def close(self) -> None:
        """Clients are told to come back; everything acknowledged is durable."""
        self._closed = True
        for consumer in list(self.consumers):
            consumer.disconnect()
        if self.dispatcher is not None:
            self.dispatcher.close()

    def note_mark(self) -> None:
        """See when the mark moved; called now and then, so that acknowledging need not look."""
        mark = self.cursor.mark_delete
        if mark != self._mark_seen:
            self._mark_seen = mark
            self.last_mark_delete_ms = max(self.last_acked_ms, self.last_expire_ms)

    def tick(self, now: float) -> None:
        self.note_mark()
        self.rate.tick(now)
        self.expire_rate.tick(now)
        for consumer in self.consumers:
            consumer.tick(now)
