"""What a cursor has acknowledged: a mark, ranges beyond it, and entries acknowledged in part.

Everything up to the mark is acknowledged. The mark moves over entries that touch it, over the ends
of ledgers, and over ledgers that are empty or gone. Ids of entries that do not exist (yet) are not
taken: a client cannot acknowledge the future.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from magnetar.ledger.run import EntryRun
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.bitset import join_words, split_words
from magnetar.model.entry_set import EntrySet
from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo

_LEDGER_END: Final = 1 << 63
_BITS_RANGES_MIN: Final = 1000
_WORD_BYTES: Final = 11
"""Of 64 bits as they are stored, at most."""
_RANGE_BYTES: Final = 22
"""Of a range as it is stored, at least where ledgers have numbers of some size."""
_WORDS_MAX: Final = 1 << 14
"""Of one batch: a million messages."""
_BATCH_BITS_MAX: Final = 1 << 25
"""Of all batches that one cursor keeps in part: 4 MiB."""


class AckSet:
    __slots__ = (
        "_batch_bits",
        "_batches",
        "_mark_entry",
        "_mark_ledger",
        "_sequence",
        "acked_beyond",
        "beyond",
    )

    def __init__(self, sequence: LedgerSequence, info: CursorInfo) -> None:
        self._sequence = sequence
        self._mark_ledger, self._mark_entry = info.mark_delete
        self.beyond: dict[int, EntrySet] = {}
        """What is acknowledged beyond the mark, by ledger; none of them is empty."""
        self._batches: dict[tuple[int, int], int] = {}
        self._batch_bits = 0
        """How many bits these have in all; beyond a limit no more partly done batches are kept."""
        self.acked_beyond = 0
        """Entries acknowledged beyond the mark."""
        self._restore(info)
        for (ledger_id, entry_id), words in info.batches.items():
            if len(words) <= _WORDS_MAX:  # what earlier versions took without a limit is forgotten
                self.add_batch(ledger_id, entry_id, join_words(words))

    def _restore(self, info: CursorInfo) -> None:
        """A range as it was stored: over several ledgers it covers what each of them has."""
        for first, last in info.ranges:
            parts = self._sequence.parts_from(first.ledger_id)
            for ledger_id in [part.ledger_id for part in parts if part.ledger_id <= last.ledger_id]:
                start = first.entry_id if ledger_id == first.ledger_id else 0
                end = last.entry_id if ledger_id == last.ledger_id else _LEDGER_END
                self.add(ledger_id, start, end)
        for ledger_id, bits in info.bits.items():
            known = self._sequence.by_id.get(ledger_id)
            if known is None or ledger_id < self._mark_ledger:
                continue
            bits &= (1 << min(known.entries, bits.bit_length())) - 1
            if ledger_id == self._mark_ledger:
                bits = bits >> self._mark_entry + 1 << self._mark_entry + 1
            if bits:
                self.acked_beyond += self.beyond.setdefault(ledger_id, EntrySet()).add_bits(bits)
        self._advance()

    # Adding

    def add_next(self, ledger_id: int, entry_id: int) -> bool:
        """The path of a consumer that acknowledges in order. False: nothing was done, use `add`."""
        if entry_id != self._mark_entry + 1 or ledger_id != self._mark_ledger or self.beyond:
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
        if self._batches:
            self._drop_batches(ledger_id, first, last)
        if ledger_id == self._mark_ledger and first == self._mark_entry + 1:
            self._mark_entry = last
            known = self._cut()
            if self.beyond:
                self._advance()
            return known <= last - first
        entries = self.beyond.get(ledger_id)
        if entries is None:
            entries = self.beyond[ledger_id] = EntrySet()
        added = entries.add(first, last)
        self.acked_beyond += added
        if first == 0:
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
        for ledger_id in [known for known in self.beyond if known < mark.ledger_id]:
            self.acked_beyond -= self.beyond.pop(ledger_id).count
        self._cut()
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
        self.beyond.clear()
        self._keep_batches({})
        self.acked_beyond = 0

    def forget(self, ledger_ids: Collection[int]) -> None:
        """These ledgers are gone from the sequence; nothing in them needs to be remembered."""
        for ledger_id in ledger_ids:
            entries = self.beyond.pop(ledger_id, None)
            if entries is not None:
                self.acked_beyond -= entries.count
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
        entries = self.beyond.get(ledger_id)
        if entries is not None:
            return entry_id in entries
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
        """Indexes into `run` of what is not acknowledged; a range when nothing acknowledged beyond
        the mark is near, so that all of it costs O(1).
        """
        size = len(run)
        if run.ledger_id < self._mark_ledger:
            return range(0)
        start = 0
        if run.ledger_id == self._mark_ledger:
            start = min(max(self._mark_entry + 1 - run.first, 0), size)
        entries = self.beyond.get(run.ledger_id) if self.beyond else None
        if entries is None or entries.first > run.last or entries.last < run.first + start:
            return range(start, size)
        return [entry_id - run.first for entry_id in entries.gaps(run.first + start, run.last)]

    def position_after(self, skipped: int) -> Position:
        """The unacknowledged entry that has `skipped` such entries before it, or the end: where a
        reader stands after skipping those.
        """
        sequence = self._sequence
        position = sequence.ceiling(Position(self._mark_ledger, self._mark_entry + 1))
        while position is not None:
            part = sequence.by_id[position.ledger_id]
            entries = self.beyond.get(position.ledger_id)
            left = part.entries - position.entry_id - (entries.count if entries else 0)
            if skipped < left:
                if entries is None:
                    return Position(position.ledger_id, position.entry_id + skipped)
                gaps = entries.gaps(position.entry_id, part.entries - 1)
                return Position(position.ledger_id, gaps[skipped])
            skipped -= left
            position = sequence.ceiling(Position(position.ledger_id, part.entries))
        return sequence.end_position

    @property
    def ranges(self) -> tuple[tuple[Position, Position], ...]:
        """Closed ranges beyond the mark, ascending."""
        return tuple(
            (Position(ledger_id, first), Position(ledger_id, last))
            for ledger_id in sorted(self.beyond)
            for first, last in self.beyond[ledger_id].runs()
        )

    @property
    def range_count(self) -> int:
        return sum(entries.run_count for entries in self.beyond.values())

    def batches(self) -> dict[Position, tuple[int, ...]]:
        return {Position(*key): split_words(bits) for key, bits in self._batches.items()}

    # Inside

    def _advance(self) -> None:
        """Move the mark over everything that touches it."""
        while self.beyond:
            entries = self.beyond.get(self._mark_ledger)
            if entries is not None and entries.first <= self._mark_entry + 1:
                self._mark_entry = entries.first_gap - 1
                self._cut()
            part = self._sequence.by_id.get(self._mark_ledger)
            if part is not None and self._mark_entry + 1 < part.entries:
                return
            following = self._sequence.part_after(self._mark_ledger)
            if following is None:
                return
            entries = self.beyond.get(following.ledger_id)
            if entries is None or entries.first > 0:
                return
            self._mark_ledger, self._mark_entry = following.ledger_id, -1

    def _cut(self) -> int:
        """Forget beyond the mark what the mark has passed; return how many entries that was."""
        entries = self.beyond.get(self._mark_ledger)
        if entries is None or entries.first > self._mark_entry:
            return 0
        removed = entries.remove(0, self._mark_entry)
        self.acked_beyond -= removed
        if not entries.count:
            del self.beyond[self._mark_ledger]
        return removed

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


def describe_beyond(
    acks: AckSet,
) -> tuple[tuple[tuple[Position, Position], ...], Mapping[int, int]]:
    """What is acknowledged beyond the mark: as ranges, or as bits where these take less room. A
    million ranges would not fit an entry.
    """
    count = acks.range_count
    words = sum(entries.last // 64 + 1 for entries in acks.beyond.values())
    if count < _BITS_RANGES_MIN or words * _WORD_BYTES >= count * _RANGE_BYTES:
        return acks.ranges, {}
    return (), {ledger_id: entries.bits for ledger_id, entries in sorted(acks.beyond.items())}
