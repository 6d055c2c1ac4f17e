"""The rules of scaling by itself, case by case; defaults are Pulsar's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.layout import Layout
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import SegmentId
from magnetar.rules.scale import (
    Bar,
    Change,
    Merge,
    Sample,
    ScaleDecision,
    Split,
    Surroundings,
    decide,
)
from magnetar.rules.scale import explain as explain_scale

MINUTE_MS = 60_000.0
OLD_MS = 10 * MINUTE_MS
HOT = SegmentLoad(rate_in_per_s=10_001.0)
COLD = SegmentLoad()
DEFAULT = AutoScalePolicy()


def split(segment: int) -> Split:
    return Split(SegmentId(segment))


def merge(left: int, right: int) -> Merge:
    return Merge(SegmentId(left), SegmentId(right))


def msgs(*rates: float, age_ms: float = OLD_MS) -> dict[SegmentId, Sample]:
    return samples(*(SegmentLoad(rate_in_per_s=rate) for rate in rates), age_ms=age_ms)


def samples(*loads: SegmentLoad, age_ms: float = OLD_MS) -> dict[SegmentId, Sample]:
    """Of segments 0 and up."""
    return {SegmentId(number): Sample(load, age_ms) for number, load in enumerate(loads)}


def ask(
    count: int,
    known: Mapping[SegmentId, Sample],
    *,
    consumers: tuple[int, ...] = (),
    layout: Layout | None = None,
    since_split_ms: float = math.inf,
    since_merge_ms: float = math.inf,
    held_segments: int = 0,
    is_joining: bool = False,
    **policy: Any,
) -> ScaleDecision:
    return decide(
        layout or Layout.initial(count, now_ms=0),
        known,
        structs.replace(DEFAULT, **policy),
        Surroundings(consumers, since_split_ms, since_merge_ms, held_segments, is_joining),
    )


@pytest.mark.parametrize(
    ("count", "known", "more", "expected", "reason"),
    [
        pytest.param(
            1, msgs(1e6), {"enabled": False, "consumers": (100,)}, None, "disabled", id="1 disabled"
        ),
        pytest.param(
            2, msgs(100, 200), {"consumers": (3,)}, split(1), "consumer-count", id="2 consumers"
        ),
        pytest.param(
            2, msgs(0, 0, age_ms=0), {"consumers": (2, 2)}, None, "merge-window", id="3 no sum"
        ),
        pytest.param(
            2,
            msgs(1, 1, age_ms=0),
            {"consumers": (5,), "maxSegments": 2},
            None,
            "max-segments",
            id="4 at the most",
        ),
        pytest.param(
            2,
            msgs(1, 1, age_ms=0),
            {"consumers": (3,), "since_split_ms": MINUTE_MS / 2},
            None,
            "split-cooldown",
            id="5 cooldown",
        ),
        pytest.param(1, msgs(10_001), {}, split(0), "msgRateIn", id="6 messages in"),
        pytest.param(
            1,
            samples(SegmentLoad(bytes_out_per_s=250_000_001)),
            {},
            split(0),
            "bytesRateOut",
            id="7 bytes out",
        ),
        pytest.param(2, msgs(11_000, 15_000), {}, split(1), "msgRateIn", id="8 the hotter one"),
        pytest.param(
            1,
            samples(SegmentLoad(9_999, 49_999_999, 49_999, 249_999_999)),
            {},
            None,
            "balanced",
            id="9 just below",
        ),
        pytest.param(2, msgs(0, 0), {}, merge(0, 1), "cold", id="10 cold"),
        pytest.param(
            2, msgs(0, 0), {"minSegments": 2}, None, "min-segments", id="11 at the fewest"
        ),
        pytest.param(
            2, msgs(0, 0), {"since_merge_ms": MINUTE_MS}, None, "merge-cooldown", id="12 cooldown"
        ),
        pytest.param(2, msgs(0, 0, age_ms=MINUTE_MS), {}, None, "merge-window", id="13 window"),
        pytest.param(2, {}, {}, None, "unmeasured", id="14 no records"),
        pytest.param(2, msgs(1_001, 0), {}, None, "balanced", id="15 dead band"),
        pytest.param(2, msgs(10_001, 0), {}, split(0), "msgRateIn", id="16 split first"),
        pytest.param(4, msgs(900, 900, 10, 10), {}, merge(2, 3), "cold", id="18 the coldest pair"),
        pytest.param(4, msgs(0, 0, 0, 0), {}, merge(0, 1), "cold", id="19 the first of equals"),
    ],
)
def test_decisions_are_those_of_the_proposal(
    count: int,
    known: Mapping[SegmentId, Sample],
    more: dict[str, Any],
    expected: Change | None,
    reason: str,
) -> None:
    decision = ask(count, known, **more)
    assert (decision.change, decision.reason) == (expected, reason)


@pytest.mark.parametrize(("depth", "expected"), [(1, None), (2, merge(4, 5))])
def test_a_line_with_enough_merges_behind_it_merges_no_more(
    depth: int, expected: Change | None
) -> None:
    """Case 17, and the same with the past pruned."""
    layout = Layout.initial(1, now_ms=0).split(SegmentId(0), now_ms=1)
    layout = layout.merge(SegmentId(1), SegmentId(2), now_ms=2).split(SegmentId(3), now_ms=3)
    known = {SegmentId(4): Sample(COLD, OLD_MS), SegmentId(5): Sample(COLD, OLD_MS)}
    for each in (layout, layout.prune([SegmentId(n) for n in range(4)])):
        decision = ask(0, known, layout=each, maxDagDepth=depth)
        assert decision.change == expected
        assert decision.held_by == (("max-dag-depth",) if expected is None else ())


# ---------------------------------------------------------------------- better than the proposal


def test_every_rule_in_the_way_is_named() -> None:
    decision = ask(2, msgs(20_000, 0), maxSegments=2, since_split_ms=1.0)
    assert decision.held_by == ("max-segments", "split-cooldown")
    decision = ask(
        3, msgs(0, 0, 0), minSegments=3, since_merge_ms=1.0, held_segments=4, consumers=(3,)
    )
    assert decision.held_by == ("min-segments", "scale-hold", "merge-cooldown", "consumers")


def test_a_segment_of_one_hash_is_passed_over() -> None:
    layout = Layout.initial(1, now_ms=0).split(SegmentId(0), now_ms=1, at=1)
    known = {
        SegmentId(1): Sample(SegmentLoad(rate_in_per_s=90_000), OLD_MS),
        SegmentId(2): Sample(SegmentLoad(rate_in_per_s=11_000), OLD_MS),
    }
    decision = ask(0, known, layout=layout)
    assert decision.change == split(2) and decision.held_by == ("single-hash",)
    assert ask(0, known, layout=layout, consumers=(3,)).change == split(2)
    known[SegmentId(2)] = Sample(COLD, OLD_MS)
    decision = ask(0, known, layout=layout)
    assert decision.change is None and decision.held_by == ("single-hash",)


@pytest.mark.parametrize(
    ("share", "rate", "helps"),
    [
        (0.83, 20_000, False),
        (0.83, 12_000, True),  # alone, the key is below the limit
        (0.4, 30_000, True),  # the rest is too much as well: it moves away from the key
        (0.0, 90_000, True),
    ],
)
def test_what_one_key_carries_does_not_split_endlessly(
    share: float, rate: float, helps: bool
) -> None:
    known = {SegmentId(0): Sample(SegmentLoad(rate_in_per_s=rate), OLD_MS, share)}
    decision = ask(1, known)
    assert decision.change == (split(0) if helps else None)
    assert decision.held_by == (() if helps else ("hot-key",))
    if not helps:
        layout = Layout.initial(1, now_ms=0)
        words = explain_scale(decision, layout, known, DEFAULT, Surroundings())
        assert "One key carries 83%" in words[1] and "splitting will not help" in words[1]


def test_the_pair_is_ranked_by_how_near_it_is_to_the_limits_not_by_bytes_alone() -> None:
    known = samples(
        SegmentLoad(900, 0, 0, 0),
        SegmentLoad(900, 0, 0, 0),
        SegmentLoad(0, 400_000, 0, 0),
        SegmentLoad(0, 400_000, 0, 0),
    )
    assert ask(4, known).change == merge(2, 3)


def test_two_that_would_be_hot_together_do_not_merge() -> None:
    policy = {"splitMsgRateInThreshold": 1_500.0, "mergeMsgRateInThreshold": 1_000.0}
    decision = ask(2, msgs(800, 800), **policy)
    assert decision.change is None and decision.held_by == ("would-split-again",)
    assert ask(2, msgs(700, 700), **policy).change == merge(0, 1)


def test_segments_that_consumers_want_do_not_merge() -> None:
    assert ask(4, msgs(0, 0, 0, 0), consumers=(4,)).held_by == ("consumers",)
    assert ask(4, msgs(0, 0, 0, 0), consumers=(3, 3)).change == merge(0, 1)


def test_a_segment_may_be_meant_for_several_consumers_or_for_any_number() -> None:
    assert ask(2, msgs(1, 1), consumers=(8,), consumersPerSegment=4).change is None
    assert ask(2, msgs(1, 2), consumers=(9,), consumersPerSegment=4).change == split(1)
    assert ask(2, msgs(5_000, 1), consumers=(500,), consumersPerSegment=0).change is None
    assert ask(2, msgs(0, 0), consumers=(500,), consumersPerSegment=0).change == merge(0, 1)


def test_nothing_merges_because_a_consumer_came() -> None:
    assert ask(2, msgs(0, 0), is_joining=True).held_by == ("joining",)
    assert ask(2, msgs(0, 20_000), is_joining=True).change == split(1)


def test_segments_asked_for_for_a_while_stay() -> None:
    assert ask(4, msgs(0, 0, 0, 0), held_segments=4).held_by == ("scale-hold",)
    assert ask(5, msgs(0, 0, 0, 0, 0), held_segments=4).change == merge(0, 1)
    assert ask(4, msgs(0, 0, 0, 20_000), held_segments=4).change == split(3)


def test_consumers_split_the_busiest_and_of_equals_the_oldest() -> None:
    assert ask(3, msgs(5, 5, 1), consumers=(4,)).change == split(0)
    assert ask(3, {}, consumers=(4,)).change == split(0)
    layout = Layout.initial(2, now_ms=0).split(SegmentId(0), now_ms=1)
    assert ask(0, {}, layout=layout, consumers=(4,)).change == split(1)


def test_a_tie_between_hot_segments_goes_to_the_oldest() -> None:
    layout = Layout.initial(2, now_ms=0).split(SegmentId(0), now_ms=1)
    known = {segment.id: Sample(HOT, OLD_MS) for segment in layout.active}
    assert ask(0, known, layout=layout).change == split(1)


@pytest.mark.parametrize("rate", [math.nan, -1.0, math.inf, -math.inf])
def test_a_rate_that_cannot_be_is_neither_hot_nor_cold(rate: float) -> None:
    for load in (
        SegmentLoad(rate_in_per_s=rate),
        SegmentLoad(bytes_in_per_s=rate),
        SegmentLoad(rate_out_per_s=rate),
        SegmentLoad(bytes_out_per_s=rate),
    ):
        decision = ask(2, samples(COLD, load))
        assert decision.change is None and decision.held_by == ("unmeasured",)
        assert ask(2, samples(load, HOT)).change == split(1)
        assert ask(2, samples(HOT, load)).change == split(0)


@pytest.mark.parametrize("age_ms", [-5_000.0, math.nan])
def test_a_record_from_the_future_is_too_young_to_merge(age_ms: float) -> None:
    known = msgs(0, 0)
    known[SegmentId(1)] = Sample(COLD, age_ms)
    assert ask(2, known).held_by == ("merge-window",)


def test_a_merge_limit_of_zero_never_merges() -> None:
    assert ask(2, msgs(0, 0), mergeMsgRateInThreshold=0.0).change is None


def test_a_policy_that_contradicts_itself_changes_nothing_and_says_what() -> None:
    decision = ask(1, msgs(1e6), mergeMsgRateInThreshold=5_000.0, splitMsgRateInThreshold=2_000.0)
    assert decision.change is None and decision.held_by == ("contradiction",)
    assert "splitMsgRateInThreshold must be > mergeMsgRateInThreshold" in decision.problem
    words = explain_scale(decision, Layout.initial(1, now_ms=0), msgs(1e6), DEFAULT, Surroundings())
    assert decision.problem in words[1]


# ---------------------------------------------------------------------- in words


def say(count: int, known: Mapping[SegmentId, Sample], **more: Any) -> list[str]:
    policy = structs.replace(
        DEFAULT, **{name: more[name] for name in more.keys() & set(DEFAULT.__struct_fields__)}
    )
    around = Surroundings(
        more.get("consumers", ()),
        more.get("since_split_ms", math.inf),
        more.get("since_merge_ms", math.inf),
        more.get("held_segments", 0),
    )
    layout = Layout.initial(count, now_ms=0)
    return explain_scale(ask(count, known, **more), layout, known, policy, around)


def test_a_topic_says_why_it_splits_or_not() -> None:
    assert (
        say(1, msgs(12_000))[0] == "Segment 0 splits: its msgRateIn of 12,000/s is above the limit."
    )
    assert say(2, msgs(1, 1), consumers=(3,))[0].startswith("Segment 0 splits: there are more")
    held = say(1, msgs(12_000), since_split_ms=20_000.0)
    assert "40 s of splitCooldownSeconds are left" in held[1]
    assert held[-1] == (
        "The hottest is segment 0: msgRateIn 12,000/s of 10,000/s at which it splits."
    )
    assert "maxSegments" in say(1, msgs(12_000), maxSegments=1)[1]
    calm = say(2, msgs(5_000, 1))
    assert calm[0] == "The 2 active segments stay as they are: none is hot, no two are cold."
    assert say(1, msgs(1))[0].startswith("The only active segment stays as it is: ")
    assert say(2, {})[1:] == [
        "Segments without a reported load do not merge: 0, 1.",
        "No load of an active segment is reported yet.",
    ]
    assert say(2, msgs(0, 0))[0].startswith("Segments 0 and 1 merge")


def test_every_rule_has_a_sentence() -> None:
    layout = Layout.initial(2, now_ms=0)
    for bar in Bar:
        if bar is not Bar.CONTRADICTION:
            words = explain_scale(
                ScaleDecision(None, held_by=(bar,)), layout, msgs(1, 1), DEFAULT, Surroundings()
            )
            assert words[1].endswith(".")
