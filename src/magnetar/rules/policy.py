"""Which policy is in force: the topic's own, else its global one, else the namespace's, else the
broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct, structs

from magnetar.model.choice import BacklogAction, BacklogQuotaType, SubscriptionTypeName
from magnetar.model.policy import (
    DispatchRate,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    Rate,
    RateLimit,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy
from magnetar.operation.policy import Combine, Level, policies_at
from magnetar.operation.policy_table import POLICIES

_MIB: Final = 1 << 20
_INFINITE: Final = -1


class BacklogLimit(Struct, frozen=True):
    """A `limit` (bytes or seconds) that is not positive does not bound."""

    limit: int
    action: BacklogAction


class AutoTopicCreation(Struct, frozen=True):
    """0 partitions: a topic without partitions is made."""

    allowed: bool
    partitions: int


class LedgerLimits(Struct, frozen=True, kw_only=True):
    """When a topic's entries go to a new ledger."""

    entries_max: int
    bytes_max: int
    roll_min_ms: int
    roll_max_ms: int


class BrokerDefaults(Struct, frozen=True, kw_only=True):
    """The broker's configuration, for what is set nowhere else."""

    cluster: str
    policies: TopicPolicies
    """One value for every setting a topic can have."""
    system_schema_compatibility: CompatibilityStrategy
    allow_auto_update_schema: bool
    auto_topic_creation: AutoTopicCreation
    auto_topic_partitions: int
    """For a namespace that wants partitions and does not say how many."""
    encryption_required: bool
    dedup_snapshot_interval: int
    ledger: LedgerLimits


class EffectivePolicy(Struct, frozen=True, kw_only=True):
    """What holds for one topic. 0 == "no limit" for every `max_` and for times to live; -1 is
    "for ever" for retention; a rate of None does not bound."""

    retention_ms: int
    retention_bytes: int
    message_ttl_s: int
    backlog_size: BacklogLimit
    backlog_age: BacklogLimit
    max_producers: int
    max_consumers: int
    max_consumers_per_subscription: int
    max_subscriptions: int
    max_unacked_per_consumer: int
    max_unacked_per_subscription: int
    max_message_size: int
    publish_rate: RateLimit | None
    dispatch_rate: RateLimit | None
    subscription_dispatch_rate: RateLimit | None
    subscribe_rate: RateLimit | None
    rates_by_subscription: Mapping[str, RateLimit]
    dedup_enabled: bool
    dedup_snapshot_interval: int
    """Entries between two snapshots."""
    dedup_snapshot_interval_s: int
    delayed_delivery_enabled: bool
    delayed_delivery_max_delay_ms: int
    compaction_threshold: int
    inactive_topic: InactiveTopicPolicies
    schema_compatibility: CompatibilityStrategy
    schema_validation_enforced: bool
    allow_auto_update_schema: bool
    subscription_types_enabled: tuple[SubscriptionTypeName, ...]
    auto_topic_creation: AutoTopicCreation
    auto_subscription_creation: bool
    encryption_required: bool
    subscription_expiration_min: int
    persistence: PersistencePolicies
    ledger: LedgerLimits
    is_provisional: bool = False
    """Whether the topic's own policies could not be read: nothing may be written to it then."""

    def is_choosy(self, message_bytes_max: int) -> bool:
        """Whether messages themselves must be looked at before they are taken; `message_bytes_max`
        is what the broker takes at most.
        """
        return (
            self.encryption_required
            or self.delayed_delivery_max_delay_ms > 0
            or 0 < self.max_message_size < message_bytes_max
        )

    def dispatch_rate_of(self, subscription: str) -> RateLimit | None:
        """A subscription's own rate, else the one all of the topic's subscriptions have."""
        return self.rates_by_subscription.get(subscription, self.subscription_dispatch_rate)


def limit_rate(rate: Rate | None) -> RateLimit | None:
    """A rate counts as set only when one of its numbers is positive."""
    if rate is None:
        return None
    limit = rate.limit
    if isinstance(rate, DispatchRate) and limit.period_s < 1:
        limit = structs.replace(limit, period_s=1)
    return limit if limit.period_s > 0 and max(limit.messages, limit.bytes) > 0 else None


_Decide: TypeAlias = Callable[[Any], Any]
_COMBINE: Final[Mapping[Combine, tuple[_Decide, _Decide]]] = {
    "first": (lambda value: value is not CompatibilityStrategy.UNDEFINED, lambda value: value),
    "count": (lambda value: value >= 0, lambda value: max(value or 0, 0)),
    "rate": (limit_rate, limit_rate),
}
"""Whether a value that is set counts, and what is in force for the one that does."""
_IN_FORCE: Final = {
    name: (at.field, *_COMBINE[policy.combine])
    for policy, at in policies_at(Level.TOPIC, POLICIES)
    for name in (policy.effective or policy.name.replace("-", "_"),)
    if name in EffectivePolicy.__struct_fields__
}
_COUNTS: Final[Mapping[str, _Decide]] = {
    "subscriptionPolicies": lambda value: limit_rate(value.dispatchRate),
    **{field: does_count for field, does_count, _ in _IN_FORCE.values()},
}
_FIELDS: Final = TopicPolicies.__struct_fields__
_BY_KEY: Final = frozenset({"backLogQuotaMap", "subscriptionPolicies"})
_BOTH: Final = [
    (below, above)
    for policy, below in policies_at(Level.TOPIC, POLICIES)
    if (above := policy.at(Level.NAMESPACE)) is not None
]


def decide_effective(
    topic_local: TopicPolicies | None,
    topic_global: TopicPolicies | None,
    namespace: Policies | None,
    broker: BrokerDefaults,
    *,
    is_system: bool = False,
) -> EffectivePolicy:
    """Setting by setting. A system topic has no rates, and its schema strategy is the broker's."""
    above, may_update = None, broker.allow_auto_update_schema
    if namespace is not None:
        above = plan_namespace_level(namespace, cluster=broker.cluster)
        if namespace.is_allow_auto_update_schema is not None:
            may_update = namespace.is_allow_auto_update_schema
    merged = plan_merged(topic_local, topic_global, above, broker.policies, counts=_COUNTS)
    retention, creation = merged.retentionPolicies, merged.autoSubscriptionCreationOverride
    assert retention is not None and creation is not None, "the broker's level has every value"
    in_force: dict[str, Any] = {
        name: decide(getattr(merged, field)) for name, (field, _, decide) in _IN_FORCE.items()
    }
    in_force["auto_subscription_creation"] = creation.allowAutoSubscriptionCreation
    if is_system:
        in_force |= {"publish_rate": None, "dispatch_rate": None}
        in_force["schema_compatibility"] = broker.system_schema_compatibility
    return EffectivePolicy(
        **in_force,
        retention_ms=_scaled(retention.retentionTimeInMinutes, 60_000),
        retention_bytes=_scaled(retention.retentionSizeInMB, _MIB),
        backlog_size=_limit_backlog(merged, BacklogQuotaType.DESTINATION_STORAGE),
        backlog_age=_limit_backlog(merged, BacklogQuotaType.MESSAGE_AGE),
        rates_by_subscription={
            name: rate
            for name, own in merged.subscriptionPolicies.items()
            if (rate := limit_rate(own.dispatchRate)) is not None
        },
        dedup_snapshot_interval=broker.dedup_snapshot_interval,
        delayed_delivery_enabled=bool(merged.delayedDeliveryEnabled),
        delayed_delivery_max_delay_ms=merged.delayedDeliveryMaxDelayInMillis or 0,
        allow_auto_update_schema=may_update,
        auto_topic_creation=decide_auto_topic_creation(namespace, broker),
        encryption_required=broker.encryption_required
        or (namespace is not None and namespace.encryption_required),
        ledger=broker.ledger,
    )


def decide_auto_topic_creation(
    namespace: Policies | None, broker: BrokerDefaults
) -> AutoTopicCreation:
    override = None if namespace is None else namespace.autoTopicCreationOverride
    if override is None:
        return broker.auto_topic_creation
    partitions = 0
    if override.topicType == "partitioned":
        partitions = override.defaultNumPartitions or broker.auto_topic_partitions
    return AutoTopicCreation(override.allowAutoTopicCreation, partitions)


def plan_namespace_level(namespace: Policies, *, cluster: str) -> TopicPolicies:
    """A namespace's policies in the shape of a topic's, as one cluster sees them."""
    fields: dict[str, Any] = {}
    for below, above in _BOTH:
        value = getattr(namespace, above.field)
        if above.by_cluster:
            value = value.get(cluster)
            if value is None and above.older:
                value = getattr(namespace, above.older).get(cluster)
        if not below.spread:
            fields[below.field] = value
        elif value is not None:
            fields |= {field: getattr(value, member) for member, field in below.spread}
    fields["subscriptionTypesEnabled"] = known_types(namespace.subscription_types_enabled)
    older = namespace.schema_auto_update_compatibility_strategy
    if namespace.schema_compatibility_strategy is CompatibilityStrategy.UNDEFINED:
        fields["schemaCompatibilityStrategy"] = older and older.today
    # A namespace cannot say "not set" here: its plain false leaves the broker's word standing.
    fields["schemaValidationEnforced"] = namespace.schema_validation_enforced or None
    return TopicPolicies(**fields)


def plan_merged(
    *levels: TopicPolicies | None, counts: Mapping[str, _Decide] = MappingProxyType({})
) -> TopicPolicies:
    """For each setting the first level that has one that `counts`, or what the last level says;
    quotas and subscriptions one by one.
    """
    *above, last = levels
    merged = {k: v for k, v in structs.asdict(last or TopicPolicies()).items() if v != ()}
    for level in reversed(above):
        if level is None:
            continue
        for name, value in zip(_FIELDS, structs.astuple(level), strict=True):
            if value is None or value == () or value == {}:
                continue
            does_count = counts.get(name)
            if name in _BY_KEY:
                found = {k: v for k, v in value.items() if does_count is None or does_count(v)}
                merged[name] = merged[name] | found
            elif does_count is None or does_count(value):
                merged[name] = value
    return TopicPolicies(**{**merged, "isGlobal": False})


def known_types(names: Container[str]) -> tuple[SubscriptionTypeName, ...]:
    return tuple(each for each in SubscriptionTypeName if each.value in names)


def _limit_backlog(policies: TopicPolicies, kind: BacklogQuotaType) -> BacklogLimit:
    quota = policies.backLogQuotaMap[kind]
    limit = quota.limitTime if kind is BacklogQuotaType.MESSAGE_AGE else quota.size
    return BacklogLimit(limit, quota.policy or BacklogAction.PRODUCER_REQUEST_HOLD)


def _scaled(value: int, unit: int) -> int:
    return _INFINITE if value < 0 else value * unit
