from __future__ import annotations

from collections.abc import Mapping

import pytest

from magnetar.model.layout import Layout
from magnetar.model.segment import WHOLE, Segment, SegmentId, SegmentState
from magnetar.rules.drain import (
    Retention,
    SeekTarget,
    SegmentUse,
    ToEnd,
    ToStart,
    ToTime,
    decide_drained,
    decide_seek,
    explain_withheld,
    find_assignable,
    find_withheld,
    plan_prune,
)


def ids(*numbers: int) -> frozenset[SegmentId]:
    return frozenset(SegmentId(number) for number in numbers)


def uses(*numbers: int, size_bytes: int = 0) -> Mapping[SegmentId, SegmentUse]:
    return {SegmentId(number): SegmentUse(size_bytes) for number in numbers}


SPLIT = Layout.initial(1, now_ms=1).split(SegmentId(0), now_ms=100)
CHAIN = SPLIT.split(SegmentId(1), now_ms=200)  # 0 → 1, 2; 1 → 3, 4


def test_only_a_counted_sealed_segment_without_backlog_is_drained() -> None:
    backlog = {SegmentId(0): 0, SegmentId(2): 0}
    assert decide_drained(CHAIN, backlog) == ids(0)
    assert decide_drained(CHAIN, {SegmentId(0): 3}) == ids()
    assert decide_drained(CHAIN, {}) == ids()


def test_a_grandchild_waits_for_its_grandparent() -> None:
    assert find_withheld(CHAIN, ids()) == ids(1, 2, 3, 4)
    assert find_withheld(CHAIN, ids(1)) == ids(1, 2, 3, 4)
    assert find_withheld(CHAIN, ids(0)) == ids(3, 4)
    assert find_withheld(CHAIN, ids(0, 1)) == ids()


def test_a_pruned_ancestor_holds_nothing_back() -> None:
    assert find_withheld(SPLIT.prune(ids(0)), ids()) == ids()


def test_drained_segments_take_no_slot() -> None:
    assert [s.id for s in find_assignable(CHAIN, ids())] == [0]
    assert [s.id for s in find_assignable(CHAIN, ids(0))] == [1, 2]
    assert [s.id for s in find_assignable(CHAIN, ids(0, 1))] == [3, 4, 2]


def test_a_stuck_drain_names_messages_consumer_and_segment() -> None:
    sentences = explain_withheld(
        SPLIT, ids(), unacked={SegmentId(0): 17}, owners={SegmentId(0): ("c2",)}
    )
    assert sentences == {
        1: "segment 1 waits for 17 unacked messages of consumer c2 on segment 0",
        2: "segment 2 waits for 17 unacked messages of consumer c2 on segment 0",
    }


def test_a_stuck_drain_tells_what_is_not_known_or_not_read() -> None:
    sentences = explain_withheld(CHAIN, ids(), unacked={SegmentId(0): 1}, owners={})
    assert sentences[SegmentId(3)] == (
        "segment 3 waits for 1 unacked message on segment 0, which no consumer reads,"
        " then for 1 more that came out of it"
    )
    sentences = explain_withheld(CHAIN, ids(0), unacked={}, owners={SegmentId(1): ("a", "b")})
    assert sentences == {
        3: "segment 3 waits for segment 1, whose backlog is not known",
        4: "segment 4 waits for segment 1, whose backlog is not known",
    }


def test_a_sentence_names_a_few_causes_only() -> None:
    names = [f"persistent://t/n/x-partition-{index}" for index in range(8)]
    layout = Layout.migrated(names, now_ms=1)
    backlog = {segment.id: 2 for segment in layout.sealed}
    owners = {segment.id: ("c",) for segment in layout.sealed}
    sentence = explain_withheld(layout, ids(), unacked=backlog, owners=owners)[SegmentId(8)]
    assert sentence.startswith("segment 8 waits for 2 unacked messages of consumer c on segment 0")
    assert sentence.endswith("on segment 4 and for 3 more segments")


def test_what_nobody_needs_and_nothing_retains_goes_at_once() -> None:
    plan = plan_prune(CHAIN, uses(0, 1), Retention(0, 0), now_ms=200)
    assert plan.intent is not None
    assert [ref.id for ref in plan.intent.segments] == [0, 1]
    assert plan.kept == {}


def test_a_segment_stays_while_any_subscription_needs_it_or_nobody_can_tell() -> None:
    busy = {SegmentId(0): SegmentUse(waiting=("q1", "s1")), SegmentId(1): SegmentUse()}
    plan = plan_prune(CHAIN, busy, Retention(0, 0), now_ms=10**6)
    assert plan.intent is None
    assert plan.kept == {
        0: "not drained by q1, s1",
        1: "segment 0, which it came out of, stays",
    }
    plan = plan_prune(CHAIN, uses(0), Retention(0, 0), now_ms=10**6)
    assert plan.kept == {1: "its use is not known"}


def test_thousands_of_partitions_stay_for_as_long_as_a_client_takes_to_open_them() -> None:
    names = [f"persistent://t/n/x-partition-{index}" for index in range(1000)]
    layout = Layout.migrated(names, children=1, now_ms=1000)
    drained = {segment.id: SegmentUse() for segment in layout.segments}
    early = plan_prune(layout, drained, Retention(0, 0), now_ms=1000 + 901 * 30 - 1)
    assert early.intent is None
    assert set(early.kept.values()) == {"clients have 27.03 s to open what was just sealed"}
    late = plan_prune(layout, drained, Retention(0, 0), now_ms=1000 + 901 * 30)
    assert late.intent is not None and len(late.intent.segments) == 1000


@pytest.mark.parametrize(
    ("retention", "now_ms", "expected"),
    [
        (Retention(50, None), 149, []),
        (Retention(50, None), 150, [0]),
        (Retention(50, None), 250, [0, 1]),
        (Retention(None, None), 10**15, []),
        (Retention(None, 20), 10**15, [0]),
        (Retention(None, 21), 10**15, []),
        (Retention(None, 10), 10**15, [0, 1]),
        (Retention(50, 10), 151, [0, 1]),
    ],
)
def test_retention_by_time_and_by_size(
    retention: Retention, now_ms: int, expected: list[int]
) -> None:
    plan = plan_prune(CHAIN, uses(0, 1, 2, size_bytes=10), retention, now_ms=now_ms)
    found = [] if plan.intent is None else [ref.id for ref in plan.intent.segments]
    assert found == expected
    assert set(plan.kept) == {0, 1} - set(expected)


SEALED = Segment(
    SegmentId(0),
    WHOLE,
    SegmentState.SEALED,
    created_at_ms=100,
    sealed_at_epoch=1,
    sealed_at_ms=200,
)
OLD = Segment(
    SegmentId(0),
    WHOLE,
    SegmentState.SEALED,
    created_at_ms=200,
    sealed_at_epoch=0,
    sealed_at_ms=200,
    legacy_topic="persistent://t/n/x",
)
ACTIVE = Segment(SegmentId(0), WHOLE, created_at_ms=100)


@pytest.mark.parametrize(
    ("segment", "at_ms", "expected"),
    [
        (SEALED, 200, ToEnd()),
        (SEALED, 199, ToTime(199)),
        (SEALED, 100, ToStart()),
        (ACTIVE, 10**6, ToTime(10**6)),
        (ACTIVE, 101, ToTime(101)),
        (ACTIVE, 100, ToStart()),
        (ACTIVE, 0, ToStart()),
        (OLD, 200, ToEnd()),
        (OLD, 50, ToTime(50)),  # its messages are older than the migration that made it a segment
    ],
)
def test_where_a_seek_of_the_topic_goes_in_a_segment(
    segment: Segment, at_ms: int, expected: SeekTarget
) -> None:
    assert decide_seek(segment, at_ms) == expected
