"""How many messages of a log a cursor has not acknowledged, without reading the log each time.

A cursor counts entries, and an entry may hold a batch. So the messages of each entry are noted as
it is written, as running sums for each ledger: what stands between two places is a difference.
Where all entries of a ledger hold as many messages, one number says it. What an earlier owner of
the log wrote is read once, on demand, in small steps that all logs of a broker take in
turns.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import Final

from magnetar.errors import BrokerError
from magnetar.ledger.ackset import AckSet
from magnetar.ledger.message_count import RunSource
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.bitset import join_words
from magnetar.model.entry_set import EntrySet
from magnetar.model.position import Position
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_logger = Logger(__name__)

SUMS_MAX: Final = 1 << 18
"""Entries of one log whose sums are kept, 8 bytes for each; of other ledgers only the total."""
_STEP_ENTRIES: Final = 1000
_STEP_BYTES: Final = 4 << 20
_REST: Final = 19
"""How much longer than its step a log lets pass before the next one counts: 5 % of the time."""


class TallyPace:
    """One log at a time reads to count, and all of them together only now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        async with self._lock:
            began = self._clock.monotonic()
            yield
            await self._clock.sleep(_REST * (self._clock.monotonic() - began))


class LedgerTally:
    """The messages of the entries `first` to `end` (excluded) of one ledger."""

    __slots__ = ("_each", "_is_even", "_sums", "_total", "end", "first", "is_entered")

    def __init__(self, first: int = 0) -> None:
        self.first = self.end = first
        self.is_entered = False
        """Whether a part of what is counted was asked for."""
        self._is_even = True
        """Whether every entry holds `_each` messages."""
        self._each = 0
        self._total = 0
        self._sums: array[int] | None = None
        """The messages before each entry and before the end, unless `_is_even`; None when they
        were dropped.
        """

    def add(self, first: int, counts: Sequence[int]) -> None:
        """Entries that do not follow are left to be read."""
        if first != self.end or not counts:
            return
        each = self._each or counts[0]
        if self._is_even and counts.count(each) == len(counts):
            self._each = each
        else:
            if self._is_even:
                self._is_even = False
                before = range(self.end - self.first + 1)
                self._sums = array("q", [self._each * entry for entry in before])
            assert self._sums is not None, "the sums of what still grows are kept"
            self._sums.extend(accumulate(counts, initial=self._sums.pop()))
            self._total = self._sums[-1]
        self.end += len(counts)

    @property
    def total(self) -> int:
        return self._each * (self.end - self.first) if self._is_even else self._total

    @property
    def has_sums(self) -> bool:
        return self._is_even or self._sums is not None

    @property
    def sums(self) -> int:
        return 0 if self._sums is None else len(self._sums)

    def drop_sums(self) -> None:
        """Keep the total alone, until a part is asked for again."""
        self._sums = None
        self.is_entered = False

    def between(self, start: int, stop: int) -> int | None:
        """The messages of the entries from `start` on and before `stop`; None: not counted."""
        if start < self.first or stop > self.end:
            return None
        if self._is_even:
            return self._each * (stop - start)
        if (start, stop) == (self.first, self.end):
            return self._total
        self.is_entered = True
        if self._sums is None:
            return None
        return self._sums[stop - self.first] - self._sums[start - self.first]

    def among(self, entries: EntrySet) -> int | None:
        """The messages of some entries, of one at least; None: not counted."""
        if self._is_even:
            is_counted = self.first <= entries.first and entries.last < self.end
            return self._each * entries.count if is_counted else None
        messages = 0
        for first, last in entries.runs():
            found = self.between(first, last + 1)
            if found is None:
                return None
            messages += found
        return messages


class MessageTally:
    """Of one log, as long as it is open."""

    def __init__(
        self,
        sequence: LedgerSequence,
        reader: RunSource,
        scope: TaskScope,
        pace: TallyPace,
        *,
        sums_max: int = SUMS_MAX,
    ) -> None:
        self._sequence = sequence
        self._reader = reader
        self._scope = scope
        self._pace = pace
        self._sums_max = sums_max
        self._ledgers: dict[int, LedgerTally] = {}
        """Those that were asked about or written last come last."""
        self._wanted: Position | None = None
        """From where on the log is being counted, while it is."""

    def append(self, ledger_id: int, first: int, counts: Sequence[int]) -> None:
        """Entries became durable."""
        tally = self._ledgers.get(ledger_id)
        if tally is None:
            tally = self._ledgers[ledger_id] = LedgerTally()
            self._forget(ledger_id)
        tally.add(first, counts)

    # Asking

    def unacknowledged(self, acks: AckSet) -> int | None:
        """Messages that are not acknowledged; None as long as they are not counted."""
        mark = acks.mark_delete
        messages = self.between(Position(mark.ledger_id, mark.entry_id + 1), None)
        if messages is None:
            return None
        for ledger_id, entries in acks.beyond.items():
            tally = self._ledgers.get(ledger_id)
            done = None if tally is None else tally.among(entries)
            if done is None:
                return None
            messages -= done
        for place, left in acks.batches().items() if acks.has_partial else ():
            held = self._within(place.ledger_id, place.entry_id, place.entry_id + 1)
            if held is None:
                return None
            messages -= max(0, held - join_words(left).bit_count())
        return messages

    def between(self, start: Position, end: Position | None) -> int | None:
        """The messages from `start` on and before `end`, or up to the last; None: not counted."""
        messages = 0
        for part in self._sequence.parts_from(start.ledger_id):
            if end is not None and part.ledger_id > end.ledger_id:
                break
            first = max(0, start.entry_id) if part.ledger_id == start.ledger_id else 0
            stop = part.entries
            if end is not None and part.ledger_id == end.ledger_id:
                stop = min(stop, end.entry_id)
            found = self._within(part.ledger_id, first, stop)
            if found is None:
                return None
            messages += found
        return messages

    def _within(self, ledger_id: int, start: int, stop: int) -> int | None:
        if start >= stop:
            return 0
        tally = self._ledgers.get(ledger_id)
        return None if tally is None else tally.between(start, stop)

    @property
    def messages_per_entry(self) -> float:
        """The mean of what is counted; 1 where nothing is."""
        entries = sum(tally.end - tally.first for tally in self._ledgers.values())
        return sum(tally.total for tally in self._ledgers.values()) / entries if entries else 1.0

    # Counting what was not seen being written

    def count_soon(self, start: Position) -> None:
        """Count from here on, in turns with other logs."""
        if self._wanted is None:
            self._wanted = start
            self._scope.start(self._count_all(), "count messages")
        else:
            self._wanted = min(self._wanted, start)

    async def _count_all(self) -> None:
        try:
            is_done = False
            while not is_done and self._wanted is not None:
                async with self._pace.turn():
                    is_done = await self.count(self._wanted)
        except BrokerError as error:  # the next caller tries again
            _logger.warning("messages not counted", reason=error.sentence)
        finally:
            self._wanted = None

    async def count(self, start: Position) -> bool:
        """Read a little of what is not counted from `start` on; True when nothing is left."""
        place = self._uncounted(start)
        if place is None:
            return True
        self._forget(place.ledger_id)
        run = await self._reader.read(place, _STEP_ENTRIES, _STEP_BYTES)
        if run is None:
            return True
        self._ledgers.setdefault(run.ledger_id, LedgerTally(run.first)).add(run.first, run.counts)
        return self._uncounted(start) is None

    def _uncounted(self, start: Position) -> Position | None:
        for part in self._sequence.parts_from(start.ledger_id):
            first = max(0, start.entry_id) if part.ledger_id == start.ledger_id else 0
            if first >= part.entries:
                continue
            tally = self._ledgers.pop(part.ledger_id, None)
            if tally is None or first < tally.first:
                tally = LedgerTally(first)
            elif tally.is_entered and not tally.has_sums:  # they were dropped
                tally = LedgerTally(tally.first)
                tally.is_entered = True
            self._ledgers[part.ledger_id] = tally
            if tally.end < part.entries:
                return Position(part.ledger_id, tally.end)
        return None

    def _forget(self, growing: int) -> None:
        """Drop what is trimmed. Of too many sums drop those of ledgers that no cursor stood in,
        then those asked about longest ago.
        """
        present, parts = self._sequence.by_id, self._sequence.parts
        for gone in [ledger_id for ledger_id in self._ledgers if ledger_id not in present]:
            del self._ledgers[gone]
        excess = sum(tally.sums for tally in self._ledgers.values()) - self._sums_max
        kept = {growing, parts[-1].ledger_id if parts else growing}
        found = [each for each in self._ledgers.items() if each[0] not in kept]
        for ledger_id, tally in sorted(found, key=lambda each: each[1].is_entered):
            if excess <= 0:
                break
            excess -= tally.sums
            if tally.end == present[ledger_id].entries:
                tally.drop_sums()
            else:
                del self._ledgers[ledger_id]
