from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import ConsumerAssignRefused
from magnetar.model.segment import bucket_ranges, tile_buckets
from magnetar.rules.dispatch.selector import SLOTS, BucketSelector, SlotRange

FOUR = [
    SlotRange(0, 0x3FFF),
    SlotRange(0x4000, 0x7FFF),
    SlotRange(0x8000, 0xBFFF),
    SlotRange(0xC000, 0xFFFF),
]


def sharing(*names: str, buckets: list[SlotRange] = FOUR) -> BucketSelector[str]:
    selector = BucketSelector[str]()
    for number, name in enumerate(names):
        selector = selector.add(f"{name}:{number}", name=name, ranges=buckets, number=number)
    return selector


def owners(selector: BucketSelector[str]) -> list[str | None]:
    return [selector.owner(max(1, bucket.first)) for bucket in FOUR]


def test_buckets_are_dealt_in_runs_by_name_and_not_by_arrival() -> None:
    assert owners(sharing("b", "a")) == ["a:1", "a:1", "b:0", "b:0"]
    assert owners(sharing("c", "b", "a")) == ["a:2", "b:1", "c:0", "c:0"]
    assert owners(sharing("a", "a")) == ["a:0", "a:0", "a:1", "a:1"]


def test_more_consumers_than_buckets_leave_some_without() -> None:
    selector = sharing("a", "b", "c", "d", "e")
    assert owners(selector) == ["b:1", "c:2", "d:3", "e:4"]


def test_an_entry_goes_by_its_stamp_and_without_one_by_the_low_bits_of_its_key() -> None:
    selector = sharing("a", "b")
    assert selector.slot_at(0) == selector.slot_at(0x3FFF) == 1
    assert selector.slot_at(0x4001) == 0x4000
    assert selector.slot_of(b"order-42") == 0x8000  # hashes to 4b11a18e
    assert selector.slot_of(b"k-0") == 1  # hashes to 5a771f53


def test_who_leaves_gives_its_buckets_to_the_others() -> None:
    selector = sharing("a", "b").remove("a:0")
    assert owners(selector) == ["b:1"] * 4
    assert selector.remove("b:1").owner(1) is None
    assert selector.remove("b:1").assignments() == ()


@pytest.mark.parametrize(
    "buckets",
    [
        [],
        [SlotRange(0, 0x7FFF)],
        [SlotRange(1, 0xFFFF)],
        [SlotRange(0, 0x7FFF), SlotRange(0x8001, 0xFFFF)],
        [SlotRange(0, 0x7FFF), SlotRange(0x7000, 0xFFFF)],
        [SlotRange(0x8000, 0xFFFF), SlotRange(0, 0x7FFF)],
        [SlotRange(0, 0), SlotRange(1, 0xFFFF)],
        [SlotRange(0, 10), SlotRange(11, 5), SlotRange(6, 0xFFFF)],
    ],
)
def test_buckets_that_do_not_tile_the_ring_are_refused(buckets: list[SlotRange]) -> None:
    with pytest.raises(ConsumerAssignRefused):
        sharing("a", buckets=buckets)


def test_everyone_declares_the_same_buckets() -> None:
    selector = sharing("a")
    with pytest.raises(ConsumerAssignRefused):
        selector.add("b", name="b", ranges=[SlotRange(0, SLOTS - 1)])
    alone = selector.remove("a:0")
    assert alone.add("b", name="b", ranges=[SlotRange(0, SLOTS - 1)]).owner(7) == "b"


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, SLOTS - 1))
def test_every_bucket_has_one_owner_and_hands_differ_by_one_at_most(
    buckets: int, consumers: int, place: int
) -> None:
    declared = [SlotRange(one.first, one.last) for one in bucket_ranges(tile_buckets(buckets))]
    names = [f"{number:02}" for number in range(consumers)]
    selector = sharing(*names, buckets=declared)
    assigned = selector.assignments()
    assert assigned[0].range.first == 0 and assigned[-1].range.last == SLOTS - 1
    assert all(one.range.last + 1 == two.range.first for one, two in pairwise(assigned))
    hands = [
        sum(selector.owner(max(1, bucket.first)) == f"{name}:{number}" for bucket in declared)
        for number, name in enumerate(names)
    ]
    assert sum(hands) == buckets and max(hands) - min(hands) <= 1
    slot = selector.slot_at(place)
    owner = next(one.owner for one in assigned if one.range.first <= place <= one.range.last)
    assert selector.owner(slot) == owner
