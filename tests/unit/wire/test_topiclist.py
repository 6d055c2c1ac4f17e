from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire.topiclist import TopicSet, hash_topics

PUBLIC = "persistent://public/default/"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "00000000"),
        ([PUBLIC + "a"], "e4a876e3"),
        ([PUBLIC + "a", PUBLIC + "b"], "c7559e98"),
        ([PUBLIC + "b", PUBLIC + "a"], "c7559e98"),
        ([PUBLIC + "pt-partition-1", PUBLIC + "pt-partition-0"], "c87bd2e3"),
        (["topic://public/default/x"], "3f3c0ef3"),
        (["topic://public/default/x", "topic://public/default/y"], "6d840160"),
        ([f"persistent://my-property/my-ns/pattern-topic-{i}" for i in (1, 2, 3)], "90d4a04a"),
    ],
)
def test_the_hash_of_known_lists(names: list[str], expected: str) -> None:
    assert hash_topics(names) == expected


def test_names_are_sorted_by_utf_16_units_as_java_does() -> None:
    # U+FF5E sorts below U+1F600 as a character, above its first surrogate as a unit
    assert "\uff5e" < "\U0001f600"
    assert hash_topics(["\uff5e", "\U0001f600"]) == hash_topics(["\U0001f600,\uff5e"])


@given(st.lists(st.tuples(st.booleans(), st.text("ab\uff5e\U0001f600", max_size=2))))
def test_a_set_of_topics_has_the_hash_of_its_names(changes: list[tuple[bool, str]]) -> None:
    kept, expected = TopicSet(["a", "b"]), {"a", "b"}
    for is_added, name in changes:
        (kept.add if is_added else kept.remove)(name)
        (expected.add if is_added else expected.discard)(name)
        assert (name in kept) == is_added
    assert set(kept.names) == expected and len(kept.names) == len(expected)
    assert kept.hash == hash_topics(expected)
