"""Random load over random time: topics that scale themselves keep to their bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.layout import Layout
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import SegmentId
from magnetar.rules.scale import Merge, Sample, Split, Surroundings, decide, make_columns
from magnetar.rules.scale_column import (
    Action,
    Choice,
    Columns,
    Situation,
    choose,
    choose_each,
    make_limits,
)

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
            Surroundings({"s": consumers}, now_ms - last[Split], now_ms - last[Merge]),
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
            Surroundings({"s": consumers}),
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


SEGMENT = st.tuples(
    RATES,
    st.one_of(RATES, st.floats(0, 1e8)),
    RATES,
    st.one_of(RATES, st.floats(0, 4e8)),
    st.sampled_from([0.0, 59_000.0, 60_000.0, 1e9, math.nan, -1.0]),
    st.integers(0, 11),
    st.sampled_from([1, 2, 1024]),
    st.sampled_from([0.0, 0.0, 0.5, 0.83, 1.0]),
)
SITUATION = st.builds(
    Situation,
    st.integers(0, 9),
    st.sampled_from([0.0, 59_999.0, 60_000.0, math.inf]),
    st.sampled_from([0.0, 299_999.0, 300_000.0, math.inf]),
    st.integers(0, 4),
    st.booleans(),
)
TOPIC = st.tuples(st.lists(SEGMENT, max_size=6), POLICIES, SITUATION)


def columns_of(segments: Sequence[tuple[Any, ...]]) -> Columns:
    turned = list(map(list, zip(*segments, strict=True))) or [[] for _ in range(8)]
    return Columns(list(range(len(segments))), *turned)


@settings(max_examples=200)
@given(st.lists(TOPIC, max_size=6))
def test_many_topics_at_once_are_decided_like_each_alone(topics: Any) -> None:
    starts, every = [0], []
    for segments, _, _ in topics:
        every += segments
        starts.append(len(every))
    limits = [make_limits(policy) for _, policy, _ in topics]
    situations = [situation for _, _, situation in topics]
    numbers = [n for segments, _, _ in topics for n in range(len(segments))]
    load = replace(columns_of(every), ids=numbers)
    choices = choose_each(load, starts, limits, situations)
    alone = [
        choose(columns_of(segments), limit, situation)
        for (segments, _, _), limit, situation in zip(topics, limits, situations, strict=True)
    ]
    assert [Choice(*each) for each in zip(*choices, strict=True)] == alone


@settings(max_examples=200)
@given(TOPIC)
def test_the_quick_ways_choose_what_the_plain_rules_say(topic: Any) -> None:
    segments, policy, situation = topic
    load, limits = columns_of(segments), make_limits(policy)
    choice = choose(load, limits, situation)
    assert choice[:3] == plain(segments, policy, situation)


def plain(
    segments: Sequence[tuple[Any, ...]], policy: AutoScalePolicy, situation: Situation
) -> tuple[int, int, int]:
    """The rules once more, one segment at a time, without regard for speed."""
    limits, count = make_limits(policy), len(segments)

    def measured(segment: tuple[Any, ...]) -> list[float]:
        return [rate if 0 <= rate < math.inf else 0.0 for rate in segment[:4]]

    def score(segment: tuple[Any, ...]) -> float:
        return max(r / t for r, t in zip(measured(segment), limits.split, strict=True))

    def cold(segment: tuple[Any, ...]) -> bool:
        return all(0 <= r < t for r, t in zip(segment[:4], limits.merge, strict=True))

    may_split = count < policy.maxSegments and (
        situation.since_split_ms >= policy.splitCooldownSeconds * 1000
    )
    if count and situation.consumers > count:
        wide = [n for n in range(count) if segments[n][6] > 1]
        if wide and may_split:
            return Action.SPLIT, max(wide, key=lambda n: (measured(segments[n])[0], -n)), -1
    elif may_split:
        hot = [
            n
            for n, each in enumerate(segments)
            if score(each) > 1
            and each[6] > 1
            and not (each[7] * score(each) > 1 >= (1 - each[7]) * score(each))
        ]
        if hot:
            return Action.SPLIT, max(hot, key=lambda n: (score(segments[n]), -n)), -1
    if (
        count <= max(policy.minSegments, situation.held_segments)
        or situation.since_merge_ms < policy.mergeCooldownSeconds * 1000
        or situation.consumers > count - 1
        or situation.is_joining
    ):
        return Action.STAY, -1, -1
    pairs = [
        n
        for n in range(count - 1)
        if all(
            cold(each)
            and each[4] >= policy.mergeWindowSeconds * 1000
            and each[5] < policy.maxDagDepth
            for each in segments[n : n + 2]
        )
    ]
    if not pairs:
        return Action.STAY, -1, -1

    def heat(n: int) -> float:
        one, two = (
            sum(r / t for r, t in zip(each[:4], limits.merge, strict=True))
            for each in segments[n : n + 2]
        )
        return one + two

    best = min(pairs, key=lambda n: (heat(n), n))
    return Action.MERGE, best, best + 1


@given(st.integers(1, 8), st.integers(0, 100))
def test_columns_stand_in_the_order_of_hashes(count: int, rate: int) -> None:
    layout = Layout.initial(count, now_ms=0).split(SegmentId(0), now_ms=1)
    known = {s.id: Sample(SegmentLoad(rate + s.id), 5.0) for s in layout.active}
    load = make_columns(layout, known)
    assert list(load.ids) == [segment.id for segment in layout.active]
    assert list(load.msg_rate_in) == [rate + segment.id for segment in layout.active]
    assert sum(load.width) == 65_536
