"""Which policy is in force: the topic's own, else its global one, else the namespace's, else the
broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from msgspec import structs

from magnetar.model.choice import BacklogAction, BacklogQuotaType, SubscriptionTypeName
from magnetar.model.policy import (
    DispatchRate,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    PublishRate,
    SchemaAutoUpdateStrategy,
    SubscribeRate,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy
from magnetar.operation.policy import Combine, Level
from magnetar.operation.policy_table import POLICIES
from magnetar.rules.policy_field import read_value, spell_value

_MIB: Final = 1 << 20
_INFINITE: Final = -1
_SYSTEM: Final[dict[str, Any]] = {"publish_rate": None, "dispatch_rate": None}
_BY_KEY: Final = frozenset({"backLogQuotaMap", "subscriptionPolicies"})

# What the older spelling of a strategy means today.
_AUTO_UPDATE: Final[Mapping[SchemaAutoUpdateStrategy, CompatibilityStrategy]] = {
    SchemaAutoUpdateStrategy.AUTO_UPDATE_DISABLED: CompatibilityStrategy.ALWAYS_INCOMPATIBLE,
    SchemaAutoUpdateStrategy.BACKWARD: CompatibilityStrategy.BACKWARD,
    SchemaAutoUpdateStrategy.FORWARD: CompatibilityStrategy.FORWARD,
    SchemaAutoUpdateStrategy.FULL: CompatibilityStrategy.FULL,
    SchemaAutoUpdateStrategy.ALWAYS_COMPATIBLE: CompatibilityStrategy.ALWAYS_COMPATIBLE,
    SchemaAutoUpdateStrategy.BACKWARD_TRANSITIVE: CompatibilityStrategy.BACKWARD_TRANSITIVE,
    SchemaAutoUpdateStrategy.FORWARD_TRANSITIVE: CompatibilityStrategy.FORWARD_TRANSITIVE,
    SchemaAutoUpdateStrategy.FULL_TRANSITIVE: CompatibilityStrategy.FULL_TRANSITIVE,
}

_BELOW, _ABOVE = Level.TOPIC, Level.NAMESPACE
_BOTH: Final = [each for each in POLICIES if each.topic and each.namespace]
_OTHERS: Final = [
    each for each in _BOTH if each.place(_BELOW).spread or each.place(_ABOVE).by_cluster
]
_ALIKE: Final = [
    (each.place(_BELOW).field, each.place(_ABOVE).field) for each in _BOTH if each not in _OTHERS
]
"""Fields of a topic that hold what a field of its namespace does; the others take more."""

_IN_FORCE: Final = [
    (each.effective, each.place(_BELOW).field, each.combine) for each in POLICIES if each.effective
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RateLimit:
    """So many messages and bytes in each period; a number that is not positive does not bound.

    `relative`: on top of what is published at the same time.
    """

    messages: int
    bytes: int
    period_s: int
    relative: bool = False


@dataclass(frozen=True, slots=True)
class BacklogLimit:
    """A `limit` (bytes or seconds) that is not positive does not bound."""

    limit: int
    action: BacklogAction


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """0 partitions: a topic without partitions is made."""

    allowed: bool
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDefaults:
    """What the broker's configuration says, for whatever nobody has set."""

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
    entries_per_ledger_max: int
    ledger_bytes_max: int
    roll_min_ms: int
    roll_max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
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
    dedup_enabled: bool
    dedup_snapshot_interval: int
    """Entries between two snapshots."""
    dedup_snapshot_interval_s: int
    delayed_delivery_enabled: bool
    delayed_delivery_tick_ms: int
    delayed_delivery_max_delay_ms: int
    compaction_threshold: int
    inactive_topic: InactiveTopicPolicies
    schema_compatibility: CompatibilityStrategy
    schema_validation_enforced: bool
    allow_auto_update_schema: bool
    subscription_types_enabled: tuple[str, ...]
    auto_topic_creation: AutoTopicCreation
    auto_subscription_creation: bool
    encryption_required: bool
    subscription_expiration_min: int
    persistence: PersistencePolicies
    entries_per_ledger_max: int
    ledger_bytes_max: int
    roll_min_ms: int
    roll_max_ms: int
    rates_by_subscription: Mapping[str, RateLimit] = field(default_factory=dict)
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


def decide_effective(
    topic_local: TopicPolicies | None,
    topic_global: TopicPolicies | None,
    namespace: Policies | None,
    broker: BrokerDefaults,
    *,
    is_system: bool = False,
) -> EffectivePolicy:
    """Setting by setting. A system topic has no rates, and its schema strategy is the broker's."""
    given = [topic_local, topic_global]
    if namespace is not None:
        given.append(plan_namespace_level(namespace, cluster=broker.cluster))
    levels = _Levels(*(level for level in given if level is not None), broker.policies)
    combined = levels.combine()
    if is_system:
        combined |= _SYSTEM | {"schema_compatibility": broker.system_schema_compatibility}
    retention = levels.first(lambda t: t.retentionPolicies)
    return EffectivePolicy(
        **combined,
        retention_ms=_scaled(retention.retentionTimeInMinutes, 60_000),
        retention_bytes=_scaled(retention.retentionSizeInMB, _MIB),
        backlog_size=levels.quota(BacklogQuotaType.DESTINATION_STORAGE),
        backlog_age=levels.quota(BacklogQuotaType.MESSAGE_AGE),
        dedup_snapshot_interval=broker.dedup_snapshot_interval,
        delayed_delivery_enabled=levels.first(lambda t: t.delayedDeliveryEnabled),
        delayed_delivery_tick_ms=levels.first(lambda t: t.delayedDeliveryTickTimeMillis),
        delayed_delivery_max_delay_ms=levels.first(lambda t: t.delayedDeliveryMaxDelayInMillis),
        allow_auto_update_schema=_decide_auto_update(namespace, broker),
        subscription_types_enabled=tuple(
            each.value for each in levels.first(lambda t: t.subscriptionTypesEnabled or None)
        ),
        auto_topic_creation=decide_auto_topic_creation(namespace, broker),
        auto_subscription_creation=levels.first(
            lambda t: t.autoSubscriptionCreationOverride
        ).allowAutoSubscriptionCreation,
        encryption_required=broker.encryption_required
        or (namespace is not None and namespace.encryption_required),
        entries_per_ledger_max=broker.entries_per_ledger_max,
        ledger_bytes_max=broker.ledger_bytes_max,
        roll_min_ms=broker.roll_min_ms,
        roll_max_ms=broker.roll_max_ms,
        rates_by_subscription=_rates_by_subscription(topic_local, topic_global),
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
    fields = {name: getattr(namespace, field) for name, field in _ALIKE}
    for policy in _OTHERS:
        at = policy.place(Level.NAMESPACE)
        value = read_value(policy, Level.NAMESPACE, namespace, cluster=cluster)
        if value is None and at.older:
            value = getattr(namespace, at.older).get(cluster)
        fields |= spell_value(policy, Level.TOPIC, value)
    fields["subscriptionTypesEnabled"] = _known_types(namespace.subscription_types_enabled)
    fields["schemaCompatibilityStrategy"] = _namespace_compatibility(namespace)
    # A namespace cannot say "not set" here: its plain false leaves the broker's word standing.
    fields["schemaValidationEnforced"] = namespace.schema_validation_enforced or None
    return TopicPolicies(**fields)


def plan_merged(*levels: TopicPolicies | None) -> TopicPolicies:
    """For each setting the first level that has it; quotas and subscriptions one by one."""
    merged: dict[str, Any] = {}
    for level in levels:
        for name, value in {} if level is None else structs.asdict(level).items():
            if isinstance(value, dict) and name in _BY_KEY:
                merged[name] = {**value, **merged.get(name, {})}
            elif value is not None and value != () and name not in merged:
                merged[name] = value
    return TopicPolicies(**{**merged, "isGlobal": False})


def limit_rate(rate: DispatchRate | PublishRate | SubscribeRate | None) -> RateLimit | None:
    """A rate counts as set only when one of its numbers is positive."""
    match rate:
        case DispatchRate():
            messages, size = rate.dispatchThrottlingRateInMsg, rate.dispatchThrottlingRateInByte
            period_s, relative = max(1, rate.ratePeriodInSecond), rate.relativeToPublishRate
            limit = RateLimit(messages, size, period_s, relative)
        case PublishRate():
            messages, size = rate.publishThrottlingRateInMsg, rate.publishThrottlingRateInByte
            limit = RateLimit(messages, size, 1)
        case SubscribeRate():
            limit = RateLimit(rate.subscribeThrottlingRatePerConsumer, 0, rate.ratePeriodInSecond)
        case None:
            return None
    return limit if limit.period_s > 0 and max(limit.messages, limit.bytes) > 0 else None


class _Levels:
    """The levels of one topic, asked in order; the last one, the broker's, has every value."""

    def __init__(self, *levels: TopicPolicies) -> None:
        self._levels = levels

    def first(self, get: Callable[[TopicPolicies], T | None]) -> T:
        return next(value for level in self._levels if (value := get(level)) is not None)

    def combine(self) -> dict[str, Any]:
        """The policies in force that are one row each, by their names."""
        return {name: self._combine(field, how) for name, field, how in _IN_FORCE}

    def _combine(self, field: str, how: Combine) -> Any:
        for level in self._levels:
            value = getattr(level, field)
            if value is None or value is CompatibilityStrategy.UNDEFINED:
                continue
            if how == "rate":
                value = limit_rate(value)
            if how == "first" or (value is not None and (how == "rate" or value >= 0)):
                return value
        return 0 if how == "count" else None

    def quota(self, kind: BacklogQuotaType) -> BacklogLimit:
        quota = self.first(lambda level: level.backLogQuotaMap.get(kind))
        limit = quota.limitTime if kind is BacklogQuotaType.MESSAGE_AGE else quota.size
        return BacklogLimit(limit, quota.policy or BacklogAction.PRODUCER_REQUEST_HOLD)


def _decide_auto_update(namespace: Policies | None, broker: BrokerDefaults) -> bool:
    if namespace is None or namespace.is_allow_auto_update_schema is None:
        return broker.allow_auto_update_schema
    return namespace.is_allow_auto_update_schema


def _rates_by_subscription(
    local: TopicPolicies | None, shared: TopicPolicies | None
) -> dict[str, RateLimit]:
    rates: dict[str, RateLimit] = {}
    for level in (shared, local):
        for subscription, policies in ({} if level is None else level.subscriptionPolicies).items():
            rate = limit_rate(policies.dispatchRate)
            if rate is not None:
                rates[subscription] = rate
    return rates


def _namespace_compatibility(namespace: Policies) -> CompatibilityStrategy | None:
    older = namespace.schema_auto_update_compatibility_strategy
    strategy = _defined(namespace.schema_compatibility_strategy)
    return _AUTO_UPDATE[older] if strategy is None and older is not None else strategy


def _known_types(names: Iterable[str]) -> tuple[SubscriptionTypeName, ...]:
    return tuple(each for each in SubscriptionTypeName if each.value in set(names))


def _defined(strategy: CompatibilityStrategy | None) -> CompatibilityStrategy | None:
    return None if strategy is CompatibilityStrategy.UNDEFINED else strategy


def _scaled(value: int, unit: int) -> int:
    return _INFINITE if value < 0 else value * unit
