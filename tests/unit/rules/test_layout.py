from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.errors import Conflict, PreconditionFailed, ResourceBusy, SegmentSealed
from magnetar.model.layout import Layout
from magnetar.model.scalable import (
    ChangeKind,
    DeleteIntent,
    HealIntent,
    MergeIntent,
    PruneIntent,
    ScalableTopicMetadata,
    SplitIntent,
    WipeIntent,
)
from magnetar.model.segment import WHOLE, HashRange, SegmentId, SegmentRef
from magnetar.rules.layout import (
    apply_intent,
    begin,
    describe,
    plan_delete,
    plan_merge,
    plan_repair,
    plan_scale,
    plan_split,
)

ZERO, ONE, TWO = SegmentId(0), SegmentId(1), SegmentId(2)
SINGLE = Layout.initial(1, now_ms=5)
PAIR = Layout.initial(2, now_ms=5)
LOWER = SegmentRef(ONE, HashRange(0, 0x7FFF))
UPPER = SegmentRef(TWO, HashRange(0x8000, 0xFFFF))


def test_a_planned_split_names_its_children() -> None:
    intent = plan_split(SINGLE, ZERO, now_ms=9, reason="msgRateIn")
    assert intent == SplitIntent(ZERO, (LOWER, UPPER), 0, 9, "msgRateIn")


def test_a_planned_merge_names_its_child() -> None:
    assert plan_merge(PAIR, ONE, ZERO, now_ms=9) == MergeIntent(
        (ONE, ZERO), SegmentRef(TWO, WHOLE), 0, 9
    )


def test_publishing_gives_the_layout_that_was_planned_and_ends_the_intent() -> None:
    record = ScalableTopicMetadata(SINGLE, {"team": "x"}, {"enabled": True})
    intent = plan_split(SINGLE, ZERO, now_ms=9, at=0x1000, reason="manual")
    after = apply_intent(begin(record, intent), intent, now_ms=12)
    assert after.layout == SINGLE.split(ZERO, now_ms=12, at=0x1000)
    assert after.intent is None
    assert (after.properties, after.auto_scale_policy) == ({"team": "x"}, {"enabled": True})
    (event,) = after.history
    assert (event.epoch, event.kind, event.segments) == (1, ChangeKind.SPLIT, (ZERO,))
    assert (event.children, event.at_ms, event.reason) == ((ONE, TWO), 12, "manual")


def test_changes_are_remembered_without_the_segments() -> None:
    record = ScalableTopicMetadata(SINGLE)
    for now_ms in (10, 20):
        split = plan_split(record.layout, record.layout.active[0].id, now_ms=now_ms)
        record = apply_intent(record, split, now_ms=now_ms)
    left, right = record.layout.active[:2]
    merge = plan_merge(record.layout, left.id, right.id, now_ms=30)
    record = apply_intent(record, merge, now_ms=30)
    sealed = tuple(segment.ref for segment in record.layout.sealed)
    record = begin(record, PruneIntent(sealed, 40))
    assert [(event.kind, event.at_ms) for event in record.history] == [
        (ChangeKind.SPLIT, 10),
        (ChangeKind.SPLIT, 20),
        (ChangeKind.MERGE, 30),
        (ChangeKind.PRUNE, 40),
    ]


def test_one_change_at_a_time() -> None:
    record = begin(ScalableTopicMetadata(PAIR), plan_split(PAIR, ZERO, now_ms=9))
    with pytest.raises(Conflict, match="split of segment 0 into 2, 3"):
        begin(record, plan_split(PAIR, ONE, now_ms=9))
    with pytest.raises(Conflict):
        begin(record, PruneIntent((), 9))


def test_a_plan_made_on_another_layout_is_refused() -> None:
    intent = plan_split(PAIR, ZERO, now_ms=9)
    moved_on = ScalableTopicMetadata(PAIR.split(ONE, now_ms=9))
    with pytest.raises(PreconditionFailed, match="epoch 1"):
        begin(moved_on, intent)
    with pytest.raises(PreconditionFailed):
        apply_intent(moved_on, intent, now_ms=9)


def test_a_prune_is_published_by_its_beginning() -> None:
    layout = SINGLE.split(ZERO, now_ms=9)
    record = begin(ScalableTopicMetadata(layout), PruneIntent((layout.get(ZERO).ref,), 11))
    assert record.layout == layout.prune([ZERO])
    assert isinstance(record.intent, PruneIntent)


def test_a_delete_takes_the_place_of_a_split_and_removes_its_children_too() -> None:
    record = begin(ScalableTopicMetadata(SINGLE), plan_split(SINGLE, ZERO, now_ms=9))
    intent = plan_delete(record, now_ms=11)
    assert [ref.id for ref in intent.segments] == [0, 1, 2]
    deleting = begin(record, intent)
    assert deleting.is_deleting
    with pytest.raises(Conflict, match="being deleted"):
        begin(deleting, plan_split(SINGLE, ZERO, now_ms=12))
    with pytest.raises(Conflict, match="being deleted"):
        begin(deleting, plan_delete(deleting, now_ms=12))


def test_a_delete_removes_what_a_prune_had_left() -> None:
    layout = SINGLE.split(ZERO, now_ms=9)
    record = begin(ScalableTopicMetadata(layout), PruneIntent((layout.get(ZERO).ref,), 11))
    assert [ref.id for ref in plan_delete(record, now_ms=12).segments] == [0, 1, 2]


def test_a_delete_removes_legacy_topics_by_their_own_name() -> None:
    layout = Layout.migrated(["persistent://t/n/x"], now_ms=5)
    old, _ = plan_delete(ScalableTopicMetadata(layout), now_ms=9).segments
    assert old.legacy_topic == "persistent://t/n/x"


def test_a_topic_in_use_is_deleted_by_force_only() -> None:
    record = ScalableTopicMetadata(SINGLE)
    with pytest.raises(ResourceBusy, match="producer p-1"):
        plan_delete(record, now_ms=9, attached=["producer p-1"])
    assert plan_delete(record, now_ms=9, attached=["producer p-1"], force=True).segments


def test_a_terminated_active_segment_is_repaired() -> None:
    assert plan_repair(PAIR, set(), now_ms=9) is None
    intent = plan_repair(PAIR, {ONE}, now_ms=9)
    assert isinstance(intent, SplitIntent)
    assert (intent.segment, intent.reason) == (ONE, "repair")


@pytest.mark.parametrize(("at", "single", "other"), [(1, 1, 2), (0xFFFF, 2, 1)])
def test_a_terminated_single_hash_joins_its_neighbour(at: int, single: int, other: int) -> None:
    layout = SINGLE.split(ZERO, now_ms=9, at=at)
    intent = plan_repair(layout, {SegmentId(single)}, now_ms=9)
    assert isinstance(intent, MergeIntent)
    assert intent.parents == (single, other)


def test_sealed_segments_need_no_repair() -> None:
    assert plan_repair(SINGLE.split(ZERO, now_ms=9), {ZERO}, now_ms=9) is None


@pytest.mark.parametrize(("first", "count"), [(1, 4), (8, 3), (3, 3), (5, 1), (1, 7)])
def test_scaling_reaches_any_number_of_about_equal_segments(first: int, count: int) -> None:
    record = ScalableTopicMetadata(Layout.initial(first, now_ms=1))
    steps = 0
    while (intent := plan_scale(record.layout, count, now_ms=2)) is not None:
        record = apply_intent(record, intent, now_ms=2)
        steps += 1
    assert steps == abs(first - count)
    sizes = [segment.range.size for segment in record.layout.active]
    assert len(sizes) == count
    assert max(sizes) <= 2 * min(sizes) + first


@pytest.mark.parametrize("count", [0, 70_000])
def test_scaling_to_an_impossible_number_is_refused(count: int) -> None:
    with pytest.raises(PreconditionFailed):
        plan_scale(SINGLE, count, now_ms=2)


def test_a_sealed_segment_is_not_planned_on() -> None:
    layout = SINGLE.split(ZERO, now_ms=9)
    with pytest.raises(SegmentSealed):
        plan_split(layout, ZERO, now_ms=9)
    with pytest.raises(SegmentSealed):
        plan_merge(layout, ZERO, ONE, now_ms=9)


def test_intents_are_described_in_words() -> None:
    merge = plan_merge(PAIR, ZERO, ONE, now_ms=9)
    assert describe(merge) == "merge of segments 0 and 1 into 2"
    assert describe(PruneIntent((LOWER, UPPER), 1)) == "removal of segments 1, 2"
    assert describe(WipeIntent((LOWER,), 1)) == "deletion of the data of segments 1"
    assert describe(HealIntent((LOWER,), 1)) == "making of the missing segments 1"
    assert describe(DeleteIntent((), 1)) == "deletion of the topic"


def test_an_intent_of_the_wrong_ids_is_not_published() -> None:
    intent = plan_split(SINGLE, ZERO, now_ms=9)
    wrong = replace(intent, children=(UPPER, LOWER))
    with pytest.raises(PreconditionFailed):
        apply_intent(ScalableTopicMetadata(SINGLE), wrong, now_ms=9)
