"""Ledgers in memory, for tests: nothing survives the process. The third store of the contract."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count

from magnetar.errors import (
    BrokerError,
    LedgerFenced,
    LedgerNotFound,
    LedgerSealed,
    StoreClosed,
)
from magnetar.ledger.store import Appended, Digest, LedgerInfo, Replication
from magnetar.model.position import EntryId, LedgerId, Term
from magnetar.runtime.task import yield_to_loop


@dataclass(slots=True)
class _Ledger:
    id: LedgerId
    term: Term
    properties: Mapping[str, str]
    entries: list[bytes] = field(default_factory=list)
    length: int = 0
    sealed: bool = False
    writer: MemoryWriter | None = None
    deletion_intended: bool = False

    def describe(self) -> LedgerInfo:
        return LedgerInfo(
            id=self.id,
            term=self.term,
            sealed=self.sealed,
            last=EntryId(len(self.entries) - 1),
            length=self.length,
            properties=self.properties,
            deletion_intended=self.deletion_intended,
        )


class MemoryCommit:
    """Answers what was appended in one turn of the loop together, as a group commit does."""

    def __init__(self) -> None:
        self._writers: dict[MemoryWriter, None] = {}
        self._joining: list[Callable[[], None]] = []
        self._is_awaited = False  # some of those have entries to write

    def commit_soon(self, write: Callable[[], None]) -> None:
        self._is_awaited = True
        self._joining.append(write)
        asyncio.get_running_loop().call_soon(self._run)

    def join(self, write: Callable[[], None]) -> None:
        self._joining.append(write)

    def add(self, writer: MemoryWriter) -> None:
        asyncio.get_running_loop().call_soon(self._run)
        self._writers[writer] = None

    def _run(self) -> None:
        if not self._writers and not self._is_awaited:
            return
        self._is_awaited = False
        joining, self._joining = self._joining, []
        for write in joining:
            write()
        writers, self._writers = self._writers, {}
        for writer in writers:
            writer.confirm()


class MemoryWriter:
    def __init__(self, ledger: _Ledger, commit: MemoryCommit) -> None:
        self._ledger = ledger
        self._commit = commit
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[Sequence[bytes], Appended]] = deque()
        self._next = 0
        self._alive = True

    @property
    def id(self) -> LedgerId:
        return self._ledger.id

    @property
    def last_confirmed(self) -> EntryId:
        return EntryId(len(self._ledger.entries) - 1)

    @property
    def queued_bytes(self) -> int:
        return sum(sum(map(len, entries)) for entries, _ in self._queue)

    def append(self, entries: Sequence[bytes], done: Appended, size: int = -1) -> EntryId:
        if not self._alive:
            raise LedgerSealed(f"ledger {self.id} takes no more entries")
        if not self._queue:
            self._commit.add(self)
        self._queue.append((entries, done))
        first = self._next
        self._next += len(entries)
        return EntryId(first)

    async def seal(self) -> LedgerInfo:
        self._alive = False
        while self._queue:
            await yield_to_loop()
        self._ledger.sealed = True
        return self._ledger.describe()

    def fence(self, error: BrokerError) -> None:
        """Refuse what is queued and everything after it."""
        self._alive = False
        queued, self._queue = self._queue, deque()
        for _, done in queued:
            self._loop.call_soon(done, error)

    def confirm(self) -> None:
        queued, self._queue = self._queue, deque()
        for entries, _ in queued:
            self._ledger.entries.extend(entries)
            self._ledger.length += sum(map(len, entries))
        for _, done in queued:
            done(None)


class MemoryLedgerStore:
    list_bookies = None

    def __init__(self, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._ledgers: dict[LedgerId, _Ledger] = {}
        self._ids = count(1)
        self._commit = MemoryCommit()
        self._closed = False

    @property
    def is_apache_readable(self) -> bool:
        return self.is_shared

    @property
    def directory(self) -> None:
        return None

    async def create(
        self,
        *,
        term: Term,
        properties: Mapping[str, str],
        deletion_intended: bool = False,
        replication: Replication | None = None,
        digest: Digest = Digest.CRC32C,
    ) -> MemoryWriter:
        self._check_open()
        ledger = _Ledger(LedgerId(next(self._ids)), term, dict(properties))
        ledger.deletion_intended = deletion_intended
        ledger.writer = MemoryWriter(ledger, self._commit)
        self._ledgers[ledger.id] = ledger
        return ledger.writer

    async def recover(self, ledger: LedgerId, *, term: Term) -> LedgerInfo:
        found = self._find(ledger)
        if term < found.term and not self.is_shared:
            raise LedgerFenced(f"ledger {ledger} belongs to term {found.term}, not {term}")
        if not found.sealed:
            found.term = term
            if found.writer is not None:
                found.writer.fence(LedgerFenced(f"ledger {ledger} was recovered by term {term}"))
            found.sealed = True
        return found.describe()

    async def describe(self, ledger: LedgerId) -> LedgerInfo:
        return self._find(ledger).describe()

    async def read(
        self, ledger: LedgerId, first: EntryId, *, entries_max: int, bytes_max: int
    ) -> list[bytes]:
        found = self._find(ledger).entries[first : first + entries_max]
        sizes = accumulate(map(len, found))
        fitting = sum(1 for size in sizes if size <= bytes_max)
        return found[: max(1, fitting)]

    async def intend_deletion(self, ledgers: Collection[LedgerId]) -> None:
        self._check_open()
        for number in ledgers:
            if number in self._ledgers:
                self._ledgers[number].deletion_intended = True

    def cancel_deletion(self, ledgers: Collection[LedgerId]) -> None:
        for number in ledgers:
            if number in self._ledgers:
                self._ledgers[number].deletion_intended = False

    async def delete(self, ledger: LedgerId) -> None:
        self._check_open()
        found = self._ledgers.pop(ledger, None)
        if found is not None and found.writer is not None:
            found.writer.fence(LedgerSealed(f"ledger {ledger} was deleted"))

    def commit_soon(self, write: Callable[[], None]) -> None:
        self._commit.commit_soon(write)

    def join(self, write: Callable[[], None]) -> None:
        self._commit.join(write)

    async def ledgers(self) -> tuple[LedgerId, ...]:
        self._check_open()
        return tuple(sorted(self._ledgers))

    @property
    def trouble(self) -> None:
        return None

    @property
    def queued_bytes(self) -> int:
        return sum(found.writer.queued_bytes for found in self._ledgers.values() if found.writer)

    def counters(self) -> Mapping[str, Mapping[str, float]]:
        """Nothing is written anywhere."""
        return {}

    async def close(self) -> None:
        for found in self._ledgers.values():
            if found.writer is not None:
                await found.writer.seal()
        self._closed = True

    def _find(self, ledger: LedgerId) -> _Ledger:
        self._check_open()
        found = self._ledgers.get(ledger)
        if found is None:
            raise LedgerNotFound(f"no ledger {ledger}")
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the ledger store is closed")
