"""From what a batch reads to the tasks that read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from magnetar.spark.offset import Place
from magnetar.spark.stretch import Span, count_entries, cut_spans


class KeyOrder(StrEnum):
    SEGMENT = "segment"
    """One task reads all of a segment that a batch has, in order."""
    NONE = "none"
    """A segment may be cut, so that several tasks read it."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of one segment: after one place, up to and with another.

    `spans` are all its entries; they are not known where ledgers cannot be counted.
    """

    label: str
    segment: int
    topic: str
    after: Place
    through: Place
    spans: tuple[Span, ...] = ()
    size: int = 0
    is_counted: bool = True
    hidden: tuple[Span, ...] = ()
    """Entries among them that readers never get."""


def cut_slice(whole: Slice, bytes_max: int) -> list[Slice]:
    """Pieces of about equal size, none much larger than asked for; entries stay whole."""
    entries = count_entries(whole.spans)
    count = min(entries, -(-whole.size // max(1, bytes_max)))
    if count <= 1 or not whole.is_counted:
        return [whole]
    pieces = []
    after = whole.after
    for number in range(count):
        through = cut_spans(whole.spans, (number + 1) * entries // count)
        if number == count - 1:
            through = whole.through
        spans = tuple(_part(whole.spans, after, through))
        size = whole.size * count_entries(spans) // entries
        pieces.append(replace(whole, after=after, through=through, spans=spans, size=size))
        after = through
    return pieces


def _part(spans: Iterable[Span], after: Place, through: Place) -> Iterable[Span]:
    for span in spans:
        first, last = span.first, span.last
        if span.ledger < after.ledger or span.ledger > through.ledger:
            continue
        if span.ledger == after.ledger:
            first = max(first, after.entry if after.batch >= 0 else after.entry + 1)
        if span.ledger == through.ledger:
            last = min(last, through.entry)
        if first <= last:
            yield Span(span.ledger, first, last)


def plan_tasks(
    slices: Sequence[Slice],
    *,
    order: KeyOrder,
    task_bytes: int,
    tasks_max: int,
    tasks_min: int = 1,
) -> list[tuple[Slice, ...]]:
    """Few tasks of about `task_bytes`: small slices share one, large ones are cut if they may be.

    The same slices give the same tasks: a batch that is run again, by another driver too, numbers
    its rows as the first time.
    """
    pieces = list(slices)
    if order is KeyOrder.NONE:
        total = sum(each.size for each in slices)
        piece_bytes = max(min(task_bytes, -(-total // tasks_min)), -(-total // tasks_max))
        pieces = [piece for each in slices for piece in cut_slice(each, piece_bytes)]
    total = sum(each.size for each in pieces)
    count = min(len(pieces), tasks_max, max(tasks_min, -(-total // max(1, task_bytes))))
    bins: list[list[Slice]] = [[] for _ in range(count)]
    loads = [0] * count
    largest_first = sorted(
        pieces, key=lambda each: (-each.size, each.label, each.segment, each.after)
    )
    for piece in largest_first:
        lightest = loads.index(min(loads))
        bins[lightest].append(piece)
        loads[lightest] += piece.size + 1
    by_place = [sorted(each, key=lambda s: (s.label, s.segment, s.after)) for each in bins if each]
    return [tuple(each) for each in by_place]
