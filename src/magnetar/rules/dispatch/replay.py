"""Entries that wait to be delivered again, or for the first time after a delay."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from typing import Final

from magnetar.model.entry_set import EntrySet

_SLOT_BITS: Final = 10
"""Of the milliseconds of a slot, which is 1.024 s long."""
_IN_SLOT: Final = (1 << _SLOT_BITS) - 1
_SORTED_AT_ONCE: Final = 5_000
"""Entries; some 5 ms."""


class ReplayQueue:
    """Positions in order, each once. Removing one is cheap: it is dropped when it comes to the
    front.
    """

    def __init__(self) -> None:
        self._members: set[tuple[int, int]] = set()
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, position: tuple[int, int]) -> bool:
        return position in self._members

    def add(self, position: tuple[int, int]) -> None:
        if position not in self._members:
            self._members.add(position)
            heapq.heappush(self._heap, position)

    def discard(self, position: tuple[int, int]) -> None:
        self._members.discard(position)

    def clear(self) -> None:
        self._members.clear()
        self._heap.clear()

    def first(self, count: int) -> list[tuple[int, int]]:
        """The lowest positions, in order; they stay in the queue."""
        if count >= len(self._members):
            self._heap = sorted(self._members)  # a sorted list is a heap
            return self._heap[:]
        taken: list[tuple[int, int]] = []
        while self._heap and len(taken) < count:
            position = heapq.heappop(self._heap)
            if position in self._members and (not taken or taken[-1] != position):
                taken.append(position)
        for position in taken:
            heapq.heappush(self._heap, position)
        return taken

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(sorted(self._members))


def split_consecutive(positions: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Sorted positions as (ledger id, first entry id, count), so that neighbours are read at
    once.
    """
    runs: list[tuple[int, int, int]] = []
    for ledger_id, entry_id in positions:
        if runs and runs[-1][0] == ledger_id and runs[-1][1] + runs[-1][2] == entry_id:
            runs[-1] = (ledger_id, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((ledger_id, entry_id, 1))
    return runs


class DelayIndex:
    """Entries by the time they become visible, each once. Nothing is stored: after a restart the
    log is read again.

    What is far off is kept by the second, 16 bytes for each, and sorted only when its second has
    come.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, EntrySet] = {}
        self._near: list[tuple[int, int, int]] = []  # a heap: time, ledger, entry
        self._far: dict[int, array[int]] = {}  # by slot: ledger, entry and time in the slot, ...
        self._slots: list[int] = []  # a heap
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, deliver_at_ms: int, position: tuple[int, int]) -> None:
        """An entry that is known keeps its time."""
        ledger_id, entry_id = position
        waiting = self._waiting.get(ledger_id)
        if waiting is None:
            waiting = self._waiting[ledger_id] = EntrySet()
        if not waiting.add(entry_id, entry_id):
            return
        self._count += 1
        slot = deliver_at_ms >> _SLOT_BITS
        found = self._far.get(slot)
        if found is None:
            found = self._far[slot] = array("q")
            heapq.heappush(self._slots, slot)
        found.append(ledger_id)
        found.append(entry_id << _SLOT_BITS | deliver_at_ms & _IN_SLOT)

    def discard(self, position: tuple[int, int]) -> bool:
        """Whether it was there. Cheap: the rest is dropped when it comes to the front."""
        ledger_id, entry_id = position
        waiting = self._waiting.get(ledger_id)
        if waiting is None or not waiting.remove(entry_id, entry_id):
            return False
        self._count -= 1
        if not waiting.count:
            del self._waiting[ledger_id]
        return True

    def within(self, first: tuple[int, int], last: tuple[int, int]) -> list[tuple[int, int]]:
        """The entries from one position to another."""
        found = []
        for ledger_id, waiting in sorted(self._waiting.items(), key=lambda each: each[0]):
            if first[0] <= ledger_id <= last[0]:
                start = max(waiting.first, first[1] if ledger_id == first[0] else 0)
                end = min(waiting.last, last[1]) if ledger_id == last[0] else waiting.last
                found += [(ledger_id, entry_id) for entry_id in waiting.within(start, end)]
        return found

    def take_due(self, now_ms: int, count_max: int) -> list[tuple[int, int]]:
        """What is due, the longest first. It may not be all: `next_due_ms` tells."""
        self._approach(now_ms)
        due: list[tuple[int, int]] = []
        while self._near and self._near[0][0] <= now_ms and len(due) < count_max:
            position = heapq.heappop(self._near)[1:]
            if self.discard(position):
                due.append(position)
        return due

    def _approach(self, now_ms: int) -> None:
        """Sort some of what is in slots whose time has come."""
        left = _SORTED_AT_ONCE
        while left and self._slots and self._slots[0] << _SLOT_BITS <= now_ms:
            start = self._slots[0] << _SLOT_BITS
            found = self._far[self._slots[0]]
            some = found[-2 * left :]
            del found[-2 * left :]
            left -= len(some) // 2
            for ledger_id, packed in zip(some[::2], some[1::2], strict=True):
                due_ms, entry_id = start + (packed & _IN_SLOT), packed >> _SLOT_BITS
                heapq.heappush(self._near, (due_ms, ledger_id, entry_id))
            if not found:
                del self._far[heapq.heappop(self._slots)]

    def next_due_ms(self) -> int | None:
        """When to ask again: nothing is due before."""
        while self._near and self._near[0][2] not in self._waiting.get(self._near[0][1], ()):
            heapq.heappop(self._near)
        times = [self._near[0][0]] if self._near else []
        times += [self._slots[0] << _SLOT_BITS] if self._slots else []
        return min(times, default=None)

    def clear(self) -> None:
        self._waiting.clear()
        self._near.clear()
        self._far.clear()
        self._slots.clear()
        self._count = 0
