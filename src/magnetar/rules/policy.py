"""Which policy is in force: the topic's own, else its global one, else the namespace's, else the
broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from msgspec import structs

from magnetar.model.policy import (
    BacklogAction,
    BacklogQuotaType,
    DispatchRate,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    PublishRate,
    SchemaAutoUpdateStrategy,
    SubscribeRate,
    SubscriptionTypeName,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy

_MIB: Final = 1 << 20
_INFINITE: Final = -1
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
    """What holds for one topic. 0 is "no limit" for every `max_` and for times to live; -1 is
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
    retention = levels.first(lambda t: t.retentionPolicies)
    return EffectivePolicy(
        retention_ms=_scaled(retention.retentionTimeInMinutes, 60_000),
        retention_bytes=_scaled(retention.retentionSizeInMB, _MIB),
        message_ttl_s=levels.number(lambda t: t.messageTTLInSeconds),
        backlog_size=levels.quota(BacklogQuotaType.DESTINATION_STORAGE),
        backlog_age=levels.quota(BacklogQuotaType.MESSAGE_AGE),
        max_producers=levels.number(lambda t: t.maxProducerPerTopic),
        max_consumers=levels.number(lambda t: t.maxConsumerPerTopic),
        max_consumers_per_subscription=levels.number(lambda t: t.maxConsumersPerSubscription),
        max_subscriptions=levels.number(lambda t: t.maxSubscriptionsPerTopic),
        max_unacked_per_consumer=levels.number(lambda t: t.maxUnackedMessagesOnConsumer),
        max_unacked_per_subscription=levels.number(lambda t: t.maxUnackedMessagesOnSubscription),
        max_message_size=levels.number(lambda t: t.maxMessageSize),
        publish_rate=None if is_system else levels.rate(lambda t: limit_publish(t.publishRate)),
        dispatch_rate=None if is_system else levels.rate(lambda t: limit_dispatch(t.dispatchRate)),
        subscription_dispatch_rate=levels.rate(
            lambda t: limit_dispatch(t.subscriptionDispatchRate)
        ),
        subscribe_rate=levels.rate(lambda t: limit_subscribe(t.subscribeRate)),
        dedup_enabled=levels.first(lambda t: t.deduplicationEnabled),
        dedup_snapshot_interval=broker.dedup_snapshot_interval,
        dedup_snapshot_interval_s=levels.number(lambda t: t.deduplicationSnapshotIntervalSeconds),
        delayed_delivery_enabled=levels.first(lambda t: t.delayedDeliveryEnabled),
        delayed_delivery_tick_ms=levels.first(lambda t: t.delayedDeliveryTickTimeMillis),
        delayed_delivery_max_delay_ms=levels.first(lambda t: t.delayedDeliveryMaxDelayInMillis),
        compaction_threshold=levels.first(lambda t: t.compactionThreshold),
        inactive_topic=levels.first(lambda t: t.inactiveTopicPolicies),
        schema_compatibility=broker.system_schema_compatibility
        if is_system
        else levels.first(lambda t: _defined(t.schemaCompatibilityStrategy)),
        schema_validation_enforced=levels.first(lambda t: t.schemaValidationEnforced),
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
        subscription_expiration_min=levels.number(lambda t: t.subscriptionExpirationTimeInMinutes),
        persistence=levels.first(lambda t: t.persistence),
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
    delayed = namespace.delayed_delivery_policies
    rate = namespace.topicDispatchRate.get(cluster)
    return TopicPolicies(
        backLogQuotaMap=namespace.backlog_quota_map,
        subscriptionTypesEnabled=_known_types(namespace.subscription_types_enabled),
        replicationClusters=namespace.replication_clusters,
        persistence=namespace.persistence,
        retentionPolicies=namespace.retention_policies,
        deduplicationEnabled=namespace.deduplicationEnabled,
        messageTTLInSeconds=namespace.message_ttl_in_seconds,
        subscriptionExpirationTimeInMinutes=namespace.subscription_expiration_time_minutes,
        maxProducerPerTopic=namespace.max_producers_per_topic,
        maxConsumerPerTopic=namespace.max_consumers_per_topic,
        maxConsumersPerSubscription=namespace.max_consumers_per_subscription,
        maxSubscriptionsPerTopic=namespace.max_subscriptions_per_topic,
        maxUnackedMessagesOnConsumer=namespace.max_unacked_messages_per_consumer,
        maxUnackedMessagesOnSubscription=namespace.max_unacked_messages_per_subscription,
        delayedDeliveryEnabled=None if delayed is None else delayed.active,
        delayedDeliveryTickTimeMillis=None if delayed is None else delayed.tickTime,
        delayedDeliveryMaxDelayInMillis=(
            None if delayed is None else delayed.maxDeliveryDelayInMillis
        ),
        dispatcherPauseOnAckStatePersistentEnabled=(
            namespace.dispatcherPauseOnAckStatePersistentEnabled
        ),
        offloadPolicies=namespace.offload_policies,
        inactiveTopicPolicies=namespace.inactive_topic_policies,
        dispatchRate=namespace.clusterDispatchRate.get(cluster) if rate is None else rate,
        subscriptionDispatchRate=namespace.subscriptionDispatchRate.get(cluster),
        replicatorDispatchRate=namespace.replicatorDispatchRate.get(cluster),
        publishRate=namespace.publishMaxMessageRate.get(cluster),
        subscribeRate=namespace.clusterSubscribeRate.get(cluster),
        compactionThreshold=namespace.compaction_threshold,
        deduplicationSnapshotIntervalSeconds=namespace.deduplicationSnapshotIntervalSeconds,
        schemaCompatibilityStrategy=_namespace_compatibility(namespace),
        # A namespace cannot say "not set" here: its plain false leaves the broker's word standing.
        schemaValidationEnforced=namespace.schema_validation_enforced or None,
        entryFilters=namespace.entryFilters,
        autoSubscriptionCreationOverride=namespace.autoSubscriptionCreationOverride,
    )


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


def limit_dispatch(rate: DispatchRate | None) -> RateLimit | None:
    """A rate counts as set only when one of its numbers is positive."""
    if rate is None:
        return None
    messages, size = rate.dispatchThrottlingRateInMsg, rate.dispatchThrottlingRateInByte
    if messages <= 0 and size <= 0:
        return None
    return RateLimit(messages, size, max(1, rate.ratePeriodInSecond), rate.relativeToPublishRate)


def limit_publish(rate: PublishRate | None) -> RateLimit | None:
    if rate is None:
        return None
    messages, size = rate.publishThrottlingRateInMsg, rate.publishThrottlingRateInByte
    return RateLimit(messages, size, 1) if messages > 0 or size > 0 else None


def limit_subscribe(rate: SubscribeRate | None) -> RateLimit | None:
    if rate is None or rate.subscribeThrottlingRatePerConsumer <= 0 or rate.ratePeriodInSecond <= 0:
        return None
    return RateLimit(rate.subscribeThrottlingRatePerConsumer, 0, rate.ratePeriodInSecond)


class _Levels:
    """The levels of one topic, asked in order; the last one, the broker's, has every value."""

    def __init__(self, *levels: TopicPolicies) -> None:
        self._levels = levels

    def first(self, get: Callable[[TopicPolicies], T | None]) -> T:
        value = self._find(get)
        assert value is not None
        return value

    def number(self, get: Callable[[TopicPolicies], int | None]) -> int:
        """A negative number is one nobody set."""

        def get_set(level: TopicPolicies) -> int | None:
            value = get(level)
            return None if value is None or value < 0 else value

        return self._find(get_set) or 0

    def rate(self, get: Callable[[TopicPolicies], RateLimit | None]) -> RateLimit | None:
        return self._find(get)

    def quota(self, kind: BacklogQuotaType) -> BacklogLimit:
        quota = self.first(lambda level: level.backLogQuotaMap.get(kind))
        limit = quota.limitTime if kind is BacklogQuotaType.MESSAGE_AGE else quota.size
        return BacklogLimit(limit, quota.policy or BacklogAction.PRODUCER_REQUEST_HOLD)

    def _find(self, get: Callable[[TopicPolicies], T | None]) -> T | None:
        for level in self._levels:
            value = get(level)
            if value is not None:
                return value
        return None


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
            rate = limit_dispatch(policies.dispatchRate)
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
