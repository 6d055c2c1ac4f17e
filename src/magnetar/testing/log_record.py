"""Records of a log in memory, versioned as a metadata store would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from magnetar.errors import BrokerError, StoreClosed, VersionConflict
from magnetar.model.stored_log import CursorInfo, LogInfo
from magnetar.wire.storage import decode_cursor_entry, encode_cursor_entry


@dataclass
class RecordShelf:
    """What survives a broker. `writes` counts what was stored."""

    log: tuple[LogInfo, int] | None = None
    cursors: dict[str, tuple[CursorInfo, int]] = field(default_factory=dict)
    writes: int = 0


class MemoryLogRecords:
    """One owner's access to a shelf, until it is killed."""

    def __init__(self, shelf: RecordShelf | None = None) -> None:
        self.shelf = shelf or RecordShelf()
        self._faults: list[tuple[BrokerError, bool]] = []
        self._killed = False

    def kill(self) -> None:
        """From here on nothing reaches the shelf, as after a crash of the owner."""
        self._killed = True

    def fail_next(self, error: BrokerError, *, written: bool = False) -> None:
        """Refuse the next write with `error`; with `written` it is done all the same, its answer is
        lost.
        """
        self._faults.append((error, written))

    async def load(self) -> tuple[LogInfo, int] | None:
        return self.shelf.log

    async def store(self, info: LogInfo, *, expect: int) -> int:
        version = self._next_version(self.shelf.log, expect)
        fault, written = self._next_fault()
        if written:
            self.shelf.log = (info, version)
        if fault is not None:
            raise fault
        return version

    async def remove(self) -> None:
        self._check_alive()
        self.shelf.log = None

    async def load_cursors(self) -> Mapping[str, tuple[CursorInfo, int]]:
        return dict(self.shelf.cursors)

    async def store_cursor(self, name: str, info: CursorInfo, *, expect: int) -> int:
        version = self._next_version(self.shelf.cursors.get(name), expect)
        fault, written = self._next_fault()
        if written:
            self.shelf.cursors[name] = (info, version)
        if fault is not None:
            raise fault
        return version

    async def remove_cursor(self, name: str) -> None:
        self._check_alive()
        self.shelf.cursors.pop(name, None)

    def encode_cursor(self, info: CursorInfo) -> bytes:
        return encode_cursor_entry(info)

    def decode_cursor(self, data: bytes) -> CursorInfo:
        return decode_cursor_entry(data)

    def _next_version(self, stored: tuple[object, int] | None, expect: int) -> int:
        self._check_alive()
        found = -1 if stored is None else stored[1]
        if found != expect:
            raise VersionConflict(f"expected version {expect}, found {found}")
        self.shelf.writes += 1
        return found + 1

    def _check_alive(self) -> None:
        if self._killed:
            raise StoreClosed("this owner was killed")

    def _next_fault(self) -> tuple[BrokerError | None, bool]:
        return self._faults.pop(0) if self._faults else (None, True)
