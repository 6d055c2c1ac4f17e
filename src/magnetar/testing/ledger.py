"""A ledger store that fails on demand, around one that does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from magnetar.errors import BrokerError, LedgerSealed, StoreClosed
from magnetar.ledger.store import (
    Appended,
    Digest,
    LedgerInfo,
    LedgerStore,
    LedgerWriter,
    Replication,
)
from magnetar.model.position import EntryId, LedgerId, Term


class FaultyWriter:
    """Alive until its first failed append was answered, as the contract has it."""

    def __init__(self, store: FaultyLedgerStore, inner: LedgerWriter) -> None:
        self._store = store
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._next = 0
        self._error: BrokerError | None = None
        self._refused: list[Appended] = []
        self._dead = False

    @property
    def id(self) -> LedgerId:
        return self._inner.id

    @property
    def last_confirmed(self) -> EntryId:
        return self._inner.last_confirmed

    def append(self, entries: Sequence[bytes], done: Appended, size: int = -1) -> EntryId:
        if self._dead or self._store.killed:
            raise LedgerSealed(f"ledger {self.id} has failed")
        self._store.appends += 1
        first = EntryId(self._next)
        if self._dies(after=False):
            raise LedgerSealed(f"ledger {self.id} has failed")
        if self._error is None:
            self._error = self._store.take_fault()
            if self._error is not None:
                self._loop.call_soon(self._refuse, self._error)
        if self._error is None:
            self._inner.append(entries, lambda error: self._store.pass_on(done, error))
        else:
            self._refused.append(done)
        self._dies(after=True)
        self._next += len(entries)
        return first

    def _dies(self, *, after: bool) -> bool:
        """Whether the process is killed here."""
        if self._store.dies_at == (self._store.appends, after):
            self._store.kill()
        return self._store.killed

    async def seal(self) -> LedgerInfo:
        self._dead = True
        self._store.check_alive()
        return await self._inner.seal()

    def _refuse(self, error: BrokerError) -> None:
        self._dead = True
        for done in self._refused:
            self._store.pass_on(done, error)


class FaultyLedgerStore:
    def __init__(self, inner: LedgerStore) -> None:
        self._inner = inner
        self.is_shared = inner.is_shared
        self.is_apache_readable = inner.is_apache_readable
        self.list_bookies = inner.list_bookies
        self._append_faults: list[BrokerError | None] = []
        self._create_faults: list[BrokerError] = []
        self._gate = asyncio.Event()
        self._gate.set()
        self._reading = asyncio.Event()
        self._reading.set()
        self._read_fault: BrokerError | None = None
        self._killed = False
        self._unanswered: list[tuple[Appended, BrokerError | None]] | None = None
        self.reads = 0
        self.appends = 0
        self.replications: list[Replication | None] = []
        """What was asked for with each new ledger."""
        self.dies_at: tuple[int, bool] | None = None
        """The append, counted by `appends`, at which the process is killed: before or after it."""

    def fail_next(self, error: BrokerError, *, after: int = 0) -> None:
        """The next append, to whatever ledger, fails with `error`, and its ledger with it; or the
        one that comes after so many others.
        """
        self._append_faults += [None] * after
        self._append_faults.append(error)

    def fail_next_create(self, error: BrokerError) -> None:
        self._create_faults.append(error)

    def hold_creates(self) -> None:
        """Make `create` wait until `release_creates`."""
        self._gate.clear()

    def release_creates(self) -> None:
        self._gate.set()

    def hold_answers(self) -> None:
        """Keep the answers to appends until `release_answers`."""
        self._unanswered = []

    def release_answers(self) -> None:
        held, self._unanswered = self._unanswered or [], None
        for done, error in held:
            self.pass_on(done, error)

    def hold_reads(self) -> None:
        """Make `read` wait until `release_reads`."""
        self._reading.clear()

    def release_reads(self) -> None:
        self._reading.set()

    def fail_reads(self, error: BrokerError | None) -> None:
        """Every read fails with `error`; None: no more."""
        self._read_fault = error

    def kill(self) -> None:
        """As after a crash of the process: no answer comes any more, and nothing new is taken."""
        self._killed = True

    @property
    def killed(self) -> bool:
        return self._killed

    def pass_on(self, done: Appended, error: BrokerError | None) -> None:
        if self._unanswered is not None:
            self._unanswered.append((done, error))
        elif not self._killed:
            done(error)

    def take_fault(self) -> BrokerError | None:
        return self._append_faults.pop(0) if self._append_faults else None

    async def create(
        self,
        *,
        term: Term,
        properties: Mapping[str, str],
        deletion_intended: bool = False,
        replication: Replication | None = None,
        digest: Digest = Digest.CRC32C,
    ) -> FaultyWriter:
        await self._gate.wait()
        self.check_alive()
        if self._create_faults:
            raise self._create_faults.pop(0)
        self.replications.append(replication)
        writer = await self._inner.create(
            term=term,
            properties=properties,
            deletion_intended=deletion_intended,
            replication=replication,
            digest=digest,
        )
        return FaultyWriter(self, writer)

    async def intend_deletion(self, ledgers: Collection[LedgerId]) -> None:
        self.check_alive()
        await self._inner.intend_deletion(ledgers)

    def cancel_deletion(self, ledgers: Collection[LedgerId]) -> None:
        if not self._killed:
            self._inner.cancel_deletion(ledgers)

    async def recover(self, ledger: LedgerId, *, term: Term) -> LedgerInfo:
        self.check_alive()
        return await self._inner.recover(ledger, term=term)

    async def describe(self, ledger: LedgerId) -> LedgerInfo:
        return await self._inner.describe(ledger)

    async def read(
        self, ledger: LedgerId, first: EntryId, *, entries_max: int, bytes_max: int
    ) -> list[bytes]:
        self.reads += 1
        await self._reading.wait()
        if self._read_fault is not None:
            raise self._read_fault
        return await self._inner.read(ledger, first, entries_max=entries_max, bytes_max=bytes_max)

    async def delete(self, ledger: LedgerId) -> None:
        self.check_alive()
        await self._inner.delete(ledger)

    async def ledgers(self) -> tuple[LedgerId, ...]:
        return await self._inner.ledgers()

    def commit_soon(self, write: Callable[[], None]) -> None:
        self._inner.commit_soon(lambda: None if self._killed else write())

    def join(self, write: Callable[[], None]) -> None:
        self._inner.join(lambda: None if self._killed else write())

    @property
    def directory(self) -> Path | None:
        return self._inner.directory

    @property
    def trouble(self) -> str | None:
        return self._inner.trouble

    @property
    def queued_bytes(self) -> int:
        return self._inner.queued_bytes

    def counters(self) -> Mapping[str, Mapping[str, float]]:
        return self._inner.counters()

    async def close(self) -> None:
        await self._inner.close()

    def check_alive(self) -> None:
        if self._killed:
            raise StoreClosed("this process was killed")
