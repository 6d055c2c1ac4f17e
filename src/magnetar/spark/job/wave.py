"""In which order regular topics become scalable ones: waves that an operator can oversee.

Topics that nothing holds back go first, those with least to read before the others. Topics with v4
clients follow, together with all other topics of the same machines: an upgrade of an application
frees them all. What is refused for another reason is in no wave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Readiness(StrEnum):
    READY = "ready"
    CLIENTS = "v4-clients"
    """Nothing but clients that cannot follow is in the way."""
    BLOCKED = "blocked"
    UNKNOWN = "unknown"
    """It could not be found out."""


@dataclass(frozen=True, slots=True)
class Candidate:
    topic: str
    readiness: Readiness
    backlog: int
    """Entries, counted for each subscription that has to read them."""
    drain_s: float | None
    """Until the slowest subscription has read them; None when one of them is not being read."""
    hosts: frozenset[str] = frozenset()
    """Machines with v4 clients."""


@dataclass(frozen=True, slots=True)
class Wave:
    number: int
    topics: tuple[str, ...]
    hosts: tuple[str, ...]
    """Whose clients must be upgraded first."""
    backlog: int
    seconds: float
    """Migrating one by one, then reading what is left at the present rate."""
    unread: int
    """Topics with a backlog and no reader; how long that takes is not known."""


@dataclass(frozen=True, slots=True)
class WaveLimit:
    topics: int = 50
    backlog: int = 10_000_000
    topic_s: float = 1.0
    """What migrating one topic takes, its check included."""


def plan_waves(candidates: Iterable[Candidate], limit: WaveLimit) -> list[Wave]:
    """The same candidates give the same waves."""
    known = sorted(candidates, key=lambda each: each.topic)
    ready = [each for each in known if each.readiness is Readiness.READY]
    ready.sort(key=lambda each: (each.drain_s is None, each.drain_s or 0.0, each.topic))
    groups = [[each] for each in ready]
    waves = _pack(groups, limit)
    waiting = [each for each in known if each.readiness is Readiness.CLIENTS]
    waves += _pack(join_by_host(waiting), limit)
    return [_make_wave(number, each, limit) for number, each in enumerate(waves, start=1)]


def join_by_host(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Topics that share a machine, directly or over others; few machines first."""
    first_of: dict[str, str] = {}

    def find(host: str) -> str:
        """The machine that stands for all that are joined with this one."""
        root = host
        while first_of.setdefault(root, root) != root:
            root = first_of[root]
        while first_of[host] != root:
            first_of[host], host = root, first_of[host]
        return root

    for each in candidates:
        roots = [find(host) for host in each.hosts]
        first_of |= dict.fromkeys(roots, min(roots, default=""))
    groups: dict[str, list[Candidate]] = {}
    for each in candidates:
        # Of no machine: a group of its own.
        name = find(min(each.hosts)) if each.hosts else f"/{each.topic}"
        groups.setdefault(name, []).append(each)
    found = list(groups.values())
    return sorted(found, key=lambda group: (len(_hosts(group)), group[0].topic))


def _hosts(group: Iterable[Candidate]) -> tuple[str, ...]:
    return tuple(sorted({host for each in group for host in each.hosts}))


def _pack(groups: Iterable[list[Candidate]], limit: WaveLimit) -> list[list[Candidate]]:
    """Groups stay whole where they fit; one that is too large fills waves of its own."""
    waves: list[list[Candidate]] = []
    backlog = 0

    def fits(more: Sequence[Candidate], size: int) -> bool:
        return len(waves[-1]) + len(more) <= limit.topics and backlog + size <= limit.backlog

    for group in groups:
        size = sum(each.backlog for each in group)
        if waves and fits(group, size):
            waves[-1] += group
            backlog += size
            continue
        waves.append([])
        backlog = 0
        for each in group:
            if waves[-1] and not fits([each], each.backlog):
                waves.append([])
                backlog = 0
            waves[-1].append(each)
            backlog += each.backlog
    return waves


def _make_wave(number: int, members: Sequence[Candidate], limit: WaveLimit) -> Wave:
    drains = [each.drain_s for each in members if each.drain_s is not None]
    return Wave(
        number,
        tuple(each.topic for each in members),
        _hosts(members),
        sum(each.backlog for each in members),
        len(members) * limit.topic_s + max(drains, default=0.0),
        sum(each.drain_s is None for each in members),
    )
