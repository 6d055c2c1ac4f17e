"""The contract of a ledger store.

A ledger is a sequence of entries numbered from 0, written by one writer, sealed once, then
immutable. The contract asks no more than Apache BookKeeper gives: appends are pipelined and
acknowledged in order, a failed append seals the ledger at its last durable entry, opening a
ledger for recovery fences its writer, nothing is overwritten or truncated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from magnetar.errors import BrokerError
from magnetar.model.position import EntryId, LedgerId, Term

Appended: TypeAlias = Callable[[BrokerError | None], None]
"""Called on the event loop, in append order, once a run is durable (None) or refused."""


class Digest(Enum):
    """What protects an entry of a ledger. A store with checksums of its own need not heed it."""

    CRC32 = "CRC32"
    CRC32C = "CRC32C"


@dataclass(frozen=True, slots=True)
class Replication:
    """Over how many nodes a ledger is spread, how many of them get each entry, and how many must
    have it before it is durable.
    """

    ensemble: int
    write_quorum: int
    ack_quorum: int

    def __post_init__(self) -> None:
        assert self.ensemble >= self.write_quorum >= self.ack_quorum >= 1


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """What the store knows of a ledger. `last` is -1 while it is empty; `length` counts payload
    bytes.
    """

    id: LedgerId
    term: Term
    sealed: bool
    last: EntryId
    length: int
    properties: Mapping[str, str]
    deletion_intended: bool = False
    """Whether its owner was about to let go of it; it may go once no record names it."""
    is_whole: bool = True
    """False when entries of it are known to be lost or unreadable."""


class LedgerWriter(Protocol):
    """The one handle that may append. It is alive until `seal`, a failed append or a fence by
    `recover`.
    """

    @property
    def id(self) -> LedgerId: ...

    @property
    def last_confirmed(self) -> EntryId:
        """The last durable entry; -1 while there is none."""

    def append(self, entries: Sequence[bytes], done: Appended, size: int = -1) -> EntryId:
        """Queue a run; return the id of its first entry, the others follow it.

        Never blocks and never raises for a storage fault: `done` gets exactly one call, in order of
        the appends. Raise LedgerSealed when the handle is no longer alive. `entries` is not empty
        and is not changed afterwards; `size` is the sum of their lengths, negative when
        the caller does not know it.
        """

    async def seal(self) -> LedgerInfo:
        """Wait for what was queued, then close the ledger for good. Sealing twice is the same as
        once.
        """


@runtime_checkable
class CopiesRecords(Protocol):
    """A store whose ledgers others read themselves, by records that it copies for them."""

    @property
    def copy_records(self) -> Callable[[Collection[LedgerId]], Awaitable[Mapping[str, bytes]]]:
        """Tells what stands in the metadata about ledgers and about where entries are kept, by
        path below `/ledgers`. What is gone is left out.
        """


class LedgerStore(Protocol):
    @property
    def is_shared(self) -> bool:
        """Whether other brokers write to the same store.

        Then its ledgers are not this broker's to list and sweep, for others exist before a record
        names them; and terms do not order writers: each recovery fences, and only the record of
        the log decides which owner goes on.
        """

    @property
    def is_apache_readable(self) -> bool:
        """Whether brokers of Apache Pulsar may serve the same ledgers, before this one or after it.

        Then records say only what those understand.
        """

    async def create(
        self,
        *,
        term: Term,
        properties: Mapping[str, str],
        deletion_intended: bool = False,
        replication: Replication | None = None,
        digest: Digest = Digest.CRC32C,
    ) -> LedgerWriter:
        """Make a ledger with an id never used before; it survives a crash from here on.

        One that gets entries before a record names it is made with its deletion intended, so that
        a crash in between leaves nothing that looks like lost data. Without `replication` the
        store's own holds; a store with one copy of everything heeds neither it nor `digest`.
        """

    async def recover(self, ledger: LedgerId, *, term: Term) -> LedgerInfo:
        """Fence the writer and seal at the last durable entry. Raise LedgerFenced when `term` is
        below the ledger's, unless the store is shared.
        """

    async def describe(self, ledger: LedgerId) -> LedgerInfo:
        """Raise LedgerNotFound when it never was or was deleted."""

    async def read(
        self, ledger: LedgerId, first: EntryId, *, entries_max: int, bytes_max: int
    ) -> list[bytes]:
        """Entries from `first` on, at least one unless the durable end is reached, checksums
        verified.

        Stops before `bytes_max` is passed, but always returns one entry. Raise LedgerCorrupt naming
        the place.
        """

    async def intend_deletion(self, ledgers: Collection[LedgerId]) -> None:
        """Note durably that these are about to be let go of, before their record drops them.

        A ledger with entries that no record names and whose deletion was not intended is a sign of
        lost metadata, never garbage. Missing ones are passed over. A shared store, which is never
        swept, need not note it.
        """

    def cancel_deletion(self, ledgers: Collection[LedgerId]) -> None:
        """A record names them after all. Durable with some later write: until then a crash leaves
        an intent, which harms nothing while a record names the ledger.
        """

    async def delete(self, ledger: LedgerId) -> None:
        """Remove a ledger and give its space back in time. A missing one is not an error."""

    async def ledgers(self) -> tuple[LedgerId, ...]:
        """All that exist, ascending; of a shared store at least those that this broker keeps."""

    def commit_soon(self, write: Callable[[], None]) -> None:
        """Have a commit leave, and call `write` once just before it does: what it appends is part
        of that commit. Where ledgers share no commit, it is what leaves in one turn of the loop.
        """

    def join(self, write: Callable[[], None]) -> None:
        """The same, but with a commit that others ask for: it is not called as long as there is
        nothing to commit.
        """

    @property
    def directory(self) -> Path | None:
        """Where other processes of this machine find settled ledgers; None when nowhere."""

    @property
    def list_bookies(self) -> Callable[[], Awaitable[tuple[str, ...]]] | None:
        """Finds the ids of all bookies that the cluster has or had; None without bookies."""

    @property
    def trouble(self) -> str | None:
        """Why entries are refused for the time being; None when they are taken."""

    @property
    def queued_bytes(self) -> int:
        """Bytes appended but not yet durable: what back-pressure looks at."""

    def counters(self) -> Mapping[str, Mapping[str, float]]:
        """What the backend has counted since it was opened, by name; each only grows. For each
        node that it stores on; without a name for itself.
        """

    async def close(self) -> None:
        """Make durable what was queued, then refuse everything."""
