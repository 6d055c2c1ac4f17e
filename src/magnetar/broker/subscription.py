"""A subscription on a persistent topic: its cursor and its consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from magnetar.broker.abandoned_chunk import read_abandoned
from magnetar.broker.acknowledgement import apply_ack
from magnetar.broker.consumer import Consumer
from magnetar.broker.consumer_group import ConsumerGroup, GroupSet, GroupTopic
from magnetar.broker.dispatch.backlog import Backlog
from magnetar.broker.dispatch.committed import Source
from magnetar.broker.expiry import Expiry
from magnetar.broker.hold import add_passed, clear_passed, note_passed, parse_passed
from magnetar.broker.limiter import RateLimiter, make_limiter
from magnetar.broker.log_search import position_at
from magnetar.broker.transactional import TopicTransactions
from magnetar.errors import (
    BrokerError,
    ResourceBusy,
    TopicFenced,
    TransactionsDisabled,
    fault_of,
)
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.log import Log
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.subscription import HOLD_PROPERTY
from magnetar.rules.dispatch.machine import NO_LIMIT, DispatchLimits
from magnetar.rules.transaction.buffer import TransactionBuffer
from magnetar.runtime.log import Logger
from magnetar.wire.ackset import full_ack_set
from magnetar.wire.command import (
    BaseCommand,
    CommandAck,
    CommandAckResponse,
    CommandReachedEndOfTopic,
    ServerError,
    make_command,
)

_log = Logger(__name__)

ANSWERED_S_MAX: Final = 10.0
"""How long clients are kept for the answers to what they sent when a topic closes."""
_READER_RETURN_MS: Final = 300_000


class SubscriptionListener(Protocol):
    """Follows what happens to subscriptions, beside the topic."""

    def on_drained(self, subscription: Subscription) -> None:
        """Nothing is left to acknowledge on a topic that takes no more messages."""

    def on_cursor_moved(self, subscription: Subscription) -> None:
        """A seek is over."""


class TransientSet(GroupSet, Protocol):
    def remove_transient(self, subscription: Subscription) -> None:
        """A reader left: its cursor lived in memory only."""


class SubscribedTopic(GroupTopic, Protocol):
    """A topic that keeps its messages."""

    @property
    def log(self) -> Log: ...

    @property
    def dispatch_limiter(self) -> RateLimiter | None: ...

    @property
    def buffer(self) -> TransactionBuffer:
        """What it hides of transactions."""

    @property
    def transactions(self) -> TopicTransactions | None: ...

    @property
    def subscriptions(self) -> TransientSet: ...

    @property
    def listeners(self) -> Sequence[SubscriptionListener]: ...

    @property
    def successor(self) -> TopicName | None:
        """The scalable topic that the topic has become a part of."""

    def source(self, *, read_compacted: bool) -> Source: ...


class Subscription(ConsumerGroup):
    topic: SubscribedTopic

    def __init__(
        self,
        topic: SubscribedTopic,
        name: str,
        cursor: Cursor,
        *,
        durable: bool,
        from_start: bool,
        replicated: bool = False,
    ) -> None:
        """`from_start` says that nothing of the topic is acknowledged at all."""
        super().__init__(topic, name)
        self.cursor: Final = cursor
        self.durable: Final = durable
        self.replicated: Final = replicated
        self.expiry: Final = Expiry(cursor, topic.log, topic.host.clock, self.acknowledge_through)
        self.last_acked_ms = 0
        self.last_flow_ms = 0
        self.last_mark_delete_ms = 0
        self.oldest: tuple[Position, int] | None = None
        """The first unacknowledged entry when the upkeep last looked, and its publish time."""
        self.last_active_ms = topic.host.clock.now_ms()
        self._mark_seen = cursor.mark_delete
        self.beginning = cursor.mark_delete if from_start else None
        """The mark for as long as nothing of the topic is acknowledged."""
        self._vacancy: asyncio.Event | None = None
        self._moving: asyncio.Event | None = None
        self.closed = False
        self._end_told: set[Consumer] = set()
        self._confirming: set[asyncio.Task[None]] = set()
        """Answers to acknowledgements that wait until those are durable."""
        self._has_sought_abandoned = False
        """Whether chunks that no message comes out of were looked for at the end of the topic."""

    @property
    def properties(self) -> Mapping[str, str]:
        return self.cursor.cursor_properties

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        await self.cursor.set_properties(cursor_properties=properties)

    @property
    def backlog(self) -> int:
        return self.cursor.backlog

    # ------------------------------------------------------------------ consumers

    async def _await_turn(self) -> None:
        while self._moving is not None:  # a seek is under way
            await self._moving.wait()
        if self.closed or self.topic.closed:
            raise TopicFenced("Subscription is fenced")

    async def add_consumer(self, consumer: Consumer) -> None:
        await super().add_consumer(consumer)
        self.last_active_ms = self.topic.host.clock.now_ms()

    def remove_consumer(self, consumer: Consumer) -> None:
        self._end_told.discard(consumer)
        self.last_active_ms = self.topic.host.clock.now_ms()
        super().remove_consumer(consumer)
        if self._vacancy is not None and not self.consumer_count:
            self._vacancy.set()
            self._vacancy = None

    async def await_vacancy(self) -> None:
        """Until the last consumer has left."""
        self._vacancy = self._vacancy or asyncio.Event()
        await self._vacancy.wait()

    def _leave_if_unused(self) -> None:
        """A reader's subscription goes with it, but not while a seek sends it away to come back."""
        if not (self.durable or self.consumer_count or self._joining or self._moving):
            self.topic.subscriptions.remove_transient(self)

    def _make_backlog(self) -> Backlog:
        pending = self.topic.buffer.pending_on(self.name)
        return Backlog(self.topic, self.cursor, self.beginning, pending)

    def apply_policy(self) -> None:
        if self.dispatcher is None:
            return
        policy, limits = (
            self.topic.policy,
            DispatchLimits(delays=self.topic.policy.delayed_delivery_enabled),
        )
        if self.durable:
            limits = limits._replace(
                unacked_per_consumer=policy.max_unacked_per_consumer or NO_LIMIT,
                unacked_in_all=policy.max_unacked_per_subscription or NO_LIMIT,
            )
        own = make_limiter(
            policy.dispatch_rate_of(self.name), now=self.topic.host.clock.monotonic()
        )
        limiters = (own, self.topic.dispatch_limiter)
        self.dispatcher.set_policy(limits, [each for each in limiters if each is not None])

    # ------------------------------------------------------------------ what consumers say

    def on_flow(self, consumer: Consumer, permits: int) -> None:
        self.last_flow_ms = consumer.stats.last_flow_ms
        super().on_flow(consumer, permits)

    def on_ack(self, consumer: Consumer, ack: CommandAck) -> None:
        refusal: BrokerError | None = None
        if ack.HasField("txnid_most_bits") and ack.HasField("txnid_least_bits"):
            if self.topic.transactions is not None:
                self.topic.transactions.acknowledge(self.name, consumer, ack)
                return
            refusal = TransactionsDisabled("Transactions are not enabled.")
        else:
            apply_ack(
                ack,
                consumer,
                self.cursor,
                self.topic.log.sequence,
                self.dispatcher,
                by_index=self.topic.host.config.acknowledgmentAtBatchIndexLevelEnabled,
            )
        if refusal is None:
            now_ms = self.topic.host.clock.now_ms()
            consumer.stats.last_acked_ms = self.last_acked_ms = now_ms
        if ack.HasField("request_id"):
            confirming = self.topic.host.tasks.start(
                confirm(self.cursor, consumer, ack.request_id, refusal), name="ack"
            )
            self._confirming.add(confirming)
            confirming.add_done_callback(self._confirming.discard)
        self.on_end_reached()

    # ------------------------------------------------------------------ what the dispatcher says

    def on_end_reached(self) -> None:
        """Nothing is left to read. On a terminated topic with no backlog, say so once."""
        log, dispatcher = self.topic.log, self.dispatcher
        if log.record.terminated is None:
            return
        if self.cursor.backlog:
            is_delivered = (
                dispatcher is not None
                and dispatcher.machine.read_position > log.sequence.last_position
            )
            if is_delivered and not self._has_sought_abandoned:
                self._has_sought_abandoned = True
                self.topic.host.tasks.start(self._acknowledge_abandoned(), name="abandoned")
            return
        for listener in self.topic.listeners:
            listener.on_drained(self)
        for consumer in self.consumers:
            if consumer not in self._end_told:
                self._end_told.add(consumer)
                _send_end_of_topic(consumer)

    async def _acknowledge_abandoned(self) -> None:
        try:
            abandoned = await read_abandoned(self.topic.log, self.cursor)
        except BrokerError as failure:
            self._has_sought_abandoned = False  # the next acknowledgement tries again
            _log.warning(
                "end of topic not read",
                topic=self.topic.name.full,
                subscription=self.name,
                reason=failure.sentence,
            )
            return
        for position in abandoned:
            self.cursor.acknowledge(*position)
        if self.dispatcher is not None:
            self.dispatcher.release(None, [(position, None) for position in abandoned])
        self.on_end_reached()

    # ------------------------------------------------------------------ moving the cursor

    async def seek(self, target: Position, *, remaining: int | None = None) -> None:
        """Move to `target` (the first entry to read); attached consumers subscribe again. Of a
        batch only the `remaining` messages are read again.
        """
        if self._moving is not None:
            raise ResourceBusy("Failed for Subscription Busy: another seek is under way")
        if self.closed or self.topic.closed:
            raise TopicFenced("Subscription is fenced")
        self._moving = asyncio.Event()
        try:
            for consumer in self.consumers:
                consumer.disconnect(returns=True)
            if self.dispatcher is not None:
                self.dispatcher.close()
                self.dispatcher = None
            try:
                await self.cursor.reset(_within(target, self.topic))
            finally:  # it has moved, even when that could not be stored
                if self.topic.transactions is not None:
                    self.topic.transactions.skip_aborted(self.cursor)
                self._has_sought_abandoned = False
                self.beginning = self.cursor.mark_delete if target.ledger_id < 0 else None
            if remaining is not None:
                self.cursor.acknowledge_batch(*target, remaining)
                await self.cursor.flush()
        finally:
            self._moving.set()
            self._moving = None
            for listener in self.topic.listeners:
                listener.on_cursor_moved(self)

    async def reset_to_time(self, timestamp_ms: int) -> None:
        await self.seek(await position_at(self.topic.log, timestamp_ms))

    async def reset_to_position(
        self, position: Position, *, excluded: bool = False, batch_index: int = -1
    ) -> None:
        if excluded and EARLIEST < position < LATEST:
            position = self.topic.log.sequence.next_position(position)
        remaining = None
        if batch_index > 0:
            run = await self.topic.log.reader.read(position, 1, 1)
            if run is not None and (run.ledger_id, run.first) == position:
                remaining = full_ack_set(run.counts[0]) >> batch_index << batch_index
        await self.seek(position, remaining=remaining)

    async def skip(self, count: int) -> None:
        """Acknowledge the next `count` entries of the backlog."""
        target = self.cursor.position_after(min(count, self.backlog))
        await self.acknowledge_through(self.topic.log.sequence.previous_position(target))

    async def skip_all(self) -> None:
        await self.acknowledge_through(self.topic.log.sequence.last_position)

    async def acknowledge_through(self, position: Position, *, read: Position | None = None) -> int:
        """On behalf of its consumers, or of the query whose hold it is: `read` is how far that has
        come. Return how many entries that was.
        """
        before, pin = self.cursor.backlog, self.topic.buffer.pin
        if pin is not None and position >= pin:  # what is not committed yet was not missed
            position = self.topic.log.sequence.previous_position(pin)
        first, known = self.cursor.first_unacked(), parse_passed(self.cursor.properties)
        self.cursor.acknowledge_through(position)
        passed = known
        if read is not None:
            passed = clear_passed(known, read)
        elif HOLD_PROPERTY in self.properties:
            passed = add_passed(known, first, position)
        if self.dispatcher is not None:
            self.dispatcher.discard(
                EARLIEST, position, self.topic.log.sequence.next_position(position)
            )
        if passed != known:
            await self.cursor.set_properties(note_passed(self.cursor.properties, passed))
        else:
            await self.cursor.flush()
        self.on_end_reached()
        return before - self.cursor.backlog

    # ------------------------------------------------------------------ the end

    async def close(self) -> None:
        """Disconnect the clients, which come back; everything acknowledged is durable."""
        self.closed = True
        if self._confirming:  # a client forgets those of a consumer that it must make again
            with suppress(TimeoutError):
                async with self.topic.host.clock.timeout(ANSWERED_S_MAX):
                    await asyncio.wait(self._confirming)
        self.disconnect_all()
        if self.dispatcher is not None:
            self.dispatcher.close()
            self.dispatcher = None

    def reopen(self) -> None:
        """It could not be deleted after all."""
        self.closed = False

    def note_mark(self) -> None:
        """See when the mark moved; called now and then, so that acknowledging need not look."""
        mark = self.cursor.mark_delete
        if mark != self._mark_seen:
            self._mark_seen = mark
            self.last_mark_delete_ms = max(self.last_acked_ms, self.expiry.last_ms)

    def tick(self, now: float) -> None:
        super().tick(now)
        self.note_mark()
        self.expiry.rate.tick(now)
        if self.topic.host.clock.now_ms() > self.last_active_ms + _READER_RETURN_MS:
            self._leave_if_unused()  # sent away by a seek, and it never came back


def _send_end_of_topic(consumer: Consumer) -> None:
    connection = consumer.connection
    # The C++ client takes this command for an error and reconnects for ever.
    if connection.protocol_version >= 9 and not connection.client_version.startswith("Pulsar-CPP"):
        connection.send_command(make_command(CommandReachedEndOfTopic(consumer_id=consumer.id)))


async def confirm(
    cursor: Cursor, consumer: Consumer, request_id: int, refusal: BrokerError | None
) -> None:
    if refusal is None:
        try:
            await cursor.flush()
        except BrokerError as failure:
            refusal = failure
    consumer.connection.send_command(make_ack_response(consumer.id, request_id, refusal))


def make_ack_response(
    consumer_id: int, request_id: int, refusal: BrokerError | None
) -> BaseCommand:
    response = CommandAckResponse(consumer_id=consumer_id, request_id=request_id)
    if refusal is not None:
        response.error = ServerError.Name(fault_of(refusal).code)  # type: ignore[assignment]
        response.message = refusal.sentence
    return make_command(response)


def _within(target: Position, topic: SubscribedTopic) -> Position:
    sequence = topic.log.sequence
    if target.ledger_id >= LATEST.ledger_id:
        return topic.buffer.pin or sequence.end_position
    return min(max(target, sequence.first_position), sequence.end_position)
