from __future__ import annotations

import random

from magnetar.runtime.backoff import Backoff


def test_delays_double_up_to_the_limit_and_start_again_after_success() -> None:
    backoff = Backoff(0.1, 0.5, random.Random(1), jitter=0.0)
    assert [backoff.next_s() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    backoff.reset()
    assert backoff.next_s() == 0.1


def test_chance_only_shortens_a_delay_and_by_no_more_than_its_share() -> None:
    backoff = Backoff(1.0, 1.0, random.Random(7), jitter=0.2)
    delays = [backoff.next_s() for _ in range(200)]
    assert all(0.8 <= delay <= 1.0 for delay in delays)
    assert len(set(delays)) > 100
