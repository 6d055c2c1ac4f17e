"""Requests, answers and notices between two processes of one machine, over one stream.

A frame is its length in four bytes, then a kind, a number, a name and a body. Either side may ask;
answers come in any order, and a notice comes before an answer that was given after it. A refusal
crosses as its class and its sentence. The link lives as long as both processes: when it is lost, so
is the other side.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import IntEnum
from typing import Final, TypeAlias, cast

import msgspec

from magnetar.errors import FAULTS, BrokerError, StoreUnavailable
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

Serve: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a request, given its name and body; what it refuses, it raises."""
Told: TypeAlias = Callable[[str, bytes], None]

_LENGTH: Final = struct.Struct(">I")
_WAITING_MAX: Final = 65_536
_REFUSALS: Final[Mapping[str, type[BrokerError]]] = {kind.__name__: kind for kind in FAULTS}

_log = Logger(__name__)


class Kind(IntEnum):
    ASK = 0
    ANSWER = 1
    REFUSAL = 2
    NOTICE = 3


class Frame(msgspec.Struct, array_like=True, frozen=True):
    kind: Kind
    number: int
    name: str
    body: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)


def encode_frame(frame: Frame) -> bytes:
    content = _encoder.encode(frame)
    return _LENGTH.pack(len(content)) + content


class FrameDecoder:
    """Feed what was read; frames come out whole."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._received += data
        received, start = self._received, 0
        try:
            while len(received) - start >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(received, start)
                end = start + _LENGTH.size + size
                if end > len(received):
                    return
                content = bytes(received[start + _LENGTH.size : end])
                start = end
                yield _decoder.decode(content)
        finally:
            del received[:start]


class Link(asyncio.Protocol):
    """One end. `serve` answers what the other side asks, `on_notice` takes what it tells, `on_lost`
    is called once, when the other side is gone or the link was closed.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        serve: Serve | None = None,
        on_notice: Told | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self.serve = serve
        self.on_notice = on_notice
        self.on_lost = on_lost
        self._clock = clock
        self._decoder = FrameDecoder()
        self._transport: asyncio.WriteTransport | None = None
        self._tasks = TaskScope("link")
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._number = 0
        self._is_lost = False

    async def open(self, stream: socket.socket) -> None:
        """Take over one end of a pair of connected sockets."""
        stream.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=stream)

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    async def ask(self, name: str, body: bytes = b"", *, deadline_s: float | None = None) -> bytes:
        """What the other side answers; raise what it refuses with, or StoreUnavailable when it does
        not answer in time: what was asked for may then have happened or not.
        """
        if self._is_lost:
            raise StoreUnavailable(f"{name}: the other process is gone")
        if len(self._waiting) >= _WAITING_MAX:
            raise StoreUnavailable(f"{name}: too many requests are waiting")
        self._number += 1
        number = self._number
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._write(Frame(Kind.ASK, number, name, body))
        try:
            async with self._clock.timeout(deadline_s):
                return await answer
        except TimeoutError:
            raise StoreUnavailable(f"{name}: no answer within {deadline_s:g} s") from None
        finally:
            del self._waiting[number]

    def tell(self, name: str, body: bytes = b"") -> None:
        """Send a notice; nothing tells whether it arrived."""
        if not self._is_lost:
            self._write(Frame(Kind.NOTICE, 0, name, body))

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._lose()
        await self._tasks.close()

    # ------------------------------------------------------------------ the stream

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are not of its class

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            self._take(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._lose()

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.ASK:
                if not self._tasks.is_closed:
                    self._tasks.start(self._answer(frame), frame.name)
            case Kind.NOTICE:
                if self.on_notice is not None:
                    self.on_notice(frame.name, frame.body)
            case Kind.ANSWER | Kind.REFUSAL:
                answer = self._waiting.get(frame.number)
                if answer is None or answer.done():
                    return  # its caller has given up
                if frame.kind is Kind.ANSWER:
                    answer.set_result(frame.body)
                else:
                    answer.set_exception(_make_refusal(frame))

    async def _answer(self, asked: Frame) -> None:
        try:
            assert self.serve is not None, f"nothing here answers {asked.name}"
            frame = Frame(Kind.ANSWER, asked.number, "", await self.serve(asked.name, asked.body))
        except BrokerError as refusal:
            frame = _describe_refusal(asked.number, refusal)
        # A bug: the one who asked must not wait for ever.
        except Exception as error:
            _log.error("request failed", error=error, request=asked.name)
            frame = _describe_refusal(asked.number, StoreUnavailable(f"{asked.name} failed"))
        if not self._is_lost:
            self._write(frame)

    def _write(self, frame: Frame) -> None:
        assert self._transport is not None, "the link is not open"
        self._transport.write(encode_frame(frame))

    def _lose(self) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(StoreUnavailable("the other process is gone"))
        if self.on_lost is not None:
            self.on_lost()


def _describe_refusal(number: int, refusal: BrokerError) -> Frame:
    return Frame(Kind.REFUSAL, number, type(refusal).__name__, refusal.sentence.encode())


def _make_refusal(frame: Frame) -> BrokerError:
    kind = _REFUSALS.get(frame.name, StoreUnavailable)
    return kind(frame.body.decode("utf-8", "replace"))
