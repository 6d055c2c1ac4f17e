"""Records that are answered as they are kept, written by tools/generate_answer.py from them."""

from typing import Any, NotRequired, TypedDict


class ClusterAnswer(TypedDict):
    serviceUrl: NotRequired[str]
    serviceUrlTls: NotRequired[str]
    brokerServiceUrl: NotRequired[str]
    brokerServiceUrlTls: NotRequired[str]
    proxyServiceUrl: NotRequired[str]
    proxyProtocol: NotRequired[str]
    authenticationPlugin: NotRequired[str]
    authenticationParameters: NotRequired[str]
    peerClusterNames: NotRequired[list[str]]
    brokerClientTlsEnabled: bool
    tlsAllowInsecureConnection: bool
    brokerClientTlsEnabledWithKeyStore: bool
    brokerClientTlsTrustStoreType: NotRequired[str]
    brokerClientTlsTrustStore: NotRequired[str]
    brokerClientTlsTrustStorePassword: NotRequired[str]
    brokerClientTlsKeyStoreType: NotRequired[str]
    brokerClientTlsKeyStore: NotRequired[str]
    brokerClientTlsKeyStorePassword: NotRequired[str]
    brokerClientTrustCertsFilePath: NotRequired[str]
    brokerClientKeyFilePath: NotRequired[str]
    brokerClientCertificateFilePath: NotRequired[str]
    brokerClientSslFactoryPlugin: NotRequired[str]
    brokerClientSslFactoryPluginParams: NotRequired[str]
    listenerName: NotRequired[str]


class TenantAnswer(TypedDict):
    adminRoles: list[str]
    allowedClusters: list[str]


class FailoverPolicyAnswer(TypedDict):
    policy_type: str
    parameters: dict[str, str]


class IsolationPolicyAnswer(TypedDict):
    namespaces: list[str]
    primary: list[str]
    secondary: list[str]
    auto_failover_policy: FailoverPolicyAnswer
    unload_scope: NotRequired[str]


class IsolatedBrokerAnswer(TypedDict):
    brokerName: str
    policyName: NotRequired[str]
    primary: bool
    namespaceRegex: list[str]


class BookieAnswer(TypedDict):
    rack: NotRequired[str]
    hostname: NotRequired[str]


class BundlesAnswer(TypedDict):
    boundaries: NotRequired[list[str]]
    numBundles: int


class PartitionedMetadata(TypedDict):
    partitions: int
    deleted: bool
    properties: NotRequired[dict[str, str]]


class AuthPoliciesAnswer(TypedDict):
    namespace_auth: dict[str, list[str]]
    destination_auth: dict[str, dict[str, list[str]]]
    subscription_auth_roles: dict[str, list[str]]


class BacklogQuotaAnswer(TypedDict):
    limit: NotRequired[int]
    limitSize: NotRequired[int]
    limitTime: int
    policy: NotRequired[str]


class DispatchRateAnswer(TypedDict):
    dispatchThrottlingRateInMsg: int
    dispatchThrottlingRateInByte: int
    relativeToPublishRate: bool
    ratePeriodInSecond: int


class SubscribeRateAnswer(TypedDict):
    subscribeThrottlingRatePerConsumer: int
    ratePeriodInSecond: int


class PublishRateAnswer(TypedDict):
    publishThrottlingRateInMsg: int
    publishThrottlingRateInByte: int


class PersistencePoliciesAnswer(TypedDict):
    bookkeeperEnsemble: int
    bookkeeperWriteQuorum: int
    bookkeeperAckQuorum: int
    managedLedgerMaxMarkDeleteRate: float
    managedLedgerStorageClassName: NotRequired[str]


class AutoTopicCreationOverrideAnswer(TypedDict):
    allowAutoTopicCreation: bool
    topicType: NotRequired[str]
    defaultNumPartitions: NotRequired[int]


class AutoSubscriptionCreationOverrideAnswer(TypedDict):
    allowAutoSubscriptionCreation: bool


class RetentionPoliciesAnswer(TypedDict):
    retentionTimeInMinutes: int
    retentionSizeInMB: int


class DelayedDeliveryPoliciesAnswer(TypedDict):
    tickTime: int
    active: bool
    maxDeliveryDelayInMillis: int


class InactiveTopicPoliciesAnswer(TypedDict):
    inactiveTopicDeleteMode: NotRequired[str]
    maxInactiveDurationSeconds: int
    deleteWhileInactive: bool


class EntryFiltersAnswer(TypedDict):
    entryFilterNames: NotRequired[str]


class NamespacePolicies(TypedDict):
    auth_policies: AuthPoliciesAnswer
    replication_clusters: list[str]
    allowed_clusters: list[str]
    bundles: NotRequired[BundlesAnswer]
    numberOfTopicBuckets: NotRequired[int]
    backlog_quota_map: dict[str, BacklogQuotaAnswer]
    clusterDispatchRate: dict[str, DispatchRateAnswer]
    topicDispatchRate: dict[str, DispatchRateAnswer]
    subscriptionDispatchRate: dict[str, DispatchRateAnswer]
    replicatorDispatchRate: dict[str, DispatchRateAnswer]
    clusterSubscribeRate: dict[str, SubscribeRateAnswer]
    publishMaxMessageRate: dict[str, PublishRateAnswer]
    persistence: NotRequired[PersistencePoliciesAnswer]
    deduplicationEnabled: NotRequired[bool]
    deduplicationSnapshotIntervalSeconds: NotRequired[int]
    autoTopicCreationOverride: NotRequired[AutoTopicCreationOverrideAnswer]
    autoSubscriptionCreationOverride: NotRequired[AutoSubscriptionCreationOverrideAnswer]
    scalableTopicAutoScalePolicy: NotRequired[dict[str, Any]]
    latency_stats_sample_rate: dict[str, int]
    message_ttl_in_seconds: NotRequired[int]
    subscription_expiration_time_minutes: NotRequired[int]
    retention_policies: NotRequired[RetentionPoliciesAnswer]
    deleted: bool
    encryption_required: bool
    delayed_delivery_policies: NotRequired[DelayedDeliveryPoliciesAnswer]
    inactive_topic_policies: NotRequired[InactiveTopicPoliciesAnswer]
    subscription_auth_mode: str
    max_producers_per_topic: NotRequired[int]
    max_consumers_per_topic: NotRequired[int]
    max_consumers_per_subscription: NotRequired[int]
    max_unacked_messages_per_consumer: NotRequired[int]
    max_unacked_messages_per_subscription: NotRequired[int]
    max_subscriptions_per_topic: NotRequired[int]
    max_topics_per_namespace: NotRequired[int]
    compaction_threshold: NotRequired[int]
    offload_threshold: int
    offload_threshold_in_seconds: int
    offload_deletion_lag_ms: NotRequired[int]
    offload_policies: NotRequired[dict[str, Any]]
    schema_auto_update_compatibility_strategy: NotRequired[str]
    schema_compatibility_strategy: str
    is_allow_auto_update_schema: NotRequired[bool]
    is_allow_auto_update_schema_with_replicator: bool
    schema_validation_enforced: bool
    subscription_types_enabled: list[str]
    allowed_topic_property_keys_for_metrics: NotRequired[list[str]]
    properties: dict[str, str]
    resource_group_name: NotRequired[str]
    migrated: bool
    dispatcherPauseOnAckStatePersistentEnabled: NotRequired[bool]
    entryFilters: NotRequired[EntryFiltersAnswer]


class SubscriptionPoliciesAnswer(TypedDict):
    dispatchRate: NotRequired[DispatchRateAnswer]


class TopicPoliciesAnswer(TypedDict):
    backLogQuotaMap: dict[str, BacklogQuotaAnswer]
    subscriptionTypesEnabled: list[str]
    replicationClusters: NotRequired[list[str]]
    shadowTopics: NotRequired[list[str]]
    isGlobal: bool
    persistence: NotRequired[PersistencePoliciesAnswer]
    retentionPolicies: NotRequired[RetentionPoliciesAnswer]
    deduplicationEnabled: NotRequired[bool]
    messageTTLInSeconds: NotRequired[int]
    subscriptionExpirationTimeInMinutes: NotRequired[int]
    maxProducerPerTopic: NotRequired[int]
    maxConsumerPerTopic: NotRequired[int]
    maxConsumersPerSubscription: NotRequired[int]
    maxSubscriptionsPerTopic: NotRequired[int]
    maxUnackedMessagesOnConsumer: NotRequired[int]
    maxUnackedMessagesOnSubscription: NotRequired[int]
    delayedDeliveryEnabled: NotRequired[bool]
    delayedDeliveryTickTimeMillis: NotRequired[int]
    delayedDeliveryMaxDelayInMillis: NotRequired[int]
    dispatcherPauseOnAckStatePersistentEnabled: NotRequired[bool]
    offloadPolicies: NotRequired[dict[str, Any]]
    inactiveTopicPolicies: NotRequired[InactiveTopicPoliciesAnswer]
    dispatchRate: NotRequired[DispatchRateAnswer]
    subscriptionDispatchRate: NotRequired[DispatchRateAnswer]
    replicatorDispatchRate: NotRequired[DispatchRateAnswer]
    publishRate: NotRequired[PublishRateAnswer]
    subscribeRate: NotRequired[SubscribeRateAnswer]
    compactionThreshold: NotRequired[int]
    deduplicationSnapshotIntervalSeconds: NotRequired[int]
    maxMessageSize: NotRequired[int]
    schemaCompatibilityStrategy: NotRequired[str]
    schemaValidationEnforced: NotRequired[bool]
    entryFilters: NotRequired[EntryFiltersAnswer]
    autoSubscriptionCreationOverride: NotRequired[AutoSubscriptionCreationOverrideAnswer]
    subscriptionPolicies: dict[str, SubscriptionPoliciesAnswer]


class AutoScaleAnswer(TypedDict):
    enabled: NotRequired[bool]
    maxSegments: NotRequired[int]
    minSegments: NotRequired[int]
    maxDagDepth: NotRequired[int]
    splitCooldownSeconds: NotRequired[int]
    mergeCooldownSeconds: NotRequired[int]
    mergeWindowSeconds: NotRequired[int]
    splitMsgRateInThreshold: NotRequired[float]
    splitMsgRateOutThreshold: NotRequired[float]
    splitBytesRateInThreshold: NotRequired[int]
    splitBytesRateOutThreshold: NotRequired[int]
    mergeMsgRateInThreshold: NotRequired[float]
    mergeMsgRateOutThreshold: NotRequired[float]
    mergeBytesRateInThreshold: NotRequired[int]
    mergeBytesRateOutThreshold: NotRequired[int]
    consumersPerSegment: NotRequired[int]


class PartStateAnswer(TypedDict):
    name: str
    id: NotRequired[int]
    ledgers: NotRequired[list[list[int]]]
    end: NotRequired[str]
    isPinned: NotRequired[bool]
    entries: NotRequired[int]
    size: NotRequired[int]
    parents: NotRequired[list[int]]
    isSealed: NotRequired[bool]
    sealedMs: NotRequired[int]
    isHeld: NotRequired[bool]
    passed: NotRequired[list[str]]
    hidden: NotRequired[list[list[int]]]
    before: NotRequired[str]
    isMissing: NotRequired[bool]
    isElsewhere: NotRequired[bool]


class TopicStateAnswer(TypedDict):
    name: str
    domain: str
    parts: NotRequired[list[PartStateAnswer]]
    next: NotRequired[int]
    isHeld: NotRequired[bool]


class ReadPlanAnswer(TypedDict):
    topics: NotRequired[list[TopicStateAnswer]]
    missing: NotRequired[list[str]]
    more: NotRequired[str]
    version: NotRequired[str]
    isUnchanged: NotRequired[bool]


class ReachedAnswer(TypedDict):
    name: str
    position: str
    messages: NotRequired[int]
    size: NotRequired[int]
    isEnd: NotRequired[bool]
    nextMs: NotRequired[int]


class TopicRow(TypedDict):
    name: str
    kind: str
    parts: int
    isLoaded: bool
    msgRateIn: float
    msgRateOut: float
    bytesRateIn: float
    bytesRateOut: float
    storageSize: int
    producers: int
    consumers: int
    subscriptions: int
    lag: int
    isLagExact: bool
