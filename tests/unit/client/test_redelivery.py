"""When messages are asked for again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import MessageId
from magnetar.client.policy import BackoffPolicy
from magnetar.client.redelivery import RedeliveryPlan, RedeliveryTimes
from magnetar.runtime.clock import SYSTEM

A, B = MessageId(1, 1), MessageId(1, 2)
HOUR = 3600.0


def planned(times: RedeliveryTimes, steps: Callable[[RedeliveryPlan], None]) -> list[MessageId]:
    """What is asked for soon after these steps."""

    async def body() -> list[MessageId]:
        asked: list[MessageId] = []
        plan = RedeliveryPlan(times, asked.extend, clock=SYSTEM)
        steps(plan)
        for _ in range(5):
            await asyncio.sleep(0.01)
        plan.clear()
        return asked

    return asyncio.run(body())


def test_a_refused_message_is_due_after_the_delay() -> None:
    def steps(plan: RedeliveryPlan) -> None:
        plan.on_refused(A, None)
        plan.on_refused(B, HOUR)

    assert planned(RedeliveryTimes(0.001), steps) == [A]


def test_an_acknowledged_message_is_not_due() -> None:
    def steps(plan: RedeliveryPlan) -> None:
        plan.on_taken(A, 0)
        plan.on_taken(B, 0)
        plan.on_done([A])

    assert planned(RedeliveryTimes(HOUR, processing_timeout=0.001), steps) == [B]


def test_a_cumulative_acknowledgement_covers_all_before() -> None:
    def steps(plan: RedeliveryPlan) -> None:
        for id in (A, B, MessageId(2, 0)):
            plan.on_taken(id, 0)
        plan.on_done_up_to(B)

    times = RedeliveryTimes(HOUR, processing_timeout=0.001)
    assert planned(times, steps) == [MessageId(2, 0)]


def test_a_new_time_replaces_the_old_one() -> None:
    def steps(plan: RedeliveryPlan) -> None:
        plan.on_refused(A, 0.001)
        plan.on_refused(A, HOUR)

    assert planned(RedeliveryTimes(HOUR), steps) == []


def test_a_batch_is_asked_for_once_for_all_its_refused_messages() -> None:
    first, second = (MessageId(1, 1, -1, index, 3) for index in (0, 2))

    def steps(plan: RedeliveryPlan) -> None:
        plan.on_refused(first, 0.001)
        plan.on_refused(second, 0.02)
        plan.on_refused(B, 0.02)

    assert planned(RedeliveryTimes(HOUR), steps) == [first, B]


def test_a_message_delivered_before_may_take_longer() -> None:
    times = RedeliveryTimes(
        HOUR, processing_timeout=0.001, processing_backoff=BackoffPolicy.fixed(HOUR)
    )

    def steps(plan: RedeliveryPlan) -> None:
        plan.on_taken(A, 0)
        plan.on_taken(B, 1)

    assert planned(times, steps) == [A]


def test_starting_over_forgets_everything() -> None:
    def steps(plan: RedeliveryPlan) -> None:
        plan.on_refused(A, 0.001)
        plan.clear()

    assert planned(RedeliveryTimes(HOUR), steps) == []


def test_what_is_done_leaves_no_trace() -> None:
    async def body() -> None:
        plan = RedeliveryPlan(
            RedeliveryTimes(HOUR, processing_timeout=HOUR), lambda ids: None, clock=SYSTEM
        )
        for number in range(20_000):
            plan.on_taken(MessageId(1, number), 0)
            plan.on_done([MessageId(1, number)])
        assert len(plan._heap) <= 2000 and not plan._due and not plan._counts
        plan.clear()

    asyncio.run(body())


def test_a_backoff_grows_to_its_maximum_around_which_it_spreads() -> None:
    chance = random.Random(1)
    policy = BackoffPolicy(1, 60, multiplier=3, jitter=0)
    assert [policy.delay(attempt, chance) for attempt in (0, 1, 2, 9, 10_000)] == [1, 3, 9, 60, 60]
    spread = [BackoffPolicy(10, 10, jitter=0.2).delay(0, chance) for _ in range(200)]
    assert 9 <= min(spread) < 9.5 < 10.5 < max(spread) <= 11
    assert BackoffPolicy.fixed(2).delay(7, chance) == 2


def test_a_backoff_that_cannot_be_is_refused() -> None:
    for arguments in ((2, 1), (-1, 1), (1, 2, 0.5), (1, 2, 2, 1)):
        with pytest.raises(ConfigurationError):
            BackoffPolicy(*arguments)
