"""Where the runs of one ledger stand in the journal: parallel arrays, found by bisection."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from magnetar.ledger.backends.file.record import HEADER


class RunPlace(NamedTuple):
    """One run in one extent. `size` is that of the whole record."""

    first: int
    entry_count: int
    extent: int
    offset: int
    size: int

    @property
    def payload_bytes(self) -> int:
        return self.size - HEADER.size - 4 * self.entry_count


class Share(NamedTuple):
    """What one extent holds for one ledger."""

    extent: int
    runs: int
    size: int


class RunIndex:
    """Runs of consecutive entries without a hole, in ascending order of entries and of extents."""

    __slots__ = ("_extents", "_firsts", "_offsets", "_sizes", "end")

    def __init__(self, start: int) -> None:
        self._firsts = array("q")
        self._extents = array("q")
        self._offsets = array("q")
        self._sizes = array("I")
        self.end = start
        """The id after the last entry."""

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def first_extent(self) -> int:
        return self._extents[0]

    def add(self, first: int, count: int, extent: int, offset: int, size: int) -> None:
        assert first == self.end, f"run {first} after entry {self.end - 1}"
        self._firsts.append(first)
        self._extents.append(extent)
        self._offsets.append(offset)
        self._sizes.append(size)
        self.end = first + count

    def from_entry(self, entry: int) -> Iterator[RunPlace]:
        """The run that holds `entry`, then those after it."""
        return self._places(max(0, bisect_right(self._firsts, entry) - 1), len(self._firsts))

    def __iter__(self) -> Iterator[RunPlace]:
        return self._places(0, len(self._firsts))

    @property
    def payload_bytes(self) -> int:
        if not self._firsts:
            return 0
        entries = self.end - self._firsts[0]
        return sum(self._sizes) - HEADER.size * len(self._firsts) - 4 * entries

    def copy(self, through: int | None = None) -> RunIndex:
        """A snapshot that another thread may walk, of all runs or of those up to an extent."""
        stop = len(self) if through is None else bisect_right(self._extents, through)
        copied = RunIndex(self._firsts[stop] if stop < len(self) else self.end)
        copied._firsts = self._firsts[:stop]
        copied._extents = self._extents[:stop]
        copied._offsets = self._offsets[:stop]
        copied._sizes = self._sizes[:stop]
        return copied

    def drop_through(self, last: int) -> list[Share]:
        """Forget the runs whose entries all stand at or before `last`."""
        return self._drop(0, self._count_through(last))

    def shares(self) -> list[Share]:
        return self._shares(0, len(self._firsts))

    def _count_through(self, last: int) -> int:
        if last >= self.end - 1:
            return len(self._firsts)
        return max(0, bisect_right(self._firsts, last + 1) - 1)

    def _places(self, start: int, end: int) -> Iterator[RunPlace]:
        for number in range(start, end):
            first = self._firsts[number]
            following = self._firsts[number + 1] if number + 1 < len(self._firsts) else self.end
            yield RunPlace(
                first,
                following - first,
                self._extents[number],
                self._offsets[number],
                self._sizes[number],
            )

    def _drop(self, start: int, end: int) -> list[Share]:
        shares = self._shares(start, end)
        for column in (self._firsts, self._extents, self._offsets, self._sizes):
            del column[start:end]
        return shares

    def _shares(self, start: int, end: int) -> list[Share]:
        shares = []
        while start < end:
            extent = self._extents[start]
            stop = bisect_left(self._extents, extent + 1, start, end)
            shares.append(Share(extent, stop - start, sum(self._sizes[start:stop])))
            start = stop
        return shares
