"""Whether a topic splits or merges by itself, and why, or why not.

`rules.scale_column` holds the rules; here they meet a layout, and their outcome gets names and
sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from magnetar.errors import PreconditionFailed
from magnetar.model.autoscale import AutoScalePolicy, check_auto_scale
from magnetar.model.layout import Layout
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import SegmentId
from magnetar.rules.scale_column import (
    NEVER,
    Action,
    Bar,
    Cause,
    Columns,
    Limits,
    Situation,
    choose,
    make_limits,
    score_of,
)

METRICS: Final = ("msgRateIn", "bytesRateIn", "msgRateOut", "bytesRateOut")
CONSUMER_COUNT: Final = "consumer-count"
COLD: Final = "cold"
BALANCED: Final = "balanced"
NOTHING: Final = Bar(0)
_CAUSES: Final = {
    **{Cause(index): name for index, name in enumerate(METRICS, start=1)},
    Cause.CONSUMER_COUNT: CONSUMER_COUNT,
    Cause.COLD: COLD,
}


@dataclass(frozen=True, slots=True)
class Split:
    segment: SegmentId


@dataclass(frozen=True, slots=True)
class Merge:
    left: SegmentId
    right: SegmentId


Change: TypeAlias = Split | Merge


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of a segment's load."""

    load: SegmentLoad
    age_ms: float
    """For how long it has been like that."""
    key_share: float = 0.0
    """Which part of it is one key; 0 when nobody looked."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of the topic as a whole."""

    consumers: Mapping[str, int] = field(default_factory=dict)
    """Of each subscription with a group, with or without connections."""
    since_split_ms: float = NEVER
    since_merge_ms: float = NEVER
    held_segments: int = 0
    is_joining: bool = False

    @property
    def consumers_most(self) -> int:
        return max(self.consumers.values(), default=0)


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    change: Change | None
    reason: str
    """What called for the change, or the first rule in its way, or that all is balanced."""
    bars: Bar = NOTHING
    """Every rule that held back what was called for."""
    problem: str = ""
    """What the policy contradicts itself in."""

    @property
    def held_by(self) -> tuple[str, ...]:
        return tuple(_name(bar) for bar in self.bars)


def decide(
    layout: Layout,
    samples: Mapping[SegmentId, Sample],
    policy: AutoScalePolicy,
    surroundings: Surroundings,
) -> ScaleDecision:
    """At most one change. A policy that contradicts itself changes nothing."""
    try:
        check_auto_scale(policy)
    except PreconditionFailed as refusal:
        return refuse(refusal.sentence)
    load = make_columns(layout, samples)
    choice = choose(
        load,
        make_limits(policy),
        Situation(
            surroundings.consumers_most,
            surroundings.since_split_ms,
            surroundings.since_merge_ms,
            surroundings.held_segments,
            surroundings.is_joining,
        ),
    )
    bars = Bar(choice.bars)
    match Action(choice.action):
        case Action.SPLIT:
            split = Split(layout.active[choice.first].id)
            return ScaleDecision(split, _CAUSES[Cause(choice.cause)], bars)
        case Action.MERGE:
            merge = Merge(layout.active[choice.first].id, layout.active[choice.second].id)
            return ScaleDecision(merge, COLD, bars)
        case Action.STAY:
            return ScaleDecision(None, _name(next(iter(bars))) if bars else BALANCED, bars)


def refuse(problem: str) -> ScaleDecision:
    """Nothing is done by a policy that cannot be."""
    return ScaleDecision(None, _name(Bar.CONTRADICTION), Bar.CONTRADICTION, problem)


def make_columns(layout: Layout, samples: Mapping[SegmentId, Sample]) -> Columns:
    """The active segments by ascending hash; those without a sample are not measured."""
    active = layout.active
    known = [samples.get(segment.id) for segment in active]
    loads = [None if sample is None else sample.load for sample in known]
    return Columns(
        [segment.id for segment in active],
        [math.nan if load is None else load.rate_in_per_s for load in loads],
        [math.nan if load is None else load.bytes_in_per_s for load in loads],
        [math.nan if load is None else load.rate_out_per_s for load in loads],
        [math.nan if load is None else load.bytes_out_per_s for load in loads],
        [math.nan if sample is None else sample.age_ms for sample in known],
        [layout.merge_depth(segment.id) for segment in active],
        [segment.range.size for segment in active],
        [0.0 if sample is None else sample.key_share for sample in known],
    )


def hottest(
    layout: Layout, samples: Mapping[SegmentId, Sample], policy: AutoScalePolicy
) -> SegmentId | None:
    """The active segment that is nearest to a split; None when none is measured."""
    above = make_limits(policy).split
    scores = {
        segment.id: score_of(*rates_of(samples[segment.id].load), above)
        for segment in layout.active
        if segment.id in samples
    }
    return max(scores, key=lambda number: (scores[number], -number), default=None)


def rates_of(load: SegmentLoad) -> tuple[float, float, float, float]:
    """In the order of the metrics' names."""
    return load.rate_in_per_s, load.bytes_in_per_s, load.rate_out_per_s, load.bytes_out_per_s


def is_cold(load: SegmentLoad, policy: AutoScalePolicy) -> bool:
    below = make_limits(policy).merge
    return all(0.0 <= rate < mark for rate, mark in zip(rates_of(load), below, strict=True))


# ---------------------------------------------------------------------- in words


def explain(
    decision: ScaleDecision,
    layout: Layout,
    samples: Mapping[SegmentId, Sample],
    policy: AutoScalePolicy,
    surroundings: Surroundings,
) -> list[str]:
    """Why a topic splits or merges, or why not; a sentence for each thing to know."""
    match decision.change:
        case Split(segment):
            first = f"Segment {segment} splits: {_because(decision.reason, samples.get(segment))}."
        case Merge(left, right):
            first = f"Segments {left} and {right} merge: both carry little for long enough."
        case None if decision.bars:
            first = f"{_stay(layout)}:"
        case None:
            first = f"{_stay(layout)}: none is hot, no two are cold."
    if decision.problem:
        return [first, f"{decision.problem}; until that is mended nothing scales by itself."]
    words = _words(decision.bars, layout, samples, make_limits(policy), surroundings)
    return [first, *words, _describe_hottest(layout, samples, policy)]


def _stay(layout: Layout) -> str:
    count = len(layout.active)
    if count == 1:
        return "The only active segment stays as it is"
    return f"The {count} active segments stay as they are"


def _because(reason: str, sample: Sample | None) -> str:
    if reason == CONSUMER_COUNT:
        return "there are more consumers than segments for them"
    assert sample is not None, "only what is measured is hot"
    rate = rates_of(sample.load)[METRICS.index(reason)]
    return f"its {reason} of {rate:,.0f}/s is above the limit"


def _describe_hottest(
    layout: Layout, samples: Mapping[SegmentId, Sample], policy: AutoScalePolicy
) -> str:
    number = hottest(layout, samples, policy)
    if number is None:
        return "No load of an active segment is reported yet."
    limits, rates = make_limits(policy).split, rates_of(samples[number].load)
    ratios = [rate / limit for rate, limit in zip(rates, limits, strict=True)]
    index = ratios.index(max(ratios))
    return (
        f"The hottest is segment {number}: {METRICS[index]} {rates[index]:,.0f}/s"
        f" of {limits[index]:,.0f}/s at which it splits."
    )


def _words(
    bars: Bar,
    layout: Layout,
    samples: Mapping[SegmentId, Sample],
    limits: Limits,
    surroundings: Surroundings,
) -> list[str]:
    count = len(layout.active)
    split_wait_s = max(0.0, limits.split_cooldown_ms - surroundings.since_split_ms) / 1000
    merge_wait_s = max(0.0, limits.merge_cooldown_ms - surroundings.since_merge_ms) / 1000
    shares = [samples[each.id].key_share for each in layout.active if each.id in samples]
    unmeasured = [str(each.id) for each in layout.active if each.id not in samples]
    sentences = {
        Bar.DISABLED: "Scaling by itself is switched off (enabled).",
        Bar.MAX_SEGMENTS: f"It would split, but has the {limits.segments_max} segments that"
        " maxSegments allows.",
        Bar.SPLIT_COOLDOWN: f"It would split, but the last split is too recent: {split_wait_s:.0f}"
        " s of splitCooldownSeconds are left.",
        Bar.SINGLE_HASH: "A segment that is too hot is a single hash and cannot be split.",
        Bar.HOT_KEY: f"One key carries {max(shares, default=0.0):.0%} of a segment that is too"
        " hot: splitting will not help.",
        Bar.MIN_SEGMENTS: f"Two neighbours are cold, but minSegments is {limits.segments_min}.",
        Bar.SCALE_HOLD: "Two neighbours are cold, but somebody asked for"
        f" {surroundings.held_segments} segments for a while.",
        Bar.MERGE_COOLDOWN: f"Two neighbours are cold, but the last merge is too recent:"
        f" {merge_wait_s:.0f} s of mergeCooldownSeconds are left.",
        Bar.MERGE_WINDOW: "Neighbours are cold, but not for the"
        f" {limits.merge_window_ms / 1000:.0f} s of mergeWindowSeconds yet.",
        Bar.MAX_DAG_DEPTH: f"Neighbours are cold, but maxDagDepth of {limits.depth_max} merges"
        " lies behind them.",
        Bar.WOULD_SPLIT_AGAIN: "Neighbours are cold, but would be hot together and split again.",
        Bar.CONSUMERS: f"Two neighbours are cold, but {surroundings.consumers_most} consumers of a"
        f" subscription want more than {count - 1} segments.",
        Bar.JOINING: "Two neighbours are cold, but nothing merges because a consumer came.",
        Bar.UNMEASURED: f"Segments without a reported load do not merge: {', '.join(unmeasured)}.",
    }
    return [sentences[bar] for bar in bars]


def _name(bar: Bar) -> str:
    assert bar.name is not None
    return bar.name.lower().replace("_", "-")
