"""In which order regular topics become scalable ones: waves that an operator can oversee.

Topics that nothing holds back go first, those with least to read before the others. Topics with v4
clients follow, together with all other topics of the same machines: whoever upgrades an application
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
    """Topics with something that nobody reads; how long that takes is not known."""


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
    group_of: dict[str, int] = {}
    groups: dict[int, list[Candidate]] = {}
    for number, each in enumerate(candidates):
        joined = sorted({group_of[host] for host in each.hosts if host in group_of})
        group = [member for old in joined for member in groups.pop(old)] + [each]
        groups[number] = group
        for member in group:
            group_of |= dict.fromkeys(member.hosts, number)
    found = list(groups.values())
    return sorted(found, key=lambda group: (len(_hosts(group)), group[0].topic))


def _hosts(group: Iterable[Candidate]) -> tuple[str, ...]:
    return tuple(sorted({host for each in group for host in each.hosts}))


def _pack(groups: Iterable[list[Candidate]], limit: WaveLimit) -> list[list[Candidate]]:
    """Groups stay whole where they fit; one that is too large fills waves of its own."""
    waves: list[list[Candidate]] = []
    for group in groups:
        if waves and _fits([*waves[-1], *group], limit):
            waves[-1] += group
            continue
        waves.append([])
        for each in group:
            if waves[-1] and not _fits([*waves[-1], each], limit):
                waves.append([])
            waves[-1].append(each)
    return waves


def _fits(wave: Sequence[Candidate], limit: WaveLimit) -> bool:
    backlog = sum(each.backlog for each in wave)
    return len(wave) <= limit.topics and backlog <= limit.backlog


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
