"""Laws of cutting a namespace into bundles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.rules.bundle import (
    Bundle,
    bundle_of,
    cut_range,
    hash_of,
    parse_bundle,
    parse_range,
    plan_boundaries,
    plan_cut,
    ranges_of,
    split_range,
)

SPACE = NamespaceName("acme", "shop")
TOPICS = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1).filter(
    lambda text: text.strip() and text not in (".", "..")
)


@st.composite
def boundaries(draw: st.DrawFn) -> tuple[str, ...]:
    """Even ranges, some of them cut again."""
    found = plan_boundaries(draw(st.integers(1, 16)))
    for _ in range(draw(st.integers(0, 5))):
        found = split_range(draw(st.sampled_from(ranges_of(found))), found)
    return found


@given(boundaries(), TOPICS)
def test_a_topic_lies_in_exactly_one_bundle(found: tuple[str, ...], local: str) -> None:
    topic = TopicName(TopicDomain.PERSISTENT, SPACE, local)
    holding = [each for each in ranges_of(found) if Bundle(SPACE, each).holds(topic)]
    assert holding == [bundle_of(topic, found)]
    assert not Bundle(NamespaceName("acme", "other"), holding[0]).holds(topic)


@given(boundaries())
def test_a_bundle_reads_as_it_is_written(found: tuple[str, ...]) -> None:
    for each in ranges_of(found):
        assert parse_bundle(str(Bundle(SPACE, each))) == Bundle(SPACE, each)


@given(boundaries(), st.data())
def test_a_cut_parts_one_bundle_and_leaves_the_others(
    found: tuple[str, ...], data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(ranges_of(found)))
    lower, upper = parse_range(chosen)
    cut = data.draw(st.integers(lower + 1, upper - 1))
    after = cut_range(chosen, found, (cut,))
    assert len(after) == len(found) + 1
    assert set(ranges_of(found)) - set(ranges_of(after)) == {chosen}


@given(boundaries(), st.lists(TOPICS, min_size=2, max_size=40, unique=True), st.data())
def test_a_cut_by_topics_leaves_about_half_on_each_side(
    found: tuple[str, ...], names: list[str], data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(ranges_of(found)))
    topics = [TopicName(TopicDomain.PERSISTENT, SPACE, name) for name in names]
    inside = sorted({hash_of(each) for each in topics if Bundle(SPACE, chosen).holds(each)})
    if len(inside) < 2:
        return
    cut = plan_cut(chosen, dict.fromkeys(inside, 1.0))
    left = sum(each < cut for each in inside)
    assert abs(2 * left - len(inside)) <= 1
    assert cut_range(chosen, found, (cut,))
