"""A broker that says what a test tells it to, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from magnetar.wire.command import (
    BaseCommand,
    CommandConnected,
    CommandLookupTopicResponse,
    CommandMessage,
    CommandPartitionedTopicMetadataResponse,
    CommandProducerSuccess,
    CommandSendReceipt,
    MessageIdData,
    body_of,
    decode_command,
    encode_command,
    encode_payload_command,
    make_command,
    pong,
    success,
)
from magnetar.wire.frame import FrameDecoder

Type = BaseCommand.Type
Handler = Callable[["Line", Any, bytes], None]


class Line:
    """One connection as the broker sees it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def say(self, body: Any) -> None:
        command = body if isinstance(body, BaseCommand) else make_command(body)
        self._writer.write(encode_command(command))

    def deliver(self, consumer_id: int, ledger_id: int, entry_id: int, entry: bytes) -> None:
        id = MessageIdData(ledgerId=ledger_id, entryId=entry_id)
        command = make_command(CommandMessage(consumer_id=consumer_id, message_id=id))
        self._writer.write(encode_payload_command(command, entry))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def cut(self) -> None:
        self._writer.close()

    @property
    def is_open(self) -> bool:
        return not self._writer.is_closing()


class ScriptedBroker:
    """Answers everything kindly; a test replaces the answers it is about."""

    def __init__(self) -> None:
        self.heard: list[BaseCommand] = []
        self.lines: list[Line] = []
        self.url = ""
        self.entries = 0
        self.on: dict[int, Handler] = {
            Type.CONNECT: lambda line, body, _: line.say(
                CommandConnected(server_version="scripted", protocol_version=21)
            ),
            Type.PING: lambda line, body, _: line.say(pong()),
            Type.LOOKUP: self._locate,
            Type.PARTITIONED_METADATA: lambda line, body, _: line.say(
                CommandPartitionedTopicMetadataResponse(
                    request_id=body.request_id,
                    partitions=0,
                    response=CommandPartitionedTopicMetadataResponse.Success,
                )
            ),
            Type.PRODUCER: lambda line, body, _: line.say(
                CommandProducerSuccess(
                    request_id=body.request_id, producer_name="p", schema_version=b""
                )
            ),
            Type.SEND: self._store,
        }
        for kind in (
            Type.SUBSCRIBE,
            Type.CLOSE_PRODUCER,
            Type.CLOSE_CONSUMER,
            Type.UNSUBSCRIBE,
            Type.SEEK,
        ):
            self.on[kind] = lambda line, body, _: line.say(success(body.request_id))

    def bodies(self, kind: int) -> list[Any]:
        return [body_of(command) for command in self.heard if command.type == kind]

    async def until(self, kind: int, count: int = 1) -> list[Any]:
        """Wait until that many commands of a kind were heard."""
        async with asyncio.timeout(10):
            while len(self.bodies(kind)) < count:
                await asyncio.sleep(0.001)
        return self.bodies(kind)

    def receipt(self, line: Line, send: Any) -> None:
        id = MessageIdData(ledgerId=7, entryId=self.entries)
        self.entries += 1
        line.say(
            CommandSendReceipt(
                producer_id=send.producer_id, sequence_id=send.sequence_id, message_id=id
            )
        )

    def _store(self, line: Line, send: Any, _: bytes) -> None:
        self.receipt(line, send)

    def _locate(self, line: Line, body: Any, _: bytes) -> None:
        line.say(
            CommandLookupTopicResponse(
                request_id=body.request_id,
                response=CommandLookupTopicResponse.Connect,
                brokerServiceUrl=self.url,
                authoritative=True,
            )
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(writer)
        self.lines.append(line)
        decoder = FrameDecoder(frame_bytes_max=10 * 2**20)
        try:
            while data := await reader.read(2**16):
                decoder.feed(data)
                while (frame := decoder.next_frame()) is not None:
                    command = decode_command(frame.command)
                    self.heard.append(command)
                    handler = self.on.get(command.type)
                    if handler is not None:
                        handler(line, body_of(command), frame.body)
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def scripted_broker(port: int = 0) -> AsyncIterator[ScriptedBroker]:
    broker = ScriptedBroker()
    server = await asyncio.start_server(broker._serve, "127.0.0.1", port)
    broker.url = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield broker
    finally:
        server.close()
        for line in broker.lines:
            line.cut()
        await server.wait_closed()
