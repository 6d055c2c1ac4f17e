"""A connection that speaks the protocol and hides nothing: every receipt is seen when it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from magnetar.model.position import Position
from magnetar.wire.ackset import decode_ack_set, full_ack_set
from magnetar.wire.batch import decode_batch, encode_batch
from magnetar.wire.command import (
    PROTOCOL_VERSION,
    BaseCommand,
    CommandAck,
    CommandConnect,
    CommandFlow,
    CommandMessage,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    CommandSubscribe,
    MessageIdData,
    MessageMetadata,
    SingleMessageMetadata,
    body_of,
    decode_command,
    encode_command,
    encode_payload_command,
    make_command,
    message_id,
    pong,
    position_of,
)
from magnetar.wire.entry import decode_entry, encode_entry
from magnetar.wire.frame import FrameDecoder

ANSWER_S_MAX = 60.0
FRAME_BYTES_MAX = 6 * 1024 * 1024


class LinkLost(Exception):
    """The broker is gone; what was not answered is unknown."""


class Refused(Exception):
    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True, slots=True)
class Delivery:
    """One entry as a consumer gets it: its payloads by batch index, without the acknowledged."""

    position: Position
    count: int
    is_batch: bool
    payloads: dict[int, bytes]


class Link(asyncio.Protocol):
    """One connection. Answers go to whoever asked; the rest to the listener of its id."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._decoder = FrameDecoder(frame_bytes_max=FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._requests: dict[int, asyncio.Future[Any]] = {}
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._next_request = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self.lost = asyncio.Event()
        self.on_lost: list[Callable[[], None]] = []
        self.on_receipt: dict[int, Callable[[CommandSendReceipt], None]] = {}
        self.on_send_error: dict[int, Callable[[CommandSendError], None]] = {}
        self.on_producer_closed: dict[int, Callable[[], None]] = {}
        self.on_delivery: dict[int, Callable[[Delivery], None]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, port: int) -> AsyncIterator[Link]:
        loop = asyncio.get_running_loop()
        try:
            transport, link = await loop.create_connection(cls, "127.0.0.1", port)
        except OSError as error:
            raise LinkLost(str(error)) from None
        try:
            link.send(CommandConnect(client_version="crash", protocol_version=PROTOCOL_VERSION))
            async with asyncio.timeout(ANSWER_S_MAX):
                await link._connected
            yield link
        finally:
            transport.abort()

    def send(self, body: Any) -> None:
        self.write(encode_command(make_command(body)))

    def write(self, data: bytes) -> None:
        if self.lost.is_set():
            raise LinkLost("the connection ended")
        assert self._transport is not None
        self._transport.write(data)

    async def drain(self) -> None:
        """Wait while the broker does not read."""
        await self._writable.wait()

    @property
    def unsent_bytes(self) -> int:
        assert self._transport is not None
        return self._transport.get_write_buffer_size()

    async def ask(self, body: Any) -> Any:
        """Send a body that has a request_id; return the body of the answer, or raise Refused."""
        self._next_request += 1
        body.request_id = self._next_request
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._requests[self._next_request] = answer
        self.send(body)
        async with asyncio.timeout(ANSWER_S_MAX):
            return await answer

    async def create_producer(
        self, producer_id: int, topic: str, name: str | None = None
    ) -> CommandProducerSuccess:
        command = CommandProducer(topic=topic, producer_id=producer_id)
        if name is not None:
            command.producer_name = name
            command.user_provided_producer_name = True
        answer: CommandProducerSuccess = await self.ask(command)
        return answer

    async def subscribe(
        self, consumer_id: int, topic: str, name: str, kind: int, *, durable: bool = True
    ) -> None:
        command = CommandSubscribe(
            topic=topic,
            subscription=name,
            subType=CommandSubscribe.SubType.Name(kind),
            consumer_id=consumer_id,
            durable=durable,
            initialPosition=CommandSubscribe.Earliest,
        )
        if not durable:
            command.start_message_id.CopyFrom(message_id(Position(-1, -1)))
        await self.ask(command)

    def flow(self, consumer_id: int, permits: int) -> None:
        self.send(CommandFlow(consumer_id=consumer_id, messagePermits=permits))

    async def acknowledge(
        self, consumer_id: int, ids: Sequence[MessageIdData], *, cumulative: bool = False
    ) -> None:
        """Return when the broker says that it will not forget."""
        answer = await self.ask(make_ack(consumer_id, ids, cumulative=cumulative))
        if answer.HasField("error"):
            raise Refused(answer.error, answer.message)

    # ------------------------------------------------------------------ what comes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, problem: Exception | None) -> None:
        self.lost.set()
        self._writable.set()
        for listener in self.on_lost:
            listener()
        error = LinkLost(f"the connection ended: {problem}")
        for answer in (*self._requests.values(), self._connected):
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # whoever asked may be gone too
        self._requests.clear()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._decoder.feed(data)
        while (frame := self._decoder.next_frame()) is not None:
            command = decode_command(frame.command)
            self._on_command(command.type, body_of(command), frame.body)

    def _on_command(self, kind: int, body: Any, payload: bytes) -> None:
        match kind:
            case BaseCommand.SEND_RECEIPT:
                self.on_receipt[body.producer_id](body)
            case BaseCommand.SEND_ERROR:
                self.on_send_error[body.producer_id](body)
            case BaseCommand.MESSAGE:
                self.on_delivery[body.consumer_id](decode_delivery(body, payload))
            case BaseCommand.CONNECTED:
                self._connected.set_result(None)
            case BaseCommand.PING:
                self.write(encode_command(pong()))
            case BaseCommand.CLOSE_PRODUCER:
                self.on_producer_closed[body.producer_id]()
            case BaseCommand.ERROR:
                answer = self._requests.pop(body.request_id, None)
                if answer is not None and not answer.done():
                    answer.set_exception(Refused(body.error, body.message))
            case BaseCommand.ACTIVE_CONSUMER_CHANGE | BaseCommand.REACHED_END_OF_TOPIC:
                pass
            case _:
                answer = self._requests.pop(getattr(body, "request_id", 0), None)
                if answer is not None and not answer.done():
                    answer.set_result(body)


def make_ack(
    consumer_id: int, ids: Sequence[MessageIdData], *, cumulative: bool = False
) -> CommandAck:
    kind = "Cumulative" if cumulative else "Individual"
    return CommandAck(consumer_id=consumer_id, ack_type=kind, message_id=ids)


def encode_send(
    producer_id: int, name: str, sequence: int, payloads: Sequence[bytes], *, batch: bool = False
) -> bytes:
    """A whole SEND frame; the payloads of a batch take consecutive sequence ids."""
    metadata = MessageMetadata(producer_name=name, sequence_id=sequence, publish_time=1)
    command = CommandSend(producer_id=producer_id, sequence_id=sequence)
    if batch:
        highest = sequence + len(payloads) - 1
        metadata.num_messages_in_batch = command.num_messages = len(payloads)
        metadata.highest_sequence_id = command.highest_sequence_id = highest
        content = encode_batch((SingleMessageMetadata(), payload) for payload in payloads)
    else:
        (content,) = payloads
    return encode_payload_command(make_command(command), encode_entry(metadata, content))


def decode_delivery(command: CommandMessage, entry: bytes) -> Delivery:
    metadata, payload = decode_entry(entry)
    position = position_of(command.message_id)
    if not metadata.HasField("num_messages_in_batch"):
        return Delivery(position, 1, False, {0: payload})
    count = metadata.num_messages_in_batch
    left = decode_ack_set(command.ack_set) if command.ack_set else full_ack_set(count)
    messages = decode_batch(payload, count)
    kept = {index: messages[index].payload for index in range(count) if left >> index & 1}
    return Delivery(position, count, True, kept)
