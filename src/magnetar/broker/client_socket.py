"""The socket of one client: what is gathered is written once per turn of the loop, and a peer that
does not read is not read from.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

from magnetar.broker.unread import UnreadBytes
from magnetar.errors import BrokerError, fault_of
from magnetar.model.certificate import common_name
from magnetar.runtime.clock import Clock
from magnetar.wire.command import NO_REQUEST, BaseCommand, encode_command, error
from magnetar.wire.refusal import encode_refusal

_WRITE_BUFFER_BYTES: Final = 1 << 20
_LINGER_S: Final = 2.0


class ClientSocket(asyncio.Protocol):
    """Owns the transport: reads, writes, pauses and ends it."""

    def __init__(self, clock: Clock, unread: UnreadBytes) -> None:
        self.address = ""
        self.host = ""
        self.certificate_name: str | None = None
        self.writable = True
        self.closed = False
        self._clock = clock
        self._unread = unread
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flushing = False
        self._pauses: set[str] = set()
        self._answer_turn = asyncio.Lock()
        self._drained: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        peer = transport.get_extra_info("peername")
        self.address = f"/{peer[0]}:{peer[1]}" if peer else "unknown"
        self.host = str(peer[0]) if peer else ""
        self.certificate_name = common_name(transport.get_extra_info("peercert"))

    @property
    def is_made(self) -> bool:
        """Whether the connection was made, be it gone by now."""
        return self._transport is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._out.clear()
        self._unread.forget(self)
        self._wake_answers()

    def close(self) -> None:
        """Write what is gathered, then end the connection; one whose peer does not read, soon."""
        if self.closed or self._transport is None:
            return
        self._flush()
        self.closed = True
        self._transport.close()
        if self.unread_bytes:
            self._clock.call_later(_LINGER_S, self._transport.abort)

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------ writing

    def send(self, data: bytes) -> None:
        """Gather bytes; everything gathered in this turn of the loop leaves in one write."""
        if self.closed:
            return
        self._out.append(data)
        self._gather(len(data))

    def send_many(self, parts: list[bytes], size: int) -> None:
        """`size` is about that of all parts."""
        if self.closed:
            return
        self._out += parts
        self._gather(size)

    def _gather(self, size: int) -> None:
        """A full buffer is written at once: the transport then tells whether the peer reads."""
        self._out_bytes += size
        if self._out_bytes > _WRITE_BUFFER_BYTES:
            self._flush()
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._out and not self.closed and self._transport is not None:
            out, self._out, self._out_bytes = self._out, [], 0
            self._transport.write(b"".join(out) if len(out) > 1 else out[0])
            if not self.writable:
                self._unread.check(self)

    def send_command(self, command: BaseCommand) -> None:
        self.send(encode_command(command))

    def refuse(self, command: BaseCommand, refusal: BrokerError) -> None:
        """Answer a command by the response of its own kind, if the protocol has one."""
        code = fault_of(refusal).code
        answer = encode_refusal(command, refusal) or error(NO_REQUEST, code, refusal.sentence)
        self.send_command(answer)

    # ------------------------------------------------------------------ back-pressure

    @property
    def unread_bytes(self) -> int:
        """What the peer has not read, beyond what the system keeps for it."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """The peer does not read: leave its requests too, so that what it waits for is bounded."""
        self.writable = False
        self.pause("peer")

    def resume_writing(self) -> None:
        self.writable = True
        self._unread.forget(self)
        self._wake_answers()
        self.resume("peer")

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Make one large answer at a time, and only when the peer has read those before."""
        async with self._answer_turn:
            while not self.writable and not self.closed:
                if self._drained is None:
                    self._drained = self._loop.create_future()
                await self._drained
            yield

    def _wake_answers(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    def pause(self, reason: str) -> bool:
        """Stop reading from the peer until every reason for it is gone; return whether this
        one is new.
        """
        if reason in self._pauses:
            return False
        if not self._pauses and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._pauses.add(reason)
        return True

    def resume(self, reason: str) -> None:
        if reason in self._pauses:
            self._pauses.discard(reason)
            self._read_on()

    def _read_on(self) -> None:
        if not self._pauses and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
