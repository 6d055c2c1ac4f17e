from __future__ import annotations

import pytest

from magnetar.model.choice import BacklogAction, InactiveTopicDeleteMode
from magnetar.model.policy import InactiveTopicPolicies
from magnetar.model.position import Position
from magnetar.rules.policy import BacklogLimit
from magnetar.rules.retain import (
    EvictByAge,
    EvictBySize,
    FailProducers,
    HoldProducers,
    QuotaDecision,
    Stretch,
    Use,
    Within,
    decide_quota,
    decide_subscription_use,
    decide_topic_use,
    plan_eviction,
)

HOLD = BacklogAction.PRODUCER_REQUEST_HOLD
FAIL = BacklogAction.PRODUCER_EXCEPTION
EVICT = BacklogAction.CONSUMER_BACKLOG_EVICTION
NONE = BacklogLimit(-1, HOLD)


@pytest.mark.parametrize(
    ("size", "age", "backlog_bytes", "oldest_age_ms", "expected"),
    [
        (NONE, NONE, 10**12, 10**12, Within()),
        (BacklogLimit(0, HOLD), BacklogLimit(0, HOLD), 10**12, 10**12, Within()),
        (BacklogLimit(100, HOLD), NONE, 99, None, Within()),
        (BacklogLimit(100, HOLD), NONE, 100, None, HoldProducers()),
        (BacklogLimit(100, FAIL), NONE, 100, None, FailProducers()),
        (BacklogLimit(100, EVICT), NONE, 100, None, EvictBySize(90)),
        (NONE, BacklogLimit(10, HOLD), 0, 10_000, Within()),
        (NONE, BacklogLimit(10, HOLD), 0, 10_001, HoldProducers()),
        (NONE, BacklogLimit(10, FAIL), 0, 10_001, FailProducers()),
        (NONE, BacklogLimit(10, EVICT), 0, 10_001, EvictByAge(9)),
        (NONE, BacklogLimit(10, HOLD), 0, None, Within()),
        (BacklogLimit(100, EVICT), BacklogLimit(10, HOLD), 100, 10_001, EvictBySize(90)),
        (BacklogLimit(100, EVICT), BacklogLimit(10, HOLD), 99, 10_001, HoldProducers()),
    ],
)
def test_a_quota_that_is_passed_leads_to_the_action_of_its_policy(
    size: BacklogLimit,
    age: BacklogLimit,
    backlog_bytes: int,
    oldest_age_ms: int | None,
    expected: QuotaDecision,
) -> None:
    decision = decide_quota(size, age, backlog_bytes=backlog_bytes, oldest_age_ms=oldest_age_ms)
    assert decision == expected


LOG = (Stretch(3, 10, 100), Stretch(5, 0, 0), Stretch(8, 4, 400))


@pytest.mark.parametrize(
    ("kept_bytes", "expected"),
    [
        (500, None),
        (10**9, None),
        (499, Position(3, 1)),
        (450, Position(3, 5)),
        (401, Position(3, 10)),
        (400, Position(3, 10)),
        (399, Position(8, 1)),
        (250, Position(8, 2)),
        (0, Position(8, 4)),
    ],
)
def test_eviction_keeps_as_many_of_the_last_entries_as_fit(
    kept_bytes: int, expected: Position | None
) -> None:
    assert plan_eviction(LOG, kept_bytes) == expected


def test_nothing_is_evicted_from_an_empty_log() -> None:
    assert plan_eviction((), 0) is None


def inactive(mode: InactiveTopicDeleteMode | None, *, delete: bool = True) -> InactiveTopicPolicies:
    return InactiveTopicPolicies(
        inactiveTopicDeleteMode=mode, maxInactiveDurationSeconds=60, deleteWhileInactive=delete
    )


ALONE = inactive(InactiveTopicDeleteMode.WITHOUT_SUBSCRIPTIONS)
CAUGHT_UP = inactive(InactiveTopicDeleteMode.SUBSCRIPTIONS_CAUGHT_UP)
KEPT = inactive(InactiveTopicDeleteMode.WITHOUT_SUBSCRIPTIONS, delete=False)


@pytest.mark.parametrize(
    (
        "policy",
        "has_clients",
        "subscriptions",
        "has_backlog",
        "has_entries",
        "idle_ms",
        "retention_ms",
        "expected",
    ),
    [
        (ALONE, False, 0, False, False, 60_000, 0, Use.UNUSED),
        (ALONE, False, 0, False, False, 59_999, 0, Use.IDLE),
        (ALONE, True, 0, False, False, 60_000, 0, Use.ACTIVE),
        (ALONE, False, 1, False, False, 60_000, 0, Use.ACTIVE),
        (inactive(None), False, 1, False, False, 60_000, 0, Use.ACTIVE),
        (KEPT, False, 0, False, False, 10**12, 0, Use.IDLE),
        (CAUGHT_UP, False, 1, False, True, 60_000, 0, Use.UNUSED),
        (CAUGHT_UP, False, 1, True, True, 60_000, 0, Use.ACTIVE),
        (CAUGHT_UP, True, 1, False, True, 60_000, 0, Use.ACTIVE),
        (ALONE, False, 0, False, True, 60_000, 60_001, Use.IDLE),
        (ALONE, False, 0, False, True, 60_001, 60_001, Use.UNUSED),
        (ALONE, False, 0, False, True, 10**12, -1, Use.IDLE),
        (ALONE, False, 0, False, False, 60_000, -1, Use.UNUSED),
    ],
)
def test_a_topic_goes_when_nobody_used_it_for_long_enough(
    policy: InactiveTopicPolicies,
    has_clients: bool,
    subscriptions: int,
    has_backlog: bool,
    has_entries: bool,
    idle_ms: int,
    retention_ms: int,
    expected: Use,
) -> None:
    use = decide_topic_use(
        policy,
        has_clients=has_clients,
        subscriptions=subscriptions,
        has_backlog=has_backlog,
        has_entries=has_entries,
        idle_ms=idle_ms,
        retention_ms=retention_ms,
    )
    assert use is expected


@pytest.mark.parametrize(
    ("has_consumers", "is_replicated", "idle_ms", "expiration_min", "expected"),
    [
        (False, False, 60_001, 1, Use.UNUSED),
        (False, False, 60_000, 1, Use.IDLE),
        (False, False, 10**12, 0, Use.IDLE),
        (False, False, 10**12, -1, Use.IDLE),
        (True, False, 60_001, 1, Use.ACTIVE),
        (False, True, 60_001, 1, Use.ACTIVE),
    ],
)
def test_a_subscription_goes_when_it_was_unused_past_its_expiration(
    has_consumers: bool, is_replicated: bool, idle_ms: int, expiration_min: int, expected: Use
) -> None:
    use = decide_subscription_use(
        has_consumers=has_consumers,
        is_replicated=is_replicated,
        idle_ms=idle_ms,
        expiration_min=expiration_min,
    )
    assert use is expected
