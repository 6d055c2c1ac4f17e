"""Counting along the ledgers of one segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from magnetar.spark.offset import BEFORE_ALL, Place


class LedgerSize(NamedTuple):
    """A ledger of a segment's log: entries and bytes at the time it was asked for."""

    ledger: int
    entries: int
    size: int = 0

    @property
    def entry_bytes(self) -> float:
        return self.size / self.entries if self.entries else 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """Entries `first` to `last` of one ledger."""

    ledger: int
    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def holds(self, ledger: int, entry: int) -> bool:
        return self.ledger == ledger and self.first <= entry <= self.last


def spans_between(ledgers: Sequence[LedgerSize], after: Place, through: Place) -> list[Span]:
    """What stands after one place and not after the other. An entry read in part is in it."""
    return list(_spans(ledgers, after, through))


def _spans(ledgers: Sequence[LedgerSize], after: Place, through: Place) -> Iterator[Span]:
    for each in ledgers:
        first, last = 0, each.entries - 1
        if each.ledger < after.ledger or each.ledger > through.ledger:
            continue
        if each.ledger == after.ledger:
            first = after.entry if after.batch >= 0 else after.entry + 1
        if each.ledger == through.ledger:
            last = min(last, through.entry)
        if first <= last:
            yield Span(each.ledger, first, last)


def count_entries(spans: Sequence[Span]) -> int:
    return sum(span.count for span in spans)


def count_bytes(ledgers: Sequence[LedgerSize], spans: Sequence[Span]) -> int:
    """By the mean size of each ledger's entries."""
    means = {each.ledger: each.entry_bytes for each in ledgers}
    return int(sum(span.count * means.get(span.ledger, 0.0) for span in spans))


def cut_spans(spans: Sequence[Span], count: int) -> Place:
    """Where the first `count` entries end."""
    assert spans and count > 0
    for span in spans:
        if count <= span.count:
            return Place(span.ledger, span.first + count - 1)
        count -= span.count
    return Place(spans[-1].ledger, spans[-1].last)


def end_of(ledgers: Sequence[LedgerSize]) -> Place:
    """The last entry there is."""
    filled = [each for each in ledgers if each.entries]
    return Place(filled[-1].ledger, filled[-1].entries - 1) if filled else BEFORE_ALL


def normalize_place(ledgers: Sequence[LedgerSize], place: Place) -> Place:
    """The same place, told by the next ledger when its own has ended: that one may be trimmed
    without anything being lost.
    """
    for each, following in pairwise(ledgers):
        if each.ledger == place.ledger and place.batch < 0 and place.entry >= each.entries - 1:
            return normalize_place(ledgers, Place(following.ledger, -1))
    return place
