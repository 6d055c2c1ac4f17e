"""Policies by default: what the broker's configuration says about topics without policies of their
own, and what of the policies in force concerns the ledgers.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import convert, structs

from magnetar.ledger.info import LogPolicy
from magnetar.ledger.store import Replication
from magnetar.model.choice import BacklogQuotaType
from magnetar.model.policy import BacklogQuota, PersistencePolicies, TopicPolicies
from magnetar.model.schema import CompatibilityStrategy
from magnetar.operation.policy import AnyPolicy, Context, Level, QuorumMax, policies_at
from magnetar.operation.policy_table import POLICIES
from magnetar.rules.policy import (
    AutoTopicCreation,
    BrokerDefaults,
    EffectivePolicy,
    LedgerLimits,
    known_types,
)
from magnetar.rules.policy_field import spell_value, value_type
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
        ledger=LedgerLimits(
            entries_max=config.managedLedgerMaxEntriesPerLedger,
            bytes_max=config.managedLedgerMaxSizePerLedgerMbytes * _MIB,
            roll_min_ms=config.managedLedgerMinLedgerRolloverTimeMinutes * 60_000,
            roll_max_ms=config.managedLedgerMaxLedgerRolloverTimeMinutes * 60_000,
        ),
    )


def plan_log(policy: EffectivePolicy) -> LogPolicy:
    """What of a topic's policies concerns its log."""
    return LogPolicy(
        **structs.asdict(policy.ledger),
        retention_ms=policy.retention_ms,
        retention_bytes=policy.retention_bytes,
        cursor_writes_per_s=policy.persistence.managedLedgerMaxMarkDeleteRate,
        replication=plan_replication(policy.persistence),
    )


def plan_replication(persistence: PersistencePolicies) -> Replication:
    """What a policy asks for, made possible: records of other brokers are not checked."""
    ack = max(1, persistence.bookkeeperAckQuorum)
    write = max(ack, persistence.bookkeeperWriteQuorum)
    return Replication(max(write, persistence.bookkeeperEnsemble), write, ack)


def plan_context(config: Configuration) -> Context:
    """What the broker's configuration lets policies ask for.

    The log of a topic in BookKeeper has as many copies as its policy asks for; one in files has one
    copy, whatever is asked for: maxima of 1 refuse policies that want more.
    """
    return Context(
        quorum_max=QuorumMax(
            config.managedLedgerMaxEnsembleSize,
            config.managedLedgerMaxWriteQuorum,
            config.managedLedgerMaxAckQuorum,
        ),
        partitions_max=config.maxNumPartitionsPerPartitionedTopic,
        message_bytes_max=config.maxMessageSize,
    )


def read_broker_value(policy: AnyPolicy, config: Configuration) -> Any:
    """What the configuration says for topics and namespaces that say nothing."""
    found = {
        member: next((value for key in keys if (value := config.get(key)) is not None), None)
        for member, keys in policy.broker.items()
    }
    return found[""] if "" in found else convert(found, value_type(policy, Level.TOPIC))


def _plan_broker_level(config: Configuration) -> TopicPolicies:
    fields: dict[str, Any] = {}
    for policy, _ in policies_at(Level.TOPIC, POLICIES):
        if policy.broker:
            value = read_broker_value(policy, config)
            fields |= spell_value(policy, Level.TOPIC, 0 if value is None else value)
    quota: BacklogQuota = fields["backLogQuotaMap"]
    if config.backlogQuotaDefaultLimitGB > 0:
        quota = structs.replace(quota, limitSize=int(config.backlogQuotaDefaultLimitGB * _GIB))
    fields["backLogQuotaMap"] = dict.fromkeys(BacklogQuotaType, quota)
    fields["subscriptionTypesEnabled"] = known_types(config.subscriptionTypesEnabled)
    fields["schemaCompatibilityStrategy"] = _strategy(config.schemaCompatibilityStrategy)
    return TopicPolicies(**fields)


def _strategy(text: str) -> CompatibilityStrategy:
    strategy = CompatibilityStrategy(text)
    return CompatibilityStrategy.FULL if strategy is CompatibilityStrategy.UNDEFINED else strategy
