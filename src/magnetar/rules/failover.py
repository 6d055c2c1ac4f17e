"""Which consumer of a Failover subscription is the active one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from magnetar.model.hash import murmur31

_RING_POINTS: Final = 100


class Candidate(NamedTuple):
    name: str
    priority: int
    """Lower is served first."""


def choose_active(candidates: Sequence[Candidate], *, topic: str, partition_index: int) -> int:
    """Return the index of the active one in `candidates`, which must not be empty.

    Only the best priority level counts. Partitions of one topic are dealt out by name; any
    other topic (`partition_index` -1) picks from a ring: few topics move when consumers change.
    """
    best = min(candidate.priority for candidate in candidates)
    eligible = [i for i, candidate in enumerate(candidates) if candidate.priority == best]
    eligible.sort(key=lambda i: candidates[i].name)
    if partition_index >= 0:
        return eligible[partition_index % len(eligible)]
    ring: dict[int, int] = {}
    for i in eligible:
        for point in range(_RING_POINTS):
            ring[murmur31(f"{candidates[i].name}{point}".encode())] = i
    points = sorted(ring)
    at = bisect_left(points, murmur31(topic.encode()))
    return ring[points[at if at < len(points) else 0]]
