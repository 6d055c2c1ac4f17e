"""What a policy may hold. Each check raises the refusal the REST edge answers with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final

from magnetar.errors import BadRequest, NotAcceptable, PreconditionFailed
from magnetar.model.choice import InactiveTopicDeleteMode, SubscriptionTypeName
from magnetar.operation.policy import Check, Context, Level

if TYPE_CHECKING:
    from magnetar.model import policy as model

_MIB: Final = 1 << 20
_STORAGE_CLASS: Final = "bookkeeper"
"""What Pulsar calls the storage there is when none is brought along."""
_DRIVERS: Final[Mapping[str, str | None]] = {
    "s3": "s3",
    "aws-s3": "s3",
    "google-cloud-storage": "gcs",
    "filesystem": None,
    "azureblob": "",
    "aliyun-oss": "",
}
"""How an offload driver's own fields begin; None when it needs no bucket."""


def at_least(least: int, refusal: str) -> Check[int]:
    """`{name}` in the refusal is what refusals call the policy."""

    def check(value: int, context: Context) -> None:
        if value < least:
            raise PreconditionFailed(refusal.format(name=context.name))

    return check


check_count: Final = at_least(0, "{name} must be 0 or more")
check_message_ttl: Final = at_least(0, "Invalid value for message TTL, message TTL must >= 0")
check_subscription_expiration: Final = at_least(0, "Invalid value for subscription expiration time")
check_offload_seconds: Final = at_least(-1, "Invalid value for offloadThresholdInSecond")


def check_snapshot_interval(seconds: int, context: Context) -> None:
    if seconds < 0 and context.level is Level.NAMESPACE:
        raise PreconditionFailed("interval must be greater than or equal to 0")
    check_count(seconds, context._replace(name="interval"))


def check_max_message_size(size: int, context: Context) -> None:
    if not 0 <= size <= context.message_bytes_max:
        raise PreconditionFailed(
            "topic-level maxMessageSize must be greater than or equal to 0"
            " and must be smaller than that in the broker-level"
        )


def check_retention(retention: model.RetentionPolicies, context: Context) -> None:
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
    if not all(is_quota_within_retention(quota, retention) for quota in context.quotas):
        raise PreconditionFailed(
            f"Retention Quota must exceed configured backlog quota for {context.level}."
        )


def check_backlog_quota(quota: model.BacklogQuota, context: Context) -> None:
    if quota.policy is None:
        raise BadRequest("Invalid backlog quota: the attribute policy cannot be null")
    if not is_quota_within_retention(quota, context.retention):
        raise PreconditionFailed(
            f"Backlog Quota exceeds configured retention quota for {context.level}."
            " Please increase retention quota and retry"
        )


def is_quota_within_retention(
    quota: model.BacklogQuota, retention: model.RetentionPolicies | None
) -> bool:
    """A backlog that may grow beyond what is retained would be cut before its quota acts."""
    if retention is None:
        return True
    minutes, megabytes = retention.retentionTimeInMinutes, retention.retentionSizeInMB
    if megabytes > 0 and quota.size >= megabytes * _MIB:
        return False
    return not (minutes > 0 and quota.limitTime >= minutes * 60)


def check_persistence(persistence: model.PersistencePolicies, context: Context) -> None:
    ensemble = persistence.bookkeeperEnsemble
    write = persistence.bookkeeperWriteQuorum
    ack = persistence.bookkeeperAckQuorum
    names = ("Ensemble", "WriteQuorum", "AckQuorum")
    for name, value, most in zip(names, (ensemble, write, ack), context.quorum_max, strict=True):
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


def check_auto_topic_creation(override: model.AutoTopicCreationOverride, context: Context) -> None:
    """A `partitions_max` of 0 does not bound. Tools compare these sentences word by word."""
    if not override.allowAutoTopicCreation:
        return
    count, problem = override.defaultNumPartitions, ""
    match override.topicType:
        case "partitioned":
            if count is None:
                problem = "[defaultNumPartitions] cannot be null when the type is partitioned."
            elif count < 1:
                problem = "[defaultNumPartitions] cannot be less than 1 for partition type."
        case "non-partitioned":
            if count is not None:
                problem = (
                    "[defaultNumPartitions] is not allowed to be set when the type is"
                    " non-partition."
                )
        case other:
            problem = f"Unknown topic type [{'null' if other is None else other}]"
    if problem:
        raise PreconditionFailed(
            f"Invalid configuration for autoTopicCreationOverride. the detail is {problem}"
        )
    if count is not None and 0 < context.partitions_max < count:
        raise NotAcceptable(
            f"Number of partitions should be less than or equal to {context.partitions_max}"
        )


def check_rate(rate: model.Rate, context: Context) -> None:
    """-1 does not bound; clients that leave the period out send 0."""
    limit, name = rate.limit, type(rate).__name__.removesuffix("Rate").lower()
    if min(limit.messages, limit.bytes) < -1 or limit.period_s < 0:
        raise PreconditionFailed(
            f"Invalid {name} rate: a limit is -1 for none or else 0 or more, a period 0 s or more"
        )


def check_inactive_topic(policies: model.InactiveTopicPolicies, context: Context) -> None:
    if policies.deleteWhileInactive and policies.inactiveTopicDeleteMode is None:
        modes = " or ".join(InactiveTopicDeleteMode)
        raise PreconditionFailed(f"inactiveTopicDeleteMode must say what is deleted: {modes}")
    name = "maxInactiveDurationSeconds"
    check_count(policies.maxInactiveDurationSeconds, context._replace(name=name))


def check_delayed_delivery(policies: model.DelayedDeliveryPolicies, context: Context) -> None:
    check_count(policies.tickTime, context._replace(name="tickTime"))
    name = "maxDeliveryDelayInMillis"
    check_count(policies.maxDeliveryDelayInMillis, context._replace(name=name))


def check_replication(clusters: Sequence[str], context: Context) -> None:
    if not clusters:
        raise PreconditionFailed("ClusterIds should not be null or empty")
    if context.level is Level.TOPIC:
        return
    if "global" in clusters:
        raise PreconditionFailed("Cannot specify global in the list of replication clusters")
    for cluster in clusters:
        if context.allowed_clusters and cluster not in context.allowed_clusters:
            raise BadRequest(f"Cluster [{cluster}] is not among the namespace's allowed clusters")


def check_allowed_clusters(clusters: Sequence[str], context: Context) -> None:
    for cluster in context.replication_clusters:
        if clusters and cluster not in clusters:
            raise BadRequest(f"Allowed clusters do not contain the replication cluster {cluster}")


def check_subscription_types(names: Sequence[str], context: Context) -> None:
    known = {each.value for each in SubscriptionTypeName}
    for name in names:
        if name not in known:
            raise PreconditionFailed(f"Unknown subscription type: {name}")


def check_entry_filters(filters: model.EntryFilters, context: Context) -> None:
    """There are no filters to choose from."""
    names = [name.strip() for name in (filters.entryFilterNames or "").split(",") if name.strip()]
    if not names:
        raise BadRequest(
            "entryFilterNames can't be empty. To remove entry filters use the remove method."
        )
    raise BadRequest(f"Entry filter '{names[0]}' not found")


def check_offload(policies: Mapping[str, object], context: Context) -> None:
    """A driver that is known, and what it needs to find its storage."""
    driver = policies.get("managedLedgerOffloadDriver")
    if not isinstance(driver, str) or driver.lower() not in _DRIVERS:
        raise PreconditionFailed(
            f"Invalid value for managedLedgerOffloadDriver: {driver!r} is not supported;"
            f" there are {', '.join(_DRIVERS)}"
        )
    prefix = _DRIVERS[driver.lower()]
    if prefix is None:
        return
    begins = ["managedLedgerOffload", *([f"{prefix}ManagedLedgerOffload"] if prefix else [])]
    if not any(policies.get(f"{begin}Bucket") for begin in begins):
        raise PreconditionFailed("The bucket must be specified for namespace offload.")
    places = [f"{begin}{place}" for begin in begins for place in ("Region", "ServiceEndpoint")]
    if prefix and not any(policies.get(place) for place in places):
        raise PreconditionFailed(
            "The region or the service endpoint must be specified for namespace offload."
        )
