"""The ledgers of a log in order, and arithmetic on the positions in them.

Every entry has an ordinal: how many entries stood before it since the log was opened. Ordinals
turn distances between positions into subtractions, across ledgers and without walking them;
trimming the front leaves them as they are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Self

from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.stored_log import LedgerPart, Offload


class LogLedger:
    """A ledger with its durable entries so far. `sealed_ms` is 0 while it is open."""

    __slots__ = ("base", "entries", "ledger_id", "offload", "rest", "sealed_ms", "size")

    def __init__(self, ledger_id: int, base: int) -> None:
        self.ledger_id = ledger_id
        self.base = base
        self.entries = 0
        self.size = 0
        self.sealed_ms = 0
        self.offload = Offload.NONE
        self.rest = b""

    @property
    def end(self) -> int:
        """Ordinal after the last entry."""
        return self.base + self.entries

    def describe(self) -> LedgerPart:
        return LedgerPart(
            self.ledger_id, self.entries, self.size, self.sealed_ms, self.offload, self.rest
        )


class LedgerSequence:
    """Ascending by ledger id; only the last part may grow."""

    __slots__ = ("_floor", "_ids", "by_id", "parts", "removed")

    def __init__(self) -> None:
        self.parts: list[LogLedger] = []
        self.by_id: dict[int, LogLedger] = {}
        self.removed: list[Callable[[], None]] = []
        """Called when ledgers are gone."""
        self._ids: list[int] = []
        self._floor = (EARLIEST, 0)  # last entry that was removed, and the ordinal after it

    def restore(self, parts: Iterable[LedgerPart]) -> Self:
        """Add ledgers as their record has them."""
        for stored in parts:
            part = self.add(stored.ledger_id)
            part.entries, part.size = stored.entries, stored.size
            part.sealed_ms = stored.created_ms
            part.offload, part.rest = stored.offload, stored.rest
        return self

    def add(self, ledger_id: int) -> LogLedger:
        assert not self._ids or ledger_id > self._ids[-1], "ledger ids ascend"
        part = LogLedger(ledger_id, self.end)
        self.parts.append(part)
        self._ids.append(ledger_id)
        self.by_id[ledger_id] = part
        return part

    def remove(self, ledger_ids: Collection[int]) -> None:
        """Forget ledgers at the front, or empty ones anywhere."""
        kept = []
        for part in self.parts:
            if part.ledger_id not in ledger_ids:
                kept.append(part)
            elif part.entries:
                assert not kept, "entries are removed from the front only"
                self._floor = (Position(part.ledger_id, part.entries - 1), part.end)
        self.parts = kept
        self._ids = [part.ledger_id for part in kept]
        self.by_id = {part.ledger_id: part for part in kept}
        for call in self.removed:
            call()

    # Counting

    @property
    def end(self) -> int:
        """Ordinal after the last durable entry."""
        return self.parts[-1].end if self.parts else self._floor[1]

    @property
    def total_entries(self) -> int:
        return self.end - self.parts[0].base if self.parts else 0

    @property
    def total_bytes(self) -> int:
        return sum(part.size for part in self.parts)

    def describe(self) -> tuple[LedgerPart, ...]:
        """Every ledger, the open one with what is durable so far."""
        return tuple(part.describe() for part in self.parts)

    def ordinal(self, position: Position) -> int:
        """How many entries stand before `position`, which need not exist."""
        ledger_id, entry_id = position
        part = self.by_id.get(ledger_id)
        if part is not None:
            return part.base + min(max(entry_id, 0), part.entries)
        index = bisect_left(self._ids, ledger_id)
        return self.parts[index].base if index < len(self.parts) else self.end

    def entries_between(self, first: Position, end: Position) -> int:
        """The number of entries from `first` on and before `end`."""
        return max(0, self.ordinal(end) - self.ordinal(first))

    def bytes_between(self, first: Position, end: Position) -> int:
        """Bytes of the entries from `first` on and before `end`; part of a ledger counts in
        proportion.
        """
        start, stop = self.ordinal(first), self.ordinal(end)
        size = 0
        for part in self.parts_from(first.ledger_id):
            if part.base >= stop:
                break
            entries = min(stop, part.end) - max(start, part.base)
            if entries > 0:
                size += part.size * entries // part.entries
        return size

    def position_at(self, ordinal: int) -> Position:
        """The entry with this ordinal; at or after the end: where the next entry would stand."""
        if ordinal >= self.end:
            return self.end_position
        index = bisect_right(self.parts, ordinal, key=_base_of) - 1
        if index < 0:
            return self.first_position
        part = self.parts[index]
        return Position(part.ledger_id, ordinal - part.base)

    def position_after(self, position: Position, entries: int) -> Position:
        """Where a reader at `position` stands after this many entries, at most at the end."""
        return self.position_at(self.ordinal(position) + entries)

    # Ends

    @property
    def last_position(self) -> Position:
        """The last durable entry, or the place before the first."""
        for part in reversed(self.parts):
            if part.entries:
                return Position(part.ledger_id, part.entries - 1)
        return Position(self.parts[-1].ledger_id, -1) if self.parts else self._floor[0]

    @property
    def end_position(self) -> Position:
        """Where the next entry would stand as far as is known; a new ledger may take it further."""
        if self.parts:
            return Position(self.parts[-1].ledger_id, self.parts[-1].entries)
        return Position(self._floor[0].ledger_id, self._floor[0].entry_id + 1)

    @property
    def first_position(self) -> Position:
        """The first entry that exists, or the end."""
        return self.ceiling(EARLIEST) or self.end_position

    # Steps

    def part_after(self, ledger_id: int) -> LogLedger | None:
        """The first ledger after `ledger_id` that has entries."""
        for part in islice(self.parts, bisect_right(self._ids, ledger_id), None):
            if part.entries:
                return part
        return None

    def parts_from(self, ledger_id: int) -> Iterator[LogLedger]:
        """This ledger, if it is there, and those after it."""
        return islice(self.parts, bisect_left(self._ids, ledger_id), None)

    def ceiling(self, position: Position) -> Position | None:
        """The first entry at or after `position`; None when there is none yet."""
        ledger_id, entry_id = position
        part = self.by_id.get(ledger_id)
        if part is not None and entry_id < part.entries:
            return Position(ledger_id, max(entry_id, 0))
        following = self.part_after(ledger_id)
        return None if following is None else Position(following.ledger_id, 0)

    def floor(self, position: Position) -> Position:
        """The last entry at or before `position`, or the place before the first entry."""
        ledger_id, entry_id = position
        part = self.by_id.get(ledger_id)
        if part is not None and entry_id >= 0 and part.entries:
            return Position(ledger_id, min(entry_id, part.entries - 1))
        for earlier in reversed(self.parts[: bisect_left(self._ids, ledger_id)]):
            if earlier.entries:
                return Position(earlier.ledger_id, earlier.entries - 1)
        if not self.parts:
            return self._floor[0]
        return Position(self.parts[0].ledger_id, -1)

    def next_position(self, position: Position) -> Position:
        """The next entry after `position`; behind the last one: where the next would stand."""
        return (
            self.ceiling(Position(position.ledger_id, position.entry_id + 1)) or self.end_position
        )

    def previous_position(self, position: Position) -> Position:
        """The last entry before `position`, or the place before the first."""
        return self.floor(Position(position.ledger_id, position.entry_id - 1))

    def mark_before(self, start: Position) -> Position:
        """The mark-delete of a cursor whose first unread entry is `start`, EARLIEST and LATEST
        included.
        """
        if start.ledger_id == LATEST.ledger_id:
            return self.last_position
        if start.ledger_id < 0:
            return self.previous_position(self.first_position)
        return self.previous_position(start)


def _base_of(part: LogLedger) -> int:
    return part.base
