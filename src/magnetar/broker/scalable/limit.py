"""What the policies of a scalable topic, of its namespace and of the broker say about the whole
topic; what they say about each segment is in force there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magnetar.broker.policy import PolicyService
from magnetar.model.name import TopicName
from magnetar.rules.drain import Retention

_MINUTE_MS: Final = 60_000
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    retention: Retention
    subscriptions_max: int
    """0: no limit."""
    subscription_expiration_min: int
    """0: never."""


async def load_limits(policies: PolicyService, topic: TopicName) -> Limits:
    applied = await policies.get_applied(topic)
    retention = applied.retentionPolicies
    assert retention is not None, "the broker has a default"
    time_min, size_mib = retention.retentionTimeInMinutes, retention.retentionSizeInMB
    return Limits(
        Retention(
            None if time_min < 0 else time_min * _MINUTE_MS,
            None if size_mib < 0 else size_mib * _MIB,
        ),
        max(0, applied.maxSubscriptionsPerTopic or 0),
        max(0, applied.subscriptionExpirationTimeInMinutes or 0),
    )
