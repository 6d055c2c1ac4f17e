"""A replay that asks only when something can happen does what one does that asks at every step."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.layout import Layout
from magnetar.model.scalable import ChangeKind
from magnetar.model.segment import SegmentId
from magnetar.spark.job.load import Samples, TopicLoad
from magnetar.spark.job.replay import Replay

STEP_MS = 60_000
OVERLOAD = (50.0, 5_000.0, 200.0, 20_000.0)


@st.composite
def histories(draw: st.DrawFn) -> Samples:
    """A topic of one or more segments that splits at some time, with bumps, gaps and consumers."""
    seed = draw(st.integers(0, 2**32 - 1))
    chance = np.random.default_rng(seed)
    steps = draw(st.integers(2, 160))
    bounds = sorted(chance.choice(65_535, size=draw(st.integers(0, 3)), replace=False) + 1)
    layouts = [[0, *bounds, 65_536]]
    more = sorted({*bounds, int(chance.integers(1, 65_536))})
    layouts.append([0, *more, 65_536])
    change = int(chance.integers(0, steps))
    rows = []
    level = chance.uniform(0, 400)
    for step in range(steps):
        if chance.random() < 0.1:
            level = chance.choice([0.0, 5.0, 40.0, 120.0, 400.0]) * chance.uniform(0.5, 1.5)
        if chance.random() < 0.03:
            continue
        edges = layouts[step >= change]
        for first, end in pairwise(edges):
            share = (end - first) / 65_536 * chance.uniform(0.5, 1.5)
            rate = level * share if chance.random() > 0.01 else np.nan
            rows.append((step, first, end - 1, rate, int(chance.integers(0, 4))))
    if not rows:
        rows = [(0, 0, 65_535, 1.0, 0)]
    table = np.array(rows)
    msgs = table[:, 3]
    return Samples(
        (table[:, 0] * STEP_MS).astype(np.int64),
        table[:, 1].astype(np.int64),
        table[:, 2].astype(np.int64),
        np.stack([msgs, msgs * 100, msgs * 3, msgs * 300]),
        table[:, 4].astype(np.int64),
    )


@st.composite
def policies(draw: st.DrawFn) -> AutoScalePolicy:
    split = draw(st.sampled_from([10.0, 30.0, 80.0]))
    merge = split * draw(st.sampled_from([0.0, 0.1, 0.4, 0.9]))
    return AutoScalePolicy(
        enabled=draw(st.sampled_from([True, True, True, False])),
        maxSegments=draw(st.sampled_from([2, 4, 64])),
        minSegments=draw(st.sampled_from([1, 2])),
        maxDagDepth=draw(st.sampled_from([0, 1, 3, 10])),
        splitCooldownSeconds=draw(st.sampled_from([0, 60, 150])),
        mergeCooldownSeconds=draw(st.sampled_from([0, 60, 400])),
        mergeWindowSeconds=draw(st.sampled_from([0, 60, 400])),
        splitMsgRateInThreshold=split,
        mergeMsgRateInThreshold=merge,
        splitBytesRateInThreshold=int(split * 150),
        mergeBytesRateInThreshold=int(merge * 90),
        splitMsgRateOutThreshold=split * 4,
        mergeMsgRateOutThreshold=merge * 4,
        splitBytesRateOutThreshold=int(split * 450),
        mergeBytesRateOutThreshold=int(merge * 450),
        consumersPerSegment=draw(st.sampled_from([0, 1, 2])),
    )


@settings(max_examples=150, deadline=None)
@given(histories(), policies(), st.sampled_from([None, 20_000]))
def test_skipping_what_cannot_matter_changes_nothing(
    samples: Samples, policy: AutoScalePolicy, step_ms: int | None
) -> None:
    load = TopicLoad(samples, step_ms=step_ms)
    fast = Replay(load, policy, overload=OVERLOAD, flap_steps=30).run()
    slow = Replay(load, policy, overload=OVERLOAD, flap_steps=30).run_slowly()
    assert fast == slow


@settings(max_examples=50, deadline=None)
@given(histories(), policies())
def test_the_layout_of_a_replay_is_that_of_a_topic(
    samples: Samples, policy: AutoScalePolicy
) -> None:
    load = TopicLoad(samples)
    replay = Replay(load, policy, overload=OVERLOAD, flap_steps=30)
    outcome = replay.run()
    layout = Layout.initial(1, now_ms=0)
    for first, _ in load.layout[1:]:
        target = layout.find_active(first)
        layout = layout.split(target.id, now_ms=0, at=first)
    for change in outcome.changes:
        inside = [e for e in layout.active if change.span[0] <= e.range.first <= change.span[1]]
        if change.kind is ChangeKind.SPLIT:
            assert [(e.range.first, e.range.last) for e in inside] == [change.span]
            layout = layout.split(SegmentId(inside[0].id), now_ms=0)
        else:
            assert (inside[0].range.first, inside[1].range.last) == change.span
            layout = layout.merge(inside[0].id, inside[1].id, now_ms=0)
        assert len(layout.active) == change.segments
    assert replay.layout == [(each.range.first, each.range.last) for each in layout.active]
    grown = [layout.merge_depth(each.id) for each in layout.active]
    assert replay.merge_depths == grown
