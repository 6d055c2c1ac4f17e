"""A consumer on one topic or one partition: permits, delivery, acknowledgements, seek."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, Final

from magnetar.client.acknowledgement import (
    encode_ack_id,
    encode_seek_target,
    plan_redeliveries,
)
from magnetar.client.acknowledger import Acknowledger
from magnetar.client.attachment import Attachment
from magnetar.client.cipher_loader import make_opener
from magnetar.client.connection import MESSAGE_BYTES_DEFAULT, Connection, Type
from magnetar.client.delivery import CorruptEntry, EntryDecoder, count_permits
from magnetar.client.encryption import ConsumerFailure
from magnetar.client.error import CryptoError, PulsarError, PulsarTimeoutError
from magnetar.client.intake import Intake, select_messages
from magnetar.client.interceptor import tell_refused
from magnetar.client.message import Message
from magnetar.client.message_id import EARLIEST, LATEST, MessageId
from magnetar.client.raw import RawEntry, make_raw
from magnetar.client.redelivery import RedeliveryPlan, RedeliveryTimes
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings, Floor, encode_subscribe
from magnetar.client.value import SchemaValues
from magnetar.model.name import TopicName
from magnetar.model.segment import SegmentId
from magnetar.runtime.log import Logger
from magnetar.wire.ackset import decode_ack_set
from magnetar.wire.command import (
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandGetLastMessageId,
    CommandMessage,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandUnsubscribe,
    position_of,
    unsigned64,
)

_log = Logger(__name__)

_REDELIVERIES_MAX: Final = 1000

Deliver = Callable[["TopicConsumer", Sequence[Any]], None]
"""Messages, or raw entries where the settings ask for columns."""
Retract = Callable[["TopicConsumer", Set[MessageId]], int]
"""Drop what waits of these entries for the application; returns how many messages that was."""
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
        retract: Retract | None = None,
    ) -> None:
        self.topic = topic
        self.segment = SegmentId(origin)
        """Which segment it is of, where there are segments."""
        self.generation = 0
        self.is_active = False
        self.has_reached_end = False
        self._session = session
        self._settings = settings
        self._deliver = deliver
        self._retract = retract
        self._give_up = give_up
        self._id = session.next_consumer_id()
        self._loop = asyncio.get_running_loop()
        self._attachment = Attachment(
            session, topic, attach=self._attach, detach=self._detach, give_up=self._finish
        )
        encryption = settings.encryption
        self._decoder = EntryDecoder(
            topic.full,
            origin,
            message_bytes_max=MESSAGE_BYTES_DEFAULT,
            values=SchemaValues(settings.schema, topic, session.schemas),
            opener=None if encryption is None else make_opener(encryption),
            on_locked=ConsumerFailure.CONSUME if encryption is None else encryption.on_failure,
        )
        self._intake = Intake(session.scope, topic.full, self._accept)
        self._redeliveries = RedeliveryPlan(
            RedeliveryTimes(
                settings.nack_delay,
                settings.nack_backoff,
                settings.processing_timeout,
                settings.processing_timeout_backoff,
            ),
            self.redeliver,
            clock=session.clock,
        )
        self._start = settings.start
        self._last_taken: Message[Any] | RawEntry | None = None
        self._threshold = settings.start
        """What is before it was taken already, or is not wanted."""
        self._epoch = 0
        self._permits = 0
        self._permits_least = max(1, settings.receiver_queue_size // 2)
        self._is_paused = False
        self._untaken = 0
        self._acknowledger = Acknowledger(
            self._id,
            topic,
            settings,
            self._attachment,
            clock=session.clock,
            timeout=session.operation_timeout,
        )
        self._chunk_ids: dict[MessageId, tuple[MessageId, ...]] = {}

    async def open(self) -> None:
        await self._attachment.open()

    def on_taken(self, messages: Sequence[Message[Any]]) -> None:
        """The application got these: there is room for as many."""
        count = len(messages)
        self._untaken -= count
        if self._redeliveries.is_counting:
            for message in messages:
                self._redeliveries.on_taken(message.id, message.redelivery_count)
        self._last_taken = messages[-1]
        self._permits += count
        if self._permits >= self._permits_least:
            self._add_permits(0)

    def on_taken_raw(self, raw: RawEntry) -> None:
        self._untaken -= raw.permits
        self._last_taken = raw
        self._add_permits(raw.permits)

    async def acknowledge(self, id: MessageId) -> None:
        self._redeliveries.on_done((id,))
        await self._acknowledger.add(id, self._chunk_ids.pop(id, (id,)))

    async def acknowledge_cumulative(self, id: MessageId) -> None:
        self._redeliveries.on_done_up_to(id)
        await self._acknowledger.add_cumulative(id)

    def negative_acknowledge(self, id: MessageId, delay: float | None) -> None:
        """Ask for the message again, after a while."""
        self._redeliveries.on_refused(id, delay)
        tell_refused(self._settings.interceptors, self.topic.full, id)

    def pause(self) -> None:
        """Ask for nothing more; what was asked for still comes."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._add_permits(0)

    def redeliver(self, ids: Iterable[MessageId]) -> None:
        """Ask for these again now; a subscription with one active consumer starts over instead.

        A batch comes again as a whole, save what the broker knows to be acknowledged: it is told
        first, and what waits here of the batch is dropped.
        """
        ids = [each for id in ids for each in self._chunk_ids.pop(id, (id,))]
        if not self._settings.type.is_shared:
            self.redeliver_all()
            return
        connection = self._attachment.connection
        if connection is None:
            return  # whatever is unacknowledged comes again with the next connection
        self._acknowledger.flush()
        for entries in plan_redeliveries(ids, size_max=_REDELIVERIES_MAX):
            body = CommandRedeliverUnacknowledgedMessages(consumer_id=self._id)
            body.message_ids.extend(encode_ack_id(entry, 0) for entry in entries)
            connection.send_body(body)
            if self._retract is not None:
                dropped = self._retract(self, frozenset(entries))
                self._untaken -= dropped
                self._add_permits(dropped)

    def redeliver_all(self) -> None:
        """Ask for everything unacknowledged again; what waits here is dropped."""
        self._acknowledger.flush()
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

    async def seek(self, target: MessageId | int, *, is_leaving: bool = False) -> None:
        """Move to a message, which comes next, or to a publish time in ms; go on or leave then."""
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        body = CommandSeek(consumer_id=self._id)
        if isinstance(target, MessageId):
            body.message_id.CopyFrom(encode_seek_target(target))
            floor: Floor | None = Floor(target, is_included=True)
        else:
            body.message_publish_time = unsigned64(target)
            floor = None if self._settings.is_durable else Floor(EARLIEST, is_included=True)
        self._acknowledger.flush()  # it counts if the seek is refused
        self._start_over()
        self._acknowledger.group.clear()
        self._floor = floor
        generation = self.generation
        await connection.request(body, Type.SUCCESS, timeout=timeout)
        if is_leaving:
            return
        self.has_reached_end = False
        if self._attachment.connection is connection and self.generation == generation:
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
        self._acknowledger.flush()  # it counts if this is refused
        body = CommandUnsubscribe(consumer_id=self._id, force=force)
        await connection.request(body, Type.SUCCESS, timeout=timeout)
        self._acknowledger.group.clear()

    async def close(self) -> None:
        self._acknowledger.flush()
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
            # Sent before the broker heard to start over.
            self._add_permits(count_permits(command, entry))
            return
        self._intake.put(command, entry)

    def _accept(self, command: CommandMessage, entry: bytes) -> None:
        floor = self._threshold
        if floor is not None and position_of(command.message_id) > floor.id.position:
            floor = None  # nothing in this entry can be before it
        if self._settings.columns:
            raw = make_raw(command, entry, floor, self.segment)
            if isinstance(raw, int):
                self._add_permits(raw)
            else:
                self._untaken += raw.permits
                self._deliver(self, [raw])
            return
        try:
            delivery = self._decoder.decode(
                command,
                entry,
                now_ms=self._session.clock.now_ms(),
                is_wanted=None if floor is None else floor.wants,
            )
        except CorruptEntry as error:
            self._refuse(command, entry, error)
            return
        except CryptoError as error:
            _log.warning("message not decrypted", error=error, topic=self.topic.full)
            id = MessageId(*position_of(command.message_id), command.message_id.partition)
            self._redeliveries.on_refused(id, None)
            self._add_permits(count_permits(command, entry))
            return
        arrived = delivery.messages
        if (
            (command.ack_set or command.redelivery_count)
            and arrived
            and arrived[0].id.batch_index >= 0
        ):
            left = self._acknowledger.group.on_delivered(
                arrived[0].id.entry, decode_ack_set(command.ack_set)
            )
            arrived = [each for each in arrived if left >> each.id.batch_index & 1]
        if delivery.chunk_ids:
            self._chunk_ids[delivery.chunk_ids[-1]] = delivery.chunk_ids
        messages = select_messages(self._settings, arrived, self)
        if messages:
            self._untaken += len(messages)
            self._deliver(self, messages)
        self._add_permits(delivery.unused_permits + len(delivery.messages) - len(messages))

    def on_active_change(self, is_active: bool) -> None:
        self.is_active = is_active

    def on_end_of_topic(self) -> None:
        self.has_reached_end = True

    def on_closed(self, connection: Connection, assigned: str | None) -> None:
        self._attachment.lose(connection, assigned)

    async def _attach(self, connection: Connection) -> None:
        self._start_over()
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
                self._detach(connection)  # it may succeed after all, too late
            raise
        if self._last_taken is not None and not self._settings.is_durable:
            # A reader's cursor begins anew at the entry that was taken last. Unless the broker is
            # told again that it was read, it never says that a sealed topic has ended.
            self._acknowledger.group.add_cumulative(self._last_taken.id)
        self._acknowledger.send_all(connection)
        if self._is_paused:
            self._permits = self._settings.receiver_queue_size
        else:
            permits = self._settings.receiver_queue_size
            connection.send_body(CommandFlow(consumer_id=self._id, messagePermits=permits))

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
        else:  # nothing was stored before it
            self._floor = Floor(EARLIEST, is_included=True)

    @property
    def _floor(self) -> Floor | None:
        """Where a reader would start anew: where it began, or after what was taken last."""
        if self._settings.is_durable or self._last_taken is None:
            return self._start
        return Floor(self._last_taken.id, is_included=False)

    @_floor.setter
    def _floor(self, floor: Floor | None) -> None:
        self._start = floor
        self._last_taken = None

    def _detach(self, connection: Connection) -> None:
        connection.remove_consumer(self._id)
        connection.tell(CommandCloseConsumer(consumer_id=self._id))

    def _start_over(self) -> int:
        """Make everything delivered so far void; returns how many messages were not taken yet."""
        dropped, self._untaken = self._untaken, 0
        self._threshold = self._floor
        self.generation += 1
        self._acknowledger.group.forget_batches()
        self._chunk_ids.clear()
        self._decoder.forget_chunks()
        self._redeliveries.clear()
        return dropped + sum(count_permits(*each) for each in self._intake.clear())

    def _add_permits(self, count: int) -> None:
        self._permits += count
        if self._is_paused or self._permits < self._permits_least:
            return
        if (connection := self._attachment.connection) is not None:
            connection.send_body(CommandFlow(consumer_id=self._id, messagePermits=self._permits))
            self._permits = 0

    def _refuse(self, command: CommandMessage, entry: bytes, error: CorruptEntry) -> None:
        if (connection := self._attachment.connection) is not None:
            body = CommandAck(
                consumer_id=self._id,
                ack_type=CommandAck.Individual,
                message_id=[command.message_id],
                validation_error=CommandAck.ValidationError.Name(error.validation_error),
            )
            connection.send_body(body)
        self._add_permits(count_permits(command, entry))

    def _finish(self, failure: PulsarError) -> None:
        self._attachment.close()
        self._cancel_timers()
        self._give_up(failure)

    def _cancel_timers(self) -> None:
        self._redeliveries.clear()
        self._intake.clear()
        self._acknowledger.cancel_timer()
