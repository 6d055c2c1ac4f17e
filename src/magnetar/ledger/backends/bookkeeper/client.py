"""A bookie and the connection to it: requests gathered in one write, answers given to those who
asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from magnetar.errors import BookieUnavailable, ProtocolViolation
from magnetar.ledger.backends.bookkeeper.frame import (
    ADD,
    BATCH,
    READ,
    Code,
    Flag,
    Reply,
    ReplyDecoder,
    encode_batch,
    encode_read,
    split_batch,
)
from magnetar.ledger.backends.bookkeeper.policy import BookkeeperPolicy
from magnetar.ledger.backends.bookkeeper.registry import BookieRegistry
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope
from magnetar.wire.bookkeeper import decode_response, encode_start_tls, encode_write_lac

_log = Logger(__name__)

_NUMBER_BYTES: Final = 8


class AddSink(Protocol):
    """Whose entries a bookie answers; `member` is the place that the bookie has in its ensemble."""

    def on_added(self, member: int, entry: int) -> None: ...

    def on_refused(self, member: int, code: int) -> None: ...

    def on_lost(self, member: int, reason: str) -> None:
        """The connection ended, and with it every answer that is outstanding."""

    def advance(self) -> None:
        """All answers that came together were given."""


class Watched(Protocol):
    """What waits for answers that may never come."""

    def check(self, now: float) -> None:
        """Give up on bookies that owe answers and are silent."""

    def reconsider(self) -> None:
        """Bookies came or may be chosen again."""


@dataclass(slots=True)
class BookieCounts:
    """What one bookie was asked for since the store was opened; each only grows."""

    bookie_connections: int = 0
    bookie_adds: int = 0
    bookie_add_bytes: int = 0
    bookie_add_failures: int = 0
    bookie_reads: int = 0
    bookie_read_failures: int = 0


class Outbox:
    """Lets what is asked in one turn of the loop leave in one write for each bookie."""

    def __init__(self) -> None:
        self._clients: dict[BookieClient, None] = {}
        self._soon: list[Callable[[], None]] = []
        self._joining: list[Callable[[], None]] = []
        self._is_scheduled = False

    def commit_soon(self, write: Callable[[], None]) -> None:
        self._soon.append(write)
        self._schedule()

    def join(self, write: Callable[[], None]) -> None:
        self._joining.append(write)

    def add(self, client: BookieClient) -> None:
        self._clients[client] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        soon, self._soon = self._soon, []
        joining, self._joining = self._joining, []
        for write in (*soon, *joining):
            try:
                write()
            # One writer's bug must not keep the others' entries back.
            except Exception as error:
                _log.error("a commit left without one that joined it", error=error)
        self._is_scheduled = False
        clients, self._clients = self._clients, {}
        for client in clients:
            client.flush()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all that talks to bookies shares."""

    registry: BookieRegistry
    policy: BookkeeperPolicy
    clock: Clock
    scope: TaskScope
    outbox: Outbox
    counts: dict[str, BookieCounts] = field(default_factory=dict)
    watched: dict[Watched, None] = field(default_factory=dict)
    """Every appender that has bookies, of writers and of recoveries, in the order they began."""

    def counts_of(self, bookie: str) -> BookieCounts:
        return self.counts.setdefault(bookie, BookieCounts())

    async def ask_until(
        self, is_decided: Callable[[], bool], asking: Sequence[Coroutine[Any, Any, None]]
    ) -> None:
        """Ask all at once, and wait only for as many as it takes."""
        pending = {self.scope.start(each, "ask a bookie") for each in asking}
        try:
            while pending and not is_decided():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in pending:
                task.cancel()


class BookieClient(asyncio.Protocol):
    """Connects when there is something to send, and again after the connection ended."""

    def __init__(self, bookie: str, around: Surroundings) -> None:
        self.bookie = bookie
        self.counts = around.counts_of(bookie)
        self.refused_batches = 0
        """How often it ended the connection over its first batch read, which bookies know since
        4.17."""
        self._around = around
        self._outgoing: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._is_connecting = False
        self._greeting: asyncio.Future[bytes] | None = None
        self._decoder = ReplyDecoder()
        self._sinks: dict[int, tuple[AddSink, int]] = {}
        self._waiting: dict[tuple[int, int, int], deque[asyncio.Future[Reply]]] = {}
        self._number = 0
        self._has_batches = False

    # Entries

    def attach(self, ledger: int, sink: AddSink, member: int) -> None:
        self._sinks[ledger] = (sink, member)

    def detach(self, ledger: int, sink: AddSink) -> None:
        if self._sinks.get(ledger, (None, 0))[0] is sink:
            del self._sinks[ledger]

    def add(self, frames: bytes, count: int) -> None:
        """Send frames of entries; the sink of their ledger gets the answers."""
        self.counts.bookie_adds += count
        self.counts.bookie_add_bytes += len(frames)
        self._send(frames)

    @property
    def buffered_bytes(self) -> int:
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting + sum(map(len, self._outgoing))

    # Reads

    async def read(
        self, ledger: int, entry: int, *, flags: Flag = Flag.NONE, key: bytes = b""
    ) -> Reply:
        """Raise BookieUnavailable when no answer comes. A refusal is an answer."""
        self.counts.bookie_reads += 1
        request = encode_read(ledger, entry, flags=flags, key=key)
        return await self._ask((READ, ledger, entry), request)

    def begin_read(self, ledger: int, entry: int) -> asyncio.Future[Reply]:
        """As `read`, for many at once: the caller sees to it that none is waited for too long, and
        aborts the connection then.
        """
        self.counts.bookie_reads += 1
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((READ, ledger, entry), deque()).append(answer)
        self._send(encode_read(ledger, entry))
        return answer

    async def read_batch(
        self, ledger: int, first: int, *, entries_max: int, bytes_max: int
    ) -> tuple[int, list[memoryview]]:
        """A code, and entries from `first` on, as many as the bookie sends at once."""
        self.counts.bookie_reads += 1
        self._number += 1
        number = self._number
        request = encode_batch(ledger, first, number, entries_max=entries_max, bytes_max=bytes_max)
        try:
            reply = await self._ask((BATCH, ledger, number), request)
        except BookieUnavailable:
            if not self._has_batches:
                self.refused_batches += 1
            raise
        self._has_batches = True
        self.refused_batches = 0
        if reply.code != Code.OK:
            return reply.code, []
        try:
            return reply.code, split_batch(reply.body)[1]
        except ProtocolViolation as violation:
            self.abort(violation.sentence)
            raise BookieUnavailable(f"{self.bookie}: {violation.sentence}") from None

    async def _ask(self, key: tuple[int, int, int], request: bytes) -> Reply:
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(key, deque())
        waiting.append(answer)
        self._send(request)
        seconds = self._around.policy.timeout_s
        try:
            async with self._around.clock.timeout(seconds):
                return await answer
        except TimeoutError:
            self.counts.bookie_read_failures += 1
            raise BookieUnavailable(f"{self.bookie} did not answer within {seconds:g} s") from None
        finally:
            if answer in waiting:
                waiting.remove(answer)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]

    # The connection

    def _send(self, data: bytes) -> None:
        self._outgoing.append(data)
        self._around.outbox.add(self)

    def flush(self) -> None:
        if not self._outgoing:
            return
        if self._transport is None:
            if not self._is_connecting and not self._around.scope.is_closed:
                self._is_connecting = True
                self._around.scope.start(self._connect(), f"connect to {self.bookie}")
            return
        outgoing, self._outgoing = self._outgoing, []
        self._transport.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))

    async def _connect(self) -> None:
        policy = self._around.policy
        loop = asyncio.get_running_loop()
        transport: asyncio.Transport | None = None
        try:
            async with self._around.clock.timeout(policy.connect_timeout_s):
                address = self._around.registry.locate(self.bookie)
                if address is None:
                    raise ProtocolViolation("its address is not known")
                self._decoder = ReplyDecoder()
                transport, _ = await loop.create_connection(lambda: self, *address)
                if policy.tls is not None:
                    transport = await self._start_tls(transport, address[0])
        except (OSError, TimeoutError, ProtocolViolation) as error:
            self._is_connecting = False
            if transport is not None:
                transport.abort()
            self._lose(f"no connection: {error or type(error).__name__}")
            return
        self._is_connecting = False
        if transport.is_closing():
            self._lose("the connection ended at once")
            return
        self.counts.bookie_connections += 1
        self._transport = transport
        self.flush()

    async def _start_tls(self, transport: asyncio.Transport, host: str) -> asyncio.Transport:
        """On the same port, after the bookie has agreed."""
        policy = self._around.policy
        assert policy.tls is not None
        self._greeting = asyncio.get_running_loop().create_future()
        request = encode_start_tls(1)
        transport.write(len(request).to_bytes(4) + request)
        try:
            answer = decode_response(await self._greeting)
        finally:
            self._greeting = None
        if answer is None or not answer[1]:
            raise ProtocolViolation("it does not offer TLS")
        secured = await asyncio.get_running_loop().start_tls(
            transport, self, policy.tls, server_hostname=host
        )
        if secured is None:
            raise ProtocolViolation("the connection ended during the TLS handshake")
        return secured

    def data_received(self, data: bytes) -> None:
        if self._greeting is not None:
            if not self._greeting.done():
                self._greeting.set_result(data[4:])
            return
        touched: dict[AddSink, None] = {}
        try:
            for reply in self._decoder.feed(data):
                if reply.operation != ADD:
                    self._answer(reply)
                    continue
                found = self._sinks.get(reply.ledger)
                if found is None:
                    continue  # its place was given to another bookie
                sink, member = found
                touched[sink] = None
                if reply.code == Code.OK:
                    sink.on_added(member, reply.entry)
                else:
                    self.counts.bookie_add_failures += 1
                    sink.on_refused(member, reply.code)
        except ProtocolViolation as violation:
            self.abort(violation.sentence)
        for sink in touched:
            sink.advance()

    def _answer(self, reply: Reply) -> None:
        entry = reply.entry
        if reply.operation == BATCH:
            if len(reply.body) < _NUMBER_BYTES:
                raise ProtocolViolation("a batch without a number")
            entry = int.from_bytes(reply.body[:_NUMBER_BYTES], signed=True)
        key = (reply.operation, reply.ledger, entry)
        waiting = self._waiting.get(key)
        while waiting:
            answer = waiting.popleft()
            if not waiting:
                del self._waiting[key]
            if not answer.done():
                answer.set_result(reply)
                return

    def connection_lost(self, error: Exception | None) -> None:
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_exception(ProtocolViolation("it closed the connection"))
        if self._transport is not None:
            self._lose("the connection ended" if error is None else str(error))

    def abort(self, reason: str) -> None:
        """Give the connection up; what is outstanding fails."""
        if self._transport is not None:
            self._transport.abort()
            self._lose(reason)

    def close(self) -> None:
        """Tell no sink."""
        self._sinks.clear()
        self.abort("closed")

    def _lose(self, reason: str) -> None:
        self._transport = None
        self._outgoing.clear()
        waiting, self._waiting = self._waiting, {}
        for answers in waiting.values():
            for answer in answers:
                if not answer.done():
                    self.counts.bookie_read_failures += 1
                    answer.set_exception(BookieUnavailable(f"{self.bookie}: {reason}"))
        sinks = list(self._sinks.values())
        for sink, member in sinks:
            sink.on_lost(member, reason)


class TellingClient(BookieClient):
    """Tells a bookie the end of ledgers that are open and idle, for readers in other processes.

    Only the third version of the protocol has a request for it, and a connection that has spoken
    the second cannot speak that. What comes of it is not waited for: the next entry tells it too.
    """

    def tell_last(self, ledger: int, last: int, key: bytes, body: bytes) -> None:
        self._number += 1
        request = encode_write_lac(self._number, ledger, last, key, body)
        self._send(len(request).to_bytes(4) + request)

    def data_received(self, data: bytes) -> None:
        if self._greeting is not None:
            super().data_received(data)
