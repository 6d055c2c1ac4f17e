"""The hold of a query over many topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from magnetar import AdminError
from magnetar.spark.broker_plan import BrokerPlan
from magnetar.spark.hold import Hold
from magnetar.spark.offset import Offset, Place, TopicOffset
from magnetar.spark.plan import SegmentView, TopicView

COUNT = 2_500


class Reads:
    """The calls of a broker that answers all but one."""

    def __init__(self, failing: int) -> None:
        self.failing = failing
        self.calls: list[list[str]] = []

    def plan(self, query: dict[str, Any]) -> dict[str, Any]:
        return {"missing": query["topics"]}

    def move_hold(self, hold: str, moves: list[dict[str, str]]) -> None:
        assert hold == "query"
        self.calls.append([each["name"] for each in moves])
        if len(self.calls) == self.failing:
            raise AdminError(503, "no answer in time")


def offset_at(entry: int) -> Offset:
    return Offset(
        {
            f"public/default/t{n}": TopicOffset({0: Place(7, entry)}, frozenset(), 1)
            for n in range(COUNT)
        },
        "query",
    )


def test_a_hold_that_is_moved_again_repeats_only_the_page_that_failed() -> None:
    names = [f"public/default/t{n}" for n in range(COUNT)]
    parts = [f"persistent://{name}" for name in names]
    views = {
        name: TopicView(name, part, (SegmentView(0, part, ()),), 1)
        for name, part in zip(names, parts, strict=True)
    }
    reads = Reads(failing=2)
    admin: Any = SimpleNamespace(reads=reads)
    survey: Any = SimpleNamespace(plan=BrokerPlan(admin))
    hold = Hold(survey, "query")
    with pytest.raises(AdminError):
        hold.move(views, offset_at(3))
    hold.move(views, offset_at(3))
    assert reads.calls == [parts[:1000], parts[1000:2000], parts[1000:2000], parts[2000:]]
    hold.move(views, offset_at(3))
    assert len(reads.calls) == 4
    hold.move(views, offset_at(4))
    assert [each for call in reads.calls[4:] for each in call] == parts
