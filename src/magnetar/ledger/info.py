"""What a log and its cursors keep outside of their ledgers, and where it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from magnetar.ledger.store import Replication
from magnetar.model.position import Position

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class LedgerPart:
    """One ledger of a log.

    `created_ms` is the moment it was sealed, as stored records count it; 0 while it may still grow,
    and then `entries` and `size` of a stored record say nothing.
    """

    ledger_id: int
    entries: int
    size: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class LogInfo:
    ledgers: tuple[LedgerPart, ...] = ()
    terminated: Position | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CursorInfo:
    """Everything a cursor remembers.

    `ledger_id` is the cursor's own ledger, or -1 when the record itself is the truth. `ranges` are
    the entries acknowledged beyond `mark_delete`: closed pairs (first, last), each inside one
    ledger, ascending and apart from each other. `batches` are the entries acknowledged in part: the
    bits of what is still NOT acknowledged, as signed 64-bit words, lowest first.
    """

    ledger_id: int
    mark_delete: Position
    ranges: tuple[tuple[Position, Position], ...] = ()
    batches: Mapping[Position, tuple[int, ...]] = field(default_factory=dict)
    properties: Mapping[str, int] = field(default_factory=dict)
    cursor_properties: Mapping[str, str] = field(default_factory=dict)


class LogState(Enum):
    """Under the names that Pulsar's tools show. Only an open log takes entries."""

    OPEN = "LedgerOpened"
    TERMINATED = "Terminated"
    FENCED = "Fenced"
    CLOSED = "Closed"


class LogRecords(Protocol):
    """The records of one log. A version is what the store gave for the last write; -1 means
    "create".
    """

    async def load(self) -> tuple[LogInfo, int] | None: ...

    async def store(self, info: LogInfo, *, expect: int) -> int:
        """Return the new version. Raise VersionConflict when the stored one is not `expect`."""

    async def remove(self) -> None: ...

    async def load_cursors(self) -> Mapping[str, tuple[CursorInfo, int]]: ...

    async def store_cursor(self, name: str, info: CursorInfo, *, expect: int) -> int: ...

    async def remove_cursor(self, name: str) -> None: ...

    def encode_cursor(self, info: CursorInfo) -> bytes:
        """The entry written to a cursor's ledger; it need not carry `ledger_id` and
        `cursor_properties`.
        """

    def decode_cursor(self, data: bytes) -> CursorInfo: ...


@dataclass(frozen=True, slots=True)
class LogPolicy:
    """How a log rolls and keeps. A limit of -1 is infinite; a `roll_max_ms` of 0 never rolls for
    age alone.
    """

    entries_max: int = 50_000
    bytes_max: int = 2048 * _MIB
    roll_min_ms: int = 10 * 60_000
    roll_max_ms: int = 240 * 60_000
    retention_ms: int = 0
    retention_bytes: int = 0
    cursor_writes_per_s: float = 0
    """How often a cursor that moves is written; not positive: as often as its pace allows."""
    cursor_entries_max: int = 50_000
    cursor_bytes_max: int = 64 * _MIB
    replication: Replication | None = None
    """Of the next ledger of the log and of its cursors; None: the store's own."""
