from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import BadRequest, PreconditionFailed
from magnetar.model.name import NamespaceName, parse_topic
from magnetar.rules.bundle import (
    bundle_of,
    check_boundaries,
    check_range,
    hash_of,
    plan_boundaries,
    split_range,
)

NAMESPACE = NamespaceName("t1", "n1")
LOCALS = st.text(alphabet="abcdefghij-0123456789", min_size=1, max_size=12)


def test_boundaries_are_even() -> None:
    four = ("0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff")
    assert plan_boundaries(4) == four
    assert plan_boundaries(3) == ("0x00000000", "0x55555555", "0xaaaaaaaa", "0xffffffff")
    assert plan_boundaries(1) == ("0x00000000", "0xffffffff")


@pytest.mark.parametrize("count", [0, -1, 10_000_000])
def test_a_number_of_bundles_that_cannot_be_is_refused(count: int) -> None:
    with pytest.raises(PreconditionFailed):
        plan_boundaries(count)


def test_a_topic_is_in_the_bundle_where_pulsar_puts_it() -> None:
    topic = parse_topic("persistent://t1/n1/b")
    assert hash_of(topic) == 0x2BB0C5E5
    assert bundle_of(topic, plan_boundaries(4)) == "0x00000000_0x40000000"


@given(LOCALS, st.integers(min_value=1, max_value=64))
def test_every_topic_is_in_exactly_one_bundle(local: str, count: int) -> None:
    topic = parse_topic(f"persistent://t1/n1/{local}")
    boundaries = plan_boundaries(count)
    lower, upper = (int(each, 16) for each in bundle_of(topic, boundaries).split("_"))
    assert lower <= hash_of(topic) <= upper
    check_range(NAMESPACE, bundle_of(topic, boundaries), boundaries)


@given(LOCALS, st.lists(st.integers(min_value=0, max_value=2**32 - 1), max_size=9))
def test_a_split_keeps_every_other_bundle(local: str, cuts: list[int]) -> None:
    boundaries = check_boundaries(["0x00000000", *(hex(cut) for cut in cuts), "0xffffffff"])
    bundle = bundle_of(parse_topic(f"persistent://t1/n1/{local}"), boundaries)
    try:
        after = split_range(bundle, boundaries)
    except PreconditionFailed:
        return
    assert set(boundaries) < set(after) and len(after) == len(boundaries) + 1
    assert list(after) == sorted(after)


@pytest.mark.parametrize(
    "boundaries", [[], ["zz"], ["0x00000000"], ["0x1", "0xffffffff"], ["0x0", "0x1ffffffff"]]
)
def test_boundaries_that_leave_hashes_out_are_refused(boundaries: list[str]) -> None:
    with pytest.raises(BadRequest):
        check_boundaries(boundaries)


@pytest.mark.parametrize(
    "text", ["bogus", "0x0_zz", "0x1_0x40000000", "0x00000000_0x30000000", "_"]
)
def test_a_range_that_is_none_of_the_namespaces_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed):
        check_range(NAMESPACE, text, plan_boundaries(4))
