"""Whether numbered messages stand in order, without loss and without repetition.

A *line* is what must be in order: a key, or a producer on one segment. Each message of a line has a
number, and the next message has the next number. Read in the order of the topic:

- a number that was left out and never comes is *lost*;
- one that was left out and comes later is *out of order*;
- one that was there before is *duplicated*.

So every fault counts once. Without anybody who knows what was sent, nothing can be said of numbers
before the first and after the last that are there, unless these are given. Memory is taken by gaps
only, not by messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]


class FaultKind(StrEnum):
    LOST = "lost"
    DUPLICATED = "duplicated"
    OUT_OF_ORDER = "out-of-order"


class LineFault(NamedTuple):
    kind: FaultKind
    first: int
    last: int
    """Numbers, both included; the same but for what is lost."""
    place: int
    """Of the message it shows at, among those handed in last; -1: at the end of the line."""


@dataclass(slots=True)
class Line:
    """How far one line is, and what was left out so far."""

    next: int | None = None
    """The number that is expected; None before the first message."""
    begin: int | None = None
    """The lowest so far."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """First and last number of each stretch that was left out, ascending."""

    def take(self, numbers: Numbers) -> Iterator[LineFault]:
        """The next messages of the line, in the order of the topic."""
        place, count = 0, len(numbers)
        while place < count:
            number = int(numbers[place])
            if self.next is None:
                self.next = number
            if self.begin is None:
                self.begin = self.next
            if number >= self.next:
                if number > self.next:
                    self.gaps.append((self.next, number - 1))
                length = count_steps(numbers[place:])
                self.next = number + length
                place += length
            else:
                yield self._take_back(number, place)
                place += 1

    def _take_back(self, number: int, place: int) -> LineFault:
        """A number below one that was there: either it was left out, or it is there twice."""
        assert self.begin is not None
        if number < self.begin:
            if number + 1 < self.begin:
                self.gaps.insert(0, (number + 1, self.begin - 1))
            self.begin = number
            return LineFault(FaultKind.OUT_OF_ORDER, number, number, place)
        where = bisect_right(self.gaps, number, key=_first) - 1
        if where >= 0 and self.gaps[where][0] <= number <= self.gaps[where][1]:
            first, last = self.gaps[where]
            pieces = [(first, number - 1), (number + 1, last)]
            self.gaps[where : where + 1] = [each for each in pieces if each[0] <= each[1]]
            return LineFault(FaultKind.OUT_OF_ORDER, number, number, place)
        return LineFault(FaultKind.DUPLICATED, number, number, place)

    def finish(self) -> Iterator[LineFault]:
        for first, last in self.gaps:
            yield LineFault(FaultKind.LOST, first, last, -1)


def _first(gap: tuple[int, int]) -> int:
    return gap[0]


def count_steps(numbers: Numbers) -> int:
    """How many messages at the front count on one by one."""
    wrong = np.flatnonzero(np.diff(numbers) != 1)
    return int(wrong[0]) + 1 if len(wrong) else len(numbers)
