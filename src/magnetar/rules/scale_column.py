"""Whether a topic splits or merges, over columns of numbers.

One topic is a handful of columns with a place for each active segment, by ascending hash; many
topics, or one over a long time, are the same columns end to end. No value object is made on the
way, so a job over months of history asks the very rules that a controller asks about one topic.
`rules.scale` names segments and says why.

A rate that nobody measured is NaN. A rate that cannot be, negative or without bound, counts as not
measured. What is not measured is not hot, and not cold either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from itertools import pairwise
from operator import add
from typing import Final, NamedTuple, TypeAlias

from magnetar.model.autoscale import AutoScalePolicy

_Rates: TypeAlias = tuple[Sequence[float], Sequence[float], Sequence[float], Sequence[float]]
"""Of messages in, bytes in, messages out, bytes out."""

NEVER: Final = math.inf
"""How long ago something was that never was."""


class Action(IntEnum):
    STAY = 0
    SPLIT = 1
    MERGE = 2


class Cause(IntEnum):
    """Why something is done; the four rates stand in the order in which one wins a tie."""

    NONE = 0
    MSG_RATE_IN = 1
    BYTES_RATE_IN = 2
    MSG_RATE_OUT = 3
    BYTES_RATE_OUT = 4
    CONSUMER_COUNT = 5
    COLD = 6


class Bar(IntFlag):
    """The rules that keep something from being done that is called for."""

    DISABLED = 1
    CONTRADICTION = 1 << 1
    MAX_SEGMENTS = 1 << 2
    SPLIT_COOLDOWN = 1 << 3
    SINGLE_HASH = 1 << 4
    HOT_KEY = 1 << 5
    MIN_SEGMENTS = 1 << 6
    SCALE_HOLD = 1 << 7
    MERGE_COOLDOWN = 1 << 8
    MERGE_WINDOW = 1 << 9
    MAX_DAG_DEPTH = 1 << 10
    WOULD_SPLIT_AGAIN = 1 << 11
    CONSUMERS = 1 << 12
    JOINING = 1 << 13
    UNMEASURED = 1 << 14


_MAX_SEGMENTS: Final = int(Bar.MAX_SEGMENTS)
_SPLIT_COOLDOWN: Final = int(Bar.SPLIT_COOLDOWN)
_SINGLE_HASH: Final = int(Bar.SINGLE_HASH)
_HOT_KEY: Final = int(Bar.HOT_KEY)
_MIN_SEGMENTS: Final = int(Bar.MIN_SEGMENTS)
_SCALE_HOLD: Final = int(Bar.SCALE_HOLD)
_MERGE_COOLDOWN: Final = int(Bar.MERGE_COOLDOWN)
_MERGE_WINDOW: Final = int(Bar.MERGE_WINDOW)
_MAX_DAG_DEPTH: Final = int(Bar.MAX_DAG_DEPTH)
_WOULD_SPLIT_AGAIN: Final = int(Bar.WOULD_SPLIT_AGAIN)
_CONSUMERS: Final = int(Bar.CONSUMERS)
_JOINING: Final = int(Bar.JOINING)
_UNMEASURED: Final = int(Bar.UNMEASURED)


@dataclass(frozen=True, slots=True)
class Columns:
    """The active segments of one topic, or of many end to end."""

    ids: Sequence[int]
    msg_rate_in: Sequence[float]
    bytes_rate_in: Sequence[float]
    msg_rate_out: Sequence[float]
    bytes_rate_out: Sequence[float]
    age_ms: Sequence[float]
    """For how long the rates have been as they are; NaN or less than 0: not known."""
    merges: Sequence[int]
    """How many merges lie behind the segment."""
    width: Sequence[int]
    """How many hashes it has."""
    key_share: Sequence[float]
    """Which part of its load is one key; 0 when nobody looked."""

    def part(self, start: int, end: int) -> Columns:
        return Columns(
            self.ids[start:end],
            self.msg_rate_in[start:end],
            self.bytes_rate_in[start:end],
            self.msg_rate_out[start:end],
            self.bytes_rate_out[start:end],
            self.age_ms[start:end],
            self.merges[start:end],
            self.width[start:end],
            self.key_share[start:end],
        )


class Limits(NamedTuple):
    """A policy as numbers to compare with."""

    enabled: bool
    segments_max: int
    segments_min: int
    depth_max: int
    split_cooldown_ms: float
    merge_cooldown_ms: float
    merge_window_ms: float
    split: tuple[float, float, float, float]
    merge: tuple[float, float, float, float]
    consumers_per_segment: int
    may_split_again: bool
    """Whether two cold segments can be hot together."""


class Situation(NamedTuple):
    """What is true of a topic as a whole."""

    consumers: int = 0
    """Of the subscription that has most."""
    since_split_ms: float = NEVER
    since_merge_ms: float = NEVER
    held_segments: int = 0
    """Somebody asked for so many at least, for a while."""
    is_joining: bool = False
    """Whether this is asked because a consumer has just come: nothing is merged then."""


class Choice(NamedTuple):
    """What to do; places are those in the topic's columns, -1 for none."""

    action: int
    first: int
    second: int
    cause: int
    bars: int


class Choices(NamedTuple):
    """One place for each topic."""

    actions: list[int]
    firsts: list[int]
    seconds: list[int]
    causes: list[int]
    bars: list[int]


def make_limits(policy: AutoScalePolicy) -> Limits:
    """The policy is one that `check_auto_scale` lets pass."""
    split = (
        float(policy.splitMsgRateInThreshold),
        float(policy.splitBytesRateInThreshold),
        float(policy.splitMsgRateOutThreshold),
        float(policy.splitBytesRateOutThreshold),
    )
    merge = (
        float(policy.mergeMsgRateInThreshold),
        float(policy.mergeBytesRateInThreshold),
        float(policy.mergeMsgRateOutThreshold),
        float(policy.mergeBytesRateOutThreshold),
    )
    return Limits(
        policy.enabled,
        policy.maxSegments,
        policy.minSegments,
        policy.maxDagDepth,
        policy.splitCooldownSeconds * 1000.0,
        policy.mergeCooldownSeconds * 1000.0,
        policy.mergeWindowSeconds * 1000.0,
        split,
        merge,
        policy.consumersPerSegment,
        any(2 * below > above for below, above in zip(merge, split, strict=True)),
    )


def choose(load: Columns, limits: Limits, situation: Situation) -> Choice:
    """At most one change of one topic. Splitting comes first; merging can wait."""
    count = len(load.ids)
    if not limits.enabled or not count:
        return Choice(Action.STAY, -1, -1, Cause.NONE, 0 if limits.enabled else Bar.DISABLED)
    raw = (load.msg_rate_in, load.bytes_rate_in, load.msg_rate_out, load.bytes_rate_out)
    is_measured = all(map(_is_measured, raw))
    rates = raw if is_measured else _replace_unmeasured(raw, 0.0)
    wanted, cause, bars = _choose_split(load, rates, limits, situation)
    if cause:
        if count >= limits.segments_max:
            bars |= _MAX_SEGMENTS
        if situation.since_split_ms < limits.split_cooldown_ms:
            bars |= _SPLIT_COOLDOWN
        if wanted >= 0 and not bars & (_MAX_SEGMENTS | _SPLIT_COOLDOWN):
            return Choice(Action.SPLIT, wanted, -1, cause, bars)
    if count < 2:
        return Choice(Action.STAY, -1, -1, Cause.NONE, bars)
    if not is_measured:
        rates = _replace_unmeasured(raw, math.inf)
    pair, merge_bars = _choose_merge(load, rates, limits)
    if pair >= 0:
        merge_bars = _merge_gates(limits, situation, count)
        if not merge_bars:
            return Choice(Action.MERGE, pair, pair + 1, Cause.COLD, bars)
    elif not merge_bars and not is_measured:
        merge_bars = _UNMEASURED
    return Choice(Action.STAY, -1, -1, Cause.NONE, bars | merge_bars)


def choose_each(
    load: Columns,
    starts: Sequence[int],
    limits: Sequence[Limits],
    situations: Sequence[Situation],
) -> Choices:
    """Many topics: `starts` says where each begins and, at last, where the columns end."""
    choices = Choices([], [], [], [], [])
    actions, firsts, seconds, causes, bars = choices
    for (start, end), limit, situation in zip(pairwise(starts), limits, situations, strict=True):
        choice = choose(load.part(start, end), limit, situation)
        actions.append(choice.action)
        firsts.append(choice.first)
        seconds.append(choice.second)
        causes.append(choice.cause)
        bars.append(choice.bars)
    return choices


def score_of(
    msg_in: float,
    bytes_in: float,
    msg_out: float,
    bytes_out: float,
    above: tuple[float, float, float, float],
) -> float:
    """How many times as hot as it may be; more than 1 calls for a split."""
    return max(msg_in / above[0], bytes_in / above[1], msg_out / above[2], bytes_out / above[3])


def _is_measured(rates: Sequence[float]) -> bool:
    """A sum tells of NaN and infinity in one go; only one that overflows is looked at closer."""
    if sum(rates) < math.inf:
        return min(rates) >= 0.0
    return all(0.0 <= rate < math.inf for rate in rates)


def _replace_unmeasured(raw: _Rates, stand_in: float) -> _Rates:
    first, second, third, fourth = (
        [rate if 0.0 <= rate < math.inf else stand_in for rate in column] for column in raw
    )
    return first, second, third, fourth


# ---------------------------------------------------------------------- splitting


def _choose_split(
    load: Columns, rates: _Rates, limits: Limits, situation: Situation
) -> tuple[int, int, int]:
    """Which place, why, and what keeps others from it; a cause without a place can do nothing."""
    per_segment, count = limits.consumers_per_segment, len(load.ids)
    if per_segment and situation.consumers > count * per_segment:
        busy, ids, width = rates[0], load.ids, load.width
        wide = [place for place in range(count) if width[place] > 1]
        if not wide:
            return -1, Cause.CONSUMER_COUNT, _SINGLE_HASH
        return max(wide, key=lambda place: (busy[place], -ids[place])), Cause.CONSUMER_COUNT, 0
    peaks = [max(rates[index]) / limits.split[index] for index in range(4)]
    return _choose_hot(load, rates, limits, peaks) if max(peaks) > 1.0 else (-1, Cause.NONE, 0)


def _choose_hot(
    load: Columns, rates: _Rates, limits: Limits, peaks: list[float]
) -> tuple[int, int, int]:
    """The place with the highest score that splitting can help; of equal ones the lowest id."""
    highest = max(peaks)
    metric = peaks.index(highest)
    peak = max(rates[metric])
    if peaks.count(highest) == 1 and rates[metric].count(peak) == 1 and _can_all_split(load):
        return rates[metric].index(peak), metric + 1, 0
    ratios = [[rate / limits.split[index] for rate in rates[index]] for index in range(4)]
    scores = list(map(max, *ratios))
    bars, best, best_score = 0, -1, 1.0
    for place, score in enumerate(scores):
        share = load.key_share[place]
        if score <= 1.0:
            continue
        if load.width[place] < 2:
            bars |= _SINGLE_HASH
        elif share * score > 1.0 >= (1.0 - share) * score:
            bars |= _HOT_KEY  # the key is too much by itself, and all the rest is not
        elif score > best_score or (score == best_score and load.ids[place] < load.ids[best]):
            best, best_score = place, score
    place = best if best >= 0 else scores.index(highest)
    here = [column[place] for column in ratios]
    return best, here.index(max(here)) + 1, bars


def _can_all_split(load: Columns) -> bool:
    """Whether no segment is a single hash and nobody looked for hot keys."""
    return min(load.width) > 1 and not any(load.key_share)


# ---------------------------------------------------------------------- merging


def _choose_merge(load: Columns, rates: _Rates, limits: Limits) -> tuple[int, int]:
    """The place of the left one of the coldest pair, or -1 and what keeps cold pairs apart."""
    msgs_in, bytes_in, msgs_out, bytes_out = limits.merge
    # Below a limit of 0 nothing is cold, and nothing is divided by it.
    heat = [
        a / msgs_in + b / bytes_in + c / msgs_out + d / bytes_out
        if a < msgs_in and b < bytes_in and c < msgs_out and d < bytes_out
        else math.inf
        for a, b, c, d in zip(*rates, strict=True)
    ]
    together = list(map(add, heat, heat[1:]))
    coldest = min(together)
    if coldest == math.inf:
        return -1, 0
    if _can_all_merge(load, limits):
        return together.index(coldest), 0
    window, depth, bars = limits.merge_window_ms, limits.depth_max, 0
    best, best_heat = -1, math.inf
    for left, pair_heat in enumerate(together):
        if pair_heat == math.inf:
            continue
        right, pair_bars = left + 1, 0
        if not (load.age_ms[left] >= window and load.age_ms[right] >= window):
            pair_bars |= _MERGE_WINDOW
        if load.merges[left] >= depth or load.merges[right] >= depth:
            pair_bars |= _MAX_DAG_DEPTH
        if limits.may_split_again and _is_hot_together(rates, left, limits.split):
            pair_bars |= _WOULD_SPLIT_AGAIN
        bars |= pair_bars
        if not pair_bars and pair_heat < best_heat:
            best, best_heat = left, pair_heat
    return best, bars


def _can_all_merge(load: Columns, limits: Limits) -> bool:
    """Whether no segment is too young or too often merged; an age may be unknown, that is NaN."""
    ages = sum(load.age_ms)
    return (
        ages == ages
        and min(load.age_ms) >= limits.merge_window_ms
        and max(load.merges) < limits.depth_max
        and not limits.may_split_again
    )


def _is_hot_together(rates: _Rates, left: int, above: tuple[float, float, float, float]) -> bool:
    return any(rates[index][left] + rates[index][left + 1] > above[index] for index in range(4))


def _merge_gates(limits: Limits, situation: Situation, count: int) -> int:
    gates = 0
    if count <= limits.segments_min:
        gates |= _MIN_SEGMENTS
    if count <= situation.held_segments:
        gates |= _SCALE_HOLD
    if situation.since_merge_ms < limits.merge_cooldown_ms:
        gates |= _MERGE_COOLDOWN
    if situation.consumers > (count - 1) * limits.consumers_per_segment > 0:
        gates |= _CONSUMERS  # the next look would split for them
    if situation.is_joining:
        gates |= _JOINING
    return gates
