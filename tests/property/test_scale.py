"""Random load over random time: topics that scale themselves keep to their bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.layout import Layout
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import SegmentId
from magnetar.rules.scale import Merge, Sample, Split, Surroundings, decide, rates_of
from magnetar.spark.job.column import Columns, choose

STEP_MS = 10_000
RATES = st.one_of(
    st.sampled_from([0.0, 1.0, 999.0, 1_000.0, 1_001.0, 9_999.0, 10_000.0, 10_001.0, 1e6]),
    st.floats(0, 30_000),
    st.sampled_from([math.nan, -1.0, math.inf]),
)
POLICIES = st.builds(
    lambda least, more, split_s, merge_s, window_s, depth: AutoScalePolicy(
        minSegments=least,
        maxSegments=least + more,
        splitCooldownSeconds=split_s,
        mergeCooldownSeconds=merge_s,
        mergeWindowSeconds=window_s,
        maxDagDepth=depth,
    ),
    st.integers(1, 3),
    st.integers(0, 5),
    st.sampled_from([0, 10, 60, 90]),
    st.sampled_from([0, 10, 60, 300]),
    st.sampled_from([0, 10, 60]),
    st.integers(0, 10),
)
TRACE = st.lists(st.tuples(RATES, st.integers(0, 6)), min_size=1, max_size=60)


def load_of(whole: float, width: int) -> SegmentLoad:
    """A topic's load falls evenly on the ring."""
    return SegmentLoad(rate_in_per_s=whole * width / 65_536)


def bound(duration_ms: int, cooldown_s: int) -> int:
    steps = duration_ms // STEP_MS + 1
    return steps if cooldown_s == 0 else min(steps, duration_ms // (cooldown_s * 1000) + 1)


@settings(max_examples=150)
@given(POLICIES, TRACE, st.data())
def test_over_any_load_changes_stay_within_cooldowns_and_bounds(
    policy: AutoScalePolicy, trace: Sequence[tuple[float, int]], data: Any
) -> None:
    start = data.draw(st.integers(policy.minSegments, policy.maxSegments))
    layout = Layout.initial(start, now_ms=0)
    last = {Split: -math.inf, Merge: -math.inf}
    times: dict[type, list[int]] = {Split: [], Merge: []}
    reported: dict[SegmentId, tuple[SegmentLoad, int]] = {}
    for turn, (whole, consumers) in enumerate(trace):
        now_ms = turn * STEP_MS
        for segment in layout.active:
            load = load_of(whole, segment.range.size)
            if segment.id not in reported or reported[segment.id][0] != load:
                reported[segment.id] = (load, now_ms)
        decision = decide(
            layout,
            {number: Sample(load, now_ms - at) for number, (load, at) in reported.items()},
            policy,
            Surroundings((consumers,), now_ms - last[Split], now_ms - last[Merge]),
        )
        match decision.change:
            case Split(segment=number):
                layout = layout.split(number, now_ms=now_ms)
            case Merge(left, right):
                assert layout.merge_depth(left) < policy.maxDagDepth
                assert layout.merge_depth(right) < policy.maxDagDepth
                layout = layout.merge(left, right, now_ms=now_ms)
                merged = layout.active[[s.id for s in layout.active].index(layout.segments[-1].id)]
                assert not load_of(whole, merged.range.size).rate_in_per_s > 10_000
                assert consumers <= len(layout.active)
            case None:
                continue
        kind = type(decision.change)
        times[kind].append(now_ms)
        last[kind] = now_ms
        assert policy.minSegments <= len(layout.active) <= policy.maxSegments
    duration_ms = (len(trace) - 1) * STEP_MS
    assert len(times[Split]) <= bound(duration_ms, policy.splitCooldownSeconds)
    assert len(times[Merge]) <= bound(duration_ms, policy.mergeCooldownSeconds)
    for kind, cooldown_s in (
        (Split, policy.splitCooldownSeconds),
        (Merge, policy.mergeCooldownSeconds),
    ):
        for earlier, later in zip(times[kind], times[kind][1:], strict=False):
            assert later - earlier >= cooldown_s * 1000


@settings(max_examples=100)
@given(
    POLICIES,
    st.floats(0, 200_000),
    st.integers(0, 8),
    st.integers(1, 8),
)
def test_under_a_load_that_stays_a_topic_comes_to_rest(
    policy: AutoScalePolicy, whole: float, consumers: int, start: int
) -> None:
    """Without any cooldown it must not go back and forth: it only ever splits, or only merges."""
    policy = structs.replace(
        policy, splitCooldownSeconds=0, mergeCooldownSeconds=0, mergeWindowSeconds=0
    )
    layout = Layout.initial(start, now_ms=0)
    kinds: set[type] = set()
    for _ in range(40):
        decision = decide(
            layout,
            {s.id: Sample(load_of(whole, s.range.size), math.inf) for s in layout.active},
            policy,
            Surroundings((consumers,)),
        )
        match decision.change:
            case Split(segment=number):
                layout = layout.split(number, now_ms=0)
            case Merge(left, right):
                layout = layout.merge(left, right, now_ms=0)
            case None:
                break
        kinds.add(type(decision.change))
    else:
        raise AssertionError(f"never at rest: {len(layout.active)} segments")
    assert len(kinds) <= 1


TOPICS = 40
"""In one example."""


def draw_layout(chance: Random) -> Layout:
    """Segments of any width, down to a single hash, with some merges behind them."""
    layout = Layout.initial(chance.randint(1, 5), now_ms=0)
    for _ in range(chance.choice([0, 3, 6])):
        active = layout.active
        place = chance.randrange(len(active))
        whole = active[place].range
        if place + 1 < len(active) and chance.random() < 0.5:
            layout = layout.merge(active[place].id, active[place + 1].id, now_ms=0)
        elif whole.size > 1:
            at = whole.first + chance.choice([1, 1, whole.size // 2, whole.size - 1])
            layout = layout.split(active[place].id, now_ms=0, at=at)
    return layout


def draw_policy(chance: Random) -> AutoScalePolicy:
    """Some limits are so near each other that two cold segments are hot together; below a limit of
    0 nothing is cold.
    """
    split = chance.choice([500.0, 1_000.0, 10_000.0])
    merge = split * chance.choice([0.0, 0.1, 0.5, 0.5, 0.75])
    least = chance.choice([1, 1, 2, 3])
    return AutoScalePolicy(
        enabled=chance.random() < 0.95,
        minSegments=least,
        maxSegments=least + chance.randint(2, 6),
        maxDagDepth=chance.choice([0, 1, 2, 10]),
        splitCooldownSeconds=chance.choice([0, 10]),
        mergeCooldownSeconds=chance.choice([0, 10]),
        mergeWindowSeconds=chance.choice([0, 10, 60]),
        splitMsgRateInThreshold=split,
        mergeMsgRateInThreshold=merge,
        splitBytesRateInThreshold=int(split * 4_000),
        mergeBytesRateInThreshold=int(merge * 4_000),
        splitMsgRateOutThreshold=split * 2,
        mergeMsgRateOutThreshold=merge * 2,
        splitBytesRateOutThreshold=int(split * 8_000),
        mergeBytesRateOutThreshold=int(merge * 8_000),
        consumersPerSegment=chance.choice([0, 1, 2]),
    )


def draw_samples(
    chance: Random, layout: Layout, policy: AutoScalePolicy
) -> dict[SegmentId, Sample]:
    """A quiet topic or a busy one, around the limits of the policy; not all of it is measured."""
    ratios = chance.choice([(0.0, 2 / 3), (0.0, 0.1, 0.99, 1.0), (0.0, 0.5, 1.0, 1.01, 3.0)])
    limits = chance.choice([policy.merge_below, policy.merge_below, policy.split_above])
    is_whole = chance.random() < 0.8
    ages_ms = chance.choice([(1e9,), (1e9, 10_000.0, 60_000.0, 9_999.0, math.nan, -1.0)])
    samples = {}
    for segment in layout.active:
        rates = [chance.choice(ratios) * limit for limit in limits]
        if not is_whole and chance.random() < 0.3:
            rates[chance.randrange(4)] = chance.choice([math.nan, -1.0, math.inf])
        if is_whole or chance.random() < 0.8:
            samples[segment.id] = Sample(SegmentLoad(*rates), chance.choice(ages_ms))
    return samples


def draw_surroundings(chance: Random) -> Surroundings:
    return Surroundings(
        tuple(chance.choice([0, 1, 2, 3, 5, 9]) for _ in range(chance.choice([0, 0, 1, 3]))),
        chance.choice([math.inf, 10_000.0, 9_999.0]),
        chance.choice([math.inf, 10_000.0, 9_999.0]),
        chance.choice([0, 0, 0, 2, 4]),
        chance.random() < 0.1,
    )


def columns_of(layout: Layout, samples: Mapping[SegmentId, Sample]) -> Columns:
    """Segments without a sample are not measured."""
    unknown = Sample(SegmentLoad(math.nan, math.nan, math.nan, math.nan), math.nan)
    known = [samples.get(segment.id, unknown) for segment in layout.active]
    return Columns(
        [segment.id for segment in layout.active],
        list(zip(*(rates_of(sample.load) for sample in known), strict=True)),
        [sample.age_ms for sample in known],
        [layout.merge_depth(segment.id) for segment in layout.active],
        [segment.range.size for segment in layout.active],
    )


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_over_columns_the_rule_is_the_plain_one(seed: int) -> None:
    chance = Random(seed)
    for _ in range(TOPICS):
        layout, policy, around = draw_layout(chance), draw_policy(chance), draw_surroundings(chance)
        samples = draw_samples(chance, layout, policy)
        decision = decide(layout, samples, policy, around)
        assert not decision.problem
        assert choose(columns_of(layout, samples), policy, around) == decision.change
