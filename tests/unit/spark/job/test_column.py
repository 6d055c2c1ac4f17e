"""The rule over columns, where a layout cannot lead."""

from __future__ import annotations

from magnetar.model.autoscale import AutoScalePolicy
from magnetar.rules.scale import Surroundings
from magnetar.spark.job.column import Columns, choose


def test_a_topic_without_active_segments_stays() -> None:
    nothing = Columns([], [[], [], [], []], [], [], [])
    assert choose(nothing, AutoScalePolicy(), Surroundings()) is None
