"""A consumer on one topic or one partition: permits, delivery, acknowledgements, seek."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import Any, Final, Protocol

from magnetar.client.acknowledgement import (
    Acknowledger,
    encode_ack_id,
    encode_seek_target,
    plan_redeliveries,
)
from magnetar.client.attachment import Attachment, Permits
from magnetar.client.cipher_loader import make_opener
from magnetar.client.connection import MESSAGE_BYTES_DEFAULT, Connection, Type
from magnetar.client.delivery import (
    CorruptEntry,
    EntryDecoder,
    Intake,
    RawEntry,
    count_permits,
    make_raw,
    select_messages,
)
from magnetar.client.encryption import ConsumerFailure
from magnetar.client.error import CryptoError, PulsarError, PulsarTimeoutError
from magnetar.client.handle import Enlisting
from magnetar.client.interceptor import tell_refused
from magnetar.client.message import Message, Origin
from magnetar.client.message_id import EARLIEST_ID, LATEST_ID, MessageId
from magnetar.client.progress import Floor, ReaderPlace
from magnetar.client.redelivery import RedeliveryPlan, RedeliveryTimes
from magnetar.client.schema.book import SchemaValues
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings, encode_subscribe
from magnetar.model.name import TopicName
from magnetar.runtime.log import Logger
from magnetar.wire.ackset import decode_ack_set
from magnetar.wire.command import (
    CommandAck,
    CommandCloseConsumer,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandMessage,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandUnsubscribe,
    position_of,
    unsigned64,
)

_log = Logger(__name__)

_REDELIVERIES_MAX: Final = 1000


class Outlet(Protocol):
    """Where a consumer puts what it gets, and what it reports to."""

    def put(self, part: TopicConsumer, messages: Sequence[Any]) -> None:
        """Messages, or raw entries where the settings ask for columns."""

    def retract(self, part: TopicConsumer, entries: Set[MessageId]) -> int:
        """Drop what waits of these entries for the application; how many messages that was."""

    def start_over(self, part: TopicConsumer) -> None:
        """What waits of it is void, and is delivered once more; what was taken counts."""

    def may_create(self, part: TopicConsumer) -> bool:
        """Whether it makes its topic where there is none, now that it attaches."""

    def on_end(self, part: TopicConsumer) -> None:
        """The topic is sealed or terminated, and the broker has no more to deliver of it."""

    def on_lost(self, part: TopicConsumer, failure: PulsarError) -> None:
        """It cannot be consumed any more."""


class Unread:
    """Where messages are not received: the subscription is held, or entries go another way."""

    def put(self, part: TopicConsumer, messages: Sequence[Any]) -> None:
        """It is forgotten."""

    def retract(self, part: TopicConsumer, entries: Set[MessageId]) -> int:
        return 0

    def start_over(self, part: TopicConsumer) -> None:
        part.generation += 1

    def may_create(self, part: TopicConsumer) -> bool:
        return True

    def on_end(self, part: TopicConsumer) -> None:
        """There is nothing to do at the end."""

    def on_lost(self, part: TopicConsumer, failure: PulsarError) -> None:
        """The next call says so."""


class TopicConsumer:
    """The outlet gets messages as they come; without one they are forgotten. What came under an
    older `generation` is void.
    """

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ConsumerSettings,
        *,
        outlet: Outlet | None,
        origin: Origin | None = None,
    ) -> None:
        self.topic = topic
        origin = origin or Origin(topic.full)
        self.segment = origin.segment_id
        self.generation = 0
        self.is_active = False
        self.has_reached_end = False
        self._session = session
        self._settings = settings
        self._outlet = outlet or Unread()
        self._id = session.next_consumer_id()
        self._attachment = Attachment(session, topic, self)
        encryption = settings.encryption
        self._decoder = EntryDecoder(
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
        self.counts_time = self._redeliveries.is_counting
        """Whether it matters when the application gets a message."""
        self._reader = ReaderPlace(settings.start)
        self._threshold = settings.start
        """What is before it was taken already, or is not wanted."""
        self._epoch = 0
        self._permits = Permits(self._attachment, self._id, settings.receiver_queue_size)
        self._untaken = 0
        self.acknowledger = Acknowledger(self._id, topic, settings, self._attachment, session)
        self._chunk_ids: dict[MessageId, tuple[MessageId, ...]] = {}

    async def open(self) -> None:
        await self._attachment.open()

    def on_taken(self, messages: Sequence[Message[Any]]) -> None:
        """The application got these: there is room for as many."""
        count = len(messages)
        self._untaken -= count
        if self._redeliveries.is_counting:
            for message in messages:
                self._redeliveries.on_taken(message.place, message.redelivery_count)
        self._reader.taken = messages[-1]
        self._permits.add(count)

    def on_taken_raw(self, raw: RawEntry) -> None:
        self._untaken -= raw.permits
        self._reader.taken = raw
        self._permits.add(raw.permits)

    def acknowledge(
        self,
        id: MessageId,
        transaction: Enlisting | None = None,
        *,
        indexes: Sequence[int] | None = None,
    ) -> None:
        """Sent with others; where the settings ask for receipts, `acknowledger.confirm` does. With
        `indexes`, these messages of the batch that `id` is.
        """
        if indexes is not None:
            is_plain = self._redeliveries.is_idle and not self._chunk_ids
            if is_plain and not self._settings.interceptors:
                self.acknowledger.add_of_batch(id, id.batch_size, indexes)
                return
            for index in indexes:
                self.acknowledge(replace(id, batch_index=index))
            return
        self._redeliveries.on_done((id,))
        entries = self._chunk_ids.pop(id, (id,)) if self._chunk_ids else (id,)
        if transaction is None:
            self.acknowledger.add(id, entries)
        else:
            self.acknowledger.add_within(transaction, entries, is_cumulative=False)

    def acknowledge_cumulative(self, id: MessageId, transaction: Enlisting | None = None) -> None:
        self._redeliveries.on_done_up_to(id)
        if transaction is None:
            self.acknowledger.add_cumulative(id)
        else:
            self.acknowledger.add_within(transaction, (id,), is_cumulative=True)

    def negative_acknowledge(self, id: MessageId, delay: float | None) -> None:
        """Ask for the message again, after a while."""
        self._redeliveries.on_refused(id, delay)
        tell_refused(self._settings.interceptors, self.topic.full, id)

    def pause(self) -> None:
        """Ask for nothing more; what was asked for still comes."""
        self._permits.pause()

    def resume(self) -> None:
        self._permits.resume()

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
            return  # what is unacknowledged is redelivered on the next connection
        self.acknowledger.flush()
        for entries in plan_redeliveries(ids, size_max=_REDELIVERIES_MAX):
            body = CommandRedeliverUnacknowledgedMessages(consumer_id=self._id)
            body.message_ids.extend(encode_ack_id(entry, 0) for entry in entries)
            connection.send_body(body)
            dropped = self._outlet.retract(self, frozenset(entries))
            self._untaken -= dropped
            self._permits.add(dropped)

    def redeliver_all(self) -> None:
        """Ask for everything unacknowledged again; what waits here is dropped."""
        self.acknowledger.flush()
        dropped = self._start_over()
        connection = self._attachment.connection
        if connection is None:
            return
        body = CommandRedeliverUnacknowledgedMessages(consumer_id=self._id)
        if not self._settings.type.is_shared:
            self._epoch += 1
            body.consumer_epoch = self._epoch
        connection.send_body(body)
        self._permits.add(dropped)

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
            floor = None if self._settings.is_durable else Floor(EARLIEST_ID, is_included=True)
        self.acknowledger.flush()  # it counts if the seek is refused
        self._start_over()
        self.acknowledger.group.clear()
        self._reader.move(floor)
        generation = self.generation
        await connection.request(body, Type.SUCCESS, timeout=timeout)
        if is_leaving:
            return
        self.has_reached_end = False
        if self._attachment.connection is connection and self.generation == generation:
            # The broker did not send us away: attach again, so that nothing older is on its way.
            self._start_over()
            self.detach(connection)
            self._attachment.lose(connection)
        await self._attachment.wait(timeout)

    async def last_message_id(self) -> MessageId | None:
        """The last message stored; None for an empty topic."""
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        answer = await ask_last(connection, self._id, timeout)
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
        floor = self._reader.floor
        return floor is None or floor.wants(last)

    async def unsubscribe(self, *, force: bool) -> None:
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        self.acknowledger.flush()  # it counts if this is refused
        body = CommandUnsubscribe(consumer_id=self._id, force=force)
        await connection.request(body, Type.SUCCESS, timeout=timeout)
        self.acknowledger.group.clear()

    async def close(self) -> None:
        self.acknowledger.flush()
        connection = self._attachment.close()
        self._redeliveries.clear()
        self._intake.clear()
        self.acknowledger.cancel_timer()
        if connection is not None and connection.is_open:
            connection.ends.remove_consumer(self._id)
            goodbye = CommandCloseConsumer(consumer_id=self._id)
            try:
                timeout = self._session.operation_timeout
                await connection.request(goodbye, Type.SUCCESS, timeout=timeout)
            except PulsarError:
                pass  # the broker lets go of it with the connection anyway

    def on_message(self, command: CommandMessage, entry: bytes) -> None:
        if command.HasField("consumer_epoch") and command.consumer_epoch < self._epoch:
            # Sent before the broker heard to start over.
            self._permits.add(count_permits(command, entry))
            return
        self._intake.put(command, entry)

    def _accept(self, command: CommandMessage, entry: bytes) -> None:
        floor = self._threshold
        if floor is not None and position_of(command.message_id) > floor.id.position:
            floor = None  # nothing in this entry can be before it
        if self._settings.columns:
            raw = make_raw(command, entry, floor, self.segment)
            if isinstance(raw, int):
                self._permits.add(raw)
            else:
                self._untaken += raw.permits
                self._outlet.put(self, [raw])
            return
        try:
            delivery = self._decoder.decode(
                command,
                entry,
                now_ms=self._session.clock.now_ms(),
                is_wanted=None if floor is None else floor.wants,
            )
        except CorruptEntry as error:
            connection = self._attachment.connection
            if connection is not None:
                connection.send_body(refuse_corrupt(self._id, command, error))
            self._permits.add(count_permits(command, entry))
            return
        except CryptoError as error:
            _log.warning("message not decrypted", error=error, topic=self.topic.full)
            id = MessageId(*position_of(command.message_id), command.message_id.partition)
            self._redeliveries.on_refused(id, None)
            self._permits.add(count_permits(command, entry))
            return
        arrived = delivery.messages
        if (
            (command.ack_set or command.redelivery_count)
            and arrived
            and arrived[0].place.batch_index >= 0
        ):
            left = self.acknowledger.group.on_delivered(
                arrived[0].place.entry, decode_ack_set(command.ack_set)
            )
            arrived = [each for each in arrived if left >> each.place.batch_index & 1]
        if delivery.chunk_ids:
            self._chunk_ids[delivery.chunk_ids[-1]] = delivery.chunk_ids
        messages = select_messages(self._settings, arrived, self)
        if messages:
            self._untaken += len(messages)
            self._outlet.put(self, messages)
        self._permits.add(delivery.unused_permits + len(delivery.messages) - len(messages))

    def on_active_change(self, is_active: bool) -> None:
        self.is_active = is_active

    def on_end_of_topic(self) -> None:
        self.has_reached_end = True
        self._outlet.on_end(self)

    def on_closed(self, connection: Connection, assigned: str | None) -> None:
        self._attachment.lose(connection, assigned)

    async def attach(self, connection: Connection) -> None:
        self._start_over()
        floor = self._reader.floor
        connection.ends.add_consumer(self._id, self)
        timeout = self._session.operation_timeout
        try:
            body = encode_subscribe(
                self._settings,
                self.topic,
                self._id,
                floor=floor,
                epoch=self._epoch,
            )
            body.force_topic_creation &= self._outlet.may_create(self)
            await connection.request(body, Type.SUCCESS, timeout=timeout)
            if floor is not None and floor.id == LATEST_ID:
                self._reader.move(pin_latest(await ask_last(connection, self._id, timeout)))
        except BaseException as error:
            connection.ends.remove_consumer(self._id)
            if isinstance(error, PulsarTimeoutError | asyncio.CancelledError):
                self.detach(connection)  # it may succeed after all, too late
            raise
        if self._reader.taken is not None and not self._settings.is_durable:
            # A reader's cursor begins anew at the entry that was taken last. Unless the broker is
            # told again that it was read, it never says that a sealed topic has ended.
            self.acknowledger.group.add_cumulative(self._reader.taken.place)
        self.acknowledger.send_all(connection)
        self._permits.begin(connection)

    def detach(self, connection: Connection) -> None:
        connection.ends.remove_consumer(self._id)
        connection.tell(CommandCloseConsumer(consumer_id=self._id))

    def _start_over(self) -> int:
        """Make everything delivered so far void; returns how many messages were not taken yet."""
        self._outlet.start_over(self)
        dropped, self._untaken = self._untaken, 0
        self._threshold = self._reader.floor
        self.acknowledger.group.forget_batches()
        self._chunk_ids.clear()
        self._decoder.forget_chunks()
        self._redeliveries.clear()
        return dropped + sum(count_permits(*each) for each in self._intake.clear())

    def finish(self, failure: PulsarError) -> None:
        self._attachment.close()
        self._redeliveries.clear()
        self._intake.clear()
        self.acknowledger.cancel_timer()
        self._outlet.on_lost(self, failure)


async def ask_last(
    connection: Connection, consumer_id: int, timeout: float
) -> CommandGetLastMessageIdResponse:
    """What the broker has stored last, and how far the consumer has come there."""
    answer: CommandGetLastMessageIdResponse = await connection.request(
        CommandGetLastMessageId(consumer_id=consumer_id),
        Type.GET_LAST_MESSAGE_ID_RESPONSE,
        timeout=timeout,
    )
    return answer


def pin_latest(answer: CommandGetLastMessageIdResponse) -> Floor:
    """Where "latest" was, so that a reader that got nothing yet resumes there."""
    if answer.HasField("consumer_mark_delete_position"):
        position = position_of(answer.consumer_mark_delete_position)
        return Floor(MessageId(*position), is_included=False)
    return Floor(EARLIEST_ID, is_included=True)  # nothing was stored before it


def refuse_corrupt(consumer_id: int, command: CommandMessage, error: CorruptEntry) -> CommandAck:
    return CommandAck(
        consumer_id=consumer_id,
        ack_type=CommandAck.Individual,
        message_id=[command.message_id],
        validation_error=CommandAck.ValidationError.Name(error.validation_error),
    )


async def count_lag(part: TopicConsumer) -> int:
    """How many messages are not done; for a reader, how many it has not handed out, which the
    broker cannot know before it gets to know how far that is.
    """
    floor = part._reader.floor
    if floor is not None and floor.is_passed:
        part.acknowledger.group.add_cumulative(floor.id)
    return await part.acknowledger.count_lag()
