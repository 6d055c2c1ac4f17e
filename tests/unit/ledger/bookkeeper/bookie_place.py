"""Bookies in this process that fail as they are told to, and a store on them.

They answer as real ones do, in the second version of the protocol: any digest is taken, a later
entry replaces an earlier one, a fence lasts for ever.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from magnetar.ledger.backends.bookkeeper import BookkeeperLedgerStore, BookkeeperPolicy
from magnetar.ledger.backends.bookkeeper.frame import ADD, BATCH, READ, Code, Flag
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.sequence import take_number
from magnetar.metadata.store import ABSENT, ANY_VERSION
from magnetar.runtime.clock import SYSTEM, SystemClock

FAST = BookkeeperPolicy(timeout_s=0.4, connect_timeout_s=0.4, quarantine_s=0.5, min_racks=1)
HEAD = struct.Struct(">IiQq")


@dataclass
class FakeBookie:
    """`refusal` is what it answers to every entry; `is_silent` stops it from answering at all."""

    has_batches: bool = True
    refusal: Code | None = None
    is_silent: bool = False
    delay_s: float = 0.0
    damaged: set[int] = field(default_factory=set)
    """Entries that it sends with other bytes than it was given."""
    entries: dict[int, dict[int, bytes]] = field(default_factory=dict)
    fenced: set[int] = field(default_factory=set)
    batches: int = 0
    reads: int = 0
    frames: int = 0
    connections: int = 0
    port: int = 0
    _listening: socket.socket | None = None
    _connecting: set[asyncio.Task[object]] = field(default_factory=set)
    _transports: set[asyncio.Transport] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._listening.setblocking(False)
        self.port = self._listening.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """By hand: an asyncio.Server that is closed meanwhile loses what it has accepted."""
        if self._listening is None:
            return
        try:
            accepted, _ = self._listening.accept()
        except BlockingIOError:
            return
        loop = asyncio.get_running_loop()
        connecting = loop.connect_accepted_socket(partial(_Connection, self), accepted)
        task = loop.create_task(connecting)
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def stop(self) -> None:
        """As a kill: connections are cut, what was stored stays."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        for transport in self._transports:
            transport.abort()
        while self._transports:
            await asyncio.sleep(0)
        await asyncio.sleep(0.005)  # the other ends are ready to be read, so they know before this

    def on_connection(self, transport: asyncio.Transport) -> None:
        """One that was accepted just before the end is cut too, though nothing serves it yet."""
        self._transports.add(transport)
        if self._listening is None:
            transport.abort()

    def on_connection_lost(self, transport: asyncio.Transport) -> None:
        self._transports.discard(transport)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                reply = self._answer(await reader.readexactly(size))
                if reply is None:
                    return
                if not self.is_silent:
                    if self.delay_s:
                        await asyncio.sleep(self.delay_s)
                    writer.write(len(reply).to_bytes(4) + reply)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _answer(self, body: bytes) -> bytes | None:
        self.frames += 1
        operation, flags = body[1], int.from_bytes(body[2:4])
        if operation == ADD:
            ledger, entry = struct.unpack_from(">qq", body, 24)
            return self._add(ledger, entry, flags, body[24:])
        ledger, entry = struct.unpack_from(">qq", body, 4)
        if operation == READ:
            self.reads += 1
            if flags & Flag.FENCE:
                assert len(body) == 40
                self.fenced.add(ledger)
            return self._read(ledger, entry)
        if operation == BATCH and self.has_batches:
            self.batches += 1
            number, entries_max, bytes_max = struct.unpack_from(">qiq", body, 20)
            return self._batch(ledger, entry, number, entries_max, bytes_max)
        return None

    def _add(self, ledger: int, entry: int, flags: int, data: bytes) -> bytes:
        code = Code.OK if self.refusal is None else self.refusal
        if ledger in self.fenced and not flags & Flag.RECOVERY:
            code = Code.FENCED
        if code == Code.OK:
            self.entries.setdefault(ledger, {})[entry] = data
        return HEAD.pack(0x02010000, code, ledger, entry)

    def _read(self, ledger: int, entry: int) -> bytes:
        stored = self.entries.get(ledger, {})
        wanted = max(stored, default=-1) if entry == -1 else entry
        if wanted not in stored:
            code = Code.NO_ENTRY if stored else Code.NO_LEDGER
            return HEAD.pack(0x02020000, code, ledger, entry)
        return HEAD.pack(0x02020000, Code.OK, ledger, entry) + self._stored(ledger, wanted)

    def _stored(self, ledger: int, entry: int) -> bytes:
        data = self.entries[ledger][entry]
        return data[:-1] + bytes((data[-1] ^ 1,)) if entry in self.damaged else data

    def _batch(
        self, ledger: int, first: int, number: int, entries_max: int, bytes_max: int
    ) -> bytes:
        stored, parts, entry = self.entries.get(ledger, {}), [], first
        while entry in stored and len(parts) < entries_max:
            data = self._stored(ledger, entry)
            if parts and sum(map(len, parts)) + len(data) + 4 > bytes_max:
                break
            parts.append(len(data).to_bytes(4) + data)
            entry += 1
        code = Code.OK if parts else Code.NO_ENTRY
        head = HEAD.pack(0x02070000, code, ledger, first) + number.to_bytes(8)
        return head + b"".join(parts)


class _Connection(asyncio.StreamReaderProtocol):
    """Known to its bookie before anything is read from it."""

    _transport: asyncio.Transport

    def __init__(self, bookie: FakeBookie) -> None:
        super().__init__(asyncio.StreamReader(), bookie.serve)
        self._bookie = bookie

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._transport = transport
        self._bookie.on_connection(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._bookie.on_connection_lost(self._transport)
        super().connection_lost(exc)


@dataclass
class Place:
    """Bookies, and the metadata that they are registered in."""

    tree: MemoryTree = field(default_factory=lambda: MemoryTree(SystemClock()))
    bookies: list[FakeBookie] = field(default_factory=list)

    def at(self, address: str) -> FakeBookie:
        [found] = [each for each in self.bookies if each.address == address]
        return found

    async def add(self, bookie: FakeBookie | None = None) -> FakeBookie:
        bookie = bookie or FakeBookie()
        await bookie.start()
        self.bookies.append(bookie)
        await self.register(bookie)
        return bookie

    async def register(self, bookie: FakeBookie, *, is_there: bool = True) -> None:
        store = MemoryStore(self.tree)
        path = f"/ledgers/available/{bookie.address}"
        if is_there:
            await store.put(path, b"\0", expect=ANY_VERSION)
        else:
            await store.delete(path, expect=ANY_VERSION)

    @asynccontextmanager
    async def store(self, **changes: object) -> AsyncIterator[BookkeeperLedgerStore]:
        metadata = MemoryStore(self.tree)
        policy = replace(FAST, **changes)  # type: ignore[arg-type]
        opened = BookkeeperLedgerStore(
            metadata, partial(take_number, metadata), clock=SYSTEM, policy=policy
        )
        try:
            await opened.open()
            yield opened
        finally:
            await opened.close()


@asynccontextmanager
async def bookies(count: int, **options: object) -> AsyncIterator[Place]:
    place = Place()
    await MemoryStore(place.tree).put("/ledgers/INSTANCEID", b"i", expect=ABSENT)
    for _ in range(count):
        await place.add(FakeBookie(**options))  # type: ignore[arg-type]
    try:
        yield place
    finally:
        for bookie in place.bookies:
            await bookie.stop()
        await asyncio.sleep(0.05)  # connections that were accepted last are served, and end too
        for bookie in place.bookies:
            await bookie.stop()
