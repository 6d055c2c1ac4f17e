"""Acknowledgements that wait for their transactions, on one subscription.

What one transaction acknowledges is withheld from all consumers until it ends: then it is
acknowledged for good, or delivered again. No other transaction may acknowledge it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from magnetar.errors import TooManyRequests, TransactionConflict, TransactionNotFound
from magnetar.model.bitset import join_words, split_words
from magnetar.model.position import Position
from magnetar.model.transaction import Acked, Acking, Acknowledged, TransactionId


class AckedSoFar(Protocol):
    """What is acknowledged for good."""

    @property
    def mark_delete(self) -> Position: ...

    def is_acknowledged(self, ledger_id: int, entry_id: int) -> bool: ...

    def remaining(self, ledger_id: int, entry_id: int) -> int | None: ...


@dataclass(slots=True)
class Held:
    """What one transaction acknowledges."""

    deadline_ms: int
    entries: dict[Position, Acknowledged] = field(default_factory=dict)
    cumulative: Acknowledged | None = None


@dataclass(slots=True)
class EndCounts:
    """Transactions that ended since the topic was loaded."""

    committed: int = 0
    aborted: int = 0

    def add(self, is_commit: bool) -> None:
        self.committed += is_commit
        self.aborted += not is_commit


@dataclass(slots=True)
class AckCounts(EndCounts):
    """The same of those that acknowledged on a subscription."""

    durable: int = 0
    """Commits whose acknowledgements are durable."""
    durable_us: int = 0
    """How long those took, together."""

    def add_durable(self, seconds: float) -> None:
        self.durable += 1
        self.durable_us += round(seconds * 1e6)


class PendingAcks:
    def __init__(self) -> None:
        self.counts: Final = AckCounts()
        self.joined: Final[dict[TransactionId, Held]] = {}
        self._acked: Final[dict[Position, int]] = {}
        """Of each entry that some transaction acknowledges: the bits of the messages, or all."""
        self._cumulative: tuple[TransactionId, Position] | None = None

    @property
    def is_empty(self) -> bool:
        return not self._acked and self._cumulative is None

    def join(self, id_: TransactionId, subscription: str, deadline_ms: int) -> Acking | None:
        """None when it has joined before."""
        if id_ in self.joined:
            return None
        self.joined[id_] = Held(deadline_ms)
        return Acking(id_, subscription, deadline_ms)

    # ------------------------------------------------------------------ acknowledging

    def acknowledge(
        self,
        id_: TransactionId,
        entries: Sequence[Acknowledged],
        cursor: AckedSoFar,
        *,
        entries_max: int,
    ) -> tuple[Acknowledged, ...]:
        """Hold entries for a transaction; return those that are news. Raise TransactionConflict,
        and hold none, when one is acknowledged or held by another, TooManyRequests when it would
        hold too many.
        """
        held = self._held(id_)
        news = tuple(each for each in entries if self._is_news(id_, held, each, cursor))
        fresh = {Position(each.ledger_id, each.entry_id) for each in news} - held.entries.keys()
        count = len(held.entries) + len(fresh)
        if count > entries_max:
            raise TooManyRequests(
                f"Transaction {id_} would acknowledge {count} entries of one subscription;"
                f" at most {entries_max} are allowed"
            )
        for each in news:
            self._pend(held, each)
        return news

    def _is_news(
        self, id_: TransactionId, held: Held, entry: Acknowledged, cursor: AckedSoFar
    ) -> bool:
        position = Position(entry.ledger_id, entry.entry_id)
        own = held.entries.get(position)
        wanted = _acked_bits(entry)
        if own is not None and wanted & ~_acked_bits(own) == 0:
            return False  # a client that lost the answer sends it again
        if cursor.is_acknowledged(*position):
            raise TransactionConflict(f"Entry {position} is acknowledged already")
        left = cursor.remaining(*position)
        if left is not None and wanted != _ALL and wanted & ~left & _mask(entry):
            raise TransactionConflict(f"Messages of entry {position} are acknowledged already")
        others = self._acked.get(position, 0)
        if own is not None:
            others &= ~_acked_bits(own)
        if (others and wanted == _ALL) or others & wanted:
            raise TransactionConflict(
                f"Entry {position} is acknowledged by another transaction that has not ended"
            )
        return True

    def _pend(self, held: Held, entry: Acknowledged) -> None:
        position = Position(entry.ledger_id, entry.entry_id)
        own = held.entries.get(position)
        if own is not None:
            entry = _join(own, entry)
        held.entries[position] = entry
        self._acked[position] = self._acked.get(position, 0) | _acked_bits(entry)

    def acknowledge_through(
        self, id_: TransactionId, entry: Acknowledged, cursor: AckedSoFar
    ) -> bool:
        """Hold everything up to an entry; tell whether that is news."""
        held = self._held(id_)
        position = Position(entry.ledger_id, entry.entry_id)
        if self._cumulative is not None and self._cumulative[0] != id_:
            raise TransactionConflict(
                f"Transaction {self._cumulative[0]} acknowledges cumulatively and has not ended"
            )
        if position <= cursor.mark_delete:
            if position == cursor.mark_delete:
                return False
            raise TransactionConflict(f"Entry {position} is acknowledged already")
        own = held.cumulative
        if own is not None:
            reached = Position(own.ledger_id, own.entry_id)
            if (reached, _acked_bits(own)) == (position, _acked_bits(entry)):
                return False
            is_behind = reached == position and _acked_bits(entry) & ~_acked_bits(own) == 0
            if reached > position or is_behind:
                raise TransactionConflict(
                    f"Transaction {id_} has acknowledged up to {reached} already"
                )
        held.cumulative = entry
        self._cumulative = (id_, position)
        return True

    def replay(self, record: Acked) -> None:
        """What was found to be right before."""
        held = self.joined.setdefault(record.id, Held(0))
        for entry in record.entries:
            if record.is_cumulative:
                held.cumulative = entry
                self._cumulative = (record.id, Position(entry.ledger_id, entry.entry_id))
            else:
                self._pend(held, entry)

    def _held(self, id_: TransactionId) -> Held:
        held = self.joined.get(id_)
        if held is None:
            raise TransactionNotFound(
                f"Transaction {id_} has ended, or did not announce this subscription"
            )
        return held

    # ------------------------------------------------------------------ ending

    def end(self, id_: TransactionId) -> Held | None:
        """Let go of what a transaction holds; the caller acknowledges or delivers it."""
        held = self.joined.pop(id_, None)
        if held is None:
            return None
        for position, entry in held.entries.items():
            left = self._acked[position] & ~_acked_bits(entry)
            if left:
                self._acked[position] = left
            else:
                del self._acked[position]
        if self._cumulative is not None and self._cumulative[0] == id_:
            self._cumulative = None
        return held

    # ------------------------------------------------------------------ asking

    def withheld(self, position: Position) -> int:
        """The bits of the messages of an entry that wait for a transaction; -1: all of it."""
        bits = self._acked.get(position, 0)
        if self._cumulative is not None and position <= self._cumulative[1]:
            id_, last = self._cumulative
            entry = self.joined[id_].cumulative
            assert entry is not None, "it is there as long as its position is"
            bits |= _ALL if position < last else _acked_bits(entry)
        return bits

    def records(self, subscription: str) -> Iterator[Acking | Acked]:
        """Records that lead to this state."""
        for id_ in self.joined:
            yield from self.records_of(id_, subscription)

    def records_of(self, id_: TransactionId, subscription: str) -> Iterator[Acking | Acked]:
        held = self.joined[id_]
        yield Acking(id_, subscription, held.deadline_ms)
        if held.entries:
            yield Acked(id_, subscription, False, tuple(held.entries.values()))
        if held.cumulative is not None:
            yield Acked(id_, subscription, True, (held.cumulative,))


_ALL: Final = -1
"""Every message, however many there are."""


def _mask(entry: Acknowledged) -> int:
    remaining = 0 if entry.remaining is None else join_words(entry.remaining)
    return (1 << max(entry.size, remaining.bit_length())) - 1


def _acked_bits(entry: Acknowledged) -> int:
    """The messages of an entry that are acknowledged, as bits."""
    if entry.remaining is None:
        return _ALL
    return _mask(entry) & ~join_words(entry.remaining)


def _join(own: Acknowledged, more: Acknowledged) -> Acknowledged:
    """What a transaction acknowledges of one entry, by two acknowledgements."""
    if own.remaining is None or more.remaining is None:
        return own if own.remaining is None else more
    size = max(own.size, more.size)
    left = (_mask(own) | _mask(more)) & ~(_acked_bits(own) | _acked_bits(more))
    remaining = split_words(left) if left else None
    return Acknowledged(own.ledger_id, own.entry_id, remaining, size)
