from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.model.segment import WHOLE, HashRange
from magnetar.rules.hotspot import MESSAGES_MAX, KeySample, make_key_sample, plan_split_point
from magnetar.rules.route import SegmentHash, segment_hash


def sample(*hashes: tuple[int, int]) -> KeySample:
    return KeySample(sum(count for _, count in hashes), hashes)


def test_a_load_in_a_corner_is_cut_in_two_there() -> None:
    at = plan_split_point(sample((10, 50), (20, 50), (60_000, 4)), WHOLE)
    assert at is not None and 10 < at <= 20


def test_an_even_load_is_split_in_the_middle() -> None:
    assert plan_split_point(sample(*((n * 655, 1) for n in range(100))), WHOLE) is None


def test_few_messages_and_a_single_hash_say_nothing() -> None:
    assert plan_split_point(sample((10, 1), (20, 1)), WHOLE) is None
    assert plan_split_point(sample((10, 500)), WHOLE) is None
    assert plan_split_point(KeySample(), WHOLE) is None


@given(
    st.dictionaries(st.integers(100, 300), st.integers(1, 100), min_size=2),
)
def test_a_split_point_is_inside_the_range_and_no_worse_than_the_middle(
    counts: dict[int, int],
) -> None:
    span = HashRange(100, 300)
    at = plan_split_point(sample(*sorted(counts.items())), span)
    if at is None:
        return
    assert span.first < at <= span.last
    whole = sum(counts.values())

    def fuller(point: int) -> int:
        below = sum(count for place, count in counts.items() if place < point)
        return max(below, whole - below)

    assert fuller(at) < fuller(span.split()[1].first)
    assert fuller(at) == min(fuller(point) for point in range(101, 301))


def test_the_most_frequent_key_and_its_share_are_found() -> None:
    found = make_key_sample(["a"] * 83 + ["b"] * 10 + [None] * 7, WHOLE)
    assert (found.top_key, found.top_share, found.total) == ("a", 0.83, 100)
    assert sum(count for _, count in found.hashes) == 93
    assert make_key_sample(["a"] * 5, WHOLE).top_share == 0.0, "too few to say"
    assert make_key_sample([None] * 50, WHOLE) == KeySample(50)


@pytest.mark.parametrize("half", list(SegmentHash))
def test_the_half_of_the_hash_is_told_from_the_keys(half: SegmentHash) -> None:
    span = HashRange(0, 0x0FFF)
    keys = [f"k{n}" for n in range(20_000)]
    inside = [key for key in keys if segment_hash(key, half=half) in span]
    found = make_key_sample(inside[:500], span)
    assert sum(count for _, count in found.hashes) == 500


def test_a_sample_is_bounded() -> None:
    assert make_key_sample((f"k{n}" for n in range(10**6)), WHOLE).total == MESSAGES_MAX
