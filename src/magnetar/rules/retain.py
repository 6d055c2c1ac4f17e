"""What a topic may keep and what it must let go: backlog, and what is not used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, assert_never

from magnetar.model.choice import BacklogAction, InactiveTopicDeleteMode
from magnetar.model.policy import InactiveTopicPolicies
from magnetar.model.position import Position
from magnetar.rules.policy import BacklogLimit

EVICTION_PERCENT: Final = 90
"""Eviction goes somewhat below the limit, so that the next message does not evict again."""


@dataclass(frozen=True, slots=True)
class Within:
    """No quota is passed."""


@dataclass(frozen=True, slots=True)
class HoldProducers:
    """Producers are disconnected, and retry."""


@dataclass(frozen=True, slots=True)
class FailProducers:
    """Producers are disconnected with an error that is final."""


@dataclass(frozen=True, slots=True)
class EvictBySize:
    """Subscriptions move forward until no more than this is left to any of them."""

    kept_bytes: int


@dataclass(frozen=True, slots=True)
class EvictByAge:
    """Subscriptions move forward past messages older than this."""

    age_s: int


QuotaDecision: TypeAlias = Within | HoldProducers | FailProducers | EvictBySize | EvictByAge


def decide_quota(
    size: BacklogLimit, age: BacklogLimit, *, backlog_bytes: int, oldest_age_ms: int | None
) -> QuotaDecision:
    """The largest backlog against one limit, the oldest message in any against the other.

    One thing is done at a time, size first. `oldest_age_ms` is None when nothing waits or its
    age is not known.
    """
    if 0 < size.limit <= backlog_bytes:
        return _decide_action(size.action, EvictBySize(size.limit * EVICTION_PERCENT // 100))
    if age.limit > 0 and oldest_age_ms is not None and oldest_age_ms > age.limit * 1000:
        return _decide_action(age.action, EvictByAge(age.limit * EVICTION_PERCENT // 100))
    return Within()


def _decide_action(action: BacklogAction, eviction: EvictBySize | EvictByAge) -> QuotaDecision:
    match action:
        case BacklogAction.PRODUCER_REQUEST_HOLD:
            return HoldProducers()
        case BacklogAction.PRODUCER_EXCEPTION:
            return FailProducers()
        case BacklogAction.CONSUMER_BACKLOG_EVICTION:
            return eviction
        case _:
            assert_never(action)


class Stretch(NamedTuple):
    """The entries of one ledger, taken for equally large."""

    ledger_id: int
    entries: int
    size: int


def plan_eviction(log: Sequence[Stretch], kept_bytes: int) -> Position | None:
    """Where a subscription must stand to have at most `kept_bytes` left; None: anywhere will do."""
    room = kept_bytes
    for stretch in reversed(log):
        if stretch.size > room:
            # The most entries whose size, as a share of the stretch rounded down, still fits.
            kept = ((room + 1) * stretch.entries - 1) // stretch.size
            return Position(stretch.ledger_id, stretch.entries - kept)
        room -= stretch.size
    return None


class Use(Enum):
    """What becomes of a topic or a subscription that may be unused."""

    ACTIVE = "active"
    IDLE = "idle"
    """It is not used, but not for long enough."""
    UNUSED = "unused"


def decide_topic_use(
    policy: InactiveTopicPolicies,
    *,
    has_clients: bool,
    subscriptions: int,
    has_backlog: bool,
    has_entries: bool,
    idle_ms: int,
    retention_ms: int,
) -> Use:
    """Whether a topic can go. One that holds entries stays for its retention time as well."""
    mode = policy.inactiveTopicDeleteMode or InactiveTopicDeleteMode.WITHOUT_SUBSCRIPTIONS
    match mode:
        case InactiveTopicDeleteMode.WITHOUT_SUBSCRIPTIONS:
            is_held = subscriptions > 0
        case InactiveTopicDeleteMode.SUBSCRIPTIONS_CAUGHT_UP:
            is_held = has_backlog
        case _:
            assert_never(mode)
    if has_clients or is_held:
        return Use.ACTIVE
    if not policy.deleteWhileInactive or idle_ms < policy.maxInactiveDurationSeconds * 1000:
        return Use.IDLE
    if has_entries and (retention_ms < 0 or idle_ms < retention_ms):
        return Use.IDLE
    return Use.UNUSED


def decide_subscription_use(
    *, has_consumers: bool, is_replicated: bool, idle_ms: int, expiration_min: int
) -> Use:
    """Whether a subscription can go; an `expiration_min` that is not positive keeps it for ever."""
    if has_consumers or is_replicated:
        return Use.ACTIVE
    is_expired = 0 < expiration_min * 60_000 < idle_ms
    return Use.UNUSED if is_expired else Use.IDLE
