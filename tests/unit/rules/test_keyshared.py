from __future__ import annotations

import pytest

from magnetar.errors import ConsumerAssignRefused
from magnetar.rules.dispatch.selector import (
    HalvingSelector,
    RingSelector,
    SlotRange,
    StickySelector,
)

# key, slot by ranges, slot on the ring, owner on a ring of c1 then c2
SLOTS = [
    ("", 1, 1, "c1"),
    ("a", 27058, 42456, "c2"),
    ("key-1", 5536, 11858, "c2"),
    ("key-2", 21772, 51461, "c1"),
    ("user-42", 56016, 5188, "c2"),
    ("order:12345", 38459, 64545, "c1"),
    ("pulsar", 31675, 31760, "c2"),
    ("héllo", 41064, 56584, "c2"),
    ("日本", 63810, 15901, "c2"),
]


@pytest.mark.parametrize(("key", "by_range", "on_ring", "owner"), SLOTS)
def test_a_key_has_its_slot_and_its_owner(
    key: str, by_range: int, on_ring: int, owner: str
) -> None:
    ring = RingSelector[str]().add("c1", name="c1").add("c2", name="c2")
    assert HalvingSelector[str]().slot_of(key.encode()) == by_range
    assert StickySelector[str]().slot_of(key.encode()) == by_range
    assert ring.slot_of(key.encode()) == on_ring
    assert ring.owner(on_ring) == owner


def test_nobody_owns_a_slot_without_consumers() -> None:
    for selector in (RingSelector[int](), HalvingSelector[int](), StickySelector[int]()):
        assert selector.owner(1) is None
        assert selector.assignments() == ()


def test_consumers_of_one_name_get_different_points() -> None:
    alone = RingSelector[int]().add(1, name="same")
    both = alone.add(2, name="same")
    assert {one.owner for one in both.assignments()} == {1, 2}
    # the index that was freed is taken again, so a reconnect gives back the same slots
    assert both.remove(1).add(3, name="same").owner(1) == {1: 3, 2: 2}[both.owner(1) or 0]
    assert both.remove(2).assignments() == alone.assignments()


def test_the_earlier_consumer_keeps_a_point_both_claim() -> None:
    # 4096 points each on 65535 slots: some collide for certain
    both = RingSelector[int](4096).add(1, name="a").add(2, name="b")
    points = {
        name: {both.slot_of(f"{name}\x000\x00{i}".encode()) for i in range(4096)} for name in "ab"
    }
    shared = points["a"] & points["b"]
    assert shared
    assert all(both.owner(slot) == 1 for slot in shared)
    assert all(both.remove(1).owner(slot) == 2 for slot in shared)


def test_a_newcomer_takes_the_lower_half_of_the_widest_range() -> None:
    selector = HalvingSelector[str]().add("a", name="a")
    assert selector.assignments() == ((SlotRange(0, 65536), "a"),)
    for name in "bcd":
        selector = selector.add(name, name=name)
    assert selector.assignments() == (
        (SlotRange(0, 16384), "c"),
        (SlotRange(16385, 32768), "b"),
        (SlotRange(32769, 49152), "d"),
        (SlotRange(49153, 65536), "a"),
    )


def test_a_halved_range_goes_to_the_neighbour_above_and_the_topmost_below() -> None:
    selector = HalvingSelector[str]()
    for name in "abcd":
        selector = selector.add(name, name=name)
    assert [selector.remove("b").owner(slot) for slot in (16384, 16385, 49152)] == ["c", "d", "d"]
    assert [selector.remove("a").owner(slot) for slot in (32768, 49152, 65535)] == ["b", "d", "d"]
    assert selector.remove("nobody") == selector
    assert HalvingSelector[str]().add("a", name="a").remove("a") == HalvingSelector[str]()


def test_halving_stops_when_every_range_is_one_slot() -> None:
    # a value far along: every upper bound is taken
    full = HalvingSelector[int](tuple((bound, bound) for bound in range(1, 65537)))
    with pytest.raises(ConsumerAssignRefused):
        full.add(0, name="late")


def test_sticky_ranges_leave_the_rest_without_owner() -> None:
    selector = StickySelector[str]().add(
        "a", name="a", ranges=[SlotRange(100, 200), SlotRange(0, 10)]
    )
    selector = selector.add("b", name="b", ranges=[SlotRange(11, 99)])
    slots = (0, 10, 11, 99, 100, 200, 201)
    assert [selector.owner(slot) for slot in slots] == ["a", "a", "b", "b", "a", "a", None]
    assert selector.remove("a").assignments() == ((SlotRange(11, 99), "b"),)


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [SlotRange(5, 4)],
        [SlotRange(200, 300), SlotRange(250, 400)],
        [SlotRange(200, 300), SlotRange(300, 400)],
        [SlotRange(100, 100)],
        [SlotRange(0, 65535)],
        [SlotRange(90, 100)],
    ],
)
def test_sticky_ranges_that_cannot_be_are_refused(ranges: list[SlotRange]) -> None:
    selector = StickySelector[str]().add("a", name="a", ranges=[SlotRange(100, 199)])
    with pytest.raises(ConsumerAssignRefused):
        selector.add("b", name="b", ranges=ranges)


def test_a_conflict_names_who_is_in_the_way() -> None:
    selector = StickySelector[str]().add("a", name="a", ranges=[SlotRange(100, 199)])
    assert selector.conflict([SlotRange(0, 99), SlotRange(199, 199)]) == "a"
    assert selector.conflict([SlotRange(0, 99), SlotRange(200, 300)]) is None
