"""Which consumer of a Failover subscription is the active one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from magnetar.model.hash import murmur31

_RING_POINTS: Final = 100

C = TypeVar("C", bound=Hashable)


class _Rank(NamedTuple, Generic[C]):
    priority: int
    """Lower is served first."""
    is_behind: bool
    """No point of it is at or above the topic's: the ring begins anew."""
    point: int
    """The first of its points from the topic's on."""
    name: str
    arrival: int
    """No two have the same, so consumers themselves are never compared."""
    consumer: C


class Ranking(Generic[C]):
    """The consumers of a subscription, as they would become active.

    Only the best priority level counts. Partitions of one topic are dealt out by name; any
    other topic (`partition_index` -1) picks from a ring: few topics move when consumers change.
    """

    def __init__(self, *, topic: str, partition_index: int) -> None:
        self._partition_index = partition_index
        self._topic_point = murmur31(topic.encode())
        self._ranks: list[_Rank[C]] = []
        self._by_consumer: dict[C, _Rank[C]] = {}
        self._arrivals = 0

    def __contains__(self, consumer: C) -> bool:
        return consumer in self._by_consumer

    def add(self, consumer: C, *, name: str, priority: int) -> None:
        self._arrivals += 1
        is_behind, point = (False, 0) if self._partition_index >= 0 else self._place(name)
        rank = _Rank(priority, is_behind, point, name, self._arrivals, consumer)
        self._by_consumer[consumer] = rank
        insort(self._ranks, rank)

    def remove(self, consumer: C) -> None:
        del self._ranks[bisect_left(self._ranks, self._by_consumer.pop(consumer))]

    def active(self) -> C | None:
        if not self._ranks:
            return None
        best = self._ranks[0]
        if self._partition_index >= 0:
            count = bisect_right(self._ranks, best.priority, key=lambda rank: rank.priority)
            return self._ranks[self._partition_index % count].consumer
        # A point that several have is the last one's, by name and arrival.
        end = bisect_right(self._ranks, best[:3], key=lambda rank: rank[:3])
        return self._ranks[end - 1].consumer

    def _place(self, name: str) -> tuple[bool, int]:
        points = (murmur31(f"{name}{number}".encode()) for number in range(_RING_POINTS))
        return min((point < self._topic_point, point) for point in points)
