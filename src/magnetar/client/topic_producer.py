"""A producer on one topic or one partition: batches, sends in order, sends again after a loss."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

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
    PulsarError,
    PulsarTimeoutError,
    TopicTerminatedError,
    decode_refusal,
)
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import Outgoing, PendingSend, SendEncoder, part_batch
from magnetar.client.pending import PendingQueue
from magnetar.client.policy import BatchingPolicy
from magnetar.client.publication import ProducerSettings as ProducerSettings
from magnetar.client.publication import choose_schema, encode_producer
from magnetar.client.retry import is_final
from magnetar.client.session import Session
from magnetar.errors import ProtocolViolation
from magnetar.model.name import TopicName
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

    def identify(self, ids: list[MessageId]) -> list[Any]:
        """What the futures of messages get for their ids."""

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
        owner: ProducerOwner | None = None,
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
        self._attachment = Attachment(
            session, topic, attach=self._attach, detach=self._detach, give_up=self._finish
        )
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
        self._pending = PendingQueue()
        self._batch: list[Outgoing] = []
        self._batch_bytes = 0
        self._batch_timer: Timer | None = None
        self._expiry_timer: Timer | None = None
        self._failure: PulsarError | None = None
        self._hurry: asyncio.Handle | None = None
        self._encoder = self._make_encoder()

    async def open(self) -> None:
        await self._attachment.open()

    def send_message(self, message: Outgoing, sequence_id: int | None) -> None:
        """Send with the next sequence id, or with one chosen by the application."""
        if sequence_id is None:
            sequence_id = self._next_sequence_id
        message.sequence_id = sequence_id
        if sequence_id >= self._next_sequence_id:
            self._next_sequence_id = sequence_id + 1
        batching = self._settings.batching
        size = message.size
        if batching is None or not message.is_batchable or size > batching.max_bytes:
            if self._batch:
                self.flush_batch()
            self._send((message,))
        else:
            self._add_to_batch(message, size, batching)

    def hurry(self) -> None:
        """A caller awaits the last message: do not let it wait for others if none is out."""
        if self._batch and not len(self._pending) and self._hurry is None:
            self._hurry = self._loop.call_soon(self._end_hurry)

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
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            for group in part_batch(self._settings, batch):
                self._send(group)

    def batch_bytes_max(self, batching: BatchingPolicy) -> int:
        return min(batching.max_bytes, self._message_bytes_max)

    async def close(self) -> None:
        """Leave; what is not confirmed fails."""
        connection = self._attachment.close()
        self._finish(AlreadyClosedError(f"The producer on {self.topic} is closed"))
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
            self._finish(AlreadyClosedError(f"The producer on {self.topic} has retired"))
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
        if any(may_be_stored or s.sequence_id <= self._resent_through for s in self._pending):
            for send in self._pending.take_through(await self._ask_last_stored()):
                self._confirm(send, *_NOWHERE)
        messages = [message for send in self._pending.drain() for message in send.messages]
        batch, self._batch = self._batch, []
        return [*messages, *batch]

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
        if self._batch and self._batch_bytes + size > bytes_max:
            self.flush_batch()
        self._batch.append(message)
        self._batch_bytes += size
        if len(self._batch) >= batching.max_messages or self._batch_bytes >= bytes_max:
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
        timeout = self._settings.send_timeout
        expires_at = self._clock.monotonic() + timeout
        for send in sends:
            send.expires_at = expires_at
            self._pending.append(send)
            if connection is not None:
                connection.send(send.frame)
        if timeout > 0 and self._expiry_timer is None:
            self._expiry_timer = self._clock.call_later(timeout, self._expire)

    def _make_encoder(self) -> SendEncoder:
        return SendEncoder(
            self._id,
            self.name,
            self._settings,
            self._schema_version,
            self._message_bytes_max,
            self._sealer,
        )

    def _expire(self) -> None:
        self._expiry_timer = None
        for send in self._pending.expire(self._clock.monotonic()):
            self._completion.fail(
                send.messages, PulsarTimeoutError(f"No receipt from {self.topic} in time")
            )
        next_expiry = self._pending.next_expiry
        if next_expiry is not None:
            self._expiry_timer = self._clock.call_at(next_expiry, self._expire)

    async def _attach(self, connection: Connection) -> None:
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
        connection.add_producer(self._id, self)
        try:
            answer: CommandProducerSuccess = await connection.request(
                body, Type.PRODUCER_SUCCESS, timeout=self._session.operation_timeout
            )
        except BaseException as error:
            connection.remove_producer(self._id)
            if isinstance(error, PulsarTimeoutError | asyncio.CancelledError):
                self._detach(connection)  # it may succeed after all, too late
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
        for send in self._pending:
            connection.send(send.frame)
            if not is_first:
                self._resent_through = send.highest_sequence_id

    def _detach(self, connection: Connection) -> None:
        connection.remove_producer(self._id)
        connection.tell(CommandCloseProducer(producer_id=self._id))

    def on_closed(self, connection: Connection, assigned: str | None) -> None:
        self._attachment.lose(connection, assigned)

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        try:
            send = self._pending.confirm(receipt.sequence_id)
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
            partition, count = self.topic.partition_index, len(send.messages)
            if count == 1:
                ids = [MessageId(ledger_id, entry_id, partition)]
            else:
                ids = [MessageId(ledger_id, entry_id, partition, n, count) for n in range(count)]
            owner = self._owner
            self._completion.confirm(send.messages, ids if owner is None else owner.identify(ids))

    def on_send_error(self, error: CommandSendError) -> None:
        refusal = decode_refusal(error.error, error.message)
        if isinstance(refusal, NotAllowedError | InvalidMessageError):
            send = self._pending.refuse(error.sequence_id)
            if send is not None:
                self._completion.fail(send.messages, refusal)
        elif isinstance(refusal, TopicTerminatedError):
            self._finish(refusal)
        else:
            connection = self._attachment.connection
            if connection is not None:  # introduce ourselves again; all pending is sent again
                self._detach(connection)
                self._attachment.lose(connection)

    def _finish(self, failure: PulsarError) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        self._attachment.close()
        for timer in (self._batch_timer, self._expiry_timer, self._hurry):
            if timer is not None:
                timer.cancel()
        self._batch_timer = self._expiry_timer = self._hurry = None
        if self._owner is not None:
            self._owner.on_finished(failure)
            return
        self._leave()
        batch, self._batch = self._batch, []
        self._completion.fail(batch, failure)
        for send in self._pending.drain():
            self._completion.fail(send.messages, failure)

    def _leave(self) -> None:
        if self._heard is not None:
            self._heard.remove_producer(self._id)
