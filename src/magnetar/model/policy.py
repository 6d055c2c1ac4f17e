"""The policies of namespaces and topics.

Field names and shapes are those of Pulsar's JSON. Values are immutable: `msgspec.structs.replace`
makes a changed one, and dicts inside are never changed in place. None means "not set": the next
level decides.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, field

from magnetar.model.choice import (
    BacklogAction,
    BacklogQuotaType,
    InactiveTopicDeleteMode,
    OffloadedReadPriority,
    SubscriptionAuthMode,
    SubscriptionTypeName,
)
from magnetar.model.permission import AuthAction
from magnetar.model.schema import CompatibilityStrategy

Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class SchemaAutoUpdateStrategy(StrEnum):
    """The older spelling of a compatibility strategy, still stored by older tools."""

    AUTO_UPDATE_DISABLED = "AutoUpdateDisabled"
    BACKWARD = "Backward"
    FORWARD = "Forward"
    FULL = "Full"
    ALWAYS_COMPATIBLE = "AlwaysCompatible"
    BACKWARD_TRANSITIVE = "BackwardTransitive"
    FORWARD_TRANSITIVE = "ForwardTransitive"
    FULL_TRANSITIVE = "FullTransitive"

    @property
    def today(self) -> CompatibilityStrategy:
        is_off = self is SchemaAutoUpdateStrategy.AUTO_UPDATE_DISABLED
        return CompatibilityStrategy["ALWAYS_INCOMPATIBLE" if is_off else self.name]


class RetentionPolicies(Struct, frozen=True, kw_only=True):
    """-1 is infinite; both 0: nothing acknowledged is kept."""

    retentionTimeInMinutes: Int32 = 0
    retentionSizeInMB: Int64 = 0


class BacklogQuota(Struct, frozen=True, kw_only=True):
    """`limit` is the older name of `limitSize`. A limit that is not positive does not bound."""

    limit: Int64 | None = None
    limitSize: Int64 | None = None
    limitTime: Int32 = 0
    policy: BacklogAction | None = None

    @property
    def size(self) -> int:
        if self.limitSize is not None:
            return self.limitSize
        return 0 if self.limit is None else self.limit


class PersistencePolicies(Struct, frozen=True, kw_only=True):
    bookkeeperEnsemble: Int32 = 2
    bookkeeperWriteQuorum: Int32 = 2
    bookkeeperAckQuorum: Int32 = 2
    managedLedgerMaxMarkDeleteRate: float = -1.0
    managedLedgerStorageClassName: str | None = None


class InactiveTopicPolicies(Struct, frozen=True, kw_only=True):
    inactiveTopicDeleteMode: InactiveTopicDeleteMode | None = None
    maxInactiveDurationSeconds: Int32 = 0
    deleteWhileInactive: bool = False


class DelayedDeliveryPolicies(Struct, frozen=True, kw_only=True):
    tickTime: Int64 = 0
    active: bool = False
    maxDeliveryDelayInMillis: Int64 = 0


class AutoTopicCreationOverride(Struct, frozen=True, kw_only=True):
    allowAutoTopicCreation: bool = False
    topicType: str | None = None
    defaultNumPartitions: Int32 | None = None


class AutoSubscriptionCreationOverride(Struct, frozen=True, kw_only=True):
    allowAutoSubscriptionCreation: bool = False


class RateLimit(Struct, frozen=True):
    """So many messages and bytes in each period; a number that is not positive does not bound.

    `relative`: on top of what is published at the same time.
    """

    messages: int
    bytes: int
    period_s: int
    relative: bool = False


class DispatchRate(Struct, frozen=True, kw_only=True):
    dispatchThrottlingRateInMsg: Int32 = -1
    dispatchThrottlingRateInByte: Int64 = -1
    relativeToPublishRate: bool = False
    ratePeriodInSecond: Int32 = 1

    @property
    def limit(self) -> RateLimit:
        messages, size = self.dispatchThrottlingRateInMsg, self.dispatchThrottlingRateInByte
        return RateLimit(messages, size, self.ratePeriodInSecond, self.relativeToPublishRate)


class PublishRate(Struct, frozen=True, kw_only=True):
    publishThrottlingRateInMsg: Int32 = -1
    publishThrottlingRateInByte: Int64 = -1

    @property
    def limit(self) -> RateLimit:
        return RateLimit(self.publishThrottlingRateInMsg, self.publishThrottlingRateInByte, 1)


class SubscribeRate(Struct, frozen=True, kw_only=True):
    subscribeThrottlingRatePerConsumer: Int32 = -1
    ratePeriodInSecond: Int32 = 30

    @property
    def limit(self) -> RateLimit:
        return RateLimit(self.subscribeThrottlingRatePerConsumer, 0, self.ratePeriodInSecond)


Rate: TypeAlias = DispatchRate | PublishRate | SubscribeRate


class EntryFilters(Struct, frozen=True, kw_only=True):
    entryFilterNames: str | None = None


_Limit: TypeAlias = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
_Size: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class OffloadPolicies(Struct, frozen=True, kw_only=True):
    """The members that brokers know; what else there is belongs to the driver."""

    fileSystemProfilePath: str | None = None
    fileSystemURI: str | None = None
    gcsManagedLedgerOffloadBucket: str | None = None
    gcsManagedLedgerOffloadMaxBlockSizeInBytes: _Size | None = None
    gcsManagedLedgerOffloadReadBufferSizeInBytes: _Size | None = None
    gcsManagedLedgerOffloadRegion: str | None = None
    gcsManagedLedgerOffloadServiceAccountKeyFile: str | None = None
    managedLedgerExtraConfigurations: dict[str, str] | None = None
    managedLedgerOffloadBucket: str | None = None
    managedLedgerOffloadDeletionLagInMillis: _Limit | None = None
    managedLedgerOffloadDriver: str | None = None
    managedLedgerOffloadMaxBlockSizeInBytes: _Size | None = None
    managedLedgerOffloadMaxThreads: _Count | None = None
    managedLedgerOffloadPrefetchRounds: _Count | None = None
    managedLedgerOffloadReadBufferSizeInBytes: _Size | None = None
    managedLedgerOffloadReadThreads: _Count | None = None
    managedLedgerOffloadRegion: str | None = None
    managedLedgerOffloadServiceEndpoint: str | None = None
    managedLedgerOffloadThresholdInBytes: _Limit | None = None
    managedLedgerOffloadThresholdInSeconds: _Limit | None = None
    managedLedgerOffloadedReadPriority: OffloadedReadPriority | None = None
    offloadersDirectory: str | None = None
    s3ManagedLedgerOffloadBucket: str | None = None
    s3ManagedLedgerOffloadCredentialId: str | None = None
    s3ManagedLedgerOffloadCredentialSecret: str | None = None
    s3ManagedLedgerOffloadMaxBlockSizeInBytes: _Size | None = None
    s3ManagedLedgerOffloadReadBufferSizeInBytes: _Size | None = None
    s3ManagedLedgerOffloadRegion: str | None = None
    s3ManagedLedgerOffloadRole: str | None = None
    s3ManagedLedgerOffloadRoleSessionName: str | None = None
    s3ManagedLedgerOffloadServiceEndpoint: str | None = None


Offload: TypeAlias = Annotated[dict[str, Any], OffloadPolicies]
"""An object whose known members are those of `OffloadPolicies`."""


class SubscriptionPolicies(Struct, frozen=True, kw_only=True):
    dispatchRate: DispatchRate | None = None


class BundlesData(Struct, frozen=True, kw_only=True):
    """`numBundles` ranges between neighbouring boundaries, from 0x00000000 to 0xffffffff."""

    boundaries: tuple[str, ...] | None = None
    numBundles: Int32 = 0


class AuthPolicies(Struct, frozen=True, kw_only=True):
    """Who may do what: in the namespace, on one topic, with one subscription."""

    namespace_auth: dict[str, tuple[AuthAction, ...]] = field(default_factory=dict)
    destination_auth: dict[str, dict[str, tuple[AuthAction, ...]]] = field(default_factory=dict)
    subscription_auth_roles: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Policies(Struct, frozen=True, kw_only=True):
    """All policies of a namespace. The rates are kept by cluster name."""

    auth_policies: AuthPolicies = AuthPolicies()
    replication_clusters: tuple[str, ...] = ()
    allowed_clusters: tuple[str, ...] = ()
    bundles: BundlesData | None = None
    numberOfTopicBuckets: Int32 | None = None
    backlog_quota_map: dict[BacklogQuotaType, BacklogQuota] = field(default_factory=dict)
    clusterDispatchRate: dict[str, DispatchRate] = field(default_factory=dict)
    topicDispatchRate: dict[str, DispatchRate] = field(default_factory=dict)
    subscriptionDispatchRate: dict[str, DispatchRate] = field(default_factory=dict)
    replicatorDispatchRate: dict[str, DispatchRate] = field(default_factory=dict)
    clusterSubscribeRate: dict[str, SubscribeRate] = field(default_factory=dict)
    publishMaxMessageRate: dict[str, PublishRate] = field(default_factory=dict)
    persistence: PersistencePolicies | None = None
    deduplicationEnabled: bool | None = None
    deduplicationSnapshotIntervalSeconds: Int32 | None = None
    autoTopicCreationOverride: AutoTopicCreationOverride | None = None
    autoSubscriptionCreationOverride: AutoSubscriptionCreationOverride | None = None
    scalableTopicAutoScalePolicy: dict[str, Any] | None = None
    latency_stats_sample_rate: dict[str, Int32] = field(default_factory=dict)
    message_ttl_in_seconds: Int32 | None = None
    subscription_expiration_time_minutes: Int32 | None = None
    retention_policies: RetentionPolicies | None = None
    deleted: bool = False
    encryption_required: bool = False
    delayed_delivery_policies: DelayedDeliveryPolicies | None = None
    inactive_topic_policies: InactiveTopicPolicies | None = None
    subscription_auth_mode: SubscriptionAuthMode = SubscriptionAuthMode.NONE
    max_producers_per_topic: Int32 | None = None
    max_consumers_per_topic: Int32 | None = None
    max_consumers_per_subscription: Int32 | None = None
    max_unacked_messages_per_consumer: Int32 | None = None
    max_unacked_messages_per_subscription: Int32 | None = None
    max_subscriptions_per_topic: Int32 | None = None
    max_topics_per_namespace: Int32 | None = None
    compaction_threshold: Int64 | None = None
    offload_threshold: Int64 = -1
    offload_threshold_in_seconds: Int64 = -1
    offload_deletion_lag_ms: Int64 | None = None
    offload_policies: Offload | None = None
    schema_auto_update_compatibility_strategy: SchemaAutoUpdateStrategy | None = None
    schema_compatibility_strategy: CompatibilityStrategy = CompatibilityStrategy.UNDEFINED
    is_allow_auto_update_schema: bool | None = None
    is_allow_auto_update_schema_with_replicator: bool = True
    schema_validation_enforced: bool = False
    subscription_types_enabled: tuple[str, ...] = ()
    allowed_topic_property_keys_for_metrics: tuple[str, ...] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    resource_group_name: str | None = None
    migrated: bool = False
    dispatcherPauseOnAckStatePersistentEnabled: bool | None = None
    entryFilters: EntryFilters | None = None


class LocalPolicies(Struct, frozen=True, kw_only=True):
    """What a cluster keeps of a namespace by itself."""

    bundles: BundlesData | None = None
    bookieAffinityGroup: dict[str, Any] | None = None
    namespaceAntiAffinityGroup: str | None = None
    migrated: bool = False


class TopicPolicies(Struct, frozen=True, kw_only=True):
    """All policies of one topic in one scope: this cluster's, or every cluster's."""

    backLogQuotaMap: dict[BacklogQuotaType, BacklogQuota] = field(default_factory=dict)
    subscriptionTypesEnabled: tuple[SubscriptionTypeName, ...] = ()
    replicationClusters: tuple[str, ...] | None = None
    shadowTopics: tuple[str, ...] | None = None
    isGlobal: bool = False
    persistence: PersistencePolicies | None = None
    retentionPolicies: RetentionPolicies | None = None
    deduplicationEnabled: bool | None = None
    messageTTLInSeconds: Int32 | None = None
    subscriptionExpirationTimeInMinutes: Int32 | None = None
    maxProducerPerTopic: Int32 | None = None
    maxConsumerPerTopic: Int32 | None = None
    maxConsumersPerSubscription: Int32 | None = None
    maxSubscriptionsPerTopic: Int32 | None = None
    maxUnackedMessagesOnConsumer: Int32 | None = None
    maxUnackedMessagesOnSubscription: Int32 | None = None
    delayedDeliveryEnabled: bool | None = None
    delayedDeliveryTickTimeMillis: Int64 | None = None
    delayedDeliveryMaxDelayInMillis: Int64 | None = None
    dispatcherPauseOnAckStatePersistentEnabled: bool | None = None
    offloadPolicies: Offload | None = None
    inactiveTopicPolicies: InactiveTopicPolicies | None = None
    dispatchRate: DispatchRate | None = None
    subscriptionDispatchRate: DispatchRate | None = None
    replicatorDispatchRate: DispatchRate | None = None
    publishRate: PublishRate | None = None
    subscribeRate: SubscribeRate | None = None
    compactionThreshold: Int64 | None = None
    deduplicationSnapshotIntervalSeconds: Int32 | None = None
    maxMessageSize: Int32 | None = None
    schemaCompatibilityStrategy: CompatibilityStrategy | None = None
    schemaValidationEnforced: bool | None = None
    entryFilters: EntryFilters | None = None
    autoSubscriptionCreationOverride: AutoSubscriptionCreationOverride | None = None
    subscriptionPolicies: dict[str, SubscriptionPolicies] = field(default_factory=dict)
