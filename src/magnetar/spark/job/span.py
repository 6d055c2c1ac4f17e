"""Stretches of time as two sorted lists of steps: where each begins, and where it has ended.

A condition that holds for hours is one stretch; months of history are a handful of numbers, and
the next step at which something holds is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Steps: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


class Spans(NamedTuple):
    starts: list[int]
    ends: list[int]
    """The first step at which it no longer holds."""

    def first_from(self, step: int) -> int | None:
        """The first step not before `step` that lies in a stretch."""
        place = bisect_right(self.ends, step)
        return max(self.starts[place], step) if place < len(self.starts) else None

    def begun(self, step: int) -> int | None:
        """Where the stretch around `step` begins; None when it lies in none."""
        place = bisect_right(self.starts, step) - 1
        return self.starts[place] if place >= 0 and step < self.ends[place] else None


EMPTY: Final = Spans([], [])


def find_spans(mask: Mask) -> Spans:
    """Where a condition, told for every step, holds."""
    if not len(mask):
        return EMPTY
    edges: list[int] = (np.flatnonzero(mask[1:] != mask[:-1]) + 1).tolist()
    if mask[0]:
        edges.insert(0, 0)
    if mask[-1]:
        edges.append(len(mask))
    return Spans(edges[::2], edges[1::2])


def keep_long(spans: Spans, steps: int) -> Spans:
    """Only stretches of more than so many steps."""
    kept = [(s, e) for s, e in zip(spans.starts, spans.ends, strict=True) if e - s > steps]
    return Spans([start for start, _ in kept], [end for _, end in kept])


def intersect(one: Spans, other: Spans) -> Spans:
    """Where both hold."""
    starts, ends = [], []
    left, right = 0, 0
    while left < len(one.starts) and right < len(other.starts):
        start = max(one.starts[left], other.starts[right])
        end = min(one.ends[left], other.ends[right])
        if start < end:
            starts.append(start)
            ends.append(end)
        if one.ends[left] < other.ends[right]:
            left += 1
        else:
            right += 1
    return Spans(starts, ends)


def length_of_union(spans: Iterable[Spans], start: int, end: int) -> int:
    """At how many steps from `start` to before `end` at least one holds."""
    pieces: list[tuple[int, int]] = []
    for each in spans:
        first = bisect_right(each.ends, start)
        last = bisect_right(each.starts, end - 1)
        pieces += zip(each.starts[first:last], each.ends[first:last], strict=True)
    pieces.sort()
    total, reached = 0, start
    for begin, stop in pieces:
        if stop > reached:
            total += min(stop, end) - max(begin, reached)
            reached = min(stop, end)
    return total
