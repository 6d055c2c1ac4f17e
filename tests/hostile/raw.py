"""A socket that speaks the protocol only as far as the test wants."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self

from magnetar.testing.broker import MagnetarBroker
from magnetar.wire.command import (
    BaseCommand,
    CommandConnect,
    CommandFlow,
    CommandProducer,
    CommandSend,
    CommandSubscribe,
    MessageMetadata,
    decode_command,
    encode_command,
    encode_payload_command,
    make_command,
)
from magnetar.wire.entry import encode_entry
from magnetar.wire.frame import Frame, FrameDecoder

FRAME_BYTES_MAX = 5 * 1024 * 1024 + 10 * 1024


class RawClient:
    def __init__(
        self, broker: MagnetarBroker, *, connect: bool = True, timeout_s: float = 20
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.port), timeout=timeout_s)
        self._decoder = FrameDecoder(frame_bytes_max=FRAME_BYTES_MAX)
        self._request = 0
        if connect:
            self.send(CommandConnect(client_version="raw", protocol_version=21))
            assert self.receive().type == BaseCommand.CONNECTED

    def send(self, body: object) -> None:
        self.socket.sendall(encode_command(make_command(body)))  # type: ignore[arg-type]

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> Frame | None:
        """The next frame, or None when the broker closed the connection."""
        while (frame := self._decoder.next_frame()) is None:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._decoder.feed(data)
        return frame

    def receive(self) -> BaseCommand:
        frame = self.receive_frame()
        assert frame is not None, "the broker closed the connection"
        return decode_command(frame.command)

    def is_closed(self) -> bool:
        """Read until the end; what is left may still arrive before it."""
        while self.receive_frame() is not None:
            pass
        return True

    def next_request(self) -> int:
        self._request += 1
        return self._request

    def create_producer(self, topic: str, producer_id: int = 1) -> BaseCommand:
        self.send(
            CommandProducer(topic=topic, producer_id=producer_id, request_id=self.next_request())
        )
        return self.receive()

    def subscribe(self, topic: str, name: str = "s", *, permits: int = 0) -> BaseCommand:
        self.send(
            CommandSubscribe(
                topic=topic,
                subscription=name,
                subType=CommandSubscribe.Shared,
                consumer_id=1,
                request_id=self.next_request(),
                initialPosition=CommandSubscribe.Earliest,
            )
        )
        answer = self.receive()
        if permits:
            self.send(CommandFlow(consumer_id=1, messagePermits=permits))
        return answer

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def send_frame(sequence: int, payload: bytes, producer_id: int = 1) -> bytes:
    metadata = MessageMetadata(producer_name="raw", sequence_id=sequence, publish_time=1)
    command = CommandSend(producer_id=producer_id, sequence_id=sequence)
    return encode_payload_command(make_command(command), encode_entry(metadata, payload))


def size_prefix(total: int, command: int) -> bytes:
    return struct.pack(">II", total, command)
