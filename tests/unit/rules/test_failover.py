from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import permutations
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.model.hash import murmur31
from magnetar.rules.failover import Ranking

RING = [
    ("persistent://public/default/t1", "consumer-a", "consumer-c"),
    ("persistent://public/default/my-topic", "consumer-a", "consumer-a"),
    ("persistent://public/default/orders", "consumer-b", "consumer-b"),
    ("persistent://tenant/ns/x", "consumer-a", "consumer-a"),
    ("persistent://public/default/a", "consumer-a", "consumer-a"),
    ("persistent://public/default/b", "consumer-b", "consumer-b"),
]


Candidate: TypeAlias = tuple[str, int]
"""Its name and its priority."""


def rank(candidates: Sequence[Candidate], topic: str, partition_index: int = -1) -> Ranking[int]:
    ranking: Ranking[int] = Ranking(topic=topic, partition_index=partition_index)
    for number, (name, priority) in enumerate(candidates):
        ranking.add(number, name=name, priority=priority)
    return ranking


def choose(candidates: Sequence[Candidate], topic: str, partition_index: int = -1) -> int | None:
    return rank(candidates, topic, partition_index).active()


def _chosen(names: tuple[str, ...], topic: str, partition_index: int = -1) -> str:
    chosen = choose([(name, 0) for name in names], topic, partition_index)
    assert chosen is not None
    return names[chosen]


def choose_slowly(candidates: Sequence[Candidate], topic: str, partition_index: int) -> int:
    """As Pulsar has it: the names in order, and a ring with all points of all of them."""
    best = min(priority for _, priority in candidates)
    eligible = [i for i, (_, priority) in enumerate(candidates) if priority == best]
    eligible.sort(key=lambda i: candidates[i][0])
    if partition_index >= 0:
        return eligible[partition_index % len(eligible)]
    ring = {
        murmur31(f"{candidates[i][0]}{point}".encode()): i for i in eligible for point in range(100)
    }
    points = sorted(ring)
    at = bisect_left(points, murmur31(topic.encode()))
    return ring[points[at if at < len(points) else 0]]


@pytest.mark.parametrize(("topic", "of_two", "of_three"), RING)
def test_a_topic_picks_from_the_ring_whatever_the_order_of_arrival(
    topic: str, of_two: str, of_three: str
) -> None:
    for names in permutations(("consumer-a", "consumer-b")):
        assert _chosen(names, topic) == of_two
    for names in permutations(("consumer-a", "consumer-b", "consumer-c")):
        assert _chosen(names, topic) == of_three


def test_partitions_are_dealt_out_by_name() -> None:
    names = ("c", "a", "b")
    chosen = [_chosen(names, "persistent://t/n/x", index) for index in range(4)]
    assert chosen == ["a", "b", "c", "a"]


def test_only_the_best_priority_level_is_served() -> None:
    candidates = [("a", 2), ("b", 1), ("c", 1)]
    assert [choose(candidates, "t", index) for index in range(3)] == [1, 2, 1]
    assert choose([("a", 1), ("b", 0)], "t") == 1


def test_consumers_of_one_name_are_told_apart_by_arrival() -> None:
    twins = [("same", 0), ("same", 0)]
    assert [choose(twins, "t", index) for index in (0, 1)] == [0, 1]
    assert choose(twins, "t") == choose_slowly(twins, "t", -1) == 1


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2)), min_size=1, max_size=12),
    st.text(max_size=6),
    st.integers(-1, 5),
    st.randoms(use_true_random=False),
)
def test_whoever_leaves_the_next_is_as_if_it_had_never_come(
    candidates: list[Candidate], topic: str, partition_index: int, draw: Random
) -> None:
    ranking, left = rank(candidates, topic, partition_index), list(range(len(candidates)))
    while left:
        chosen = choose_slowly([candidates[number] for number in left], topic, partition_index)
        assert ranking.active() == left[chosen]
        gone = left.pop(draw.randrange(len(left)))
        ranking.remove(gone)
        assert gone not in ranking
    assert ranking.active() is None
