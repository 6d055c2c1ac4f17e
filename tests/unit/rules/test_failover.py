from __future__ import annotations

from itertools import permutations

import pytest

from magnetar.rules.failover import Candidate, choose_active

RING = [
    ("persistent://public/default/t1", "consumer-a", "consumer-c"),
    ("persistent://public/default/my-topic", "consumer-a", "consumer-a"),
    ("persistent://public/default/orders", "consumer-b", "consumer-b"),
    ("persistent://tenant/ns/x", "consumer-a", "consumer-a"),
    ("persistent://public/default/a", "consumer-a", "consumer-a"),
    ("persistent://public/default/b", "consumer-b", "consumer-b"),
]


def _chosen(names: tuple[str, ...], topic: str, partition_index: int = -1) -> str:
    candidates = [Candidate(name, 0) for name in names]
    return names[choose_active(candidates, topic=topic, partition_index=partition_index)]


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
    candidates = [Candidate("a", 2), Candidate("b", 1), Candidate("c", 1)]
    chosen = [choose_active(candidates, topic="t", partition_index=index) for index in range(3)]
    assert chosen == [1, 2, 1]
    assert choose_active([Candidate("a", 1), Candidate("b", 0)], topic="t", partition_index=-1) == 1


def test_consumers_of_one_name_are_told_apart_by_arrival() -> None:
    twins = [Candidate("same", 0), Candidate("same", 0)]
    assert [choose_active(twins, topic="t", partition_index=index) for index in (0, 1)] == [0, 1]
