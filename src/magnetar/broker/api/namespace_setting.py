"""The table of a namespace's policies that have a path of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from magnetar.broker.api.offload import check_offload_policies
from magnetar.broker.default import read_quorum_max
from magnetar.errors import BadRequest, PreconditionFailed
from magnetar.model.policy import (
    AutoSubscriptionCreationOverride,
    AutoTopicCreationOverride,
    DelayedDeliveryPolicies,
    DispatchRate,
    EntryFilters,
    InactiveTopicPolicies,
    Int32,
    Int64,
    PersistencePolicies,
    Policies,
    PublishRate,
    RetentionPolicies,
    SchemaAutoUpdateStrategy,
    SubscribeRate,
    SubscriptionAuthMode,
)
from magnetar.model.schema import CompatibilityStrategy
from magnetar.model.validation import (
    check_auto_topic_creation,
    check_message_ttl,
    check_not_negative,
    check_persistence,
    check_retention,
    check_retention_exceeds_quotas,
    check_subscription_expiration,
    check_subscription_types,
)

if TYPE_CHECKING:
    from magnetar.broker.service import Service

Check: TypeAlias = "Callable[[Any, Policies, Service], None]"

_UNSET: Final = Policies()


def _no_check(value: Any, policies: Policies, service: Service) -> None:
    """Any value of the right shape will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSetting:
    """One policy; rates are kept by cluster and told for this one.

    None removes; `bodyless` is what a write without a body means.
    """

    name: str
    field: str
    body: Any
    verb: str = "POST"
    priority: str = "P1"
    removable: bool = True
    by_cluster: bool = False
    missing: str = ""
    bodyless: Any = None
    when_unset: Callable[[Service], Any] | None = None
    check: Check = _no_check

    def read(self, policies: Policies, service: Service) -> Any:
        value = getattr(policies, self.field)
        if self.by_cluster:
            value = value.get(service.cluster)
        if value is None and self.when_unset is not None:
            return self.when_unset(service)
        return value

    def apply(self, policies: Policies, service: Service, value: Any) -> Policies:
        if self.by_cluster:
            rates = dict(getattr(policies, self.field))
            rates.pop(service.cluster, None)
            if value is not None:
                rates[service.cluster] = value
            return replace(policies, **{self.field: rates})
        stored = getattr(_UNSET, self.field) if value is None else value
        return replace(policies, **{self.field: stored})


# Checks
def _at_least_zero(name: str) -> Check:
    def check(value: Any, policies: Policies, service: Service) -> None:
        check_not_negative(name, value)

    return check


def _check_ttl(value: Any, policies: Policies, service: Service) -> None:
    check_message_ttl(value)


def _check_expiration(value: Any, policies: Policies, service: Service) -> None:
    check_subscription_expiration(value)


def _check_snapshot_interval(value: Any, policies: Policies, service: Service) -> None:
    if value < 0:
        raise PreconditionFailed("interval must be greater than or equal to 0")


def _check_retention(value: Any, policies: Policies, service: Service) -> None:
    check_retention(value)
    quotas = policies.backlog_quota_map.values()
    check_retention_exceeds_quotas(value, quotas, level="namespace")


def _check_persistence(value: Any, policies: Policies, service: Service) -> None:
    check_persistence(value, quorum_max=read_quorum_max(service.config))


def _check_auto_topic_creation(value: Any, policies: Policies, service: Service) -> None:
    problem = _find_creation_problem(value)
    if problem is not None:
        raise PreconditionFailed(
            f"Invalid configuration for autoTopicCreationOverride. the detail is {problem}"
        )
    limit = service.config.maxNumPartitionsPerPartitionedTopic
    check_auto_topic_creation(value, partitions_max=limit)


def _find_creation_problem(override: AutoTopicCreationOverride) -> str | None:
    """Tools compare these sentences word by word."""
    if not override.allowAutoTopicCreation:
        return None
    count = override.defaultNumPartitions
    match override.topicType:
        case "partitioned":
            if count is None:
                return "[defaultNumPartitions] cannot be null when the type is partitioned."
            if count < 1:
                return "[defaultNumPartitions] cannot be less than 1 for partition type."
            return None
        case "non-partitioned":
            if count is not None:
                return (
                    "[defaultNumPartitions] is not allowed to be set when the type is"
                    " non-partition."
                )
            return None
        case other:
            return f"Unknown topic type [{'null' if other is None else other}]"


def _check_replication(value: Any, policies: Policies, service: Service) -> None:
    if not value:
        raise PreconditionFailed("ClusterIds should not be null or empty")
    if "global" in value:
        raise PreconditionFailed("Cannot specify global in the list of replication clusters")
    for cluster in value:
        if policies.allowed_clusters and cluster not in policies.allowed_clusters:
            raise BadRequest(f"Cluster [{cluster}] is not among the namespace's allowed clusters")


def _check_allowed_clusters(value: Any, policies: Policies, service: Service) -> None:
    for cluster in policies.replication_clusters:
        if value and cluster not in value:
            raise BadRequest(f"Allowed clusters do not contain the replication cluster {cluster}")


def _check_subscription_types(value: Any, policies: Policies, service: Service) -> None:
    check_subscription_types(value)


def _check_filters(value: Any, policies: Policies, service: Service) -> None:
    check_entry_filters(value)


def check_entry_filters(value: EntryFilters) -> None:
    """There are no filters to choose from."""
    names = [name.strip() for name in (value.entryFilterNames or "").split(",") if name.strip()]
    if not names:
        raise BadRequest(
            "entryFilterNames can't be empty. To remove entry filters use the remove method."
        )
    raise BadRequest(f"Entry filter '{names[0]}' not found")


def _check_offload(value: Any, policies: Policies, service: Service) -> None:
    check_offload_policies(value)


def _limit(name: str, field: str, **options: Any) -> NamespaceSetting:
    check = _at_least_zero(name)
    return NamespaceSetting(name=name, field=field, body=Int32, check=check, **options)


def _rate(name: str, field: str, body: Any) -> NamespaceSetting:
    return NamespaceSetting(name=name, field=field, body=body, by_cluster=True)


SETTINGS: Final[tuple[NamespaceSetting, ...]] = (
    NamespaceSetting(name="deduplication", field="deduplicationEnabled", body=bool, priority="P0"),
    NamespaceSetting(
        name="schemaCompatibilityStrategy",
        field="schema_compatibility_strategy",
        body=CompatibilityStrategy,
        verb="PUT",
        priority="P0",
        removable=False,
    ),
    NamespaceSetting(
        name="schemaAutoUpdateCompatibilityStrategy",
        field="schema_auto_update_compatibility_strategy",
        body=SchemaAutoUpdateStrategy,
        verb="PUT",
        priority="P2",
        removable=False,
    ),
    NamespaceSetting(
        name="retention", field="retention_policies", body=RetentionPolicies, check=_check_retention
    ),
    NamespaceSetting(
        name="messageTTL", field="message_ttl_in_seconds", body=Int32, check=_check_ttl
    ),
    NamespaceSetting(
        name="replication",
        field="replication_clusters",
        body=tuple[str, ...],
        removable=False,
        missing="ClusterIds should not be null or empty",
        check=_check_replication,
    ),
    NamespaceSetting(
        name="allowedClusters",
        field="allowed_clusters",
        body=tuple[str, ...],
        priority="P2",
        removable=False,
        check=_check_allowed_clusters,
    ),
    NamespaceSetting(
        name="autoTopicCreation",
        field="autoTopicCreationOverride",
        body=AutoTopicCreationOverride,
        check=_check_auto_topic_creation,
    ),
    NamespaceSetting(
        name="autoSubscriptionCreation",
        field="autoSubscriptionCreationOverride",
        body=AutoSubscriptionCreationOverride,
    ),
    NamespaceSetting(
        name="persistence",
        field="persistence",
        body=PersistencePolicies,
        missing="persistence policies should not be null",
        check=_check_persistence,
    ),
    _rate("dispatchRate", "topicDispatchRate", DispatchRate),
    _rate("publishRate", "publishMaxMessageRate", PublishRate),
    _rate("subscribeRate", "clusterSubscribeRate", SubscribeRate),
    _rate("subscriptionDispatchRate", "subscriptionDispatchRate", DispatchRate),
    _rate("replicatorDispatchRate", "replicatorDispatchRate", DispatchRate),
    _limit("maxProducersPerTopic", "max_producers_per_topic"),
    _limit("maxConsumersPerTopic", "max_consumers_per_topic"),
    _limit("maxConsumersPerSubscription", "max_consumers_per_subscription"),
    _limit("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer"),
    _limit("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription"),
    _limit("maxSubscriptionsPerTopic", "max_subscriptions_per_topic"),
    _limit("maxTopicsPerNamespace", "max_topics_per_namespace", when_unset=lambda _: 0),
    NamespaceSetting(
        name="delayedDelivery", field="delayed_delivery_policies", body=DelayedDeliveryPolicies
    ),
    NamespaceSetting(
        name="inactiveTopicPolicies", field="inactive_topic_policies", body=InactiveTopicPolicies
    ),
    NamespaceSetting(
        name="deduplicationSnapshotInterval",
        field="deduplicationSnapshotIntervalSeconds",
        body=Int32,
        removable=False,
        check=_check_snapshot_interval,
    ),
    NamespaceSetting(
        name="subscriptionExpirationTime",
        field="subscription_expiration_time_minutes",
        body=Int32,
        check=_check_expiration,
    ),
    NamespaceSetting(
        name="compactionThreshold",
        field="compaction_threshold",
        body=Int64,
        verb="PUT",
        check=_at_least_zero("compactionThreshold"),
    ),
    NamespaceSetting(
        name="offloadPolicies",
        field="offload_policies",
        body=dict[str, Any],
        removable=False,
        missing="offloadPolicies must not be null",
        check=_check_offload,
    ),
    NamespaceSetting(
        name="schemaValidationEnforced",
        field="schema_validation_enforced",
        body=bool,
        removable=False,
    ),
    NamespaceSetting(
        name="isAllowAutoUpdateSchema",
        field="is_allow_auto_update_schema",
        body=bool,
        removable=False,
        when_unset=lambda service: service.config.isAllowAutoUpdateSchemaEnabled,
    ),
    NamespaceSetting(
        name="encryptionRequired", field="encryption_required", body=bool, removable=False
    ),
    NamespaceSetting(
        name="subscriptionAuthMode",
        field="subscription_auth_mode",
        body=SubscriptionAuthMode,
        removable=False,
    ),
    NamespaceSetting(
        name="subscriptionTypesEnabled",
        field="subscription_types_enabled",
        body=tuple[str, ...],
        priority="P2",
        check=_check_subscription_types,
    ),
    NamespaceSetting(
        name="entryFilters",
        field="entryFilters",
        body=EntryFilters,
        priority="P2",
        check=_check_filters,
    ),
    NamespaceSetting(
        name="dispatcherPauseOnAckStatePersistent",
        field="dispatcherPauseOnAckStatePersistentEnabled",
        body=bool,
        priority="P2",
        bodyless=True,
        when_unset=lambda _: False,
    ),
    NamespaceSetting(
        name="allowedTopicPropertyKeysForMetrics",
        field="allowed_topic_property_keys_for_metrics",
        body=tuple[str, ...],
        priority="P2",
    ),
)
