"""Whether a topic splits or merges by itself, and why, or why not.

A segment without a sample is not measured. A rate that is NaN, negative or infinite counts as not
measured as well. What is not measured is not hot, and not cold either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final, TypeAlias

from magnetar.errors import PreconditionFailed
from magnetar.model.autoscale import AutoScalePolicy, Rates, check_auto_scale
from magnetar.model.layout import Layout
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import Segment, SegmentId

METRICS: Final = ("msgRateIn", "bytesRateIn", "msgRateOut", "bytesRateOut")
"""Causes of a split, in the order in which one wins a tie."""
CONSUMER_COUNT: Final = "consumer-count"
COLD: Final = "cold"
BALANCED: Final = "balanced"
NEVER: Final = math.inf
"""The time since a change that was never made."""


class Bar(StrEnum):
    """The rules that keep a topic from a change that is called for, in the order they are named."""

    DISABLED = "disabled"
    CONTRADICTION = "contradiction"
    MAX_SEGMENTS = "max-segments"
    SPLIT_COOLDOWN = "split-cooldown"
    SINGLE_HASH = "single-hash"
    HOT_KEY = "hot-key"
    MIN_SEGMENTS = "min-segments"
    SCALE_HOLD = "scale-hold"
    MERGE_COOLDOWN = "merge-cooldown"
    MERGE_WINDOW = "merge-window"
    MAX_DAG_DEPTH = "max-dag-depth"
    WOULD_SPLIT_AGAIN = "would-split-again"
    CONSUMERS = "consumers"
    JOINING = "joining"
    UNMEASURED = "unmeasured"


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
    """For how long it has been like that; NaN: not known."""
    key_share: float = 0.0
    """Which part of it is one key; 0 when keys were not sampled."""

    @property
    def is_measured(self) -> bool:
        return all(0.0 <= rate < math.inf for rate in rates_of(self.load))

    @property
    def rates(self) -> list[float]:
        """In the order of the metrics' names; 0 where one is not measured."""
        return [rate if 0.0 <= rate < math.inf else 0.0 for rate in rates_of(self.load)]

    def ratios(self, limits: Rates) -> list[float]:
        """Each rate as a multiple of its limit."""
        return [rate / limit for rate, limit in zip(self.rates, limits, strict=True)]


_UNMEASURED: Final = Sample(SegmentLoad(math.nan, math.nan, math.nan, math.nan), math.nan)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of the topic as a whole."""

    consumers: tuple[int, ...] = ()
    """Of each subscription with a group, with or without connections."""
    since_split_ms: float = NEVER
    since_merge_ms: float = NEVER
    held_segments: int = 0
    """An operator asked for so many at least, for a while."""
    is_joining: bool = False
    """Whether this is asked because a consumer has just come: nothing is merged then."""

    @property
    def consumers_most(self) -> int:
        return max(self.consumers, default=0)


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    change: Change | None
    cause: str = ""
    """What called for the change."""
    held_by: tuple[Bar, ...] = ()
    """Every rule that held back what was called for."""
    problem: str = ""
    """What the policy contradicts itself in."""

    @property
    def reason(self) -> str:
        """The cause of the change, or the first rule in its way, or that all is balanced."""
        return self.cause or (self.held_by[0].value if self.held_by else BALANCED)


def decide(
    layout: Layout,
    samples: Mapping[SegmentId, Sample],
    policy: AutoScalePolicy,
    around: Surroundings,
) -> ScaleDecision:
    """At most one change. Splitting comes first; merging can wait."""
    try:
        check_auto_scale(policy)
    except PreconditionFailed as refusal:
        return refuse(refusal.sentence)
    if not policy.enabled:
        return ScaleDecision(None, held_by=(Bar.DISABLED,))
    known = {each.id: samples.get(each.id, _UNMEASURED) for each in layout.active}
    split = _decide_split(layout, known, policy, around)
    if split.change is not None:
        return split
    merge = _decide_merge(layout, known, policy, around)
    return replace(merge, held_by=split.held_by + merge.held_by)


def refuse(problem: str) -> ScaleDecision:
    """A policy that contradicts itself changes nothing."""
    return ScaleDecision(None, held_by=(Bar.CONTRADICTION,), problem=problem)


def hottest(
    layout: Layout, samples: Mapping[SegmentId, Sample], policy: AutoScalePolicy
) -> SegmentId | None:
    """The active segment that is nearest to a split; None when none is measured."""
    above = policy.split_above
    scores = {
        segment.id: max(samples[segment.id].ratios(above))
        for segment in layout.active
        if segment.id in samples
    }
    return max(scores, key=lambda number: (scores[number], -number), default=None)


def rates_of(load: SegmentLoad) -> Rates:
    """In the order of the metrics' names."""
    return load.rate_in_per_s, load.bytes_in_per_s, load.rate_out_per_s, load.bytes_out_per_s


def is_cold(load: SegmentLoad, below: Rates) -> bool:
    return all(0.0 <= rate < limit for rate, limit in zip(rates_of(load), below, strict=True))


def _holding(rules: Mapping[Bar, bool]) -> tuple[Bar, ...]:
    return tuple(bar for bar, is_in_the_way in rules.items() if is_in_the_way)


# ---------------------------------------------------------------------- splitting


def _decide_split(
    layout: Layout,
    known: Mapping[SegmentId, Sample],
    policy: AutoScalePolicy,
    around: Surroundings,
) -> ScaleDecision:
    """For consumers if there are too many of them, else because a segment is hot."""
    count = len(layout.active)
    if 0 < count * policy.consumersPerSegment < around.consumers_most:
        wanted = _split_for_consumers(layout, known)
    else:
        wanted = _split_hot(layout, known, policy.split_above)
    if wanted.reason == BALANCED:
        return wanted
    limits = _holding(
        {
            Bar.MAX_SEGMENTS: count >= policy.maxSegments,
            Bar.SPLIT_COOLDOWN: around.since_split_ms < policy.splitCooldownSeconds * 1000,
        }
    )
    return ScaleDecision(None, held_by=limits + wanted.held_by) if limits else wanted


def _split_for_consumers(layout: Layout, known: Mapping[SegmentId, Sample]) -> ScaleDecision:
    """The segment with most messages in; of equal ones the oldest."""
    wide = [segment.id for segment in layout.active if segment.range.size > 1]
    if not wide:
        return ScaleDecision(None, held_by=(Bar.SINGLE_HASH,))
    busiest = max(wide, key=lambda number: (known[number].rates[0], -number))
    return ScaleDecision(Split(busiest), CONSUMER_COUNT)


def _split_hot(layout: Layout, known: Mapping[SegmentId, Sample], above: Rates) -> ScaleDecision:
    """The hottest segment that splitting helps; of equal ones the oldest."""
    ratios = {segment.id: known[segment.id].ratios(above) for segment in layout.active}
    scores = {number: score for number, each in ratios.items() if (score := max(each)) > 1.0}
    obstacles = {
        number: _find_obstacle(layout.get(number), score, known[number].key_share)
        for number, score in scores.items()
    }
    held_by = tuple(bar for bar in (Bar.SINGLE_HASH, Bar.HOT_KEY) if bar in obstacles.values())
    free = [number for number, obstacle in obstacles.items() if obstacle is None]
    if not free:
        return ScaleDecision(None, held_by=held_by)
    chosen = max(free, key=lambda number: (scores[number], -number))
    cause = METRICS[ratios[chosen].index(scores[chosen])]
    return ScaleDecision(Split(chosen), cause, held_by)


def _find_obstacle(segment: Segment, score: float, key_share: float) -> Bar | None:
    """Why it does not help to split a segment that is hot."""
    if segment.range.size < 2:
        return Bar.SINGLE_HASH
    if key_share * score > 1.0 >= (1.0 - key_share) * score:
        return Bar.HOT_KEY  # the key is too much by itself, and all the rest is not
    return None


# ---------------------------------------------------------------------- merging


def _decide_merge(
    layout: Layout,
    known: Mapping[SegmentId, Sample],
    policy: AutoScalePolicy,
    around: Surroundings,
) -> ScaleDecision:
    """The coldest pair of neighbours that may be one; of equal ones the first."""
    below, count = policy.merge_below, len(layout.active)
    cold = {each for each, sample in known.items() if is_cold(sample.load, below)}
    pairs = [
        (left.id, right.id)
        for left, right in pairwise(layout.active)
        if {left.id, right.id} <= cold
    ]
    if not pairs:
        is_measured = count < 2 or all(sample.is_measured for sample in known.values())
        return ScaleDecision(None, held_by=() if is_measured else (Bar.UNMEASURED,))
    held = {pair: _keep_apart(layout, known, policy, *pair) for pair in pairs}
    ripe = [pair for pair in pairs if not held[pair]]
    if not ripe:
        every = {bar for bars in held.values() for bar in bars}
        return ScaleDecision(None, held_by=tuple(bar for bar in Bar if bar in every))
    limits = _holding(
        {
            Bar.MIN_SEGMENTS: count <= policy.minSegments,
            Bar.SCALE_HOLD: count <= around.held_segments,
            Bar.MERGE_COOLDOWN: around.since_merge_ms < policy.mergeCooldownSeconds * 1000,
            # The next look would split for them.
            Bar.CONSUMERS: around.consumers_most > (count - 1) * policy.consumersPerSegment > 0,
            Bar.JOINING: around.is_joining,
        }
    )
    if limits:
        return ScaleDecision(None, held_by=limits)
    left, right = min(ripe, key=lambda pair: sum(_heat(known[each], below) for each in pair))
    return ScaleDecision(Merge(left, right), COLD)


def _heat(sample: Sample, below: Rates) -> float:
    """Added one by one, as over columns: `sum` of floats rounds otherwise from Python 3.12 on."""
    msgs_in, bytes_in, msgs_out, bytes_out = sample.ratios(below)
    return msgs_in + bytes_in + msgs_out + bytes_out


def _keep_apart(
    layout: Layout,
    known: Mapping[SegmentId, Sample],
    policy: AutoScalePolicy,
    left: SegmentId,
    right: SegmentId,
) -> tuple[Bar, ...]:
    """Why two neighbours that are cold do not become one."""
    one, other = known[left], known[right]
    window_ms, depth = policy.mergeWindowSeconds * 1000, policy.maxDagDepth
    together = zip(rates_of(one.load), rates_of(other.load), policy.split_above, strict=True)
    return _holding(
        {
            Bar.MERGE_WINDOW: not (one.age_ms >= window_ms and other.age_ms >= window_ms),
            Bar.MAX_DAG_DEPTH: max(layout.merge_depth(left), layout.merge_depth(right)) >= depth,
            Bar.WOULD_SPLIT_AGAIN: any(a + b > limit for a, b, limit in together),
        }
    )


# ---------------------------------------------------------------------- in words


def explain(
    decision: ScaleDecision,
    layout: Layout,
    samples: Mapping[SegmentId, Sample],
    policy: AutoScalePolicy,
    around: Surroundings,
) -> list[str]:
    """Why a topic splits or merges, or why not; a sentence for each thing to know."""
    match decision.change:
        case Split(segment):
            first = f"Segment {segment} splits: {_because(decision.reason, samples.get(segment))}."
        case Merge(left, right):
            first = f"Segments {left} and {right} merge: both carry little for long enough."
        case None if decision.held_by:
            first = f"{_stay(layout)}:"
        case None:
            first = f"{_stay(layout)}: none is hot, no two are cold."
    if decision.problem:
        return [first, f"{decision.problem}; until that is mended nothing scales by itself."]
    words = _words(decision.held_by, layout, samples, policy, around)
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
    above, sample = policy.split_above, samples[number]
    ratios = sample.ratios(above)
    index = ratios.index(max(ratios))
    return (
        f"The hottest is segment {number}: {METRICS[index]} {sample.rates[index]:,.0f}/s"
        f" of {above[index]:,.0f}/s at which it splits."
    )


def _words(
    bars: tuple[Bar, ...],
    layout: Layout,
    samples: Mapping[SegmentId, Sample],
    policy: AutoScalePolicy,
    around: Surroundings,
) -> list[str]:
    count = len(layout.active)
    split_wait_s = max(0.0, policy.splitCooldownSeconds * 1000 - around.since_split_ms) / 1000
    merge_wait_s = max(0.0, policy.mergeCooldownSeconds * 1000 - around.since_merge_ms) / 1000
    shares = [samples[each.id].key_share for each in layout.active if each.id in samples]
    unmeasured = [str(each.id) for each in layout.active if each.id not in samples]
    sentences = {
        Bar.DISABLED: "Scaling by itself is switched off (enabled).",
        Bar.MAX_SEGMENTS: f"It would split, but has the {policy.maxSegments} segments that"
        " maxSegments allows.",
        Bar.SPLIT_COOLDOWN: f"It would split, but the last split is too recent: {split_wait_s:.0f}"
        " s of splitCooldownSeconds are left.",
        Bar.SINGLE_HASH: "A segment that is too hot is a single hash and cannot be split.",
        Bar.HOT_KEY: f"One key carries {max(shares, default=0.0):.0%} of a segment that is too"
        " hot: splitting will not help.",
        Bar.MIN_SEGMENTS: f"Two neighbours are cold, but minSegments is {policy.minSegments}.",
        Bar.SCALE_HOLD: "Two neighbours are cold, but an operator asked for"
        f" {around.held_segments} segments for a while.",
        Bar.MERGE_COOLDOWN: f"Two neighbours are cold, but the last merge is too recent:"
        f" {merge_wait_s:.0f} s of mergeCooldownSeconds are left.",
        Bar.MERGE_WINDOW: "Neighbours are cold, but not for the"
        f" {policy.mergeWindowSeconds} s of mergeWindowSeconds yet.",
        Bar.MAX_DAG_DEPTH: f"Neighbours are cold, but maxDagDepth of {policy.maxDagDepth} merges"
        " lies behind them.",
        Bar.WOULD_SPLIT_AGAIN: "Neighbours are cold, but would be hot together and split again.",
        Bar.CONSUMERS: f"Two neighbours are cold, but {around.consumers_most} consumers of a"
        f" subscription want more than {count - 1} segments.",
        Bar.JOINING: "Two neighbours are cold, but nothing merges because a consumer came.",
        Bar.UNMEASURED: f"Segments without a reported load do not merge: {', '.join(unmeasured)}.",
    }
    return [sentences[bar] for bar in bars]
