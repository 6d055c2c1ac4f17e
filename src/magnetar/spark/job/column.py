"""The rule of `rules.scale` over columns of numbers, for a job that asks it a million times.

One topic is a handful of columns with a place for each active segment, by ascending hash; no value
object is made for a segment. What it answers is what `decide` would change: a property test holds
the two equal. Why something is done or not is left to `decide`. Recorded loads say nothing of
single keys, so no segment counts as one that a key keeps hot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import TypeAlias

from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.segment import SegmentId
from magnetar.rules.scale import Change, Merge, Split, Surroundings

_Rates: TypeAlias = Sequence[Sequence[float]]
"""Of messages in, bytes in, messages out, bytes out."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The active segments of one topic; its policy is one that `check_auto_scale` lets pass."""

    ids: Sequence[SegmentId]
    rates: _Rates
    """NaN where nothing was measured."""
    age_ms: Sequence[float]
    """For how long the rates have been as they are; NaN or less than 0: not known."""
    merges: Sequence[int]
    """How many merges lie behind the segment."""
    width: Sequence[int]
    """How many hashes it has."""


def choose(load: Columns, policy: AutoScalePolicy, around: Surroundings) -> Change | None:
    """The change that `decide` makes of the same topic."""
    count = len(load.ids)
    if not policy.enabled or not count:
        return None
    is_measured = all(map(_is_measured, load.rates))
    if count < policy.maxSegments and around.since_split_ms >= policy.splitCooldownSeconds * 1000:
        rates = load.rates if is_measured else _replace_unmeasured(load.rates, 0.0)
        place = _choose_split(load, rates, policy, around.consumers_most)
        if place is not None:
            return Split(load.ids[place])
    if (
        count > max(policy.minSegments, around.held_segments)
        and around.since_merge_ms >= policy.mergeCooldownSeconds * 1000
        and not around.consumers_most > (count - 1) * policy.consumersPerSegment > 0
        and not around.is_joining
    ):
        rates = load.rates if is_measured else _replace_unmeasured(load.rates, math.inf)
        place = _choose_merge(load, rates, policy)
        if place is not None:
            return Merge(load.ids[place], load.ids[place + 1])
    return None


def may_split_again(policy: AutoScalePolicy) -> bool:
    """Whether two cold segments can be hot together."""
    limits = zip(policy.merge_below, policy.split_above, strict=True)
    return any(2 * below > above for below, above in limits)


def _is_measured(rates: Sequence[float]) -> bool:
    """NaN and infinity show in the sum; only a sum that overflows is looked at closer."""
    if sum(rates) < math.inf:
        return min(rates) >= 0.0
    return all(0.0 <= rate < math.inf for rate in rates)


def _replace_unmeasured(rates: _Rates, stand_in: float) -> _Rates:
    return [[rate if 0.0 <= rate < math.inf else stand_in for rate in each] for each in rates]


def _choose_split(
    load: Columns, rates: _Rates, policy: AutoScalePolicy, consumers: int
) -> int | None:
    """The place of the segment to split."""
    ids, width, above = load.ids, load.width, policy.split_above
    if 0 < len(ids) * policy.consumersPerSegment < consumers:
        wanted, ranks = list(range(len(ids))), rates[0]
    elif all(max(each) / limit <= 1.0 for each, limit in zip(rates, above, strict=True)):
        return None
    else:
        ratios = ([rate / limit for rate in each] for each, limit in zip(rates, above, strict=True))
        ranks = list(map(max, *ratios))
        wanted = [place for place, score in enumerate(ranks) if score > 1.0]
    wide = [place for place in wanted if width[place] > 1]
    return max(wide, key=lambda place: (ranks[place], -ids[place]), default=None)


def _choose_merge(load: Columns, rates: _Rates, policy: AutoScalePolicy) -> int | None:
    """The place of the left one of the coldest pair."""
    msgs_in, bytes_in, msgs_out, bytes_out = policy.merge_below
    window_ms, depth = policy.mergeWindowSeconds * 1000, policy.maxDagDepth
    # Below a limit of 0 nothing is cold, and nothing is divided by it.
    heat = [
        a / msgs_in + b / bytes_in + c / msgs_out + d / bytes_out
        if a < msgs_in
        and b < bytes_in
        and c < msgs_out
        and d < bytes_out
        and age_ms >= window_ms
        and merges < depth
        else math.inf
        for a, b, c, d, age_ms, merges in zip(*rates, load.age_ms, load.merges, strict=True)
    ]
    together = list(map(add, heat, heat[1:]))
    if may_split_again(policy):
        for each, limit in zip(rates, policy.split_above, strict=True):
            for left, total in enumerate(map(add, each, each[1:])):
                if total > limit:
                    together[left] = math.inf
    coldest = min(together, default=math.inf)
    return together.index(coldest) if coldest < math.inf else None
