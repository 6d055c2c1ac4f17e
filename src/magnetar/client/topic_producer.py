"""A producer on one topic or one partition: batches, sends in order, sends again after a loss."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from magnetar.client.admission import SendCompletion
from magnetar.client.attachment import Attachment
from magnetar.client.cipher_loader import make_sealer
from magnetar.client.connection import MESSAGE_BYTES_DEFAULT, Connection, Type
from magnetar.client.encryption import RENEWAL_S, Sealer
from magnetar.client.error import (
    AlreadyClosedError,
    ConnectError,
    InvalidMessageError,
    NotAllowedError,
    NotFoundError,
    PulsarError,
    PulsarTimeoutError,
    TopicTerminatedError,
    TransactionError,
    decode_refusal,
)
from magnetar.client.handle import Enlisting
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import Outcome, Outgoing, PendingQueue, PendingSend
from magnetar.client.policy import BatchingPolicy
from magnetar.client.publication import ProducerSettings as ProducerSettings
from magnetar.client.publication import choose_schema, encode_producer
from magnetar.client.retry import is_final
from magnetar.client.send_encoder import SendEncoder, part_batch
from magnetar.client.session import Session
from magnetar.errors import ProtocolViolation
from magnetar.model.name import TopicName
from magnetar.model.segment import SegmentId
from magnetar.runtime.clock import Timer
from magnetar.wire.command import (
    CommandCloseProducer,
    CommandProducerSuccess,
    CommandSendError,
    CommandSendReceipt,
    position_of,
)
from magnetar.wire.stored import ask_last_stored

_NOWHERE: Final = (-1, -1)
"""Where a duplicate is stored, as brokers say."""


class ProducerOwner(Protocol):
    """Who sends elsewhere what a finished producer leaves unconfirmed."""

    @property
    def id_segment(self) -> SegmentId:
        """What the ids of its messages tell."""

    def on_finished(self, failure: PulsarError) -> None:
        """It sends nothing more; `retire` gives the rest back."""


class TopicProducer:
    """One writer: the event loop. Sequence ids are given in the order of the calls."""

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ProducerSettings,
        completion: SendCompletion,
        *,
        owner: ProducerOwner,
    ) -> None:
        self.topic = topic
        self.name = settings.name or ""
        self.last_sequence_id = -1
        self._session = session
        self._settings = settings
        self._completion = completion
        self._owner = owner
        self._id = session.next_producer_id()
        self._loop = asyncio.get_running_loop()
        self._clock = session.clock
        self._attachment = Attachment(session, topic, self)
        self._heard: Connection | None = None
        """Where receipts come from, even after the broker let go of us."""
        self._sent_on: Connection | None = None
        """Where all that is pending was sent last."""
        self._resent_through = -1
        """Up to here it was sent on an earlier connection too, whose receipts are lost."""
        self._epoch = 0
        self._is_known = False
        self._topic_epoch: int | None = None
        self._schema_version = b""
        encryption = settings.encryption
        self._sealer: Sealer | None = None if encryption is None else make_sealer(encryption)
        self._sealed_at = 0.0
        self._message_bytes_max = MESSAGE_BYTES_DEFAULT
        self._next_sequence_id = 0
        self.pending = PendingQueue()
        self._batch: list[Outgoing] = []
        self._batch_count = self._batch_bytes = 0
        self._batch_timer: Timer | None = None
        self._batch_transaction: Enlisting | None = None
        self._held: deque[tuple[Outgoing, int | None]] = deque()
        """From the first message of a transaction that is not announced yet on, in order."""
        self._is_holding = False
        self._failure: PulsarError | None = None
        self._hurry: asyncio.Handle | None = None
        self._encoder = self._make_encoder()

    async def open(self) -> None:
        await self._attachment.open()

    def send_message(self, message: Outgoing, sequence_id: int | None) -> None:
        """Send with the next sequence id, or with one chosen by the application."""
        if self._is_holding or (message.options and _is_early(message, self.topic)):
            self._hold(message, sequence_id)
            return
        if sequence_id is None:
            sequence_id = self._next_sequence_id
        message.sequence_id = sequence_id
        if sequence_id >= self._next_sequence_id:
            self._next_sequence_id = message.last_sequence_id + 1
        batching = self._settings.batching
        size = message.size
        if batching is None or not message.is_batchable or size > batching.max_bytes:
            if self._batch:
                self.flush_batch()
            self._send((message,))
        else:
            self._add_to_batch(message, size, batching)

    def join(
        self, message: Outgoing, payloads: Sequence[bytes], outcomes: Sequence[Outcome]
    ) -> int:
        """Send these with a message that is the last of a batch and not sent yet; returns how many
        of them there is room for. None of them says anything but its data.
        """
        batch, batching = self._batch, self._settings.batching
        if not batch or batch[-1] is not message or batching is None or self._failure is not None:
            return 0
        places = batching.max_messages - self._batch_count
        left = self.batch_bytes_max(batching) - self._batch_bytes
        count = self._completion.try_join(message, _take_fitting(payloads, places, left))
        if count:
            before = message.size
            message.join(payloads[:count], outcomes[:count])
            self._next_sequence_id += count
            self._batch_count += count
            self._batch_bytes += message.size - before
            if self._batch_count >= batching.max_messages:
                self.flush_batch()
        return count

    def _hold(self, message: Outgoing, sequence_id: int | None) -> None:
        self._held.append((message, sequence_id))
        if not self._is_holding:
            self._is_holding = True
            self._session.scope.start(self._send_held(), f"transactions of {self.topic}")

    async def _send_held(self) -> None:
        while self._held:
            message, sequence_id = self._held[0]
            transaction = message.transaction
            enlisted = None if transaction is None else transaction.enlist_topic(self.topic)
            refusal: PulsarError | None = None
            try:
                if enlisted is not None:
                    await enlisted
            except PulsarError as error:
                refusal = error
            if self._failure is not None:
                return  # all that is held is given back, or has failed
            if isinstance(refusal, TopicTerminatedError | NotFoundError):
                self.finish(refusal)
                return
            self._held.popleft()
            if refusal is None:
                self._is_holding = False
                self.send_message(message, sequence_id)
                self._is_holding = True
            else:
                self._completion.fail((message,), refusal)
        self._is_holding = False
        self.flush_batch()  # they have waited long enough

    def hurry(self) -> None:
        """A caller awaits the last message: do not let it wait for others if none is out."""
        if self._batch and not len(self.pending) and self._hurry is None:
            self._hurry = self._loop.call_soon(self._end_hurry)
        elif len(self.pending) == 1 and not self._batch and self._attachment.connection is not None:
            self._attachment.connection.hurry()

    def _end_hurry(self) -> None:
        self._hurry = None
        if self._failure is None:
            self.flush_batch()

    def flush_batch(self) -> None:
        """Send what was collected, without waiting for more."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if self._batch:
            batch, self._batch, self._batch_bytes, self._batch_count = self._batch, [], 0, 0
            for group in part_batch(self._settings, batch):
                self._send(group)

    def batch_bytes_max(self, batching: BatchingPolicy) -> int:
        most, own = self._message_bytes_max, batching.max_bytes
        return own if own < most else most

    async def close(self) -> None:
        """Leave; what is not confirmed fails."""
        connection = self._attachment.close()
        self.finish(AlreadyClosedError(f"The producer on {self.topic} is closed"))
        self._leave()
        if connection is not None and connection.is_open:
            goodbye = CommandCloseProducer(producer_id=self._id)
            try:
                timeout = self._session.operation_timeout
                await connection.request(goodbye, Type.SUCCESS, timeout=timeout)
            except PulsarError:
                pass  # the broker lets go of it with the connection anyway

    async def retire(self) -> list[Outgoing]:
        """Send nothing more, and give back in order what the broker does not confirm.

        Receipts precede the answer to CLOSE_PRODUCER on their connection: after it, none comes.
        Where they may be lost with an earlier connection, the sealed topic is asked what it has.
        """
        if self._failure is None:
            self.finish(AlreadyClosedError(f"The producer on {self.topic} has retired"))
        heard, is_answered = self._heard, False
        if heard is not None and heard.is_open:
            goodbye = CommandCloseProducer(producer_id=self._id)
            try:
                timeout = self._session.operation_timeout
                await heard.request(goodbye, Type.SUCCESS, timeout=timeout)
                is_answered = heard is self._sent_on
            except PulsarError:
                pass  # a refusal is an answer too, and a lost connection brings no receipts
        self._leave()
        may_be_stored = self._sent_on is not None and not is_answered
        if any(may_be_stored or s.sequence_id <= self._resent_through for s in self.pending):
            last_stored = await self._ask_last_stored()
            for send in self.pending.take_through(last_stored):
                self._confirm(send, *_NOWHERE)
            if last_stored < 0:
                _fail_uncertain(self.pending, self._completion, self.topic)
        messages = [message for send in self.pending.drain() for message in send.messages]
        batch, self._batch = self._batch, []
        held, self._held = self._held, deque()
        return [*messages, *batch, *(message for message, _ in held)]

    async def _ask_last_stored(self) -> int:
        """The last sequence id that the sealed topic stored; -1 when it cannot tell: what it has
        may then be sent once more, as without deduplication.
        """
        session, clock = self._session, self._clock
        backoff = session.policy.backoff.begin(clock.chance)
        deadline = clock.monotonic() + (self._settings.send_timeout or math.inf)
        while clock.monotonic() < deadline:
            try:
                connection = await session.lookup.connect(self.topic, session.next_turn())
                answer: CommandProducerSuccess = await connection.request(
                    ask_last_stored(self.topic.full, session.next_producer_id(), self.name),
                    Type.PRODUCER_SUCCESS,
                    timeout=session.operation_timeout,
                )
                return answer.last_sequence_id
            except PulsarError as error:
                if is_final(error) or isinstance(error, NotAllowedError):
                    break
            await clock.sleep(backoff.next_s())
        return -1

    def _add_to_batch(self, message: Outgoing, size: int, batching: BatchingPolicy) -> None:
        bytes_max = self.batch_bytes_max(batching)
        transaction = message.options.get("transaction") if message.options else None
        if self._batch and (
            self._batch_bytes + size > bytes_max
            or self._batch_count + message.count > batching.max_messages
            or transaction is not self._batch_transaction
        ):
            self.flush_batch()
        self._batch_transaction = transaction
        self._batch.append(message)
        self._batch_count += message.count
        self._batch_bytes += size
        if self._batch_count >= batching.max_messages or self._batch_bytes >= bytes_max:
            self.flush_batch()
        elif self._batch_timer is None:
            self._batch_timer = self._clock.call_later(batching.max_delay, self.flush_batch)

    def _send(self, messages: Sequence[Outgoing]) -> None:
        if self._failure is not None:
            self._completion.fail(messages, self._failure)
            return
        if self._sealer is not None and self._clock.monotonic() > self._sealed_at + RENEWAL_S:
            self._sealed_at = self._clock.monotonic()
            self._session.scope.start(self._sealer.renew(), f"new data key for {self.topic}")
        try:
            sends = self._encoder.encode(messages, now_ms=self._session.clock.now_ms())
        except InvalidMessageError as error:
            self._completion.fail(messages, error)
            return
        connection = self._attachment.connection
        for send in sends:
            self.pending.append(send)
            if connection is not None:
                connection.send(send.frame)
                send.is_sent = True

    def _make_encoder(self) -> SendEncoder:
        return SendEncoder(
            self._id,
            self.name,
            self._settings,
            self._schema_version,
            self._message_bytes_max,
            self._sealer,
        )

    async def attach(self, connection: Connection) -> None:
        if self._sealer is not None:
            await self._sealer.renew()
            self._sealed_at = self._clock.monotonic()
        body = encode_producer(
            self._settings,
            self.topic,
            self._id,
            name=self.name,
            epoch=self._epoch,
            topic_epoch=self._topic_epoch,
            schema=await choose_schema(self._settings, self.topic, self._session.schemas),
        )
        self._epoch += 1
        self._leave()
        self._heard = connection
        connection.ends.add_producer(self._id, self)
        try:
            answer: CommandProducerSuccess = await connection.request(
                body, Type.PRODUCER_SUCCESS, timeout=self._session.operation_timeout
            )
        except BaseException as error:
            connection.ends.remove_producer(self._id)
            if isinstance(error, PulsarTimeoutError | asyncio.CancelledError):
                self.detach(connection)  # it may succeed after all, too late
            raise
        self._on_attached(connection, answer)

    def _on_attached(self, connection: Connection, answer: CommandProducerSuccess) -> None:
        is_first, self._is_known = not self._is_known, True
        self.name = answer.producer_name
        self._schema_version = answer.schema_version
        self._message_bytes_max = connection.message_bytes_max
        self._encoder = self._make_encoder()
        if answer.HasField("topic_epoch"):
            self._topic_epoch = answer.topic_epoch
        if is_first:
            initial = self._settings.initial_sequence_id
            self.last_sequence_id = answer.last_sequence_id if initial is None else initial
            self._next_sequence_id = max(self._next_sequence_id, self.last_sequence_id + 1)
        self._sent_on = connection
        if answer.last_sequence_id < 0:
            _fail_uncertain(self.pending, self._completion, self.topic)
        for send in self.pending:
            connection.send(send.frame)
            send.is_sent = True
            if not is_first:
                self._resent_through = send.highest_sequence_id

    def detach(self, connection: Connection) -> None:
        connection.ends.remove_producer(self._id)
        connection.tell(CommandCloseProducer(producer_id=self._id))

    def on_closed(self, connection: Connection, assigned: str | None) -> None:
        self._attachment.lose(connection, assigned)

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        try:
            send = self.pending.confirm(receipt.sequence_id)
        except ProtocolViolation as error:
            connection = self._attachment.connection
            if connection is not None:
                connection.close(ConnectError(f"{self.topic}: {error.sentence}"))
            return
        if send is not None:
            self._confirm(send, *position_of(receipt.message_id))

    def _confirm(self, send: PendingSend, ledger_id: int, entry_id: int) -> None:
        if send.highest_sequence_id > self.last_sequence_id:
            self.last_sequence_id = send.highest_sequence_id
        if send.messages:
            partition, count = self.topic.partition_index, send.count
            segment = self._owner.id_segment
            ids = [
                MessageId(ledger_id, entry_id, partition, n, count, segment)
                for n in (range(count) if count else (-1,))
            ]
            self._completion.confirm(send.messages, ids)

    def on_send_error(self, error: CommandSendError) -> None:
        refusal = decode_refusal(error.error, error.message)
        if isinstance(refusal, NotAllowedError | InvalidMessageError | TransactionError):
            send = self.pending.refuse(error.sequence_id)
            if send is not None:
                self._completion.fail(send.messages, refusal)
        elif isinstance(refusal, TopicTerminatedError):
            self.finish(refusal)
        else:
            connection = self._attachment.connection
            if connection is not None:  # introduce ourselves again; all pending is sent again
                self.detach(connection)
                self._attachment.lose(connection)

    def finish(self, failure: PulsarError) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        self._attachment.close()
        for timer in (self._batch_timer, self._hurry):
            if timer is not None:
                timer.cancel()
        self._batch_timer = self._hurry = None
        self._owner.on_finished(failure)

    def _leave(self) -> None:
        if self._heard is not None:
            self._heard.ends.remove_producer(self._id)


def _take_fitting(payloads: Sequence[bytes], places: int, left: int) -> Sequence[bytes]:
    """Those of the first that leave some of the bytes; the one that fills a batch is added to it as
    any other message.
    """
    for count, payload in enumerate(payloads):
        left -= len(payload)
        if left <= 0 or count == places:
            return payloads[:count]
    return payloads


def _is_early(message: Outgoing, topic: TopicName) -> bool:
    """Whether the transaction of a message has to be announced first."""
    transaction = message.transaction
    return transaction is not None and transaction.enlist_topic(topic) is not None


def _fail_uncertain(pending: PendingQueue, completion: SendCompletion, topic: TopicName) -> None:
    """The broker does not tell duplicates: a transaction whose messages may be stored already can
    only be aborted.
    """
    failure = TransactionError(f"It is not known what {topic} has of the transaction")
    for send in pending.take_uncertain():
        completion.fail(send.messages, failure)
