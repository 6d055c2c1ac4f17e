from __future__ import annotations

import pytest

from magnetar.errors import InvalidLayout, InvalidName, PreconditionFailed
from magnetar.model.name import parse_topic
from magnetar.model.segment import (
    WHOLE,
    HashRange,
    Segment,
    SegmentId,
    SegmentName,
    SegmentRef,
    SegmentState,
    bucket_ranges,
    check_scalable_name,
    parse_descriptor,
    parse_segment,
    scalable_name,
    tile,
    tile_buckets,
)

AWKWARD = ["orders", "a/b", "has space", "100%", "a%2Fb", "plus+minus", "ü/ñ", "x-partition", "a/"]


def test_a_range_is_split_in_the_middle_with_the_odd_hash_below() -> None:
    assert WHOLE.split() == (HashRange(0, 0x7FFF), HashRange(0x8000, 0xFFFF))
    assert HashRange(0, 2).split() == (HashRange(0, 1), HashRange(2, 2))


def test_a_range_is_split_at_the_first_hash_of_the_upper_part() -> None:
    assert WHOLE.split(1) == (HashRange(0, 0), HashRange(1, 0xFFFF))
    assert WHOLE.split(0xFFFF) == (HashRange(0, 0xFFFE), HashRange(0xFFFF, 0xFFFF))


@pytest.mark.parametrize("at", [-1, 0, 0x10000])
def test_a_split_outside_the_range_is_refused(at: int) -> None:
    with pytest.raises(PreconditionFailed):
        WHOLE.split(at)


def test_a_single_hash_cannot_be_split() -> None:
    with pytest.raises(PreconditionFailed, match="single hash"):
        HashRange(7, 7).split()


@pytest.mark.parametrize(("first", "last"), [(-1, 5), (5, 4), (0, 0x10000)])
def test_a_range_off_the_ring_is_refused(first: int, last: int) -> None:
    with pytest.raises(PreconditionFailed):
        HashRange(first, last)


def test_only_neighbours_join() -> None:
    low, high = HashRange(0, 9), HashRange(10, 20)
    assert low.join(high) == high.join(low) == HashRange(0, 20)
    for other in (HashRange(11, 20), HashRange(5, 12), low):
        with pytest.raises(PreconditionFailed, match="not adjacent"):
            low.join(other)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, ["0000-ffff"]),
        (3, ["0000-5554", "5555-aaa9", "aaaa-ffff"]),
        (5, ["0000-3332", "3333-6665", "6666-9998", "9999-cccb", "cccc-ffff"]),
    ],
)
def test_the_last_tile_takes_what_is_left_over(count: int, expected: list[str]) -> None:
    assert [str(span) for span in tile(count)] == expected


@pytest.mark.parametrize(("count", "last"), [(6, "d552-ffff"), (7, "db6c-ffff")])
def test_the_last_of_many_tiles(count: int, last: str) -> None:
    assert str(tile(count)[-1]) == last


@pytest.mark.parametrize("count", [0, -1, 65537, 70_000])
def test_a_ring_is_not_cut_into_none_or_too_many(count: int) -> None:
    with pytest.raises(PreconditionFailed, match="at least 1"):
        tile(count)


def test_buckets_are_equally_wide() -> None:
    assert tile_buckets(1) == ()
    assert tile_buckets(2) == (0x8000,)
    assert tile_buckets(3) == (21845, 43690)
    assert tile_buckets(4) == (0x4000, 0x8000, 0xC000)
    assert [str(span) for span in bucket_ranges(tile_buckets(4))] == [
        "0000-3fff",
        "4000-7fff",
        "8000-bfff",
        "c000-ffff",
    ]


def test_a_segment_name_is_printed_one_way() -> None:
    name = parse_segment(parse_topic("segment://public/default/test/0-FFFF-007"))
    assert str(name) == "segment://public/default/test/0000-ffff-7"
    assert name.topic == parse_topic("topic://public/default/test")
    assert name.descriptor == "0000-ffff-7"


@pytest.mark.parametrize("local", AWKWARD)
def test_any_local_name_survives_as_a_segment_name(local: str) -> None:
    topic = parse_topic(f"topic://public/default/{local}")
    name = SegmentName(topic, HashRange(0, 0x7FFF), SegmentId(12))
    assert parse_segment(parse_topic(str(name))) == name
    assert scalable_name(name.name) == topic


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0000-ffff",
        "0000-ffff-0-1",
        "0000-ffff-",
        "0000-ffff-x",
        "ffff-0000-1",
        "0000-10000-1",
        "gggg-ffff-1",
        "0000-ffff--1",
        "0000-ffff-+1",
        " 0000-ffff-1",
        "0000-ffff-1\n",
        "0000-ffff-9223372036854775808",
        "0000-ffff-١",
    ],
)
def test_a_bad_descriptor_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_descriptor(text)


@pytest.mark.parametrize(
    "text",
    [
        "segment://t/n/0000-ffff-0",
        "segment://t/n/ /0000-ffff-0",
        "segment://t/n/x/y",
        "topic://t/n/x/0000-ffff-0",
        "persistent://t/n/x",
    ],
)
def test_what_is_not_a_segment_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_segment(parse_topic(text))


def test_only_a_scalable_topic_has_segments() -> None:
    with pytest.raises(InvalidName, match="topic://"):
        SegmentName(parse_topic("persistent://t/n/x"), WHOLE, SegmentId(0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("topic://t/n/x-partition-3", "topic://t/n/x-partition-3"),
        ("persistent://t/n/x", "topic://t/n/x"),
        ("persistent://t/n/x-partition-3", "topic://t/n/x"),
        ("persistent://t/n/50% of it", "topic://t/n/50% of it"),
        ("segment://t/n/a/b/0000-ffff-0", "topic://t/n/a/b"),
    ],
)
def test_every_kept_topic_has_one_scalable_name(text: str, expected: str) -> None:
    assert scalable_name(parse_topic(text)).full == expected


def test_a_volatile_topic_has_no_scalable_name() -> None:
    with pytest.raises(InvalidName):
        scalable_name(parse_topic("non-persistent://t/n/x"))


@pytest.mark.parametrize("local", ["x ", "x\t", "x-partition-0"])
def test_a_name_that_nobody_could_look_up_is_refused_at_creation(local: str) -> None:
    with pytest.raises(InvalidName):
        check_scalable_name(parse_topic(f"topic://t/n/{local}"))


@pytest.mark.parametrize("local", [*AWKWARD, "x-partition-01", "x-partition-0-y", " x"])
def test_other_names_may_be_created(local: str) -> None:
    check_scalable_name(parse_topic(f"topic://t/n/{local}"))


def test_a_legacy_segment_goes_by_its_old_name() -> None:
    topic = parse_topic("topic://t/n/x")
    assert SegmentRef(SegmentId(1), WHOLE).name_in(topic).full == "segment://t/n/x/0000-ffff-1"
    legacy = Segment(SegmentId(0), WHOLE, legacy_topic="persistent://t/n/x-partition-0")
    assert legacy.is_legacy
    assert legacy.name_in(topic).full == "persistent://t/n/x-partition-0"


def test_a_segment_that_contradicts_itself_is_refused() -> None:
    one, sealed = SegmentId(1), SegmentState.SEALED
    with pytest.raises(InvalidLayout, match="sealed at None"):
        Segment(one, WHOLE, sealed)
    with pytest.raises(InvalidLayout, match="sealed at None"):
        Segment(one, WHOLE, sealed, sealed_at_epoch=1)
    with pytest.raises(InvalidLayout, match="sealed at 7"):
        Segment(one, WHOLE, sealed_at_ms=7)
    with pytest.raises(InvalidLayout, match="has children"):
        Segment(one, WHOLE, children=(SegmentId(2),))
    with pytest.raises(InvalidLayout, match="older than"):
        Segment(one, WHOLE, parents=(one,))
    with pytest.raises(InvalidLayout, match="no segment id"):
        Segment(SegmentId(-1), WHOLE)
    for splits in ((0,), (5, 5), (9, 4), (65536,)):
        with pytest.raises(InvalidLayout, match="do not rise"):
            Segment(one, WHOLE, bucket_splits=splits)
