from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.errors import InvalidLayout, PreconditionFailed, SegmentNotFound, SegmentSealed
from magnetar.model.layout import Layout
from magnetar.model.segment import WHOLE, HashRange, Segment, SegmentId, SegmentState


def ids(*numbers: int) -> tuple[SegmentId, ...]:
    return tuple(SegmentId(number) for number in numbers)


def ranges(layout: Layout) -> dict[int, str]:
    return {segment.id: str(segment.range) for segment in layout.active}


ONE = Layout.initial(1, now_ms=5)
TWO = Layout.initial(2, now_ms=5)


def test_a_new_topic_tiles_the_ring_at_epoch_0() -> None:
    layout = Layout.initial(4, now_ms=99, bucket_budget=8)
    assert (layout.epoch, layout.next_id) == (0, 4)
    assert ranges(layout) == {0: "0000-3fff", 1: "4000-7fff", 2: "8000-bfff", 3: "c000-ffff"}
    assert {segment.created_at_ms for segment in layout.segments} == {99}
    assert {segment.bucket_splits for segment in layout.segments} == {(0x8000,)}


def test_every_segment_has_a_bucket_however_small_the_budget() -> None:
    layout = Layout.initial(8, now_ms=0, bucket_budget=4)
    assert {segment.bucket_count for segment in layout.segments} == {1}


def test_a_split_seals_the_parent_below_two_children() -> None:
    layout = Layout.initial(1, now_ms=5, bucket_budget=4).split(SegmentId(0), now_ms=9)
    parent, left, right = layout.segments
    assert (layout.epoch, layout.next_id) == (1, 3)
    assert parent.state is SegmentState.SEALED
    assert (parent.children, parent.sealed_at_epoch, parent.sealed_at_ms) == (ids(1, 2), 1, 9)
    assert ranges(layout) == {1: "0000-7fff", 2: "8000-ffff"}
    for child in (left, right):
        assert (child.parents, child.created_at_epoch, child.created_at_ms) == (ids(0), 1, 9)
        assert child.bucket_splits == (0x8000,)


def test_a_split_can_be_anywhere_in_the_range() -> None:
    layout = ONE.split(SegmentId(0), now_ms=9, at=0x1234)
    assert ranges(layout) == {1: "0000-1233", 2: "1234-ffff"}


def test_a_merge_seals_two_neighbours_below_one_child() -> None:
    layout = Layout.initial(2, now_ms=5, bucket_budget=4).merge(*ids(1, 0), now_ms=9)
    merged = layout.get(SegmentId(2))
    assert (layout.epoch, layout.next_id) == (1, 3)
    assert (merged.parents, merged.range) == (ids(1, 0), WHOLE)
    assert merged.bucket_splits == (0x4000, 0x8000, 0xC000)
    assert [layout.get(number).children for number in ids(0, 1)] == [ids(2), ids(2)]


def test_impossible_changes_are_refused() -> None:
    split = TWO.split(SegmentId(0), now_ms=9)  # 0 is sealed; active are 2, 3, 1
    with pytest.raises(SegmentNotFound):
        split.split(SegmentId(99), now_ms=9)
    with pytest.raises(SegmentSealed):
        split.split(SegmentId(0), now_ms=9)
    with pytest.raises(SegmentSealed):
        split.merge(*ids(0, 1), now_ms=9)
    with pytest.raises(SegmentNotFound):
        split.merge(*ids(1, 99), now_ms=9)
    with pytest.raises(PreconditionFailed, match="0000-3fff and 8000-ffff are not adjacent"):
        split.merge(*ids(2, 1), now_ms=9)
    with pytest.raises(PreconditionFailed, match="not adjacent"):
        split.merge(*ids(1, 1), now_ms=9)


def test_a_segment_of_one_hash_is_not_split() -> None:
    layout = ONE.split(SegmentId(0), now_ms=9, at=1)
    with pytest.raises(PreconditionFailed, match="single hash"):
        layout.split(SegmentId(1), now_ms=9)


def test_a_pruned_segment_is_forgotten_and_its_id_stays_used() -> None:
    layout = ONE.split(SegmentId(0), now_ms=9).prune(ids(0))
    assert (layout.epoch, layout.next_id) == (2, 3)
    assert [segment.id for segment in layout.segments] == [1, 2]
    assert all(segment.parents == () for segment in layout.segments)


def test_only_sealed_segments_are_pruned_and_ancestors_first() -> None:
    layout = ONE.split(SegmentId(0), now_ms=9).split(SegmentId(1), now_ms=9)
    with pytest.raises(PreconditionFailed, match="active"):
        layout.prune(ids(2))
    with pytest.raises(PreconditionFailed, match="before its parent 0"):
        layout.prune(ids(1))
    with pytest.raises(SegmentNotFound):
        layout.prune(ids(9))
    assert layout.prune(ids(0, 1)).epoch == layout.epoch + 2


def test_a_hash_finds_its_active_segment() -> None:
    layout = TWO.split(SegmentId(0), now_ms=9)
    found = [layout.find_active(place).id for place in (0, 0x3FFF, 0x4000, 0x8000, 0xFFFF)]
    assert found == [2, 2, 3, 1, 1]
    for place in (-1, 0x10000):
        with pytest.raises(PreconditionFailed):
            layout.find_active(place)


def test_ancestors_are_those_of_all_parents() -> None:
    layout = ONE.split(SegmentId(0), now_ms=1).merge(*ids(1, 2), now_ms=2)
    layout = layout.split(SegmentId(3), now_ms=3)
    assert layout.ancestors(SegmentId(4)) == ids(3, 1, 2, 0)


def test_merge_depth_counts_merges_and_remembers_pruned_ones() -> None:
    layout = ONE.split(SegmentId(0), now_ms=1)
    assert [layout.merge_depth(number) for number in ids(0, 1, 2)] == [0, 0, 0]
    layout = layout.merge(*ids(1, 2), now_ms=2).split(SegmentId(3), now_ms=3)
    assert [layout.merge_depth(number) for number in ids(4, 5)] == [1, 1]
    layout = layout.merge(*ids(4, 5), now_ms=4)
    assert layout.merge_depth(SegmentId(6)) == 2
    assert layout.prune(ids(0, 1, 2, 3, 4, 5)).merge_depth(SegmentId(6)) == 2


def test_a_migration_is_no_merge() -> None:
    names = ["persistent://t/n/x-partition-0", "persistent://t/n/x-partition-1"]
    layout = Layout.migrated(names, now_ms=7)
    assert layout.merge_depth(SegmentId(2)) == 0


def test_a_migrated_topic_keeps_its_partitions_as_sealed_parents() -> None:
    names = [f"persistent://t/n/x-partition-{index}" for index in range(3)]
    layout = Layout.migrated(names, now_ms=7, bucket_budget=6)
    assert (layout.epoch, layout.next_id) == (0, 6)
    assert [segment.legacy_topic for segment in layout.sealed] == names
    for parent in layout.sealed:
        assert (parent.range, parent.children) == (WHOLE, ids(3, 4, 5))
        assert (parent.sealed_at_epoch, parent.sealed_at_ms, parent.created_at_ms) == (0, 7, 7)
        assert parent.bucket_count == 1
    assert ranges(layout) == {3: "0000-5554", 4: "5555-aaa9", 5: "aaaa-ffff"}
    assert all(child.parents == ids(0, 1, 2) for child in layout.active)
    assert all(child.bucket_count == 2 for child in layout.active)
    assert not layout.is_synthetic


def test_a_regular_topic_looks_like_a_layout_of_legacy_segments() -> None:
    layout = Layout.synthetic(["persistent://t/n/x"], now_ms=7)
    assert layout.is_synthetic
    assert layout.segments[0].range == WHOLE
    three = Layout.synthetic([f"persistent://t/n/x-partition-{k}" for k in range(3)], now_ms=7)
    assert ranges(three) == {0: "0000-5554", 1: "5555-aaa9", 2: "aaaa-ffff"}


@pytest.mark.parametrize("count", [0, 70_000])
def test_a_topic_of_no_or_too_many_segments_is_refused(count: int) -> None:
    with pytest.raises(PreconditionFailed):
        Layout.initial(count, now_ms=0)
    with pytest.raises(PreconditionFailed):
        Layout.migrated(["persistent://t/n/x"] * count, now_ms=0)


def active(number: int, first: int, last: int) -> Segment:
    return Segment(SegmentId(number), HashRange(first, last))


@pytest.mark.parametrize(
    ("segments", "next_id", "problem"),
    [
        ((), 0, "0000 is unserved"),
        ((active(0, 1, 0xFFFF),), 1, "0000 is unserved"),
        ((active(0, 0, 0xFFFE),), 1, "ffff is unserved"),
        ((active(0, 0, 9), active(1, 11, 0xFFFF)), 2, "000a is unserved"),
        ((active(0, 0, 9), active(1, 9, 0xFFFF)), 2, "0009 is served twice"),
        ((active(1, 0, 9), active(0, 10, 0xFFFF)), 2, "order of their ids"),
        ((active(0, 0, 9), active(0, 10, 0xFFFF)), 2, "order of their ids"),
        ((active(3, 0, 0xFFFF),), 3, "next id is 3"),
    ],
)
def test_a_layout_that_does_not_tile_the_ring_is_refused(
    segments: tuple[Segment, ...], next_id: int, problem: str
) -> None:
    with pytest.raises(InvalidLayout, match=problem):
        Layout(0, SegmentId(next_id), segments)


def test_a_layout_whose_links_disagree_is_refused() -> None:
    parent, left, right = ONE.split(SegmentId(0), now_ms=9).segments
    three = SegmentId(3)
    with pytest.raises(InvalidLayout, match="does not know its child"):
        Layout(1, three, (replace(parent, children=ids(1)), left, right))
    with pytest.raises(InvalidLayout, match="does not know its parent"):
        Layout(1, three, (parent, replace(left, parents=()), right))
    with pytest.raises(InvalidLayout, match="does not know its child"):
        Layout(1, three, (left, right))
    with pytest.raises(InvalidLayout, match="after epoch 0"):
        Layout(0, three, (parent, left, right))
