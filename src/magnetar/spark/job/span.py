"""Stretches of time as two sorted lists of steps: where each begins, and where it has ended.

A condition that holds for hours is one stretch; months of history are a handful of numbers, and
the next step at which something holds is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Steps: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


NEVER_AGAIN: Final = 1 << 60
"""After every step."""
NEVER_STRETCH: Final = (NEVER_AGAIN, NEVER_AGAIN + 1)


class Spans(NamedTuple):
    starts: list[int]
    ends: list[int]
    """The first step at which it no longer holds."""

    def first_from(self, step: int) -> int | None:
        """The first step not before `step` that lies in a stretch."""
        place = bisect_right(self.ends, step)
        return max(self.starts[place], step) if place < len(self.starts) else None

    def next_stretch(self, step: int) -> tuple[int, int]:
        """The first stretch that has not ended at `step`."""
        place = bisect_right(self.ends, step)
        if place < len(self.starts):
            return self.starts[place], self.ends[place]
        return NEVER_STRETCH


EMPTY: Final = Spans([], [])


class Stretches:
    """The next stretch of each of several conditions, found when it is needed.

    Steps are asked for in rising order, so a stretch holds until the step has passed its end.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def forget(self, place: int, old: int, new: int) -> None:
        """So many conditions have become others."""
        self._starts[place : place + old] = [-1] * new
        self._ends[place : place + old] = [-1] * new

    def first_from(self, step: int, find: Callable[[int, int], tuple[int, int]]) -> int:
        """The first step not before `step` at which one of them holds; `find` tells the stretch of
        one that has not ended at a step.
        """
        return max(step, min(self.starts_at(step, find)))

    def starts_at(self, step: int, find: Callable[[int, int], tuple[int, int]]) -> list[int]:
        """Where each one's stretch begins that has not ended at `step`."""
        if min(self._ends) <= step:
            for place, end in enumerate(self._ends):
                if end <= step:
                    self._starts[place], self._ends[place] = find(place, step)
        return self._starts


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
