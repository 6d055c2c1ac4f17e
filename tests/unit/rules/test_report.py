from __future__ import annotations

import math

import pytest

from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.scalable import SegmentLoad
from magnetar.rules.report import decide_report

POLICY = AutoScalePolicy()


def worth(before: float | None, now: float, policy: AutoScalePolicy | None = None) -> bool:
    last = None if before is None else SegmentLoad(rate_in_per_s=before)
    return decide_report(last, SegmentLoad(rate_in_per_s=now), change=0.25, policy=policy)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (1000, 1300, True),
        (1000, 1100, False),
        (1000, 700, True),
        (0, 1, True),
        (1, 0, True),
        (0, 0, False),
        (1000, 1250, False),
        (1000, 750, False),
        (None, 0, True),
        (math.nan, 5, True),
        (-3.0, 5, True),
    ],
)
def test_a_change_of_more_than_a_quarter_or_across_zero_is_reported(
    before: float | None, now: float, expected: bool
) -> None:
    assert worth(before, now) is expected


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (9_000, 10_001, True),
        (10_001, 9_999, False),
        (10_001, 9_499, True),
        (10_001, 12_000, False),
        (9_000, 10_000, False),
        (1_010, 999, False),
        (1_010, 949, True),
        (999, 1_000, True),
        (1_000, 1_010, False),
    ],
)
def test_a_rate_that_passed_a_limit_is_reported_however_near_it_is(
    before: float, now: float, expected: bool
) -> None:
    assert worth(before, now, POLICY) is expected
    assert not worth(before, now), "it is the limit that matters"
    off = AutoScalePolicy(enabled=False)
    assert not worth(before, now, off), "nobody compares it"


def test_each_of_the_four_rates_counts() -> None:
    last = SegmentLoad(1.0, 1.0, 1.0, 1.0)
    for index in range(4):
        rates = [1.0] * 4
        rates[index] = 2.0
        assert decide_report(last, SegmentLoad(*rates), change=0.25, policy=POLICY)
