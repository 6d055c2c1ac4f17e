"""What a planner keeps from one look at many topics to the next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from magnetar.spark.broker_plan import BrokerPlan
from magnetar.spark.offset import Offset, OffsetCache, Place, TopicOffset, format_offset
from magnetar.spark.option import Selection

SELECTION = Selection(topics=("public/default/a", "public/default/b"))


def describe(name: str, end: str) -> dict[str, Any]:
    part = {"name": f"persistent://{name}", "end": end, "ledgers": [[7, 9, 90]]}
    return {"name": name, "domain": "persistent", "parts": [part], "next": 1}


class Reads:
    """The calls of a broker whose topics end where they are said to."""

    def __init__(self) -> None:
        self.ends = dict.fromkeys(SELECTION.topics, "7:3")

    def plan(self, query: dict[str, Any]) -> dict[str, Any]:
        return {"topics": [describe(*each) for each in self.ends.items()], "version": "1"}


def test_only_topics_that_are_told_otherwise_are_described_anew() -> None:
    reads = Reads()
    admin: Any = SimpleNamespace(reads=reads)
    plan = BrokerPlan(admin)
    one, other = SELECTION.topics
    first = plan.look(SELECTION).views
    reads.ends[one] = "7:5"
    second = plan.look(SELECTION).views
    assert second[other] is first[other]
    assert (first[one].segments[0].end, second[one].segments[0].end) == (Place(7, 3), Place(7, 5))
    assert plan.look(SELECTION, hold="query").views[other] is not first[other]
    del reads.ends[other]
    assert plan.look(SELECTION).views.keys() == {one}
    reads.ends[other] = "7:3"
    assert plan.look(SELECTION).views == second


def test_an_offset_is_told_as_if_nothing_had_been_told_before() -> None:
    cache = OffsetCache()
    stays, moves = TopicOffset({0: Place(7, 3)}), TopicOffset({1: Place(9, 0)}, frozenset({0}), 2)
    before = Offset({"b": stays, "a": stays}, "query")
    after = Offset({"c": moves, "b": stays, "a": moves}, "query")
    for offset in (before, after, before, Offset()):
        told = cache.format(offset)
        assert told == format_offset(offset) and list(told) == list(format_offset(offset))
        assert cache.parse(told) == offset
