"""What the broker's configuration says about topics nobody has set policies for, and what of the
policies in force is the ledgers' business.
"""

from __future__ import annotations

from typing import Final

from magnetar.ledger.chain import ChainPolicy
from magnetar.model.policy import (
    AutoSubscriptionCreationOverride,
    BacklogAction,
    BacklogQuota,
    BacklogQuotaType,
    DispatchRate,
    InactiveTopicDeleteMode,
    InactiveTopicPolicies,
    PersistencePolicies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
    SubscriptionTypeName,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy
from magnetar.model.validation import QuorumMax
from magnetar.rules.policy import AutoTopicCreation, BrokerDefaults, EffectivePolicy
from magnetar.runtime.configuration import Configuration

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


def plan_defaults(config: Configuration) -> BrokerDefaults:
    partitioned = config.allowAutoTopicCreationType == "partitioned"
    return BrokerDefaults(
        cluster=config.clusterName or "standalone",
        policies=_plan_broker_level(config),
        system_schema_compatibility=_strategy(config.systemTopicSchemaCompatibilityStrategy),
        allow_auto_update_schema=config.isAllowAutoUpdateSchemaEnabled,
        auto_topic_creation=AutoTopicCreation(
            config.allowAutoTopicCreation, config.defaultNumPartitions if partitioned else 0
        ),
        auto_topic_partitions=config.defaultNumPartitions,
        encryption_required=config.encryptionRequireOnProducer,
        dedup_snapshot_interval=config.brokerDeduplicationEntriesInterval,
        entries_per_ledger_max=config.managedLedgerMaxEntriesPerLedger,
        ledger_bytes_max=config.managedLedgerMaxSizePerLedgerMbytes * _MIB,
        roll_min_ms=config.managedLedgerMinLedgerRolloverTimeMinutes * 60_000,
        roll_max_ms=config.managedLedgerMaxLedgerRolloverTimeMinutes * 60_000,
    )


def plan_chain(policy: EffectivePolicy) -> ChainPolicy:
    """What of a topic's policies concerns its chain of ledgers."""
    return ChainPolicy(
        entries_max=policy.entries_per_ledger_max,
        bytes_max=policy.ledger_bytes_max,
        roll_min_ms=policy.roll_min_ms,
        roll_max_ms=policy.roll_max_ms,
        retention_ms=policy.retention_ms,
        retention_bytes=policy.retention_bytes,
        cursor_writes_per_s=policy.persistence.managedLedgerMaxMarkDeleteRate,
    )


def read_quorum_max(config: Configuration) -> QuorumMax:
    """There is one copy of an entry here, whatever is asked for: with maxima of 1 the broker
    refuses policies that want more.
    """
    return QuorumMax(
        config.managedLedgerMaxEnsembleSize,
        config.managedLedgerMaxWriteQuorum,
        config.managedLedgerMaxAckQuorum,
    )


def _plan_broker_level(config: Configuration) -> TopicPolicies:
    quota = BacklogQuota(
        limitSize=int(config.backlogQuotaDefaultLimitGB * _GIB)
        if config.backlogQuotaDefaultLimitGB > 0
        else config.backlogQuotaDefaultLimitBytes,
        limitTime=config.backlogQuotaDefaultLimitSecond,
        policy=BacklogAction(config.backlogQuotaDefaultRetentionPolicy),
    )
    enabled = config.subscriptionTypesEnabled
    return TopicPolicies(
        backLogQuotaMap=dict.fromkeys(BacklogQuotaType, quota),
        subscriptionTypesEnabled=tuple(
            each for each in SubscriptionTypeName if each.value in enabled
        ),
        persistence=PersistencePolicies(
            bookkeeperEnsemble=_number(config, "managedLedgerDefaultEnsembleSize"),
            bookkeeperWriteQuorum=_number(config, "managedLedgerDefaultWriteQuorum"),
            bookkeeperAckQuorum=_number(config, "managedLedgerDefaultAckQuorum"),
        ),
        retentionPolicies=RetentionPolicies(
            retentionTimeInMinutes=config.defaultRetentionTimeInMinutes,
            retentionSizeInMB=config.defaultRetentionSizeInMB,
        ),
        deduplicationEnabled=config.brokerDeduplicationEnabled,
        messageTTLInSeconds=config.ttlDurationDefaultInSeconds,
        subscriptionExpirationTimeInMinutes=config.subscriptionExpirationTimeMinutes,
        maxProducerPerTopic=config.maxProducersPerTopic,
        maxConsumerPerTopic=config.maxConsumersPerTopic,
        maxConsumersPerSubscription=config.maxConsumersPerSubscription,
        maxSubscriptionsPerTopic=config.maxSubscriptionsPerTopic,
        maxUnackedMessagesOnConsumer=config.maxUnackedMessagesPerConsumer,
        maxUnackedMessagesOnSubscription=config.maxUnackedMessagesPerSubscription,
        delayedDeliveryEnabled=config.delayedDeliveryEnabled,
        delayedDeliveryTickTimeMillis=_number(config, "delayedDeliveryTickTimeMillis"),
        delayedDeliveryMaxDelayInMillis=config.delayedDeliveryMaxDelayInMillis,
        inactiveTopicPolicies=_plan_inactive(config),
        dispatchRate=DispatchRate(
            dispatchThrottlingRateInMsg=config.dispatchThrottlingRatePerTopicInMsg,
            dispatchThrottlingRateInByte=config.dispatchThrottlingRatePerTopicInByte,
        ),
        subscriptionDispatchRate=DispatchRate(
            dispatchThrottlingRateInMsg=config.dispatchThrottlingRatePerSubscriptionInMsg,
            dispatchThrottlingRateInByte=config.dispatchThrottlingRatePerSubscriptionInByte,
        ),
        publishRate=PublishRate(
            publishThrottlingRateInMsg=config.maxPublishRatePerTopicInMessages,
            publishThrottlingRateInByte=config.maxPublishRatePerTopicInBytes,
        ),
        subscribeRate=SubscribeRate(
            subscribeThrottlingRatePerConsumer=config.subscribeThrottlingRatePerConsumer,
            ratePeriodInSecond=config.subscribeRatePeriodPerConsumerInSecond,
        ),
        compactionThreshold=config.brokerServiceCompactionThresholdInBytes,
        deduplicationSnapshotIntervalSeconds=config.brokerDeduplicationSnapshotIntervalSeconds or 0,
        maxMessageSize=config.maxMessageSize,
        schemaCompatibilityStrategy=_strategy(config.schemaCompatibilityStrategy),
        schemaValidationEnforced=config.isSchemaValidationEnforced,
        autoSubscriptionCreationOverride=AutoSubscriptionCreationOverride(
            allowAutoSubscriptionCreation=config.allowAutoSubscriptionCreation
        ),
    )


def _plan_inactive(config: Configuration) -> InactiveTopicPolicies:
    seconds = config.brokerDeleteInactiveTopicsMaxInactiveDurationSeconds
    if seconds is None:
        seconds = config.brokerDeleteInactiveTopicsFrequencySeconds
    return InactiveTopicPolicies(
        inactiveTopicDeleteMode=InactiveTopicDeleteMode(config.brokerDeleteInactiveTopicsMode),
        maxInactiveDurationSeconds=seconds,
        deleteWhileInactive=config.brokerDeleteInactiveTopicsEnabled,
    )


def _strategy(text: str) -> CompatibilityStrategy:
    strategy = CompatibilityStrategy(text)
    if strategy is CompatibilityStrategy.UNDEFINED:
        return CompatibilityStrategy.FULL
    return strategy


def _number(config: Configuration, key: str) -> int:
    value = config.get(key)
    assert isinstance(value, int), key
    return value
