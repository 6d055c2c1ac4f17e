"""Entries that wait to be delivered again, or for the first time after a delay."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


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
    """

    def __init__(self) -> None:
        self._times: dict[tuple[int, int], int] = {}
        self._heap: list[tuple[int, tuple[int, int]]] = []

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._times)

    def add(self, deliver_at_ms: int, position: tuple[int, int]) -> None:
        self._times[position] = deliver_at_ms
        heapq.heappush(self._heap, (deliver_at_ms, position))

    def discard(self, position: tuple[int, int]) -> None:
        """Cheap: it is dropped from the heap when it comes to the front."""
        self._times.pop(position, None)

    def take_due(self, now_ms: int) -> list[tuple[int, int]]:
        due: list[tuple[int, int]] = []
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            _, position = heapq.heappop(self._heap)
            del self._times[position]
            due.append(position)
        return due

    def next_due_ms(self) -> int | None:
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        self._times.clear()
        self._heap.clear()
