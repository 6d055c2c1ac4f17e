from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.errors import PreconditionFailed
from magnetar.model.layout import Layout
from magnetar.model.scalable import (
    ChangeKind,
    HealIntent,
    PruneIntent,
    ScalableTopicMetadata,
    WipeIntent,
)
from magnetar.model.segment import SegmentId
from magnetar.rules.layout import apply_intent, begin, plan_delete, plan_merge, plan_split
from magnetar.rules.phase import (
    AddCursors,
    CreateSegment,
    DeleteRecord,
    Phase,
    RemoveSegment,
    SealSegment,
    SegmentSeen,
    SegmentsSeen,
    Step,
    StoreRecord,
    decide_step,
    decide_undo,
    segments_to_see,
)

ZERO, ONE, TWO, THREE = (SegmentId(number) for number in range(4))
SINGLE = Layout.initial(1, now_ms=5)
SPLIT = plan_split(SINGLE, ZERO, now_ms=9)
SPLITTING = begin(ScalableTopicMetadata(SINGLE), SPLIT)
LOWER, UPPER = SPLIT.children
PARENT = SINGLE.get(ZERO).ref


def seen(*cursors: str, sealed: bool = False) -> SegmentSeen:
    return SegmentSeen(sealed, frozenset(cursors))


def step(record: ScalableTopicMetadata, sight: SegmentsSeen, *subscriptions: str) -> Step:
    decided = decide_step(record, sight, set(subscriptions), now_ms=50)
    assert decided is not None
    return decided


def test_nothing_is_to_be_done_without_an_intent() -> None:
    record = ScalableTopicMetadata(SINGLE)
    assert decide_step(record, {}, set(), now_ms=50) is None
    assert segments_to_see(record) == ()


def test_children_get_registered_subscriptions_and_every_cursor_of_the_parent() -> None:
    decided = step(SPLITTING, {ZERO: seen("queue")}, "stream")
    assert decided == Step(
        Phase.CREATE,
        (
            CreateSegment(LOWER, ("queue", "stream")),
            CreateSegment(UPPER, ("queue", "stream")),
        ),
        can_undo=True,
    )


def test_children_get_the_properties_of_the_parent_s_cursors() -> None:
    own = {"hold": {"made-by": "spark"}}
    parent = SegmentSeen(False, frozenset({"hold", "queue"}), own)
    decided = step(SPLITTING, {ZERO: parent, ONE: seen("queue")})
    assert decided.actions == (
        CreateSegment(UPPER, ("hold", "queue"), own),
        AddCursors(LOWER, ("hold",), properties=own),
    )


def test_creation_goes_on_where_it_stopped() -> None:
    decided = step(SPLITTING, {ZERO: seen("a", "b"), ONE: seen("a")})
    assert decided.phase is Phase.CREATE
    assert decided.actions == (CreateSegment(UPPER, ("a", "b")), AddCursors(LOWER, ("b",)))


def test_the_parent_is_sealed_when_its_children_are_complete() -> None:
    decided = step(SPLITTING, {ZERO: seen("a"), ONE: seen("a"), TWO: seen("a")})
    assert decided == Step(Phase.SEAL, (SealSegment(PARENT),), can_undo=True)


def test_a_parent_that_is_missing_is_sealed_too() -> None:
    decided = step(SPLITTING, {ONE: seen(), TWO: seen()})
    assert decided.actions == (SealSegment(PARENT),)


def test_a_cursor_that_came_late_is_carried_before_clients_see_the_children() -> None:
    sight = {ZERO: seen("a", "late", sealed=True), ONE: seen("a"), TWO: seen("a", "late")}
    decided = step(SPLITTING, sight)
    assert decided == Step(Phase.CARRY, (AddCursors(LOWER, ("late",)),), can_undo=False)


def test_publishing_stamps_the_moment_after_the_seal() -> None:
    decided = step(SPLITTING, {ZERO: seen(sealed=True), ONE: seen(), TWO: seen()})
    after = apply_intent(SPLITTING, SPLIT, now_ms=50)
    assert decided == Step(Phase.PUBLISH, (StoreRecord(after),), can_undo=False)
    assert after.layout.get(ZERO).sealed_at_ms == 50


def test_a_merge_seals_what_is_left_and_can_then_only_go_forward() -> None:
    layout = Layout.initial(2, now_ms=5)
    record = begin(ScalableTopicMetadata(layout), plan_merge(layout, ZERO, ONE, now_ms=9))
    assert [ref.id for ref in segments_to_see(record)] == [0, 1, 2]
    sight = {ZERO: seen("a"), ONE: seen("b", sealed=True), TWO: seen("a", "b")}
    assert step(record, sight) == Step(
        Phase.SEAL, (SealSegment(layout.get(ZERO).ref),), can_undo=False
    )
    with pytest.raises(PreconditionFailed, match="only go forward"):
        decide_undo(record, sight)


def test_a_child_lost_after_the_seal_is_made_again() -> None:
    decided = step(SPLITTING, {ZERO: seen(sealed=True), ONE: seen()})
    assert decided == Step(Phase.CREATE, (CreateSegment(UPPER, ()),), can_undo=False)


def test_before_the_seal_a_split_can_be_taken_back() -> None:
    decided = decide_undo(SPLITTING, {ZERO: seen(), ONE: seen()})
    assert decided == Step(Phase.UNDO, (RemoveSegment(LOWER),), can_undo=True)
    decided = decide_undo(SPLITTING, {ZERO: seen()})
    cleared = ScalableTopicMetadata(SINGLE)
    assert decided == Step(Phase.UNDO, (StoreRecord(cleared),), can_undo=True)


def test_there_is_nothing_to_take_back_in_other_changes() -> None:
    with pytest.raises(PreconditionFailed):
        decide_undo(ScalableTopicMetadata(SINGLE), {})
    deleting = replace(SPLITTING, intent=plan_delete(SPLITTING, now_ms=9))
    with pytest.raises(PreconditionFailed):
        decide_undo(deleting, {})


def test_a_split_whose_layout_somebody_changed_is_taken_back_but_not_what_he_published() -> None:
    other = SINGLE.split(ZERO, now_ms=7, at=0x10)
    stale = replace(SPLITTING, layout=other)
    sight = {ZERO: seen(sealed=True), ONE: seen(), TWO: seen()}
    assert step(stale, sight).actions == (StoreRecord(ScalableTopicMetadata(other)),)
    older = replace(SPLITTING, layout=replace(SINGLE, epoch=4, next_id=THREE))
    decided = step(older, sight)
    assert decided == Step(Phase.UNDO, (RemoveSegment(LOWER), RemoveSegment(UPPER)), can_undo=True)


def test_a_prune_removes_data_and_then_clears_its_intent() -> None:
    layout = SINGLE.split(ZERO, now_ms=9)
    record = begin(ScalableTopicMetadata(layout), PruneIntent((PARENT,), 11))
    assert segments_to_see(record) == (PARENT,)
    assert step(record, {ZERO: seen(sealed=True)}) == Step(
        Phase.REMOVE, (RemoveSegment(PARENT),), can_undo=False
    )
    cleared = StoreRecord(replace(record, intent=None))
    assert step(record, {}) == Step(Phase.CLEAR, (cleared,), can_undo=False)


def test_a_wipe_removes_data_and_leaves_the_layout_as_it_is() -> None:
    record = begin(ScalableTopicMetadata(SINGLE), WipeIntent((PARENT,), 11, "forced by ann"))
    assert record.layout == SINGLE
    event = record.history[-1]
    assert (event.kind, event.segments, event.reason) == (ChangeKind.WIPE, (ZERO,), "forced by ann")
    assert step(record, {ZERO: seen("a")}) == Step(
        Phase.REMOVE, (RemoveSegment(PARENT),), can_undo=False
    )
    cleared = StoreRecord(replace(record, intent=None))
    assert step(record, {}) == Step(Phase.CLEAR, (cleared,), can_undo=False)
    with pytest.raises(PreconditionFailed):
        decide_undo(record, {})


def test_a_missing_segment_is_made_with_every_subscription_before_the_change_ends() -> None:
    record = begin(ScalableTopicMetadata(SINGLE), HealIntent((PARENT,), 11))
    assert segments_to_see(record) == (PARENT,)
    assert step(record, {}, "a", "b") == Step(
        Phase.CREATE, (CreateSegment(PARENT, ("a", "b")),), can_undo=True
    )
    assert step(record, {ZERO: seen("a")}, "a", "b") == Step(
        Phase.CREATE, (AddCursors(PARENT, ("b",)),), can_undo=False
    )
    cleared = StoreRecord(replace(record, intent=None))
    assert step(record, {ZERO: seen("a", "b")}, "a", "b") == Step(Phase.CLEAR, (cleared,), False)
    assert decide_undo(record, {}) == Step(Phase.UNDO, (cleared,), can_undo=True)
    with pytest.raises(PreconditionFailed):
        decide_undo(record, {ZERO: seen("a")})


def test_a_missing_segment_that_somebody_sealed_meanwhile_is_not_made() -> None:
    record = begin(ScalableTopicMetadata(SINGLE), HealIntent((PARENT,), 11))
    record = replace(record, layout=SINGLE.split(ZERO, now_ms=12))
    assert step(record, {}, "a").phase is Phase.CLEAR


def test_a_delete_forgets_the_record_last() -> None:
    record = begin(SPLITTING, plan_delete(SPLITTING, now_ms=11))
    removed = step(record, {ZERO: seen("a"), TWO: seen()})
    assert removed == Step(
        Phase.REMOVE, (RemoveSegment(PARENT), RemoveSegment(UPPER)), can_undo=False
    )
    assert step(record, {}) == Step(Phase.FORGET, (DeleteRecord(),), can_undo=False)
