"""Which entries of one ledger are in a set: a bit for each, in blocks."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final

_SHIFT: Final = 10
_SIZE: Final = 1 << _SHIFT
_INDEX: Final = _SIZE - 1
_FULL: Final = (1 << _SIZE) - 1
_BLOCK_BYTES: Final = _SIZE // 8
_ONES: Final = re.compile("1+")


class EntrySet:
    """A change costs one block, wherever it is; a block that is full takes no memory of its own."""

    __slots__ = ("_blocks", "_numbers", "count")

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        self._numbers: list[int] = []  # of the blocks that are not empty, ascending
        self.count = 0

    def __contains__(self, entry_id: int) -> bool:
        return bool(self._blocks.get(entry_id >> _SHIFT, 0) >> (entry_id & _INDEX) & 1)

    # Changing

    def add(self, first: int, last: int) -> int:
        """Return how many entries of first..last were new."""
        number = first >> _SHIFT
        if first == last:  # as a consumer acknowledges, one by one
            known, bit = self._blocks.get(number, 0), 1 << (first & _INDEX)
            if known and not known & bit and known | bit != _FULL:
                self._blocks[number] = known | bit
                self.count += 1
                return 1
        added = 0
        while first <= last:
            end = min(last, number << _SHIFT | _INDEX)
            added += self._join(number, (2 << (end & _INDEX)) - (1 << (first & _INDEX)))
            first, number = end + 1, number + 1
        return added

    def add_bits(self, bits: int) -> int:
        """Add the entries whose bits are set; return how many were new."""
        data = bits.to_bytes(-(-bits.bit_length() // 8), "little")
        added = 0
        for number, start in enumerate(range(0, len(data), _BLOCK_BYTES)):
            block = int.from_bytes(data[start : start + _BLOCK_BYTES], "little")
            if block:
                added += self._join(number, block)
        return added

    def _join(self, number: int, bits: int) -> int:
        known = self._blocks.get(number, 0)
        if not known:
            insort(self._numbers, number)
        joined = known | bits
        self._blocks[number] = _FULL if joined == _FULL else joined
        added = joined.bit_count() - known.bit_count()
        self.count += added
        return added

    def remove(self, first: int, last: int) -> int:
        """Return how many entries of first..last there were."""
        numbers, blocks = self._numbers, self._blocks
        start = bisect_left(numbers, first >> _SHIFT)
        end = bisect_right(numbers, last >> _SHIFT)
        removed, kept = 0, []
        for number in numbers[start:end]:
            base, block = number << _SHIFT, blocks[number]
            low, high = max(first - base, 0), min(last - base, _INDEX)
            left = block & ~((2 << high) - (1 << low))
            removed += block.bit_count() - left.bit_count()
            if left:
                blocks[number] = left
                kept.append(number)
            else:
                del blocks[number]
        numbers[start:end] = kept
        self.count -= removed
        return removed

    # Asking; there are entries

    @property
    def first(self) -> int:
        number = self._numbers[0]
        return (number << _SHIFT) + _lowest(self._blocks[number])

    @property
    def last(self) -> int:
        number = self._numbers[-1]
        return (number << _SHIFT) + self._blocks[number].bit_length() - 1

    @property
    def first_gap(self) -> int:
        """The first entry after `first` that is not in the set."""
        number, index = divmod(self.first, _SIZE)
        while (size := _lowest(~(self._blocks.get(number, 0) >> index))) == _SIZE - index:
            number, index = number + 1, 0
        return (number << _SHIFT) + index + size

    # Asking

    def within(self, first: int, last: int) -> list[int]:
        """The entries of first..last that are in the set."""
        return [
            start + index
            for start, _, bits in self._windows(first, last)
            for index in _indexes(bits)
        ]

    def gaps(self, first: int, last: int) -> list[int]:
        """The entries of first..last that are not in the set."""
        found: list[int] = []
        for start, size, bits in self._windows(first, last):
            if bits:
                found += [start + index for index in _indexes(~bits & ((1 << size) - 1))]
            else:
                found += range(start, start + size)
        return found

    def _windows(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """The bits of each block, from the first entry asked for on; how many are asked for."""
        while first <= last:
            size = min(last - first + 1, _SIZE - (first & _INDEX))
            bits = self._blocks.get(first >> _SHIFT, 0) >> (first & _INDEX)
            yield first, size, bits & ((1 << size) - 1)
            first += size

    def runs(self) -> Iterator[tuple[int, int]]:
        """The first and last entry of what is in the set without a gap, ascending."""
        first, last = 0, -1
        for number in self._numbers:
            base = number << _SHIFT
            for ones in _ONES.finditer(_digits(self._blocks[number])):
                if last >= 0 and base + ones.start() != last + 1:
                    yield first, last
                    last = -1
                if last < 0:
                    first = base + ones.start()
                last = base + ones.end() - 1
        if last >= 0:
            yield first, last

    @property
    def run_count(self) -> int:
        blocks = self._blocks
        joints = sum(bits & blocks.get(number - 1, 0) >> _INDEX for number, bits in blocks.items())
        return sum(map(count_runs, blocks.values())) - joints

    @property
    def bits(self) -> int:
        """A number that has the bits set whose entries are in the set."""
        data = bytearray((self._numbers[-1] + 1) * _BLOCK_BYTES if self._numbers else 0)
        for number in self._numbers:
            start = number * _BLOCK_BYTES
            block = self._blocks[number].to_bytes(_BLOCK_BYTES, "little")
            data[start : start + _BLOCK_BYTES] = block
        return int.from_bytes(data, "little")


def count_runs(bits: int) -> int:
    """How many ranges without a gap the set bits make."""
    return (bits & ~(bits << 1)).bit_count()


def _lowest(bits: int) -> int:
    """The index of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def _digits(bits: int) -> str:
    """The lowest bit first."""
    return f"{bits:b}"[::-1]


def _indexes(bits: int) -> list[int]:
    return [index for index, digit in enumerate(_digits(bits)) if digit == "1"]
