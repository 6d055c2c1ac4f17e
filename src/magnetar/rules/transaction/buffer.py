"""What a topic hides from its readers: entries of transactions that are open or were aborted.

Everything from the first entry of the oldest open transaction on waits, so that the order of the
log is kept. Aborted entries are known by their positions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from magnetar.model.position import Position
from magnetar.model.transaction import Hidden, Range, TransactionId, Writing
from magnetar.rules.transaction.pending_ack import EndCounts, PendingAcks

ENDED_MAX: Final = 1000
"""Ended transactions that are remembered: none of them may write or acknowledge any more, nor
announce itself again. What was aborted is kept apart, for as long as its ledgers are.
"""
_FIRSTS_LEFT: Final = 64
"""Beginnings of ended transactions that are kept among those of the open ones, besides as many."""


@dataclass(slots=True)
class Writes:
    """What one open transaction has written to a topic."""

    after: Position
    """Its entries stand behind this one."""
    deadline_ms: int
    owner: str = ""
    """The role that began it."""
    ranges: list[Range] = field(default_factory=list)
    size: int = 0
    """Bytes of its entries, those on their way included."""
    in_flight: int = 0
    """Runs of entries that are on their way to the log."""
    is_uncertain: bool = False
    """Whether an entry was refused and may yet be found in the log."""

    @property
    def first(self) -> Position | None:
        """Where its entries begin, at the earliest; None: it has none."""
        if self.is_uncertain:
            return Position(self.after.ledger_id, self.after.entry_id + 1)
        # They are in the order of the log.
        return Position(self.ranges[0].ledger_id, self.ranges[0].first) if self.ranges else None

    def add(self, first: Position, count: int) -> None:
        last = self.ranges[-1] if self.ranges else None
        if last is not None and (last.ledger_id, last.last + 1) == first:
            self.ranges[-1] = Range(last.ledger_id, last.first, last.last + count)
        else:
            self.ranges.append(Range(first.ledger_id, first.entry_id, first.entry_id + count - 1))


class CallerBytes:
    """What the open transactions of each role have written, on all topics of a broker."""

    def __init__(self) -> None:
        self._by_owner: Final[dict[str, int]] = {}

    def of(self, owner: str) -> int:
        return self._by_owner.get(owner, 0)

    def count_in(self, writes: Writes, size: int) -> None:
        """So many bytes more are written."""
        writes.size += size
        self._add(writes.owner, size)

    def count_found(self, some: Iterable[Writes]) -> None:
        """What was written before they were loaded."""
        for writes in some:
            self._add(writes.owner, writes.size)

    def count_out(self, some: Iterable[Writes]) -> None:
        """They have ended, or are not here any more."""
        for writes in some:
            self._add(writes.owner, -writes.size)
            writes.size = 0

    def _add(self, owner: str, size: int) -> None:
        total = self.of(owner) + size
        if total:
            self._by_owner[owner] = total
        else:
            self._by_owner.pop(owner, None)


class TransactionBuffer:
    def __init__(self) -> None:
        self.open: Final[dict[TransactionId, Writes]] = {}
        self.aborted: Final[dict[TransactionId, tuple[Range, ...]]] = {}
        self.ended: Final[dict[TransactionId, bool]] = {}
        """Whether each of the latest ones that ended here was committed."""
        self.pending: Final[dict[str, PendingAcks]] = {}
        """What transactions acknowledge, by subscription."""
        self.pin: Position | None = None
        """Nothing is read from here on: the first entry of the oldest open transaction."""
        self._firsts: list[tuple[Position, TransactionId]] = []
        """Where each begins, as a heap; some have ended, or were found to begin earlier."""
        self._index: list[Range] | None = []
        """The aborted entries in order; None: to be made."""
        self.is_used = False
        """Whether any transaction has written here, as far back as is known."""
        self.counts: Final = EndCounts()

    def pending_of(self, id_: TransactionId) -> Sequence[PendingAcks]:
        """Of the subscriptions that an open transaction acknowledges on."""
        return [each for each in self.pending.values() if id_ in each.joined]

    def is_open(self, id_: TransactionId) -> bool:
        """Whether a transaction may have written or acknowledged here, and has not ended."""
        return id_ in self.open or any(id_ in each.joined for each in self.pending.values())

    def is_quiet(self, id_: TransactionId) -> bool:
        """Whether nothing of a transaction is on its way to the log or uncertain to be there."""
        writes = self.open.get(id_)
        return writes is None or not (writes.in_flight or writes.is_uncertain)

    @property
    def open_bytes(self) -> int:
        """What open transactions have written, and keep from readers."""
        return sum(each.size for each in self.open.values())

    def join(
        self, id_: TransactionId, after: Position, deadline_ms: int, owner: str = ""
    ) -> Writing | None:
        """None when it has joined before."""
        if id_ in self.open:
            return None
        self.is_used = True
        self.open[id_] = Writes(after, deadline_ms, owner)
        return Writing(id_, after, deadline_ms, owner)

    def pending_on(self, subscription: str) -> PendingAcks:
        return self.pending.setdefault(subscription, PendingAcks())

    def on_stored(self, id_: TransactionId, first: Position, count: int) -> None:
        """Entries of an open transaction are in the log."""
        writes = self.open[id_]
        if not writes.ranges:
            self._note_first(id_, first)
        writes.add(first, count)

    def on_refused(self, id_: TransactionId) -> None:
        """Entries of an open transaction were not confirmed. One may be found in the log when its
        ledger is sealed, so that nothing behind its possible place is read until the end.
        """
        writes = self.open[id_]
        if not writes.is_uncertain:
            writes.is_uncertain = True
            assert writes.first is not None, "it may begin behind the entry that it follows"
            self._note_first(id_, writes.first)

    def _note_first(self, id_: TransactionId, first: Position) -> None:
        heappush(self._firsts, (first, id_))
        if self.pin is None or first < self.pin:
            self.pin = first

    def _move_pin(self) -> None:
        """Not by a look at all that are open: many may be, and each of them ends."""
        while self._firsts:
            first, id_ = self._firsts[0]
            writes = self.open.get(id_)
            if writes is not None and writes.first == first:
                self.pin = first
                return
            heappop(self._firsts)
        self.pin = None

    def end(self, id_: TransactionId, *, is_commit: bool) -> tuple[Range, ...]:
        """Return what it had written; nothing when it is not open here. It is remembered also then:
        an announcement that was on its way comes too late.
        """
        self.ended[id_] = is_commit
        if len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]
        writes = self.open.pop(id_, None)
        if writes is None:
            return ()
        ranges = tuple(writes.ranges)
        self.counts.add(is_commit)
        if ranges and not is_commit:
            self.hide(Hidden(id_, ranges))
        if writes.first == self.pin:
            self._move_pin()
        if len(self._firsts) > 2 * len(self.open) + _FIRSTS_LEFT:
            self._firsts = [each for each in self._firsts if each[1] in self.open]
            heapify(self._firsts)
        return ranges

    def hide(self, record: Hidden) -> None:
        """Besides what is hidden of the transaction: there may be too much for one record."""
        known = self.aborted.get(record.id)
        self.aborted[record.id] = (
            record.ranges if known is None else _unite((*known, *record.ranges))
        )
        self._index = None

    def forget(self, kept: Container[int]) -> None:
        """Let go of aborted entries whose ledgers are not among those that are kept."""
        if not self.aborted:
            return
        for id_, ranges in list(self.aborted.items()):
            left = tuple(each for each in ranges if each.ledger_id in kept)
            if not left:
                del self.aborted[id_]
            elif len(left) < len(ranges):
                self.aborted[id_] = left
        self._index = None

    def is_aborted(self, position: Position) -> bool:
        if not self.aborted:
            return False
        if self._index is None:
            self._index = sorted(each for ranges in self.aborted.values() for each in ranges)
        ledger_id, entry_id = position
        at = bisect_right(self._index, (ledger_id, entry_id, inf)) - 1
        if at < 0:
            return False
        found = self._index[at]
        return found.ledger_id == ledger_id and found.first <= entry_id <= found.last

    @property
    def scan_start(self) -> Position | None:
        """Behind this entry stands everything that open transactions may have written."""
        return min((each.after for each in self.open.values()), default=None)

    def records(self) -> Iterator[Writing | Hidden]:
        """Records that lead to this state, but for the entries of open transactions: the log
        itself tells those.
        """
        for id_, writes in self.open.items():
            yield Writing(id_, writes.after, writes.deadline_ms, writes.owner)
        for id_, ranges in self.aborted.items():
            yield Hidden(id_, ranges)


def _unite(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same entries in order, each in one range."""
    united: list[Range] = []
    for each in sorted(ranges):
        last = united[-1] if united else None
        if last is not None and last.ledger_id == each.ledger_id and each.first <= last.last + 1:
            united[-1] = Range(last.ledger_id, last.first, max(last.last, each.last))
        else:
            united.append(each)
    return tuple(united)
