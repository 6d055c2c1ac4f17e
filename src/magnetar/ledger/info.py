"""How a log is kept: where its records are, and by which policy it rolls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from magnetar.ledger.store import Replication
from magnetar.model.stored_log import CursorInfo, LogInfo

_MIB: Final = 2**20


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
