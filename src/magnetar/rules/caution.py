"""Where what policies say does not hold in full: for topics whose own policies cannot be read, and
for the broker's own topics.
"""

from __future__ import annotations

from msgspec.structs import replace

from magnetar.errors import ServiceNotReady
from magnetar.model.choice import BacklogAction
from magnetar.model.name import TopicName
from magnetar.rules.policy import BacklogLimit, EffectivePolicy

_FOR_EVER = -1
_EVENT_LOG_THRESHOLD = 64 << 10


def plan_cautious(policy: EffectivePolicy) -> EffectivePolicy:
    """Let what is there be read as the policy says, but take nothing away: what the topic itself
    would have kept is not known.
    """
    return replace(
        policy,
        is_provisional=True,
        retention_ms=_FOR_EVER,
        retention_bytes=_FOR_EVER,
        message_ttl_s=0,
        subscription_expiration_min=0,
        backlog_size=_without_eviction(policy.backlog_size),
        backlog_age=_without_eviction(policy.backlog_age),
        inactive_topic=replace(policy.inactive_topic, deleteWhileInactive=False),
    )


def check_policies_known(policy: EffectivePolicy, topic: TopicName) -> None:
    """Raise ServiceNotReady unless it is known what a topic asks of those who write to it.

    Without its deduplication a message could be stored twice, without its schema enforcement or
    its size limit one that may not be there at all: no later change of policies mends that.
    """
    if policy.is_provisional:
        raise ServiceNotReady(
            f"The policies of {topic} cannot be read yet, so nothing is written to it; try again"
        )


def _without_eviction(limit: BacklogLimit) -> BacklogLimit:
    if limit.action is BacklogAction.CONSUMER_BACKLOG_EVICTION:
        return replace(limit, limit=0)
    return limit


def plan_system(policy: EffectivePolicy) -> EffectivePolicy:
    """The broker's own topics are neither limited nor thinned out, but always compacted."""
    return replace(
        policy,
        message_ttl_s=0,
        backlog_size=replace(policy.backlog_size, limit=0),
        backlog_age=replace(policy.backlog_age, limit=0),
        max_producers=0,
        max_consumers=0,
        max_consumers_per_subscription=0,
        max_subscriptions=0,
        max_message_size=0,
        subscription_dispatch_rate=None,
        subscribe_rate=None,
        dedup_enabled=False,
        compaction_threshold=policy.compaction_threshold or _EVENT_LOG_THRESHOLD,
        inactive_topic=replace(policy.inactive_topic, deleteWhileInactive=False),
        schema_validation_enforced=False,
        encryption_required=False,
        subscription_expiration_min=0,
    )
