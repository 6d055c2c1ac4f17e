"""Written by tools/generate_configuration.py from acting_key.tsv: change that."""

from __future__ import annotations


class ActingKeys:
    """The keys that act, as attributes of a configuration."""

    acknowledgmentAtBatchIndexLevelEnabled: bool
    activeConsumerFailoverDelayTimeMillis: int
    advertisedAddress: str
    advertisedListeners: str
    allowAclChangesOnNonExistentTopics: bool
    allowAutoSubscriptionCreation: bool
    allowAutoTopicCreation: bool
    allowAutoTopicCreationType: str
    allowUnauthenticatedAccess: bool
    anonymousUserRole: str
    authenticateMetricsEndpoint: bool
    authenticateOriginalAuthData: bool
    authenticationEnabled: bool
    authenticationProviders: tuple[str, ...]
    authenticationRefreshCheckSeconds: int
    authorizationAllowWildcardsMatching: bool
    authorizationEnabled: bool
    autoSkipNonRecoverableData: bool
    backlogQuotaCheckEnabled: bool
    backlogQuotaCheckIntervalInSeconds: int
    backlogQuotaDefaultLimitBytes: int
    backlogQuotaDefaultLimitGB: float
    backlogQuotaDefaultLimitSecond: int
    backlogQuotaDefaultRetentionPolicy: str
    basicAuthConf: str
    bindAddress: str
    brokerDeduplicationEnabled: bool
    brokerDeduplicationEntriesInterval: int
    brokerDeduplicationMaxNumberOfProducers: int
    brokerDeduplicationProducerInactivityTimeoutMinutes: int
    brokerDeduplicationSnapshotIntervalSeconds: int | None
    brokerDeleteInactivePartitionedTopicMetadataEnabled: bool
    brokerDeleteInactiveTopicsEnabled: bool
    brokerDeleteInactiveTopicsFrequencySeconds: int
    brokerDeleteInactiveTopicsMaxInactiveDurationSeconds: int | None
    brokerDeleteInactiveTopicsMode: str
    brokerMaxConnections: int
    brokerMaxConnectionsPerIp: int
    brokerServiceCompactionMonitorIntervalInSeconds: int
    brokerServiceCompactionThresholdInBytes: int
    brokerServicePort: int | None
    brokerServicePortTls: int | None
    clusterName: str
    configurationMetadataStoreUrl: str
    connectionLivenessCheckTimeoutMillis: int
    defaultNumberOfNamespaceBundles: int
    defaultNumPartitions: int
    defaultRetentionSizeInMB: int
    defaultRetentionTimeInMinutes: int
    delayedDeliveryEnabled: bool
    delayedDeliveryMaxDelayInMillis: int
    dispatchThrottlingRatePerSubscriptionInByte: int
    dispatchThrottlingRatePerSubscriptionInMsg: int
    dispatchThrottlingRatePerTopicInByte: int
    dispatchThrottlingRatePerTopicInMsg: int
    enableBrokerSideSubscriptionPatternEvaluation: bool
    enableNonPersistentTopics: bool
    enablePersistentTopics: bool
    enableScalableTopicMigration: bool
    encryptionRequireOnProducer: bool
    eventLoopHeldWarningMillis: int
    exposeConsumerLevelMetricsInPrometheus: bool
    exposeProducerLevelMetricsInPrometheus: bool
    exposeTopicLevelMetricsInPrometheus: bool
    forceDeleteNamespaceAllowed: bool
    forceDeleteTenantAllowed: bool
    httpMaxRequestHeaderSize: int
    httpMaxRequestSize: int
    httpRequestsFailOnUnknownPropertiesEnabled: bool
    httpServerIdleTimeout: int
    isAllowAutoUpdateSchemaEnabled: bool
    isSchemaValidationEnforced: bool
    journalSyncData: bool
    keepAliveIntervalSeconds: int
    managedCursorInfoCompressionThresholdInBytes: int
    managedCursorInfoCompressionType: str
    managedLedgerCacheSizeMB: int
    managedLedgerInfoCompressionThresholdInBytes: int
    managedLedgerInfoCompressionType: str
    managedLedgerMaxAckQuorum: int
    managedLedgerMaxEnsembleSize: int
    managedLedgerMaxEntriesPerLedger: int
    managedLedgerMaxLedgerRolloverTimeMinutes: int
    managedLedgerMaxSizePerLedgerMbytes: int
    managedLedgerMaxWriteQuorum: int
    managedLedgerMinLedgerRolloverTimeMinutes: int
    maxCommandSize: int
    maxConcurrentHttpRequests: int
    maxConcurrentLookupRequest: int
    maxConcurrentTopicLoadRequest: int
    maxConnectFrameSize: int
    maxConsumerMetadataSize: int
    maxConsumerNameLength: int
    maxConsumersPerSubscription: int
    maxConsumersPerTopic: int
    maxHashRangesPerConsumer: int
    maxHttpServerConnections: int
    maxMessageIdsPerCommand: int
    maxMessageSize: int
    maxMessagesPerBatch: int
    maxNamespaceNameLength: int
    maxNamespacesPerTenant: int
    maxNumPartitionsPerPartitionedTopic: int
    maxPasswordLength: int
    maxPendingRequestsPerConnection: int
    maxProducerMetadataSize: int
    maxProducerNameLength: int
    maxProducersPerTopic: int
    maxProperties: int
    maxPropertiesSize: int
    maxPropertyKeyLength: int
    maxPropertyValueLength: int
    maxPublishRatePerTopicInBytes: int
    maxPublishRatePerTopicInMessages: int
    maxScalableTopicWatchesPerConnection: int
    maxSchemaCheckSteps: int
    maxSchemaSize: int
    maxSubscriptionNameLength: int
    maxSubscriptionsPerTopic: int
    maxTenantNameLength: int
    maxTenants: int
    maxTextLength: int
    maxTopicListWatchersPerConnection: int
    maxTopicNameLength: int
    maxTopicsPerNamespace: int
    maxUnackedMessagesPerConsumer: int
    maxUnackedMessagesPerSubscription: int
    maxUnreadAnswerSize: int
    maxUnreadAnswerSizePerConnection: int
    messageExpiryCheckIntervalInMinutes: int
    metadataStoreOperationTimeoutSeconds: int
    metadataStoreSessionTimeoutMillis: int
    metadataStoreUrl: str
    proxyRoles: tuple[str, ...]
    retentionCheckIntervalInSeconds: int
    scalableTopicAutoScaleEnabled: bool
    scalableTopicAutoScaleIntervalSeconds: int
    scalableTopicConsumerSessionGracePeriodSeconds: int
    scalableTopicConsumersPerSegment: int
    scalableTopicEntryBucketBudget: int
    scalableTopicKeySamplingEnabled: bool
    scalableTopicLoadReportIntervalSeconds: int
    scalableTopicLoadReportRateChangeThreshold: float
    scalableTopicMaxDagDepth: int
    scalableTopicMaxSegments: int
    scalableTopicMergeBytesRateInThreshold: int
    scalableTopicMergeBytesRateOutThreshold: int
    scalableTopicMergeCooldownSeconds: int
    scalableTopicMergeMsgRateInThreshold: float
    scalableTopicMergeMsgRateOutThreshold: float
    scalableTopicMergeWindowSeconds: int
    scalableTopicMinSegments: int
    scalableTopicsEnabled: bool
    scalableTopicSplitBytesRateInThreshold: int
    scalableTopicSplitBytesRateOutThreshold: int
    scalableTopicSplitCooldownSeconds: int
    scalableTopicSplitMsgRateInThreshold: float
    scalableTopicSplitMsgRateOutThreshold: float
    scalableTopicStalledSegmentSeconds: float
    schemaCompatibilityStrategy: str
    schemaJsonAllowLegacyJacksonFormat: bool
    statsUpdateFrequencyInSecs: int
    strictAuthMethod: bool
    subscribeRatePeriodPerConsumerInSecond: int
    subscribeThrottlingRatePerConsumer: int
    subscriptionExpirationTimeMinutes: int
    subscriptionExpiryCheckIntervalInMinutes: int
    subscriptionKeySharedConsistentHashingReplicaPoints: int
    subscriptionKeySharedUseConsistentHashing: bool
    subscriptionPatternMaxLength: int
    subscriptionTypesEnabled: tuple[str, ...]
    superUserRoles: tuple[str, ...]
    systemTopicEnabled: bool
    systemTopicSchemaCompatibilityStrategy: str
    tlsAllowInsecureConnection: bool
    tlsCertificateFilePath: str
    tlsCertRefreshCheckDurationSec: int
    tlsCiphers: tuple[str, ...]
    tlsEnabled: bool
    tlsKeyFilePath: str
    tlsProtocols: tuple[str, ...]
    tlsRequireTrustedClientCertOnConnect: bool
    tlsTrustCertsFilePath: str
    tokenAllowedClockSkewSeconds: int
    tokenAudience: str
    tokenAudienceClaim: str
    tokenAuthClaim: str
    tokenPublicAlg: str
    tokenPublicKey: str
    tokenSecretKey: str
    topicLevelPoliciesEnabled: bool
    topicPoliciesCacheInitTimeoutSeconds: int
    topicPoliciesServiceClassName: str
    ttlDurationDefaultInSeconds: int
    webServicePort: int | None
    webServicePortTls: int | None
    webServiceTlsCiphers: tuple[str, ...]
    webServiceTlsProtocols: tuple[str, ...]
