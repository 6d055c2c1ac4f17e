"""The handle that appends to one ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from magnetar.errors import LedgerSealed
from magnetar.ledger.backends.file.journal import Journal
from magnetar.ledger.backends.file.ledger import FileLedger
from magnetar.ledger.store import Appended, LedgerInfo
from magnetar.model.position import EntryId, LedgerId


class FileLedgerWriter:
    """Alive while the ledger says so: sealing, a fence, a failed write or closing the store end
    that."""

    __slots__ = ("_journal", "_ledger", "_seal")

    def __init__(
        self,
        ledger: FileLedger,
        journal: Journal,
        seal: Callable[[FileLedger], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._journal = journal
        self._seal = seal

    @property
    def id(self) -> LedgerId:
        return LedgerId(self._ledger.id)

    @property
    def last_confirmed(self) -> EntryId:
        return EntryId(self._ledger.last)

    def append(self, entries: Sequence[bytes], done: Appended, size: int = -1) -> EntryId:
        ledger = self._ledger
        if not ledger.writable:
            raise LedgerSealed(f"ledger {ledger.id} takes no more entries from this writer")
        assert entries, "a run holds at least one entry"
        first = ledger.next_entry
        ledger.next_entry = first + len(entries)
        if size < 0:
            size = sum(map(len, entries))
        self._journal.append(ledger.id, first, entries, size, done)
        return EntryId(first)

    async def seal(self) -> LedgerInfo:
        self._ledger.writable = False
        if not self._ledger.sealed:
            await self._seal(self._ledger)
        return self._ledger.info
