"""What a cursor has acknowledged: a mark, ranges beyond it, and entries acknowledged in part.

Everything up to the mark is acknowledged. The mark moves over entries that touch it, over the ends
of ledgers, and over ledgers that are empty or gone. Ids of entries that do not exist (yet) are not
taken: a client cannot acknowledge the future.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from typing import Final

from magnetar.ledger.run import EntryRun
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.bitset import join_words, split_words
from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo

_LEDGER_END: Final = 1 << 63
_WORDS_MAX: Final = 1 << 14
"""Of one batch: a million messages."""
_BATCH_BITS_MAX: Final = 1 << 25
"""Of all batches that one cursor keeps in part: 4 MiB."""


class Ranges:
    """Closed ranges of entry ids of one ledger as two parallel sorted lists; touching ranges are
    one.
    """

    __slots__ = ("count", "firsts", "lasts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.count = 0  # entries covered

    def add(self, first: int, last: int) -> int:
        """Return how many entries were new."""
        firsts, lasts = self.firsts, self.lasts
        start = bisect_left(lasts, first - 1)
        end = bisect_right(firsts, last + 1, start)
        if start == end:
            firsts.insert(start, first)
            lasts.insert(start, last)
            added = last - first + 1
        else:
            first, last = min(first, firsts[start]), max(last, lasts[end - 1])
            known = sum(lasts[start:end]) - sum(firsts[start:end]) + end - start
            firsts[start:end], lasts[start:end] = [first], [last]
            added = last - first + 1 - known
        self.count += added
        return added

    def cut(self, last: int) -> int:
        """Forget entries up to `last`; return how many were covered."""
        end = bisect_right(self.lasts, last)
        removed = sum(self.lasts[:end]) - sum(self.firsts[:end]) + end
        del self.firsts[:end], self.lasts[:end]
        if self.firsts and self.firsts[0] <= last:
            removed += last + 1 - self.firsts[0]
            self.firsts[0] = last + 1
        self.count -= removed
        return removed

    def covers(self, entry_id: int) -> bool:
        index = bisect_right(self.firsts, entry_id) - 1
        return index >= 0 and self.lasts[index] >= entry_id

    def gaps(self, first: int, last: int) -> list[int]:
        """Entry ids in first..last that are not covered."""
        found: list[int] = []
        index = bisect_left(self.lasts, first)
        while first <= last:
            if index == len(self.firsts) or self.firsts[index] > last:
                found.extend(range(first, last + 1))
                break
            found.extend(range(first, self.firsts[index]))
            first = self.lasts[index] + 1
            index += 1
        return found


class AckSet:
    __slots__ = (
        "_batch_bits",
        "_batches",
        "_mark_entry",
        "_mark_ledger",
        "_ranges",
        "_sequence",
        "acked_beyond",
    )

    def __init__(self, sequence: LedgerSequence, info: CursorInfo) -> None:
        self._sequence = sequence
        self._mark_ledger, self._mark_entry = info.mark_delete
        self._ranges: dict[int, Ranges] = {}
        self._batches: dict[tuple[int, int], int] = {}
        self._batch_bits = 0
        """How many bits these have in all; beyond a limit no more partly done batches are kept."""
        self.acked_beyond = 0
        """Entries acknowledged beyond the mark."""
        for first, last in info.ranges:
            self._restore(first, last)
        for (ledger_id, entry_id), words in info.batches.items():
            if len(words) <= _WORDS_MAX:  # what earlier versions took without a limit is forgotten
                self.add_batch(ledger_id, entry_id, join_words(words))

    def _restore(self, first: Position, last: Position) -> None:
        """A range as it was stored: over several ledgers it covers what each of them has."""
        if first.ledger_id == last.ledger_id:
            self.add(first.ledger_id, first.entry_id, last.entry_id)
            return
        for ledger_id in [part.ledger_id for part in self._sequence.parts]:
            if first.ledger_id <= ledger_id <= last.ledger_id:
                start = first.entry_id if ledger_id == first.ledger_id else 0
                end = last.entry_id if ledger_id == last.ledger_id else _LEDGER_END
                self.add(ledger_id, start, end)

    # Adding

    def add_next(self, ledger_id: int, entry_id: int) -> bool:
        """The path of a consumer that acknowledges in order. False: nothing was done, use `add`."""
        if entry_id != self._mark_entry + 1 or ledger_id != self._mark_ledger or self._ranges:
            return False
        part = self._sequence.by_id.get(ledger_id)
        if part is None or entry_id >= part.entries:
            return False
        self._mark_entry = entry_id
        if self._batches:
            self._drop_batch((ledger_id, entry_id))
        return True

    def add(self, ledger_id: int, first: int, last: int) -> bool:
        """Acknowledge entries first..last; True when that was news."""
        part = self._sequence.by_id.get(ledger_id)
        if part is None or ledger_id < self._mark_ledger:
            return False
        last = min(last, part.entries - 1)
        first = max(first, self._mark_entry + 1 if ledger_id == self._mark_ledger else 0)
        if first > last:
            return False
        ranges = self._ranges.get(ledger_id)
        if ranges is None:
            ranges = self._ranges[ledger_id] = Ranges()
        added = ranges.add(first, last)
        self.acked_beyond += added
        if self._batches:
            self._drop_batches(ledger_id, first, last)
        if ranges.firsts[0] <= self._next_entry_of(ledger_id):
            self._advance()
        return added > 0

    def add_entries(self, ledger_id: int, entry_ids: list[int]) -> bool:
        first, last = entry_ids[0], entry_ids[-1]
        if last - first == len(entry_ids) - 1 and entry_ids == list(range(first, last + 1)):
            return self.add(ledger_id, first, last)
        news = False
        ordered = sorted(set(entry_ids))
        first = last = ordered[0]
        for entry_id in ordered[1:]:
            if entry_id != last + 1:
                news |= self.add(ledger_id, first, last)
                first = entry_id
            last = entry_id
        return self.add(ledger_id, first, last) or news

    def add_through(self, position: Position) -> bool:
        """Acknowledge everything up to and including `position`."""
        mark = self._sequence.floor(position)
        if mark <= self.mark_delete:
            return False
        self._mark_ledger, self._mark_entry = mark
        for ledger_id in [known for known in self._ranges if known <= mark.ledger_id]:
            ranges = self._ranges[ledger_id]
            if ledger_id < mark.ledger_id:
                self.acked_beyond -= ranges.count
                del self._ranges[ledger_id]
            else:
                self.acked_beyond -= ranges.cut(mark.entry_id)
                if not ranges.firsts:
                    del self._ranges[ledger_id]
        if self._batches:
            self._keep_batches({key: bits for key, bits in self._batches.items() if key > mark})
        self._advance()
        return True

    def add_batch(self, ledger_id: int, entry_id: int, remaining: int) -> bool | None:
        """Keep only the `remaining` bits of an entry. True: the entry is done. None: that was no
        news.
        """
        part = self._sequence.by_id.get(ledger_id)
        if (
            part is None
            or not 0 <= entry_id < part.entries
            or self.is_acknowledged(ledger_id, entry_id)
        ):
            return None
        key = (ledger_id, entry_id)
        known = self._batches.get(key)
        left = remaining if known is None else known & remaining
        if left == 0:
            return self.add_next(ledger_id, entry_id) or self.add(ledger_id, entry_id, entry_id)
        size = left.bit_length()
        if left == known or self._batch_bits + size > _BATCH_BITS_MAX:
            return None
        self._drop_batch(key)
        self._batches[key] = left
        self._batch_bits += size
        return False

    def move_mark(self, mark: Position) -> None:
        """Make this the mark, with nothing acknowledged beyond."""
        self._mark_ledger, self._mark_entry = mark
        self._ranges.clear()
        self._keep_batches({})
        self.acked_beyond = 0

    def forget(self, ledger_ids: Collection[int]) -> None:
        """These ledgers are gone from the sequence; nothing in them needs to be remembered."""
        for ledger_id in ledger_ids:
            ranges = self._ranges.pop(ledger_id, None)
            if ranges is not None:
                self.acked_beyond -= ranges.count
        if self._batches:
            self._keep_batches(
                {key: bits for key, bits in self._batches.items() if key[0] not in ledger_ids}
            )
        self._advance()

    # Asking

    @property
    def mark_delete(self) -> Position:
        return Position(self._mark_ledger, self._mark_entry)

    @property
    def backlog(self) -> int:
        """Entries that exist and are not acknowledged."""
        return self._sequence.end - self.passed - self.acked_beyond

    @property
    def passed(self) -> int:
        """Ordinal of the first entry that the mark has not passed."""
        return self._sequence.ordinal(Position(self._mark_ledger, self._mark_entry + 1))

    def is_acknowledged(self, ledger_id: int, entry_id: int) -> bool:
        if ledger_id == self._mark_ledger:
            if entry_id <= self._mark_entry:
                return True
        elif ledger_id < self._mark_ledger:
            return True
        ranges = self._ranges.get(ledger_id)
        if ranges is not None:
            return ranges.covers(entry_id)
        parts = self._sequence.parts
        return bool(parts) and ledger_id < parts[0].ledger_id

    def remaining(self, ledger_id: int, entry_id: int) -> int | None:
        """The bits still not acknowledged of an entry that is acknowledged in part."""
        return self._batches.get((ledger_id, entry_id))

    @property
    def has_partial(self) -> bool:
        """Whether any entry is acknowledged in part."""
        return bool(self._batches)

    def unacked_in(self, run: EntryRun) -> Sequence[int]:
        """Indexes into `run` of what is not acknowledged; a range when no range beyond the mark is
        touched, so that all of it costs O(1).
        """
        size = len(run)
        if run.ledger_id < self._mark_ledger:
            return range(0)
        start = 0
        if run.ledger_id == self._mark_ledger:
            start = min(max(self._mark_entry + 1 - run.first, 0), size)
        ranges = self._ranges.get(run.ledger_id) if self._ranges else None
        if ranges is None or ranges.firsts[0] > run.last or ranges.lasts[-1] < run.first + start:
            return range(start, size)
        return [entry_id - run.first for entry_id in ranges.gaps(run.first + start, run.last)]

    def position_after(self, skipped: int) -> Position:
        """The unacknowledged entry that has `skipped` such entries before it, or the end: where a
        reader stands after skipping those.
        """
        sequence = self._sequence
        position = sequence.ceiling(Position(self._mark_ledger, self._mark_entry + 1))
        while position is not None:
            part = sequence.by_id[position.ledger_id]
            ranges = self._ranges.get(position.ledger_id)
            left = part.entries - position.entry_id - (ranges.count if ranges else 0)
            if skipped < left:
                if ranges is None:
                    return Position(position.ledger_id, position.entry_id + skipped)
                gaps = ranges.gaps(position.entry_id, part.entries - 1)
                return Position(position.ledger_id, gaps[skipped])
            skipped -= left
            position = sequence.ceiling(Position(position.ledger_id, part.entries))
        return sequence.end_position

    @property
    def ranges(self) -> tuple[tuple[Position, Position], ...]:
        """Closed ranges beyond the mark, ascending."""
        return tuple(
            (Position(ledger_id, first), Position(ledger_id, last))
            for ledger_id in sorted(self._ranges)
            for first, last in zip(
                self._ranges[ledger_id].firsts, self._ranges[ledger_id].lasts, strict=True
            )
        )

    @property
    def range_count(self) -> int:
        return sum(len(ranges.firsts) for ranges in self._ranges.values())

    def batches(self) -> dict[Position, tuple[int, ...]]:
        return {Position(*key): split_words(bits) for key, bits in self._batches.items()}

    # Inside

    def _next_entry_of(self, ledger_id: int) -> int:
        """The entry of this ledger that would touch the mark if no unacknowledged ledger stood
        between.
        """
        return self._mark_entry + 1 if ledger_id == self._mark_ledger else 0

    def _advance(self) -> None:
        """Move the mark over everything that touches it."""
        while self._ranges:
            ranges = self._ranges.get(self._mark_ledger)
            if ranges is not None and ranges.firsts[0] <= self._mark_entry + 1:
                self._mark_entry = ranges.lasts[0]
                self.acked_beyond -= ranges.cut(self._mark_entry)
                if not ranges.firsts:
                    del self._ranges[self._mark_ledger]
            part = self._sequence.by_id.get(self._mark_ledger)
            if part is not None and self._mark_entry + 1 < part.entries:
                return
            following = self._sequence.part_after(self._mark_ledger)
            if following is None:
                return
            ranges = self._ranges.get(following.ledger_id)
            if ranges is None or ranges.firsts[0] > 0:
                return
            self._mark_ledger, self._mark_entry = following.ledger_id, -1

    def _drop_batches(self, ledger_id: int, first: int, last: int) -> None:
        if last - first < len(self._batches):
            for entry_id in range(first, last + 1):
                self._drop_batch((ledger_id, entry_id))
        else:
            self._keep_batches(
                {
                    key: bits
                    for key, bits in self._batches.items()
                    if key[0] != ledger_id or not first <= key[1] <= last
                }
            )

    def _drop_batch(self, key: tuple[int, int]) -> None:
        self._batch_bits -= self._batches.pop(key, 0).bit_length()

    def _keep_batches(self, batches: dict[tuple[int, int], int]) -> None:
        self._batches = batches
        self._batch_bits = sum(map(int.bit_length, batches.values()))
