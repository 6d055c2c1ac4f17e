"""Reads of a topic that transactions write to: up to the first entry of one that is open."""

from __future__ import annotations

from typing import Final, Protocol

from magnetar.ledger.run import EntryRun
from magnetar.model.position import Position


class Source(Protocol):
    """Where entries are read from: the topic's log, or its compacted view."""

    def read_cached(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None: ...
    async def read(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None: ...
    def is_readable(self, position: Position) -> bool: ...


class Pin(Protocol):
    @property
    def pin(self) -> Position | None:
        """Nothing is read from here on."""


class CommittedSource:
    def __init__(self, inner: Source, buffer: Pin) -> None:
        self.inner: Final = inner
        self._buffer = buffer

    def read_cached(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None:
        if self._is_pinned(start):
            return None
        return self._cut(self.inner.read_cached(start, entries_max, bytes_max))

    async def read(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None:
        if self._is_pinned(start):
            return None
        return self._cut(await self.inner.read(start, entries_max, bytes_max))

    def is_readable(self, position: Position) -> bool:
        """Between `position` and the pin there is an entry, unless a ledger ends there: then the
        read finds nothing.
        """
        return not self._is_pinned(position) and self.inner.is_readable(position)

    def _is_pinned(self, position: Position) -> bool:
        pin = self._buffer.pin
        return pin is not None and position >= pin

    def _cut(self, run: EntryRun | None) -> EntryRun | None:
        pin = self._buffer.pin
        if run is None or pin is None or (run.ledger_id, run.last) < pin:
            return run
        if (run.ledger_id, run.first) >= pin:
            return None
        count = pin.entry_id - run.first
        return EntryRun(run.ledger_id, run.first, run.data[:count], run.counts[:count])
