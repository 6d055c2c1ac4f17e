"""A consumer on one topic or one partition: permits, delivery, acknowledgements, seek."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from magnetar.client.acknowledgement import AckGroup, encode_ack_id, plan_redeliveries
from magnetar.client.attachment import Attachment
from magnetar.client.connection import MESSAGE_BYTES_DEFAULT, Connection, Type
from magnetar.client.delivery import CorruptEntry, Delivery, EntryDecoder
from magnetar.client.error import (
    PulsarError,
    PulsarTimeoutError,
    decode_refusal,
)
from magnetar.client.message import Message
from magnetar.client.message_id import EARLIEST, LATEST, MessageId
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings, Floor, encode_subscribe
from magnetar.errors import ProtocolViolation
from magnetar.model.name import TopicName
from magnetar.wire.ackset import decode_ack_set, full_ack_set
from magnetar.wire.command import (
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandGetLastMessageId,
    CommandMessage,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandUnsubscribe,
    MessageIdData,
    message_id,
    position_of,
)
from magnetar.wire.entry import count_messages

_REDELIVERIES_MAX: Final = 1000

Deliver = Callable[["TopicConsumer", list[Message]], None]
GiveUp = Callable[[PulsarError], None]


class TopicConsumer:
    """`deliver` gets messages as they come. What it got under an older `generation` is void."""

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ConsumerSettings,
        *,
        origin: int,
        deliver: Deliver,
        give_up: GiveUp,
    ) -> None:
        self.topic = topic
        self.generation = 0
        self.is_active = False
        self.has_reached_end = False
        self._session = session
        self._settings = settings
        self._deliver = deliver
        self._give_up = give_up
        self._id = session.next_consumer_id()
        self._loop = asyncio.get_running_loop()
        self._attachment = Attachment(
            session, topic, attach=self._attach, detach=self._detach, give_up=self._finish
        )
        self._decoder = EntryDecoder(topic.full, origin, message_bytes_max=MESSAGE_BYTES_DEFAULT)
        self._floor = settings.start
        self._epoch = 0
        self._permits = 0
        self._untaken = 0
        self._acks = AckGroup(by_index=settings.batch_index_acks)
        self._ack_timer: asyncio.TimerHandle | None = None
        self._nacks: dict[MessageId, float] = {}
        self._nack_timer: asyncio.TimerHandle | None = None
        self._chunk_ids: dict[MessageId, tuple[MessageId, ...]] = {}

    async def open(self) -> None:
        await self._attachment.open()

    def on_taken(self, message: Message) -> None:
        """The application got a message: there is room for another."""
        self._untaken -= 1
        if not self._settings.is_durable:
            self._floor = Floor(message.id, is_included=False)
        self._add_permits(1)

    async def acknowledge(self, id: MessageId) -> None:
        ids = self._chunk_ids.pop(id, (id,))
        for each in ids:
            self._nacks.pop(each.entry, None)
            self._acks.add(each)
        await self._after_ack()

    async def acknowledge_cumulative(self, id: MessageId) -> None:
        self._acks.add_cumulative(id)
        await self._after_ack()

    def negative_acknowledge(self, id: MessageId, delay: float | None) -> None:
        """Ask for the message again, after a while."""
        due = self._loop.time() + (self._settings.nack_delay if delay is None else delay)
        for each in self._chunk_ids.pop(id, (id,)):
            self._nacks[each.entry] = due
        self._plan_nacks()

    def redeliver(self, ids: Iterable[MessageId]) -> None:
        """Ask for these again now; a subscription with one active consumer starts over instead."""
        if not self._settings.type.is_shared:
            self.redeliver_all()
            return
        connection = self._attachment.connection
        if connection is None:
            return  # whatever is unacknowledged comes again with the next connection
        for entries in plan_redeliveries(ids, size_max=_REDELIVERIES_MAX):
            body = CommandRedeliverUnacknowledgedMessages(consumer_id=self._id)
            body.message_ids.extend(encode_ack_id(entry, 0) for entry in entries)
            connection.send_body(body)

    def redeliver_all(self) -> None:
        """Ask for everything unacknowledged again; what waits here is dropped."""
        dropped = self._start_over()
        connection = self._attachment.connection
        if connection is None:
            return
        body = CommandRedeliverUnacknowledgedMessages(consumer_id=self._id)
        if not self._settings.type.is_shared:
            self._epoch += 1
            body.consumer_epoch = self._epoch
        connection.send_body(body)
        self._add_permits(dropped)

    async def seek(self, target: MessageId | int) -> None:
        """Move to a message, which comes next, or to a publish time in ms."""
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        body = CommandSeek(consumer_id=self._id)
        if isinstance(target, MessageId):
            body.message_id.CopyFrom(_encode_target(target))
            floor: Floor | None = Floor(target, is_included=True)
        else:
            body.message_publish_time = target
            floor = None if self._settings.is_durable else Floor(EARLIEST, is_included=True)
        self._start_over()
        self._acks.clear()
        self._nacks.clear()
        self._floor = floor
        await connection.request(body, Type.SUCCESS, timeout=timeout)
        self.has_reached_end = False
        if self._attachment.connection is connection:
            # The broker did not send us away: come again, so that nothing older is on its way.
            self._start_over()
            self._detach(connection)
            self._attachment.lose(connection)
        await self._attachment.wait(timeout)

    async def last_message_id(self) -> MessageId | None:
        """The last message stored; None for an empty topic."""
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        answer = await connection.request(
            CommandGetLastMessageId(consumer_id=self._id),
            Type.GET_LAST_MESSAGE_ID_RESPONSE,
            timeout=timeout,
        )
        position = position_of(answer.last_message_id)
        if position.entry_id < 0:
            return None
        last = answer.last_message_id
        return MessageId(*position, last.partition, last.batch_index)

    async def is_behind(self) -> bool:
        """Whether a reader has not handed out the last message yet."""
        last = await self.last_message_id()
        if last is None:
            return False
        floor = self._floor
        return floor is None or floor.wants(last)

    async def unsubscribe(self, *, force: bool) -> None:
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        body = CommandUnsubscribe(consumer_id=self._id, force=force)
        await connection.request(body, Type.SUCCESS, timeout=timeout)
        self._acks.clear()

    async def close(self) -> None:
        self._flush_acks()
        connection = self._attachment.close()
        self._cancel_timers()
        if connection is not None and connection.is_open:
            connection.remove_consumer(self._id)
            goodbye = CommandCloseConsumer(consumer_id=self._id)
            try:
                timeout = self._session.operation_timeout
                await connection.request(goodbye, Type.SUCCESS, timeout=timeout)
            except PulsarError:
                pass  # the broker lets go of it with the connection anyway

    def on_message(self, command: CommandMessage, entry: bytes) -> None:
        if command.HasField("consumer_epoch") and command.consumer_epoch < self._epoch:
            self._add_permits(_count(command, entry))  # sent before the broker heard to start over
            return
        floor = self._floor
        try:
            delivery: Delivery = self._decoder.decode(
                command,
                entry,
                now_ms=self._session.clock.now_ms(),
                is_wanted=_always if floor is None else floor.wants,
            )
        except CorruptEntry as error:
            self._refuse(command, entry, error)
            return
        if command.ack_set and delivery.messages:
            unacknowledged = decode_ack_set(command.ack_set)
            self._acks.on_delivered(delivery.messages[0].id.entry, unacknowledged)
        if delivery.chunk_ids:
            self._chunk_ids[delivery.chunk_ids[-1]] = delivery.chunk_ids
        if delivery.messages:
            self._untaken += len(delivery.messages)
            self._deliver(self, delivery.messages)
        self._add_permits(delivery.unused_permits)

    def on_active_change(self, is_active: bool) -> None:
        self.is_active = is_active

    def on_end_of_topic(self) -> None:
        self.has_reached_end = True

    def on_closed(self, connection: Connection, assigned: str | None) -> None:
        self._attachment.lose(connection, assigned)

    async def _attach(self, connection: Connection) -> None:
        self._start_over()
        self._nacks.clear()
        self._permits = 0
        is_first = self._floor is not None and self._floor.id == LATEST
        connection.add_consumer(self._id, self)
        timeout = self._session.operation_timeout
        try:
            body = encode_subscribe(
                self._settings, self.topic, self._id, floor=self._floor, epoch=self._epoch
            )
            await connection.request(body, Type.SUCCESS, timeout=timeout)
            if is_first:
                await self._pin_latest(connection)
        except BaseException as error:
            connection.remove_consumer(self._id)
            if isinstance(error, PulsarTimeoutError | asyncio.CancelledError):
                self._detach(connection)  # it may succeed after all, with nobody waiting
            raise
        for command in self._acks.take(self._id):
            connection.send_body(command)
        connection.send_body(
            CommandFlow(consumer_id=self._id, messagePermits=self._settings.receiver_queue_size)
        )

    async def _pin_latest(self, connection: Connection) -> None:
        """Remember where "latest" was, so that a reader that got nothing yet resumes there."""
        answer = await connection.request(
            CommandGetLastMessageId(consumer_id=self._id),
            Type.GET_LAST_MESSAGE_ID_RESPONSE,
            timeout=self._session.operation_timeout,
        )
        if answer.HasField("consumer_mark_delete_position"):
            position = position_of(answer.consumer_mark_delete_position)
            self._floor = Floor(MessageId(*position), is_included=False)

    def _detach(self, connection: Connection) -> None:
        connection.remove_consumer(self._id)
        connection.tell(CommandCloseConsumer(consumer_id=self._id))

    def _start_over(self) -> int:
        """Make everything delivered so far void; returns how many messages were not taken yet."""
        dropped, self._untaken = self._untaken, 0
        self.generation += 1
        self._acks.forget_batches()
        self._chunk_ids.clear()
        self._decoder.forget_chunks()
        return dropped

    def _add_permits(self, count: int) -> None:
        self._permits += count
        if self._permits < max(1, self._settings.receiver_queue_size // 2):
            return
        connection = self._attachment.connection
        if connection is not None:
            connection.send_body(CommandFlow(consumer_id=self._id, messagePermits=self._permits))
            self._permits = 0

    async def _after_ack(self) -> None:
        if self._settings.ack_receipts:
            await self._confirm_acks()
        elif self._settings.ack_group_time == 0 or len(self._acks) >= self._settings.ack_group_size:
            self._flush_acks()
        elif self._ack_timer is None and len(self._acks):
            self._ack_timer = self._loop.call_later(self._settings.ack_group_time, self._flush_acks)

    async def _confirm_acks(self) -> None:
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        for command in self._acks.take(self._id):
            answer = await connection.request(command, Type.ACK_RESPONSE, timeout=timeout)
            if answer.HasField("error"):
                raise decode_refusal(answer.error, answer.message)

    def _flush_acks(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        connection = self._attachment.connection
        if connection is not None:
            for command in self._acks.take(self._id):
                connection.send_body(command)

    def _plan_nacks(self) -> None:
        if self._nack_timer is not None:
            self._nack_timer.cancel()
            self._nack_timer = None
        if self._nacks:
            self._nack_timer = self._loop.call_at(min(self._nacks.values()), self._send_nacks)

    def _send_nacks(self) -> None:
        now = self._loop.time()
        due = [id for id, when in self._nacks.items() if when <= now]
        for id in due:
            del self._nacks[id]
        if due:
            self.redeliver(due)
        self._plan_nacks()

    def _refuse(self, command: CommandMessage, entry: bytes, error: CorruptEntry) -> None:
        connection = self._attachment.connection
        if connection is not None:
            body = CommandAck(
                consumer_id=self._id,
                ack_type=CommandAck.Individual,
                message_id=[command.message_id],
                validation_error=CommandAck.ValidationError.Name(error.validation_error),
            )
            connection.send_body(body)
        self._add_permits(_count(command, entry))

    def _finish(self, failure: PulsarError) -> None:
        self._attachment.close()
        self._cancel_timers()
        self._give_up(failure)

    def _cancel_timers(self) -> None:
        for timer in (self._ack_timer, self._nack_timer):
            if timer is not None:
                timer.cancel()
        self._ack_timer = self._nack_timer = None


def _always(id: MessageId) -> bool:
    return True


def _count(command: CommandMessage, entry: bytes) -> int:
    """How many permits the broker took for the entry."""
    if command.ack_set:
        return decode_ack_set(command.ack_set).bit_count()
    try:
        return count_messages(entry)
    except ProtocolViolation:
        return 1


def _encode_target(target: MessageId) -> MessageIdData:
    data = message_id(target.position, partition=target.partition, batch_index=target.batch_index)
    if 0 < target.batch_index < target.batch_size:
        remaining = full_ack_set(target.batch_size) & ~full_ack_set(target.batch_index)
        data.ack_set.extend(encode_ack_id(target.entry, remaining).ack_set)
    return data
