"""Limits of a whole scalable topic, by its policies, its namespace's and the broker's. Those of
each segment are in force there.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.broker.policy import EffectivePolicies
from magnetar.model.name import TopicName
from magnetar.rules.drain import Retention


@dataclass(frozen=True, slots=True)
class ScalableLimits:
    retention: Retention
    subscriptions_max: int
    """0: no limit."""
    subscription_expiration_min: int
    """0: never."""


async def load_limits(policies: EffectivePolicies, topic: TopicName) -> ScalableLimits:
    """Also while the topic's own policies cannot be read: then nothing is taken away."""
    policy = await policies.find(topic)
    return ScalableLimits(
        Retention(
            None if policy.retention_ms < 0 else policy.retention_ms,
            None if policy.retention_bytes < 0 else policy.retention_bytes,
        ),
        policy.max_subscriptions,
        policy.subscription_expiration_min,
    )
