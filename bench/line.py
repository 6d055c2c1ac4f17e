"""A raw connection to a broker: as little client as possible between the measure and the wire."""

from __future__ import annotations

import asyncio
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Self

from magnetar.wire.command import (
    PROTOCOL_VERSION,
    BaseCommand,
    CommandConnect,
    CommandFlow,
    CommandLookupTopic,
    CommandMessage,
    CommandProducer,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    MessageMetadata,
    decode_command,
    encode_command,
    encode_payload_command,
    make_command,
    pong,
)
from magnetar.wire.entry import encode_entry

ANSWER_S_MAX = 60.0
Request = CommandProducer | CommandSubscribe | CommandLookupTopic
FIRST_BODY_BYTE = 8  # after the two sizes: the tag of the command's type, then the type itself


class Line(asyncio.Protocol):
    """One connection. Receipts and messages are counted, and shown to a listener if one is set."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answers: dict[int, asyncio.Future[BaseCommand]] = {}
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._next_request = 0
        self._wake = asyncio.Event()
        self._problem: Exception | None = None
        self._names: dict[int, str] = {}
        self._transport: asyncio.Transport | None = None
        self.receipts = 0
        self.messages = 0
        self.on_receipt: Callable[[CommandSendReceipt], None] | None = None
        self.on_message: Callable[[CommandMessage], None] | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, host: str, port: int, *, tls: ssl.SSLContext | None = None, token: str = ""
    ) -> AsyncIterator[Self]:
        loop = asyncio.get_running_loop()
        transport, line = await loop.create_connection(cls, host, port, ssl=tls)
        try:
            hello = CommandConnect(client_version="bench", protocol_version=PROTOCOL_VERSION)
            if token:
                hello.auth_method_name, hello.auth_data = "token", token.encode()
            transport.write(encode_command(make_command(hello)))
            await asyncio.wait_for(line._connected, ANSWER_S_MAX)
            yield line
        finally:
            transport.close()

    async def create_producer(self, producer_id: int, topic: str) -> None:
        await self._look_up(topic)
        command = CommandProducer(topic=topic, producer_id=producer_id, request_id=0)
        answer = await self._ask(command)
        self._names[producer_id] = answer.producer_success.producer_name

    async def subscribe(
        self, consumer_id: int, topic: str, subscription: str, *, shared: bool = False
    ) -> None:
        kinds = CommandSubscribe.SubType
        await self._look_up(topic)
        await self._ask(
            CommandSubscribe(
                topic=topic,
                subscription=subscription,
                subType=kinds.Shared if shared else kinds.Exclusive,
                consumer_id=consumer_id,
                request_id=0,
                initialPosition=CommandSubscribe.InitialPosition.Earliest,
            )
        )

    def flow(self, consumer_id: int, permits: int) -> None:
        self.write(
            encode_command(
                make_command(CommandFlow(consumer_id=consumer_id, messagePermits=permits))
            )
        )

    def encode_send(
        self,
        producer_id: int,
        sequence_id: int,
        payload: bytes,
        *,
        key: str | None = None,
        messages: int = 1,
    ) -> bytes:
        """A frame; with several `messages` it passes for a batch, into which no broker looks."""
        metadata = MessageMetadata(
            producer_name=self._names[producer_id],
            sequence_id=sequence_id,
            publish_time=time.time_ns() // 1_000_000,
            partition_key=key,
        )
        send = CommandSend(producer_id=producer_id, sequence_id=sequence_id)
        if messages > 1:
            metadata.num_messages_in_batch = send.num_messages = messages
        command = make_command(send)
        return encode_payload_command(command, encode_entry(metadata, payload))

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    async def send_all(self, frames: Sequence[bytes], *, window: int, burst: int) -> None:
        """Send prepared frames with at most `window` unanswered; return at the last receipt."""
        start = self.receipts
        for first in range(0, len(frames), burst):
            await self.await_receipts(start + first + burst - window)
            self.write(b"".join(frames[first : first + burst]))
        await self.await_receipts(start + len(frames))

    async def await_receipts(self, count: int) -> None:
        await self._await(lambda: self.receipts >= count)

    async def await_messages(self, count: int) -> None:
        await self._await(lambda: self.messages >= count)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, problem: Exception | None) -> None:
        self._fail(ConnectionError(f"the broker closed the connection: {problem}"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        for command in self._frames():
            match command[1]:
                case BaseCommand.SEND_RECEIPT:
                    self.receipts += 1
                    if self.on_receipt is not None:
                        self.on_receipt(decode_command(command).send_receipt)
                case BaseCommand.MESSAGE:
                    self.messages += 1
                    if self.on_message is not None:
                        self.on_message(decode_command(command).message)
                case BaseCommand.CONNECTED:
                    self._connected.set_result(None)
                case BaseCommand.PING:
                    self.write(encode_command(pong()))
                case _:
                    self._on_answer(decode_command(command))
        self._wake.set()

    def _frames(self) -> Iterable[bytes]:
        start, received = 0, self._received
        while len(received) - start >= FIRST_BODY_BYTE:
            size, command_size = struct.unpack_from(">II", received, start)
            if len(received) - start < 4 + size:
                break
            first = start + FIRST_BODY_BYTE
            yield bytes(received[first : first + command_size])
            start += 4 + size
        del received[:start]

    async def _look_up(self, topic: str) -> None:
        """A broker serves a topic only after it was asked who owns it."""
        await self._ask(CommandLookupTopic(topic=topic, request_id=0))

    async def _ask(self, body: Request) -> BaseCommand:
        self._next_request += 1
        body.request_id = self._next_request
        answer = asyncio.get_running_loop().create_future()
        self._answers[body.request_id] = answer
        self.write(encode_command(make_command(body)))
        return await asyncio.wait_for(answer, ANSWER_S_MAX)

    def _on_answer(self, command: BaseCommand) -> None:
        match command.type:
            case BaseCommand.PRODUCER_SUCCESS:
                self._answers.pop(command.producer_success.request_id).set_result(command)
            case BaseCommand.LOOKUP_RESPONSE:
                self._answers.pop(command.lookupTopicResponse.request_id).set_result(command)
            case BaseCommand.SUCCESS:
                self._answers.pop(command.success.request_id).set_result(command)
            case BaseCommand.ERROR:
                refusal = RuntimeError(command.error.message)
                self._answers.pop(command.error.request_id).set_exception(refusal)
            case BaseCommand.SEND_ERROR:
                self._fail(RuntimeError(f"refused: {command.send_error.message}"))

    def _fail(self, problem: Exception) -> None:
        self._problem = self._problem or problem
        if not self._connected.done():
            self._connected.set_exception(problem)
        for answer in self._answers.values():
            answer.set_exception(problem)
        self._answers.clear()
        self._wake.set()

    async def _await(self, reached: Callable[[], bool]) -> None:
        while not reached():
            if self._problem is not None:
                raise self._problem
            self._wake.clear()
            await asyncio.wait_for(self._wake.wait(), ANSWER_S_MAX)
