"""What a policy may hold. Each check raises the refusal the REST edge answers with."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Final, NamedTuple

from magnetar.errors import BadRequest, NotAcceptable, PreconditionFailed
from magnetar.model.policy import (
    AutoTopicCreationOverride,
    BacklogQuota,
    BacklogQuotaType,
    DelayedDeliveryPolicies,
    InactiveTopicDeleteMode,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    RetentionPolicies,
    SubscriptionTypeName,
)

TOPIC_BUCKETS_MAX: Final = 10_000
_MIB: Final = 1 << 20
_STORAGE_CLASS: Final = "bookkeeper"
"""What Pulsar calls the storage there is when nobody brings another."""


def check_retention(retention: RetentionPolicies) -> None:
    minutes, megabytes = retention.retentionTimeInMinutes, retention.retentionSizeInMB
    if megabytes < -1:
        raise BadRequest("Invalid retention policy: size limit must be >= -1")
    if minutes < -1:
        raise BadRequest("Invalid retention policy: time limit must be >= -1")
    if (minutes == 0) != (megabytes == 0):
        raise BadRequest(
            "Invalid retention policy: one limit is 0 and the other is not."
            " Use -1 for a limit that does not count, or 0 for both to keep nothing."
        )


def check_backlog_quota(quota: BacklogQuota) -> None:
    if quota.policy is None:
        raise BadRequest("Invalid backlog quota: the attribute policy cannot be null")


def is_quota_within_retention(
    quota: BacklogQuota | None, retention: RetentionPolicies | None
) -> bool:
    """A backlog that may grow beyond what is retained would be cut before its quota acts."""
    if quota is None or retention is None:
        return True
    minutes, megabytes = retention.retentionTimeInMinutes, retention.retentionSizeInMB
    if megabytes > 0 and quota.size >= megabytes * _MIB:
        return False
    return not (minutes > 0 and quota.limitTime >= minutes * 60)


def check_quota_within_retention(
    quota: BacklogQuota | None, retention: RetentionPolicies | None, *, level: str
) -> None:
    """For a quota that is being set; `level` is `namespace` or `topic`."""
    if not is_quota_within_retention(quota, retention):
        raise PreconditionFailed(
            f"Backlog Quota exceeds configured retention quota for {level}."
            " Please increase retention quota and retry"
        )


def check_retention_exceeds_quotas(
    retention: RetentionPolicies | None, quotas: Iterable[BacklogQuota], *, level: str
) -> None:
    """For a retention that is being set."""
    if not all(is_quota_within_retention(quota, retention) for quota in quotas):
        raise PreconditionFailed(
            f"Retention Quota must exceed configured backlog quota for {level}."
        )


class QuorumMax(NamedTuple):
    """The most that policies may ask for."""

    ensemble: int = 5
    write: int = 5
    ack: int = 5


_QUORUM_MAX: Final = QuorumMax()


def check_persistence(
    persistence: PersistencePolicies, *, quorum_max: QuorumMax = _QUORUM_MAX
) -> None:
    ensemble = persistence.bookkeeperEnsemble
    write = persistence.bookkeeperWriteQuorum
    ack = persistence.bookkeeperAckQuorum
    for name, value, most in (
        ("Ensemble", ensemble, quorum_max.ensemble),
        ("WriteQuorum", write, quorum_max.write),
        ("AckQuorum", ack, quorum_max.ack),
    ):
        if not 0 < value <= most:
            raise BadRequest(f"Bookkeeper-{name} must be <= {most} and > 0.")
    if not ensemble >= write >= ack:
        raise BadRequest(
            f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})"
            " does not hold"
        )
    if not isfinite(persistence.managedLedgerMaxMarkDeleteRate):
        raise PreconditionFailed("managedLedgerMaxMarkDeleteRate must be a number")
    storage = persistence.managedLedgerStorageClassName
    if storage and storage != _STORAGE_CLASS:
        raise PreconditionFailed(
            f"Invalid value for managedLedgerStorageClassName: there is no {storage!r};"
            f" leave it out or say {_STORAGE_CLASS!r}"
        )


def check_auto_topic_creation(
    override: AutoTopicCreationOverride, *, partitions_max: int = 0
) -> None:
    """A `partitions_max` of 0 does not bound."""
    if not override.allowAutoTopicCreation:
        return
    partitions = override.defaultNumPartitions
    problem = None
    match override.topicType:
        case "partitioned":
            if partitions is None:
                problem = "[defaultNumPartitions] cannot be null when the type is partitioned."
            elif partitions < 1:
                problem = "[defaultNumPartitions] cannot be less than 1 for partition type."
        case "non-partitioned":
            if partitions is not None:
                problem = "[defaultNumPartitions] cannot be set when the type is non-partitioned."
        case _:
            problem = f"Unknown topic type [{override.topicType}]"
    if problem is not None:
        raise PreconditionFailed(f"Invalid configuration for autoTopicCreationOverride: {problem}")
    if partitions is not None and 0 < partitions_max < partitions:
        raise NotAcceptable(
            f"Number of partitions should be less than or equal to {partitions_max}"
        )


def check_partitions(count: int, *, partitions_max: int = 0) -> None:
    """The number of partitions of a topic to be created."""
    if count <= 0:
        raise NotAcceptable("Number of partitions should be more than 0")
    if 0 < partitions_max < count:
        raise NotAcceptable(
            f"Number of partitions should be less than or equal to {partitions_max}"
        )


def check_not_negative(name: str, value: int | None) -> None:
    if value is not None and value < 0:
        raise PreconditionFailed(f"{name} must be 0 or more")


def check_rate(name: str, *limits: int, period_s: int = 1) -> None:
    """-1 does not bound; clients that leave the period out send 0."""
    if min(limits) < -1 or period_s < 0:
        raise PreconditionFailed(
            f"Invalid {name}: a limit is -1 for none or else 0 or more, a period 0 s or more"
        )


def check_inactive_topic(policies: InactiveTopicPolicies) -> None:
    if policies.deleteWhileInactive and policies.inactiveTopicDeleteMode is None:
        modes = " or ".join(InactiveTopicDeleteMode)
        raise PreconditionFailed(f"inactiveTopicDeleteMode must say what is deleted: {modes}")
    check_not_negative("maxInactiveDurationSeconds", policies.maxInactiveDurationSeconds)


def check_delayed_delivery(policies: DelayedDeliveryPolicies) -> None:
    check_not_negative("tickTime", policies.tickTime)
    check_not_negative("maxDeliveryDelayInMillis", policies.maxDeliveryDelayInMillis)


def check_message_ttl(seconds: int | None) -> None:
    if seconds is not None and seconds < 0:
        raise PreconditionFailed("Invalid value for message TTL, message TTL must >= 0")


def check_subscription_expiration(minutes: int | None) -> None:
    if minutes is not None and minutes < 0:
        raise PreconditionFailed("Invalid value for subscription expiration time")


def check_max_message_size(size: int | None, *, broker_max: int) -> None:
    if size is not None and not 0 <= size <= broker_max:
        raise PreconditionFailed(
            "topic-level maxMessageSize must be greater than or equal to 0"
            " and must be smaller than that in the broker-level"
        )


def check_subscription_types(names: Iterable[str]) -> None:
    known = {each.value for each in SubscriptionTypeName}
    for name in names:
        if name not in known:
            raise PreconditionFailed(f"Unknown subscription type: {name}")


def check_topic_buckets(count: int | None) -> None:
    if count is not None and not 1 <= count <= TOPIC_BUCKETS_MAX:
        raise PreconditionFailed(
            f"Invalid value for numberOfTopicBuckets: {count};"
            f" a namespace has 1 to {TOPIC_BUCKETS_MAX} buckets"
        )


def check_topic_buckets_kept(before: Policies, after: Policies) -> None:
    """Topics are found by their bucket, so the number is fixed when the namespace is made."""
    present, asked = before.numberOfTopicBuckets or 1, after.numberOfTopicBuckets or 1
    if present != asked:
        raise PreconditionFailed(
            f"numberOfTopicBuckets cannot be changed: the namespace was created with {present},"
            f" and its topics are found by that number. Create another namespace with {asked}"
            f" (magnetar admin namespaces create TENANT/NAMESPACE --topic-buckets {asked})"
            " and let producers and consumers move there"
        )


def check_policies(
    policies: Policies, *, partitions_max: int = 0, quorum_max: QuorumMax = _QUORUM_MAX
) -> None:
    """Everything a namespace may be created with."""
    check_message_ttl(policies.message_ttl_in_seconds)
    check_subscription_expiration(policies.subscription_expiration_time_minutes)
    check_topic_buckets(policies.numberOfTopicBuckets)
    if policies.persistence is not None:
        check_persistence(policies.persistence, quorum_max=quorum_max)
    if policies.retention_policies is not None:
        check_retention(policies.retention_policies)
    if policies.autoTopicCreationOverride is not None:
        check_auto_topic_creation(policies.autoTopicCreationOverride, partitions_max=partitions_max)
    for quota in policies.backlog_quota_map.values():
        check_backlog_quota(quota)
        check_quota_within_retention(quota, policies.retention_policies, level="namespace")
    for name, value in (
        ("maxProducersPerTopic", policies.max_producers_per_topic),
        ("maxConsumersPerTopic", policies.max_consumers_per_topic),
        ("maxConsumersPerSubscription", policies.max_consumers_per_subscription),
        ("maxUnackedMessagesPerConsumer", policies.max_unacked_messages_per_consumer),
        ("maxUnackedMessagesPerSubscription", policies.max_unacked_messages_per_subscription),
        ("maxSubscriptionsPerTopic", policies.max_subscriptions_per_topic),
        ("maxTopicsPerNamespace", policies.max_topics_per_namespace),
        ("compactionThreshold", policies.compaction_threshold),
        ("deduplicationSnapshotInterval", policies.deduplicationSnapshotIntervalSeconds),
    ):
        check_not_negative(name, value)


def parse_quota_type(text: str | None) -> BacklogQuotaType:
    """The quota a request means; the size of the backlog unless it says otherwise."""
    if not text:
        return BacklogQuotaType.DESTINATION_STORAGE
    try:
        return BacklogQuotaType(text)
    except ValueError:
        kinds = " and ".join(BacklogQuotaType)
        raise PreconditionFailed(
            f"Invalid value for backlogQuotaType: {text!r}; there are {kinds}"
        ) from None
