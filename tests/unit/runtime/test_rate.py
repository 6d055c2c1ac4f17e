from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.runtime.rate import Rate


def test_a_rate_is_of_the_last_closed_window() -> None:
    rate = Rate(now=100.0)
    rate.add(30, 3000)
    assert (rate.count_per_s, rate.bytes_per_s, rate.average_size) == (0.0, 0.0, 0.0)
    rate.tick(103.0)
    assert (rate.count_per_s, rate.bytes_per_s, rate.average_size) == (10.0, 1000.0, 100.0)
    rate.add(1, 1)
    assert rate.count_per_s == 10.0
    rate.tick(104.0)
    assert (rate.count_per_s, rate.bytes_per_s) == (1.0, 1.0)
    rate.tick(105.0)
    assert (rate.count_per_s, rate.average_size) == (0.0, 0.0)
    assert (rate.count, rate.bytes) == (31, 3001)


def test_a_window_without_length_changes_nothing() -> None:
    rate = Rate(now=5.0)
    rate.add(4, 4)
    rate.tick(5.0)
    rate.tick(4.0)
    assert rate.count_per_s == 0.0
    rate.tick(6.0)
    assert rate.count_per_s == 4.0


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0.001, 1000)), max_size=30))
def test_what_the_windows_say_adds_up_to_the_total(steps: list[tuple[int, float]]) -> None:
    now, seen = 0.0, 0.0
    rate = Rate(now=now)
    for count, seconds in steps:
        rate.add(count, count)
        before, now = now, now + seconds
        rate.tick(now)
        seen += rate.count_per_s * (now - before)
    assert abs(seen - rate.count) <= 1e-6 * max(1, rate.count)
