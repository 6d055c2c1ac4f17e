"""When bundles move from one broker to another, or are cut, by what the brokers report.

A decision needs a state that lasts, not a peak: the condition must hold in several rounds one after
the other. A broker gives up no more than brings it half way back below the mark, to brokers that
stay less loaded than itself, and no bundle moves again before its grace is over. So bundles do not
go to and fro.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from magnetar.model.load import BrokerReport, BundleStats


@dataclass(frozen=True, slots=True)
class ShedPolicy:
    above_average: float = 0.10
    """How much more than the average a broker must use, of everything it has."""
    grace_ms: int = 30 * 60_000
    """How long a bundle that moved stays where it is."""
    rounds: int = 3
    """For how many rounds one after the other the condition must hold."""
    moves_max: int = 10
    """In one round."""


@dataclass(frozen=True, slots=True)
class SplitPolicy:
    topics_max: int = 1000
    sessions_max: int = 1000
    msg_rate_max: float = 30_000.0
    bytes_rate_max: float = 100 * 2**20
    bundles_max: int = 128
    """In one namespace."""
    rounds: int = 3
    splits_max: int = 10
    """In one round."""


@dataclass(frozen=True, slots=True)
class Move:
    bundle: str
    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class Rounds:
    """For how many rounds each broker was too busy, and each bundle too large."""

    busy: Mapping[str, int] = field(default_factory=dict)
    large: Mapping[str, int] = field(default_factory=dict)


def count_rounds(
    rounds: Rounds,
    reports: Mapping[str, BrokerReport],
    shed: ShedPolicy,
    split: SplitPolicy,
) -> Rounds:
    """What was true in this round too; the rest begins anew."""
    mark = _mark(reports, shed)
    busy = [each for each, report in reports.items() if report.usage > mark]
    large = [
        bundle
        for report in reports.values()
        for bundle, stats in report.lastStats.items()
        if is_large(stats, split)
    ]
    return Rounds(
        {each: rounds.busy.get(each, 0) + 1 for each in busy},
        {each: rounds.large.get(each, 0) + 1 for each in large},
    )


def decide_moves(
    reports: Mapping[str, BrokerReport],
    rounds: Rounds,
    policy: ShedPolicy,
    *,
    moved_ms: Mapping[str, int],
    allowed: Callable[[str], Collection[str]],
    now_ms: int,
) -> tuple[Move, ...]:
    """`moved_ms` says when bundles moved last, `allowed` which brokers may own one."""
    usage = {each: report.usage for each, report in reports.items()}
    mark = _mark(reports, policy)
    enough = mark - policy.above_average / 2
    moves: list[Move] = []
    for source in sorted(reports, key=lambda each: (-usage[each], each)):
        if rounds.busy.get(source, 0) < policy.rounds:
            continue
        report = reports[source]
        total = sum(each.throughput for each in report.lastStats.values())
        heaviest = sorted(report.lastStats.items(), key=lambda each: (-each[1].throughput, each[0]))
        for bundle, stats in heaviest:
            if usage[source] <= enough or len(moves) >= policy.moves_max:
                break
            is_rested = moved_ms.get(bundle, -policy.grace_ms) <= now_ms - policy.grace_ms
            if not is_rested or stats.throughput <= 0 or len(report.lastStats) < 2:
                continue
            share = report.usage * stats.throughput / total
            eligible = [each for each in allowed(bundle) if each in usage and each != source]
            destination = min(eligible, key=lambda each: (usage[each], each), default=None)
            if destination is None or usage[destination] + share > usage[source] - share:
                continue
            usage[source] -= share
            usage[destination] += share
            moves.append(Move(bundle, source, destination))
    return tuple(moves)


def is_large(stats: BundleStats, policy: SplitPolicy) -> bool:
    """Whether a bundle is worth two. One topic alone cannot be parted."""
    return stats.topics > 1 and (
        stats.topics > policy.topics_max
        or stats.consumerCount + stats.producerCount > policy.sessions_max
        or stats.msg_rate > policy.msg_rate_max
        or stats.throughput > policy.bytes_rate_max
    )


def decide_splits(
    reports: Mapping[str, BrokerReport],
    rounds: Rounds,
    policy: SplitPolicy,
    *,
    count_bundles: Mapping[str, int],
) -> tuple[str, ...]:
    """Bundles to cut in two, the busiest first. `count_bundles` tells how many a namespace has."""
    if len(reports) < 2:
        return ()
    found = {
        bundle: stats
        for report in reports.values()
        for bundle, stats in report.lastStats.items()
        if is_large(stats, policy) and rounds.large.get(bundle, 0) >= policy.rounds
    }
    counts = dict(count_bundles)
    chosen: list[str] = []
    for bundle in sorted(found, key=lambda each: (-found[each].msg_rate, each)):
        namespace = bundle.rpartition("/")[0]
        if len(chosen) < policy.splits_max and counts.get(namespace, 0) < policy.bundles_max:
            counts[namespace] = counts.get(namespace, 0) + 1
            chosen.append(bundle)
    return tuple(chosen)


def _mark(reports: Mapping[str, BrokerReport], policy: ShedPolicy) -> float:
    """A broker that uses more than this gives bundles up."""
    average = sum(each.usage for each in reports.values()) / max(1, len(reports))
    return average + policy.above_average
