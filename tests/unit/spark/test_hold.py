"""The hold of a query over many topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from magnetar import AdminError
from magnetar.spark.broker_plan import BrokerPlan
from magnetar.spark.hold import Hold, plan_call
from magnetar.spark.offset import Offset, Place, TopicOffset
from magnetar.spark.option import Broker
from magnetar.spark.plan import SegmentView, TopicView

NAMES = [f"public/default/t{n}" for n in range(2_500)]
PARTS = [f"persistent://{name}" for name in NAMES]
VIEWS = {
    name: TopicView(name, part, (SegmentView(0, part, ()),), 1)
    for name, part in zip(NAMES, PARTS, strict=True)
}


class Reads:
    """The calls of a broker that takes its time for each part, and may not answer one of them."""

    def __init__(self, *, part_s: float, failing: int = 0) -> None:
        self._part_s = part_s
        self._failing = failing
        self.spent_s = 0.0
        self.calls: list[list[str]] = []

    def plan(self, query: dict[str, Any]) -> dict[str, Any]:
        return {"missing": query.get("topics", [])}

    def move_hold(self, hold: str, moves: list[dict[str, str]]) -> None:
        assert hold == "query"
        self.calls.append([each["name"] for each in moves])
        self.spent_s += len(moves) * self._part_s
        if len(self.calls) == self._failing:
            raise AdminError(503, "no answer in time")


def offset_at(entry: int) -> Offset:
    topics = {name: TopicOffset({0: Place(7, entry)}, frozenset(), 1) for name in NAMES}
    return Offset(topics, "query")


def make_hold(reads: Reads) -> Hold:
    """Of a client that waits for a minute."""
    admin: Any = SimpleNamespace(reads=reads)
    survey: Any = SimpleNamespace(
        plan=BrokerPlan(admin), broker=Broker("pulsar://h:1", "http://h:1", timeout_s=60.0)
    )
    return Hold(survey, "query", now=lambda: reads.spent_s)


def test_one_call_moves_a_hold_once_it_is_known_how_long_that_takes() -> None:
    reads = Reads(part_s=0.001)
    hold = make_hold(reads)
    hold.move(VIEWS, offset_at(3))
    assert reads.calls == [PARTS[:1000], PARTS[1000:]]
    hold.move(VIEWS, offset_at(3))
    assert len(reads.calls) == 2, "it stands there already"
    hold.move(VIEWS, offset_at(4))
    assert reads.calls[2:] == [PARTS]


def test_no_call_to_a_slow_broker_takes_longer_than_a_quarter_of_the_time_out() -> None:
    reads = Reads(part_s=0.05)
    hold = make_hold(reads)
    hold.move(VIEWS, offset_at(3))
    assert [len(each) for each in reads.calls] == [1000, 300, 300, 300, 300, 300]


def test_a_hold_that_is_moved_again_repeats_only_the_call_that_failed() -> None:
    reads = Reads(part_s=0.001, failing=2)
    hold = make_hold(reads)
    with pytest.raises(AdminError):
        hold.move(VIEWS, offset_at(3))
    hold.move(VIEWS, offset_at(3))
    assert reads.calls == [PARTS[:1000], PARTS[1000:], PARTS[1000:]]


@pytest.mark.parametrize(
    ("parts", "spent_s", "allowed"),
    [(1000, 1.0, 15_000), (1000, 0.0, 20_000), (1000, 60.0, 250), (1, 3600.0, 1)],
)
def test_the_next_call_is_as_large_as_the_last_one_was_fast(
    parts: int, spent_s: float, allowed: int
) -> None:
    assert plan_call(parts, spent_s, 60.0) == allowed
