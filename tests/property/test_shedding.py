"""Laws of moving bundles between brokers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from magnetar.model.load import BrokerReport, BundleStats, ResourceUsage
from magnetar.rules.placement import choose_broker, expected_rate
from magnetar.rules.shedding import (
    Move,
    Rounds,
    ShedPolicy,
    SplitPolicy,
    count_rounds,
    decide_moves,
    decide_splits,
)

POLICY = ShedPolicy(rounds=1)
NOW_MS = 10**12
BUNDLE = "shop/eu/0x00000000_0x40000000"


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, BrokerReport]:
    """Brokers whose processor is busy in proportion to what their bundles carry."""
    reports = {}
    for number in range(draw(st.integers(1, 5))):
        loads = draw(st.lists(st.integers(0, 30), max_size=6))
        bundles = {
            f"t/n{number}/0x{index:08x}_0x{index + 1:08x}": BundleStats(
                msgRateIn=load * 100.0, msgThroughputIn=load * 1e6, topics=draw(st.integers(0, 3))
            )
            for index, load in enumerate(loads)
        }
        reports[f"b{number}:8080"] = BrokerReport(
            cpu=ResourceUsage(usage=float(sum(loads)), limit=100.0),
            lastStats=bundles,
            numBundles=len(bundles),
            msgRateIn=sum(each.msg_rate for each in bundles.values()),
        )
    return reports


def apply_moves(
    reports: dict[str, BrokerReport], moves: tuple[Move, ...]
) -> dict[str, BrokerReport]:
    changed = dict(reports)
    for move in moves:
        stats = reports[move.source].lastStats[move.bundle]
        load = stats.throughput / 1e6
        for broker, sign in ((move.source, -1), (move.destination, 1)):
            before = changed[broker]
            bundles = dict(before.lastStats)
            if sign < 0:
                del bundles[move.bundle]
            else:
                bundles[move.bundle] = stats
            cpu = replace(before.cpu, usage=before.cpu.usage + sign * load)
            changed[broker] = replace(before, lastStats=bundles, cpu=cpu)
    return changed


def decide(
    reports: dict[str, BrokerReport], moved_ms: dict[str, int], now_ms: int = NOW_MS
) -> tuple[Move, ...]:
    rounds = count_rounds(Rounds(), reports, POLICY, SplitPolicy())
    return decide_moves(
        reports, rounds, POLICY, moved_ms=moved_ms, allowed=lambda _: reports, now_ms=now_ms
    )


@given(clusters())
def test_moves_never_make_the_busiest_broker_busier(reports: dict[str, BrokerReport]) -> None:
    moves = decide(reports, {})
    after = apply_moves(reports, moves)
    assert max(each.usage for each in after.values()) <= (
        max(each.usage for each in reports.values()) + 1e-9
    )
    assert len({move.bundle for move in moves}) == len(moves)
    assert all(move.source != move.destination for move in moves)


@given(clusters())
def test_a_bundle_that_moved_stays_for_its_grace(reports: dict[str, BrokerReport]) -> None:
    moved: dict[str, int] = {}
    for step in range(5):
        now_ms = NOW_MS + step * 60_000
        moves = decide(reports, moved, now_ms)
        assert not moved.keys() & {move.bundle for move in moves}
        moved |= {move.bundle: now_ms for move in moves}
        reports = apply_moves(reports, moves)


@given(clusters())
def test_without_grace_too_the_moves_come_to_an_end(reports: dict[str, BrokerReport]) -> None:
    for _ in range(40):
        moves = decide(reports, {})
        if not moves:
            return
        reports = apply_moves(reports, moves)
    raise AssertionError("bundles go to and fro")


@given(clusters())
def test_a_peak_of_one_round_moves_nothing(reports: dict[str, BrokerReport]) -> None:
    rounds = count_rounds(Rounds(), reports, ShedPolicy(), SplitPolicy())
    moves = decide_moves(
        reports, rounds, ShedPolicy(), moved_ms={}, allowed=lambda _: reports, now_ms=NOW_MS
    )
    assert moves == ()


@given(clusters(), st.data())
def test_only_allowed_brokers_get_a_bundle(
    reports: dict[str, BrokerReport], data: st.DataObject
) -> None:
    allowed = data.draw(st.sets(st.sampled_from(sorted(reports))))
    rounds = count_rounds(Rounds(), reports, POLICY, SplitPolicy())
    moves = decide_moves(
        reports, rounds, POLICY, moved_ms={}, allowed=lambda _: allowed, now_ms=NOW_MS
    )
    assert {move.destination for move in moves} <= allowed
    chosen = choose_broker(reports, BUNDLE, allowed=allowed)
    assert (chosen is None) == (not allowed)
    assert chosen is None or chosen in allowed


@given(clusters())
def test_bundles_given_out_one_after_the_other_are_spread(
    reports: dict[str, BrokerReport],
) -> None:
    """What was given to a broker counts before it reports it."""
    pending: dict[str, int] = {}
    for _ in range(50):
        chosen = choose_broker(reports, BUNDLE, pending=pending)
        assert chosen is not None
        least = min(
            expected_rate(reports[each], pending.get(each, 0))
            for each in reports
            if reports[each].usage <= 0.85 or all(r.usage > 0.85 for r in reports.values())
        )
        assert expected_rate(reports[chosen], pending.get(chosen, 0)) == least
        pending[chosen] = pending.get(chosen, 0) + 1


@given(clusters(), st.integers(0, 200))
def test_a_namespace_gets_no_more_bundles_than_its_limit(
    reports: dict[str, BrokerReport], count: int
) -> None:
    policy = SplitPolicy(msg_rate_max=500.0, rounds=1)
    rounds = count_rounds(Rounds(), reports, POLICY, policy)
    counts = {f"t/n{number}": count for number in range(5)}
    splits = decide_splits(reports, rounds, policy, count_bundles=counts)
    if len(reports) < 2 or count >= policy.bundles_max:
        assert splits == ()
    for namespace in counts:
        added = sum(each.startswith(f"{namespace}/") for each in splits)
        assert added == 0 or count + added <= policy.bundles_max
    assert len(splits) <= policy.splits_max
