"""Simulated bookies: they keep entries as Apache BookKeeper's do, and speak the same protocol.

A bookie stores what it is sent, and answers once that is synced. It checks the key of a ledger and
whether the ledger is fenced; all else is the business of its clients. A sync covers all that came
before it. What was not synced is lost with the process, though it could be read.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from magnetar.errors import BrokerError
from magnetar.ledger.backends.bookkeeper.entry import MASTER_KEY_BYTES
from magnetar.ledger.backends.bookkeeper.frame import ADD, BATCH, READ, Code, Flag
from magnetar.metadata.store import ANY_VERSION, SessionEvent
from magnetar.testing.simulation.loop import Process, VirtualLoop
from magnetar.testing.simulation.metadata import MetadataServer, SimulatedStore
from magnetar.testing.simulation.network import Address, Network

ROOT: Final = "/ledgers"
PORT: Final = 3181
_SYNC_S: Final = (0.0002, 0.003)
_SLOW_S: Final = (0.1, 2.0)
_RETRY_S: Final = 0.5
_LAST: Final = -1
_LENGTH: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">I")
_PLACE: Final = struct.Struct(">qq")
_BATCH: Final = struct.Struct(">qqqiq")
_REPLY: Final = struct.Struct(">IIiqq")
_VERSION: Final = 2


@dataclass(slots=True)
class StoredLedger:
    key: bytes
    is_fenced: bool = False
    entries: dict[int, bytes] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return max(self.entries, default=_LAST)


class SimulatedBookie:
    """A place where a bookie runs, and what it has stored; the process may be killed and started
    again.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        network: Network,
        metadata: MetadataServer,
        graves: list[Process],
        name: str,
        random: Random,
    ) -> None:
        self._loop = loop
        self._network = network
        self._metadata = metadata
        self._graves = graves
        self._random = random
        self.name = name
        self.ledgers: dict[int, StoredLedger] = {}
        self.is_slow = False
        self.is_full = False
        self.process: Process | None = None
        self.store: SimulatedStore | None = None
        self._undo: list[Callable[[], None]] = []
        """Takes back what is not synced, the last first."""
        self._replies: list[Callable[[], None]] = []
        self._is_syncing = False

    @property
    def id(self) -> str:
        return f"{self.name}:{PORT}"

    def start(self) -> None:
        if self.process is None:
            self.process = Process(self.name)
            self._loop.spawn(self.process, self._run(), f"bookie {self.name}")

    def kill(self, *, power: bool) -> None:
        """Some of what was written may have reached the disk before the sync."""
        process, self.process = self.process, None
        if process is None:
            return
        self.store = None
        self._network.on_killed(process, silently=power)
        self._loop.kill(process)
        self._graves.append(process)
        for undo in self._undo[self._random.randint(0, len(self._undo)) :][::-1]:
            undo()
        self._undo.clear()
        self._replies.clear()
        self._is_syncing = False

    def fill(self, is_full: bool) -> None:
        """A bookie whose disk is full serves reads only, and says so in its registration."""
        self.is_full = is_full
        if self.process is not None:
            self._loop.spawn(self.process, self._register(), f"register {self.name}")

    async def _run(self) -> None:
        assert self.process is not None
        self.store = self._metadata.open(self.process)
        self.store.watch_session(self._on_session)
        self._network.listen(Address(self.name, PORT), lambda: BookieConnection(self))
        await self._register()
        await self._loop.create_future()

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_REESTABLISHED and self.process is not None:
            self._loop.spawn(self.process, self._register(), f"register {self.name}")

    async def _register(self) -> None:
        """As writable or as read-only, for as long as the session lives."""
        places = [f"{ROOT}/available/{self.id}", f"{ROOT}/available/readonly/{self.id}"]
        store = self.store
        while store is not None:
            try:
                if await store.exists(places[not self.is_full]):
                    await store.delete(places[not self.is_full], expect=ANY_VERSION)
                await store.put(places[self.is_full], b"", expect=ANY_VERSION, ephemeral=True)
                return
            except BrokerError:
                await asyncio.sleep(_RETRY_S)

    # ------------------------------------------------------------------ requests

    def add(self, key: bytes, entry: bytes, flags: int, reply: Callable[[int], None]) -> None:
        number, entry_id = _PLACE.unpack_from(entry)
        ledger = self._open(number, key)
        if ledger.key != key:
            reply(Code.UNAUTHORIZED)
        elif ledger.is_fenced and not flags & Flag.RECOVERY:
            reply(Code.FENCED)
        elif self.is_full:
            reply(Code.READ_ONLY)
        else:
            before = ledger.entries.get(entry_id)
            ledger.entries[entry_id] = entry
            self._undo.append(lambda: _restore(ledger, entry_id, before))
            self._sync(lambda: reply(Code.OK))

    def read(
        self, number: int, entry_id: int, key: bytes | None, reply: Callable[[int, bytes], None]
    ) -> None:
        """With a key the ledger is fenced first."""
        if key is not None:
            ledger = self._open(number, key)
            if ledger.key != key:
                reply(Code.UNAUTHORIZED, b"")
                return
            if not ledger.is_fenced:
                ledger.is_fenced = True
                self._undo.append(lambda: setattr(ledger, "is_fenced", False))
            # What is read is answered as it is then: the fence is durable before it is.
            self._sync(lambda: reply(*self._find(number, entry_id)))
            return
        reply(*self._find(number, entry_id))

    def read_batch(self, number: int, first: int, entries_max: int, bytes_max: int) -> list[bytes]:
        found: list[bytes] = []
        size = 0
        ledger = self.ledgers.get(number)
        while ledger is not None and (entry := ledger.entries.get(first + len(found))) is not None:
            size += len(entry)
            if found and (len(found) >= entries_max > 0 or size > bytes_max > 0):
                break
            found.append(entry)
        return found

    def _open(self, number: int, key: bytes) -> StoredLedger:
        """The first key that is seen of a ledger counts."""
        return self.ledgers.setdefault(number, StoredLedger(key))

    def _find(self, number: int, entry_id: int) -> tuple[int, bytes]:
        ledger = self.ledgers.get(number)
        if ledger is None:
            return Code.NO_LEDGER, b""
        found = ledger.entries.get(ledger.last if entry_id == _LAST else entry_id)
        return (Code.NO_ENTRY, b"") if found is None else (Code.OK, found)

    def _sync(self, reply: Callable[[], None]) -> None:
        self._replies.append(reply)
        self._begin_sync()

    def _begin_sync(self) -> None:
        if self._replies and not self._is_syncing:
            self._is_syncing = True
            delay_s = self._random.uniform(*_SLOW_S if self.is_slow else _SYNC_S)
            self._loop.call_later(delay_s, self._on_synced, len(self._undo), len(self._replies))

    def _on_synced(self, written: int, answered: int) -> None:
        replies = self._replies[:answered]
        del self._undo[:written], self._replies[:answered]
        self._is_syncing = False
        for reply in replies:
            reply()
        self._begin_sync()


def _restore(ledger: StoredLedger, entry_id: int, before: bytes | None) -> None:
    if before is None:
        ledger.entries.pop(entry_id, None)
    else:
        ledger.entries[entry_id] = before


class BookieConnection(asyncio.Protocol):
    def __init__(self, bookie: SimulatedBookie) -> None:
        self._bookie = bookie
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            frame, self._received = self._received[_LENGTH.size : end], self._received[end:]
            self._serve(frame)

    def _serve(self, frame: bytes) -> None:
        (head,) = _HEAD.unpack_from(frame)
        operation, flags, body = head >> 16 & 0xFF, head & 0xFFFF, frame[_HEAD.size :]
        assert head >> 24 == _VERSION, "only the binary protocol is simulated"
        if operation == ADD:
            key, entry = body[:MASTER_KEY_BYTES], body[MASTER_KEY_BYTES:]
            place = _PLACE.unpack_from(entry)
            self._bookie.add(key, entry, flags, lambda code: self._reply(ADD, code, *place))
        elif operation == READ:
            number, entry_id = _PLACE.unpack_from(body)
            self._bookie.read(
                number,
                entry_id,
                body[_PLACE.size :] if flags & Flag.FENCE else None,
                lambda code, found: self._reply(READ, code, number, entry_id, found),
            )
        else:
            assert operation == BATCH, f"operation {operation} is not simulated"
            number, first, request, entries_max, bytes_max = _BATCH.unpack_from(body)
            found = self._bookie.read_batch(number, first, entries_max, bytes_max)
            pieces = b"".join(_LENGTH.pack(len(each)) + each for each in found)
            code = Code.OK if found else Code.NO_ENTRY
            answer = request.to_bytes(8, signed=True) + pieces
            self._reply(BATCH, code, number, first, answer)

    def _reply(self, operation: int, code: int, ledger: int, entry: int, body: bytes = b"") -> None:
        if self._transport is not None:
            size = _REPLY.size - _LENGTH.size + len(body)
            head = _VERSION << 24 | operation << 16
            self._transport.write(_REPLY.pack(size, head, code, ledger, entry) + body)
