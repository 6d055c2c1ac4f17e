"""Acknowledgements that wait to be sent together, and batches of which some messages are done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from magnetar.client.attachment import Attachment
from magnetar.client.connection import Connection, Type
from magnetar.client.error import (
    ConfigurationError,
    FeatureNotSupportedError,
    PulsarError,
    TransactionConflictError,
    decode_refusal,
)
from magnetar.client.handle import Enlisting
from magnetar.client.interceptor import tell_acknowledged
from magnetar.client.layout import is_apache
from magnetar.client.message_id import MessageId
from magnetar.client.session import Session
from magnetar.client.subscription import ConsumerSettings
from magnetar.model.name import TopicName
from magnetar.model.transaction import TransactionId
from magnetar.runtime.clock import Timer
from magnetar.wire.ackset import encode_ack_set, full_ack_set
from magnetar.wire.command import (
    CommandAck,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    MessageIdData,
    message_id,
)

_APPLIED_WITHIN_S: Final = 3.0


class Acknowledger:
    """What is done waits here for others, for a connection, or for its receipt."""

    def __init__(
        self,
        consumer_id: int,
        topic: TopicName,
        settings: ConsumerSettings,
        attachment: Attachment,
        session: Session,
    ) -> None:
        self.group = AckGroup(by_index=settings.batch_index_acks)
        self._consumer_id = consumer_id
        self._topic = topic
        self._settings = settings
        self._attachment = attachment
        self._session = session
        self._timeout = session.operation_timeout
        self._pending: dict[Enlisting, tuple[TransactionAcks, asyncio.Future[None]]] = {}
        """What is to be sent of each transaction."""
        self._unconfirmed: dict[asyncio.Future[None], None] = {}
        """What was sent to be confirmed, or in transactions, and has no receipt yet."""
        self._timer: Timer | None = None

    def add(self, id: MessageId, entries: Sequence[MessageId]) -> None:
        """A message is done, and with it all the entries it came in."""
        for entry in entries:
            self.group.add(entry)
        self._tell(id, is_cumulative=False)
        self._go_on()

    def add_of_batch(self, entry: MessageId, size: int, indexes: Sequence[int]) -> None:
        """Some messages of a batch are done; no interceptor wants to know which."""
        self.group.add_of_batch(entry, size, indexes)
        self._go_on()

    def add_cumulative(self, id: MessageId) -> None:
        self.group.add_cumulative(id)
        self._tell(id, is_cumulative=True)
        self._go_on()

    async def confirm(self) -> None:
        """With `ack_receipts`: return once the broker has stored all that was added. What another
        caller sent of it is waited for too, and fails for both.
        """
        if not self._settings.ack_receipts:
            return
        connection = await self._attachment.wait(self._timeout)
        commands = self.group.take(self._consumer_id)
        if commands:
            receipt = asyncio.get_running_loop().create_future()
            self._unconfirmed[receipt] = None
            receipt.add_done_callback(self._unconfirmed.pop)
            self._session.scope.start(
                self._obtain(connection, commands, receipt), f"acknowledge on {self._topic}"
            )
        for sent in tuple(self._unconfirmed):
            await asyncio.shield(sent)

    async def _obtain(
        self, connection: Connection, commands: list[CommandAck], receipt: asyncio.Future[None]
    ) -> None:
        """In a task of its own: others wait for the same receipt if the caller is cancelled."""
        try:
            for command in commands:
                await self._request(connection, command)
        except PulsarError as error:
            receipt.set_exception(error)
            receipt.exception()  # else reported as never retrieved when all callers were cancelled
        else:
            receipt.set_result(None)
        finally:
            receipt.cancel()

    async def count_left(self) -> int:
        """How many entries the broker has for the subscription that are not acknowledged."""
        return int((await self._ask_stats(with_lag=False)).msgBacklog)

    async def count_lag(self) -> int:
        """How many messages those are."""
        answer = await self._ask_stats(with_lag=True)
        if not answer.HasField("lagMessages"):
            raise FeatureNotSupportedError(
                f"The broker of {self._topic} tells no lag in messages; backlog() counts entries"
            )
        return int(answer.lagMessages)

    async def _ask_stats(self, *, with_lag: bool) -> CommandConsumerStatsResponse:
        connection = await self._attachment.wait(self._timeout)
        self.flush()
        body = CommandConsumerStats(consumer_id=self._consumer_id)
        if with_lag:
            body.with_lag = True
        answer: CommandConsumerStatsResponse = await connection.request(
            body, Type.CONSUMER_STATS_RESPONSE, timeout=self._timeout
        )
        if answer.HasField("error_code"):
            raise decode_refusal(answer.error_code, answer.error_message)
        return answer

    def add_within(
        self, transaction: Enlisting, ids: Iterable[MessageId], *, is_cumulative: bool
    ) -> None:
        """As part of a transaction, which waits for the broker's word. What is added until the
        transaction is announced goes together.
        """
        pending = self._pending.get(transaction)
        if pending is None:
            sent = asyncio.get_running_loop().create_future()
            transaction.follow(self._session, sent)
            self._unconfirmed[sent] = None
            sent.add_done_callback(self._unconfirmed.pop)
            self.group.tell_indexes()
            pending = self._pending[transaction] = TransactionAcks(), sent
            self._session.scope.start(
                self._send_within(transaction, *pending), f"acknowledge on {self._topic}"
            )
        acks, _ = pending
        for id in ids:
            if is_cumulative:
                acks.add_cumulative(id)
            else:
                acks.add(id)
            self._tell(id, is_cumulative=is_cumulative)

    async def _send_within(
        self, transaction: Enlisting, acks: TransactionAcks, sent: asyncio.Future[None]
    ) -> None:
        try:
            subscription = self._settings.subscription
            enlisted = transaction.enlist_subscription(self._topic, subscription)
            if enlisted is not None:
                await enlisted
            connection = await self._attachment.wait(self._timeout)
            del self._pending[transaction]
            for command in acks.take(self._consumer_id, transaction.id):
                await self._request_within(connection, command)
        except PulsarError as error:
            self._pending.pop(transaction, None)
            sent.set_exception(error)
            sent.exception()  # the commit raises it
        else:
            sent.set_result(None)

    def flush(self) -> None:
        self.cancel_timer()
        connection = self._attachment.connection
        if connection is not None:
            self.send_all(connection)

    def send_all(self, connection: Connection) -> None:
        """What is to be confirmed stays, and is sent once more by a request for its receipt."""
        stays = self._settings.ack_receipts
        commands = self.group.encode if stays else self.group.take
        for command in commands(self._consumer_id):
            connection.send_body(command)

    def cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self, id: MessageId, *, is_cumulative: bool) -> None:
        if self._settings.interceptors:
            tell_acknowledged(
                self._settings.interceptors, self._topic.full, (id,), is_cumulative=is_cumulative
            )

    def _go_on(self) -> None:
        settings = self._settings
        if settings.ack_receipts:
            return  # `confirm` sends it
        if settings.ack_group_time == 0 or len(self.group) >= settings.ack_group_size:
            self.flush()
        elif self._timer is None and len(self.group):
            self._timer = self._session.clock.call_later(settings.ack_group_time, self.flush)

    async def _request_within(self, connection: Connection, command: CommandAck) -> None:
        """Apache Pulsar answers a commit before its subscriptions have it, and lets no two
        transactions acknowledge cumulatively: what looks like a conflict may be the last one.
        """
        is_late = command.ack_type == CommandAck.Cumulative and is_apache(connection.server_version)
        clock = self._session.clock
        backoff = self._session.policy.backoff.begin(clock.chance)
        deadline = clock.monotonic() + (_APPLIED_WITHIN_S if is_late else 0.0)
        while True:
            try:
                await self._request(connection, command)
                return
            except TransactionConflictError:
                if clock.monotonic() >= deadline:
                    raise
            await clock.sleep(backoff.next_s())

    async def _request(self, connection: Connection, command: CommandAck) -> None:
        answer = await connection.request(command, Type.ACK_RESPONSE, timeout=self._timeout)
        if answer.HasField("error"):
            raise decode_refusal(answer.error, answer.message)


ALL: Final = -1
"""Every message of the entry remains, however many there are."""
WHOLE: Final = 0
"""No message of the entry remains."""


_Entry: TypeAlias = tuple[int, int, int]
"""Ledger, entry and partition; quicker to look up than the id of an entry."""


class AckGroup:
    """Sans-IO: add what is done, take the commands that say so.

    An entry is acknowledged when all its messages are. With `by_index` the broker also learns which
    messages of a batch remain.
    """

    def __init__(self, *, by_index: bool) -> None:
        self._by_index = by_index
        self._individual: dict[_Entry, int] = {}
        self._cumulative: _Entry | None = None
        self._cumulative_remaining = WHOLE
        self._remaining: dict[_Entry, int] = {}

    def tell_indexes(self) -> None:
        """From now on the broker has to know which messages of a batch are done: others of it are
        acknowledged within transactions.
        """
        self._by_index = True

    def __len__(self) -> int:
        return len(self._individual) + (self._cumulative is not None)

    def on_delivered(self, entry: MessageId, unacknowledged: int) -> int:
        """A batch came once more (0: all of it); return what is left of it, without what was
        acknowledged while it was on its way.
        """
        key = _entry_of(entry)
        left = self._remaining.get(key, ALL) & (unacknowledged or ALL)
        if left != ALL:
            self._remaining[key] = left
        return left

    def add(self, id: MessageId) -> None:
        if id.batch_index < 0:
            self._individual[_entry_of(id)] = WHOLE
        else:
            self.add_of_batch(id, _batch_size(id), (id.batch_index,))

    def add_of_batch(self, id: MessageId, size: int, indexes: Sequence[int]) -> None:
        """Some messages of the batch that `id` is, or is of."""
        entry = _entry_of(id)
        if self._individual.get(entry) == WHOLE:
            return  # acknowledged again, before the broker was told that all of it is done
        remaining = self._remaining.get(entry)
        if remaining is None:
            remaining = full_ack_set(size)
        first = indexes[0]
        if indexes == list(range(first, first + len(indexes))):
            done = full_ack_set(len(indexes)) << first
        else:
            done = 0
            for index in indexes:
                done |= 1 << index
        remaining &= ~done
        if remaining == WHOLE:
            self._remaining.pop(entry, None)
            self._individual[entry] = WHOLE
        else:
            self._remaining[entry] = remaining
            if self._by_index:
                self._individual[entry] = remaining

    def add_cumulative(self, id: MessageId) -> None:
        """Everything up to and including `id` is done; never goes back."""
        remaining = WHOLE
        target = _entry_of(id)
        if id.batch_index >= 0:
            remaining = full_ack_set(_batch_size(id)) & ~full_ack_set(id.batch_index + 1)
            if remaining and not self._by_index:
                target = (id.ledger_id, id.entry_id - 1, id.partition)
                remaining = WHOLE
        if self._cumulative is not None:
            if self._cumulative > target:
                return
            if self._cumulative == target:
                remaining &= self._cumulative_remaining
        self._cumulative, self._cumulative_remaining = target, remaining
        for done in [entry for entry in self._individual if entry < target]:
            del self._individual[done]
        for done in [entry for entry in self._remaining if entry < target]:
            del self._remaining[done]

    def take(self, consumer_id: int) -> list[CommandAck]:
        commands = self.encode(consumer_id)
        self._cumulative = None
        self._individual.clear()
        return commands

    def encode(self, consumer_id: int) -> list[CommandAck]:
        commands = []
        if self._cumulative is not None:
            ids = [encode_ack_id(MessageId(*self._cumulative), self._cumulative_remaining)]
            commands.append(_command(consumer_id, CommandAck.Cumulative, ids))
        if self._individual:
            ids = [
                encode_ack_id(MessageId(*entry), left) for entry, left in self._individual.items()
            ]
            commands.append(_command(consumer_id, CommandAck.Individual, ids))
        return commands

    def clear(self) -> None:
        self._individual.clear()
        self._cumulative = None
        self._remaining.clear()

    def forget_batches(self) -> None:
        """Delivery starts over: what the broker knows stays so, the rest is redelivered."""
        self._remaining.clear()


def encode_ack_id(entry: MessageId, remaining: int) -> MessageIdData:
    data = message_id(entry.position, partition=entry.partition)
    data.ack_set.extend(encode_ack_set(remaining))
    return data


class TransactionAcks:
    """Sans-IO: what one transaction acknowledges on a topic, until it is sent. Single messages of
    a batch are named one by one, each once: what is repeated is a conflict to some brokers.
    """

    def __init__(self) -> None:
        self._individual: dict[MessageId, tuple[int, int]] = {}
        self._cumulative: MessageId | None = None

    def add(self, id: MessageId) -> None:
        if id.batch_index < 0:
            self._individual[id.entry] = WHOLE, 0
            return
        size = _batch_size(id)
        remaining, _ = self._individual.get(id.entry, (full_ack_set(size), size))
        self._individual[id.entry] = remaining & ~(1 << id.batch_index), size

    def add_cumulative(self, id: MessageId) -> None:
        if self._cumulative is None or self._cumulative < id:
            self._cumulative = id

    def take(self, consumer_id: int, transaction: TransactionId) -> list[CommandAck]:
        commands = []
        if (id := self._cumulative) is not None:
            remaining = size = 0
            if id.batch_index >= 0:
                size = _batch_size(id)
                remaining = full_ack_set(size) & ~full_ack_set(id.batch_index + 1)
            ids = [_encode_part(id.entry, remaining, size)]
            commands.append(_command(consumer_id, CommandAck.Cumulative, ids))
        if self._individual:
            ids = [
                _encode_part(entry, remaining, size)
                for entry, (acked, size) in self._individual.items()
                for remaining in _part_whole(acked, size)
            ]
            commands.append(_command(consumer_id, CommandAck.Individual, ids))
        for command in commands:
            command.txnid_most_bits, command.txnid_least_bits = transaction
        return commands


def _part_whole(remaining: int, size: int) -> tuple[int, ...]:
    """A batch of which all is done is acknowledged in two parts. As a whole entry it would be no
    conflict to brokers, although another transaction has acknowledged some of it.
    """
    if remaining or size < 2:
        return (remaining,)
    return (1, full_ack_set(size) & ~1)


def _encode_part(entry: MessageId, remaining: int, size: int) -> MessageIdData:
    data = encode_ack_id(entry, remaining)
    if remaining:
        data.batch_size = size
    return data


def encode_seek_target(target: MessageId) -> MessageIdData:
    """A message that comes next; those before it in its batch are marked as done."""
    data = message_id(target.position, partition=target.partition, batch_index=target.batch_index)
    if 0 < target.batch_index < target.batch_size:
        remaining = full_ack_set(target.batch_size) & ~full_ack_set(target.batch_index)
        data.ack_set.extend(encode_ack_set(remaining))
    return data


def plan_redeliveries(ids: Iterable[MessageId], *, size_max: int) -> list[Sequence[MessageId]]:
    """The entries of these messages, once each, in commands of bounded size."""
    entries = sorted({id.entry for id in ids})
    return [entries[start : start + size_max] for start in range(0, len(entries), size_max)]


def _entry_of(id: MessageId) -> _Entry:
    return id.ledger_id, id.entry_id, id.partition


def check_batch(id: MessageId) -> None:
    """Raise unless the id is that of an entry, or of a message in a batch of known size."""
    if 0 <= id.batch_index >= id.batch_size:
        raise ConfigurationError(f"The id {id} does not know the size of its batch")


def _batch_size(id: MessageId) -> int:
    check_batch(id)
    return id.batch_size


def _command(
    consumer_id: int, kind: CommandAck.AckType, ids: Sequence[MessageIdData]
) -> CommandAck:
    return CommandAck(consumer_id=consumer_id, ack_type=kind, message_id=ids)
