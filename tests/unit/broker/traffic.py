"""A client that publishes batches, chunks and delayed messages and reads what it is handed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from magnetar.model.position import Position
from magnetar.wire.ackset import decode_ack_set, encode_ack_set
from magnetar.wire.batch import encode_batch
from magnetar.wire.command import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandMessage,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSend,
    MessageMetadata,
    SingleMessageMetadata,
    encode_payload_command,
    make_command,
    message_id,
)
from magnetar.wire.entry import decode_entry, encode_entry
from tests.unit.broker.broker_place import Peer, until

TOPIC = "persistent://shop/eu/orders"
EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = range(4)


@dataclass(frozen=True)
class Delivery:
    """One entry as a consumer got it."""

    position: tuple[int, int]
    payload: bytes
    key: str
    redelivery_count: int
    remaining: int | None
    epoch: int | None


class Client(Peer):
    def received(self, kind: int) -> list[BaseCommand]:
        return [command for command in self._wire.received if command.type == kind]

    @property
    def is_cut_off(self) -> bool:
        return self._wire.closed

    @property
    def is_held(self) -> bool:
        return self._wire.is_held

    def fall_silent(self) -> None:
        """Stay connected and hear nothing."""
        self._wire.is_deaf = True

    def stop_reading(self) -> None:
        self._connection.pause_writing()

    def resume_reading(self) -> None:
        self._connection.resume_writing()

    # ------------------------------------------------------------------ publishing

    def send_entry(
        self,
        metadata: MessageMetadata,
        payload: bytes,
        *,
        producer_id: int = 1,
        sequence: int = 0,
        **fields: Any,
    ) -> None:
        send = make_command(CommandSend(producer_id=producer_id, sequence_id=sequence, **fields))
        entry = encode_entry(metadata, payload)
        self._connection.data_received(encode_payload_command(send, entry))

    def send_bytes(self, entry: bytes, *, producer_id: int = 1, sequence: int = 0) -> None:
        """An entry of any bytes, metadata or not."""
        send = make_command(CommandSend(producer_id=producer_id, sequence_id=sequence))
        self._connection.data_received(encode_payload_command(send, entry))

    async def publish(
        self, text: str, *, key: str = "", producer_id: int = 1, sequence: int = 0, **fields: Any
    ) -> Position:
        """One message; return where it stands."""
        metadata = _metadata(sequence, key, **fields)
        before = self.count(BaseCommand.SEND_RECEIPT)
        self.send_entry(metadata, text.encode(), producer_id=producer_id, sequence=sequence)
        return await self._next_receipt(before)

    async def publish_batch(
        self, texts: list[str], *, key: str = "", producer_id: int = 1, sequence: int = 0
    ) -> Position:
        payload = encode_batch((_single(key), text.encode()) for text in texts)
        metadata = _metadata(sequence, key, num_messages_in_batch=len(texts))
        before = self.count(BaseCommand.SEND_RECEIPT)
        self.send_entry(
            metadata,
            payload,
            producer_id=producer_id,
            sequence=sequence,
            num_messages=len(texts),
        )
        return await self._next_receipt(before)

    async def _next_receipt(self, before: int) -> Position:
        await until(lambda: self.count(BaseCommand.SEND_RECEIPT) > before)
        receipt = self.received(BaseCommand.SEND_RECEIPT)[before].send_receipt
        return Position(receipt.message_id.ledgerId, receipt.message_id.entryId)

    # ------------------------------------------------------------------ consuming

    def flush(self) -> None:
        """Let the broker write now what it wrote in this turn."""
        self._connection._flush()

    @property
    def received_count(self) -> int:
        return len(self._wire.received)

    def deliveries(self, consumer_id: int) -> list[Delivery]:
        return [each for to, each in self.deliveries_since(0) if to == consumer_id]

    def deliveries_since(self, start: int) -> list[tuple[int, Delivery]]:
        """What came after the first `start` commands, with the consumer each is for."""
        commands, bodies = self._wire.received[start:], self._wire.payloads[start:]
        return [
            (command.message.consumer_id, _read(command.message, body))
            for command, body in zip(commands, bodies, strict=True)
            if command.type == BaseCommand.MESSAGE
        ]

    def texts(self, consumer_id: int) -> list[str]:
        return [each.payload.decode() for each in self.deliveries(consumer_id)]

    async def get(self, consumer_id: int, count: int) -> list[Delivery]:
        """Wait until the consumer got `count` entries in all, and see that it gets no more."""
        await until(lambda: len(self.deliveries(consumer_id)) >= count)
        await settle()
        found = self.deliveries(consumer_id)
        assert len(found) == count
        return found

    def flow(self, consumer_id: int, permits: int) -> None:
        self.say(CommandFlow(consumer_id=consumer_id, messagePermits=permits))

    def ack_through(
        self, consumer_id: int, position: tuple[int, int], *, remaining: int | None = None
    ) -> None:
        self._ack(consumer_id, position, remaining, CommandAck.Cumulative)

    def ack_part(self, consumer_id: int, position: tuple[int, int], remaining: int) -> None:
        """Acknowledge of a batch all but the `remaining` bits."""
        self._ack(consumer_id, position, remaining, CommandAck.Individual)

    def _ack(
        self,
        consumer_id: int,
        position: tuple[int, int],
        remaining: int | None,
        kind: CommandAck.AckType,
    ) -> None:
        each = message_id(Position(*position))
        if remaining is not None:
            each.ack_set.extend(encode_ack_set(remaining) or [0])
        self.say(CommandAck(consumer_id=consumer_id, ack_type=kind, message_id=[each]))

    def say_goodbye(self, consumer_id: int) -> None:
        """Close a consumer and do not wait for the answer."""
        self.say(CommandCloseConsumer(consumer_id=consumer_id, request_id=0))

    def redeliver(
        self, consumer_id: int, *positions: tuple[int, int], epoch: int | None = None
    ) -> None:
        """Give entries back; none means all."""
        ids = [message_id(Position(*position)) for position in positions]
        command = CommandRedeliverUnacknowledgedMessages(consumer_id=consumer_id, message_ids=ids)
        if epoch is not None:
            command.consumer_epoch = epoch
        self.say(command)

    async def seek(
        self,
        consumer_id: int,
        position: Position | None = None,
        *,
        time_ms: int | None = None,
        remaining: int | None = None,
    ) -> BaseCommand:
        request = CommandSeek(consumer_id=consumer_id)
        if position is not None:
            request.message_id.CopyFrom(message_id(position))
            if remaining is not None:
                request.message_id.ack_set.extend(encode_ack_set(remaining))
        if time_ms is not None:
            request.message_publish_time = time_ms
        return await self.ask(request, BaseCommand.SUCCESS)


def _read(message: CommandMessage, body: bytes) -> Delivery:
    metadata, payload = decode_entry(body)
    return Delivery(
        (message.message_id.ledgerId, message.message_id.entryId),
        payload,
        metadata.partition_key,
        message.redelivery_count,
        decode_ack_set(message.ack_set) if message.ack_set else None,
        message.consumer_epoch if message.HasField("consumer_epoch") else None,
    )


async def settle() -> None:
    """Let everything happen that is going to."""
    for _ in range(60):
        await asyncio.sleep(0)


def _metadata(sequence: int, key: str, **fields: Any) -> MessageMetadata:
    fields.setdefault("publish_time", 1)
    metadata = MessageMetadata(producer_name="p", sequence_id=sequence, **fields)
    if key:
        metadata.partition_key = key
    return metadata


def _single(key: str) -> SingleMessageMetadata:
    single = SingleMessageMetadata(payload_size=0)
    if key:
        single.partition_key = key
    return single
