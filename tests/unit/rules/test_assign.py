from __future__ import annotations

import pytest

from magnetar.model.layout import Layout
from magnetar.model.name import parse_topic
from magnetar.model.scalable import ConsumerKind
from magnetar.model.segment import SegmentId
from magnetar.rules.assign import (
    Assignment,
    GroupMember,
    changed_members,
    decide_assignment,
    restore_assignment,
)

TOPIC = parse_topic("topic://t/n/x")
NOBODY = Assignment()
STREAM, CHECKPOINT = ConsumerKind.STREAM, ConsumerKind.CHECKPOINT


def ids(*numbers: int) -> frozenset[SegmentId]:
    return frozenset(SegmentId(number) for number in numbers)


def deal(
    layout: Layout,
    names: str,
    previous: Assignment = NOBODY,
    *,
    kind: ConsumerKind = STREAM,
    drained: frozenset[SegmentId] = frozenset(),
    sharing: bool = False,
) -> Assignment:
    members = [GroupMember(name, sharing) for name in names.split()]
    return decide_assignment(layout, members, previous, kind=kind, drained=drained)


def parts(assignment: Assignment, names: str) -> list[tuple[int, ...]]:
    return [tuple(sorted(assignment.segments_of(name))) for name in names.split()]


FOUR = Layout.initial(4, now_ms=1)
SPLIT = FOUR.split(SegmentId(0), now_ms=2)  # 0 → 4, 5
ONE = Layout.initial(1, now_ms=1)


def test_segments_are_dealt_in_turn_by_hash() -> None:
    assert parts(deal(FOUR, "c1"), "c1") == [(0, 1, 2, 3)]
    assert parts(deal(FOUR, "c2 c1"), "c1 c2") == [(0, 2), (1, 3)]
    assert parts(deal(FOUR, "c1 c2 c3"), "c1 c2 c3") == [(0, 3), (1,), (2,)]


def test_nobody_gets_nothing() -> None:
    assert deal(FOUR, "").owners == {}


def test_children_are_withheld_until_the_parent_is_drained() -> None:
    assert parts(deal(SPLIT, "c1"), "c1") == [(0, 1, 2, 3)]
    assert parts(deal(SPLIT, "c1", drained=ids(0)), "c1") == [(1, 2, 3, 4, 5)]


def test_a_checkpoint_group_gets_every_segment_at_once() -> None:
    assert parts(deal(SPLIT, "c1", kind=CHECKPOINT), "c1") == [(0, 1, 2, 3, 4, 5)]


def test_a_dead_parent_does_not_take_the_place_of_a_child() -> None:
    layout = ONE.split(SegmentId(0), now_ms=2)
    assert parts(deal(layout, "c1 c2", drained=ids(0)), "c1 c2") == [(1,), (2,)]
    group = deal(layout, "c1 c2", kind=CHECKPOINT)
    assert parts(group, "c1 c2") == [(0, 1), (2,)]


def test_who_leaves_and_comes_back_under_its_name_gets_what_it_left() -> None:
    both = deal(FOUR, "alice bob")
    alone = deal(FOUR, "bob", both)
    assert parts(alone, "bob") == [(0, 1, 2, 3)]
    assert deal(FOUR, "alice bob", alone).owners == both.owners
    nobody = deal(FOUR, "", both)
    assert parts(deal(FOUR, "bob", nobody), "bob") == [(0, 1, 2, 3)]
    assert parts(deal(FOUR, "bob aaron", nobody), "bob aaron") == [(1, 3), (0, 2)]


def test_what_somebody_left_is_no_reason_to_move_more_than_evenness_asks_for() -> None:
    alone = deal(FOUR, "bob", deal(FOUR, "alice bob"))
    three = deal(FOUR, "alice bob carol", alone)
    assert set(three.segments_of("alice")) <= {0, 2}
    back = deal(FOUR, "alice bob", deal(FOUR, "bob carol", three))
    assert len(back.segments_of("alice")) == 2


def test_a_newcomer_takes_its_share_and_nobody_else_moves() -> None:
    before = deal(FOUR, "c1 c2")
    after = deal(FOUR, "c0 c1 c2", before)
    assert parts(after, "c0 c1 c2") in ([(2,), (0,), (1, 3)], [(3,), (0, 2), (1,)])
    assert set(changed_members(before, after)) < {"c0", "c1", "c2"}


def test_what_a_leaver_had_is_shared_out_and_nothing_else_moves() -> None:
    before = deal(FOUR, "c1 c2 c3")
    after = deal(FOUR, "c2 c3", before)
    assert parts(after, "c2 c3") == [(0, 1), (2, 3)]


def test_a_child_goes_to_whoever_read_its_parent() -> None:
    before = deal(Layout.initial(2, now_ms=1), "c1 c2")
    layout = Layout.initial(2, now_ms=1).split(SegmentId(1), now_ms=2)
    waiting = deal(layout, "c1 c2", before)
    assert parts(waiting, "c1 c2") == [(0,), (1,)]
    after = deal(layout, "c1 c2", waiting, drained=ids(1))
    assert parts(after, "c1 c2") == [(0,), (2, 3)]


def test_a_seek_back_into_a_parent_withholds_its_children_again() -> None:
    layout = ONE.split(SegmentId(0), now_ms=2)
    before = deal(layout, "c1 c2", drained=ids(0))
    after = deal(layout, "c1 c2", before)
    assert parts(after, "c1 c2") == [(0,), ()]


SHARED = Layout.initial(1, now_ms=1, bucket_budget=4)


def test_a_segment_with_buckets_is_shared_by_as_many_consumers() -> None:
    alone = deal(SHARED, "c1", sharing=True)
    assert alone.part_of("c1", SHARED, TOPIC).segments[0].buckets == ()
    two = deal(SHARED, "c1 c2", alone, sharing=True)
    for name in ("c1", "c2"):
        (segment,) = two.part_of(name, SHARED, TOPIC).segments
        assert [str(span) for span in segment.buckets] == [
            "0000-3fff",
            "4000-7fff",
            "8000-bfff",
            "c000-ffff",
        ]
    five = deal(SHARED, "c1 c2 c3 c4 c5", two, sharing=True)
    assert parts(five, "c1 c2 c3 c4 c5") == [(0,), (0,), (0,), (0,), ()]


def test_consumers_that_do_not_know_buckets_neither_share_nor_are_joined() -> None:
    assert parts(deal(SHARED, "c1 c2"), "c1 c2") == [(0,), ()]
    mixed = [GroupMember("c1", shares=False), GroupMember("c2", shares=True)]
    assert decide_assignment(SHARED, mixed, NOBODY, kind=STREAM).owners == {0: ("c1",)}
    mixed = [
        GroupMember("c1", shares=True),
        GroupMember("c2", shares=False),
        GroupMember("c3", shares=True),
    ]
    assert decide_assignment(SHARED, mixed, NOBODY, kind=STREAM).owners == {0: ("c1", "c3")}


def test_sharers_are_spread_evenly_and_stay_where_they_are() -> None:
    layout = Layout.initial(2, now_ms=1, bucket_budget=8)
    before = deal(layout, "c1 c2 c3 c4 c5", sharing=True)
    assert sorted(len(names) for names in before.owners.values()) == [2, 3]
    after = deal(layout, "c1 c2 c3 c4 c5 c6", before, sharing=True)
    assert sorted(len(names) for names in after.owners.values()) == [3, 3]
    for number, names in before.owners.items():
        assert set(names) <= set(after.owners[number])
    left = deal(layout, "c2 c3 c4 c5", before, sharing=True)
    for name in ("c2", "c3", "c4", "c5"):
        assert left.segments_of(name) == before.segments_of(name)


def test_everybody_whose_way_of_reading_changes_is_told() -> None:
    alone = deal(SHARED, "c1", sharing=True)
    two = deal(SHARED, "c1 c2", alone, sharing=True)
    three = deal(SHARED, "c1 c2 c3", two, sharing=True)
    assert changed_members(alone, two) == ("c1", "c2")
    assert changed_members(two, three) == ("c3",)
    assert changed_members(three, two) == ("c3",)
    assert changed_members(two, alone) == ("c1", "c2")
    assert changed_members(two, two) == ()


def test_a_consumer_is_told_the_old_name_of_a_legacy_segment() -> None:
    layout = Layout.migrated(["persistent://t/n/x"], now_ms=1)
    told = deal(layout, "c1").part_of("c1", layout, TOPIC)
    assert (told.epoch, [each.topic for each in told.segments]) == (0, ["persistent://t/n/x"])
    told = deal(layout, "c1", drained=ids(0)).part_of("c1", layout, TOPIC)
    assert [each.topic for each in told.segments] == ["segment://t/n/x/0000-ffff-1"]


@pytest.mark.parametrize("sharing", [False, True])
def test_a_new_controller_assigns_what_the_records_say(sharing: bool) -> None:
    layout = Layout.initial(2, now_ms=1, bucket_budget=4)
    before = deal(layout, "a", sharing=sharing)
    before = deal(layout, "a b c", before, sharing=sharing)
    records = {name: before.segments_of(name) for name in "abc"}
    restored = restore_assignment(layout.epoch, records)
    after = deal(layout, "a b c", restored, sharing=sharing)
    assert changed_members(before, after) == ()
