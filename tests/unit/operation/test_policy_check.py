"""What policies may hold."""

from __future__ import annotations

import pytest
from msgspec import structs

from magnetar.errors import BadRequest, BrokerError, NotAcceptable, PreconditionFailed
from magnetar.model.choice import BacklogAction, BacklogQuotaType
from magnetar.model.policy import (
    AutoTopicCreationOverride,
    BacklogQuota,
    DispatchRate,
    PersistencePolicies,
    Policies,
    RetentionPolicies,
)
from magnetar.operation.policy import Context, Level
from magnetar.operation.policy_check import (
    check_auto_topic_creation,
    check_backlog_quota,
    check_count,
    check_max_message_size,
    check_message_ttl,
    check_persistence,
    check_retention,
    check_subscription_expiration,
    check_subscription_types,
)
from magnetar.rules.policy_field import check_policies, parse_key

MIB = 1 << 20
QUOTA = BacklogQuota(limitSize=5, policy=BacklogAction.PRODUCER_EXCEPTION)


def retained(minutes: int, megabytes: int) -> RetentionPolicies:
    return RetentionPolicies(retentionTimeInMinutes=minutes, retentionSizeInMB=megabytes)


@pytest.mark.parametrize(("minutes", "megabytes"), [(0, 0), (-1, -1), (1, 1), (-1, 5), (5, -1)])
def test_a_retention_with_both_or_neither_limit_passes(minutes: int, megabytes: int) -> None:
    check_retention(retained(minutes, megabytes), Context())


@pytest.mark.parametrize(
    ("minutes", "megabytes"), [(1, 0), (0, 1), (-1, 0), (0, -1), (-2, 1), (1, -2)]
)
def test_a_retention_that_makes_no_sense_is_refused(minutes: int, megabytes: int) -> None:
    with pytest.raises(BadRequest, match="Invalid retention policy"):
        check_retention(retained(minutes, megabytes), Context())


def test_a_quota_without_an_action_is_refused() -> None:
    with pytest.raises(BadRequest, match="policy cannot be null"):
        check_backlog_quota(BacklogQuota(limitSize=5), Context())
    check_backlog_quota(QUOTA, Context())


@pytest.mark.parametrize(
    ("size", "seconds", "minutes", "megabytes", "fits"),
    [
        (10 * MIB, 0, 5, 10, False),
        (10 * MIB - 1, 0, 5, 10, True),
        (0, 300, 5, 10, False),
        (0, 299, 5, 10, True),
        (100 * MIB, 900, -1, -1, True),
        (100 * MIB, 900, 0, 0, True),
    ],
)
def test_a_quota_stays_below_the_retention(
    size: int, seconds: int, minutes: int, megabytes: int, fits: bool
) -> None:
    quota = structs.replace(QUOTA, limitSize=size, limitTime=seconds)
    retention = retained(minutes, megabytes)
    topic = Context(Level.TOPIC, quotas=(quota,), retention=retention)
    namespace = topic._replace(level=Level.NAMESPACE)
    if fits:
        check_backlog_quota(quota, topic)
        check_retention(retention, topic)
        return
    with pytest.raises(PreconditionFailed, match=r"Backlog Quota exceeds .* for topic"):
        check_backlog_quota(quota, topic)
    with pytest.raises(PreconditionFailed, match=r"Retention Quota must exceed .* for namespace"):
        check_retention(retention, namespace)


@pytest.mark.parametrize(
    ("ensemble", "write", "ack", "passes"),
    [(3, 3, 2, True), (1, 1, 1, True), (6, 1, 1, False), (3, 0, 1, False), (1, 2, 1, False)],
)
def test_quorums_fit_into_each_other(ensemble: int, write: int, ack: int, passes: bool) -> None:
    persistence = PersistencePolicies(
        bookkeeperEnsemble=ensemble, bookkeeperWriteQuorum=write, bookkeeperAckQuorum=ack
    )
    if passes:
        check_persistence(persistence, Context())
    else:
        with pytest.raises(BadRequest, match="Bookkeeper"):
            check_persistence(persistence, Context())


@pytest.mark.parametrize(
    ("kind", "partitions", "refusal"),
    [
        ("partitioned", 3, None),
        ("non-partitioned", None, None),
        ("partitioned", None, PreconditionFailed),
        ("partitioned", 0, PreconditionFailed),
        ("non-partitioned", 2, PreconditionFailed),
        ("round", None, PreconditionFailed),
        (None, None, PreconditionFailed),
        ("partitioned", 11, NotAcceptable),
    ],
)
def test_automatic_creation_names_a_type_and_its_partitions(
    kind: str | None, partitions: int | None, refusal: type[BrokerError] | None
) -> None:
    override = AutoTopicCreationOverride(
        allowAutoTopicCreation=True, topicType=kind, defaultNumPartitions=partitions
    )
    if refusal is None:
        check_auto_topic_creation(override, Context(partitions_max=10))
    else:
        with pytest.raises(refusal):
            check_auto_topic_creation(override, Context(partitions_max=10))


def test_switching_automatic_creation_off_needs_no_type() -> None:
    check_auto_topic_creation(AutoTopicCreationOverride(), Context())


def test_limits_have_bounds() -> None:
    producers = Context(name="maxProducers")
    check_count(0, producers)
    with pytest.raises(PreconditionFailed, match="maxProducers must be 0 or more"):
        check_count(-1, producers)
    check_max_message_size(5, Context(message_bytes_max=5))
    for size in (-1, 6):
        with pytest.raises(PreconditionFailed):
            check_max_message_size(size, Context(message_bytes_max=5))
    with pytest.raises(PreconditionFailed, match="message TTL"):
        check_message_ttl(-1, Context())
    with pytest.raises(PreconditionFailed, match="expiration"):
        check_subscription_expiration(-1, Context())
    with pytest.raises(PreconditionFailed, match="Sticky"):
        check_subscription_types(["Shared", "Sticky"], Context())


@pytest.mark.parametrize(
    "policies",
    [
        Policies(message_ttl_in_seconds=-1),
        Policies(subscription_expiration_time_minutes=-1),
        Policies(numberOfTopicBuckets=0),
        Policies(persistence=PersistencePolicies(bookkeeperAckQuorum=0)),
        Policies(retention_policies=RetentionPolicies(retentionSizeInMB=1)),
        Policies(autoTopicCreationOverride=AutoTopicCreationOverride(allowAutoTopicCreation=True)),
        Policies(backlog_quota_map={BacklogQuotaType.MESSAGE_AGE: BacklogQuota()}),
        Policies(max_producers_per_topic=-1),
        Policies(max_topics_per_namespace=-1),
    ],
)
def test_a_namespace_is_not_created_with_a_policy_that_cannot_be(policies: Policies) -> None:
    with pytest.raises((PreconditionFailed, BadRequest)):
        check_policies(policies, Context())


@pytest.mark.parametrize(
    "policies",
    [
        Policies(),
        Policies(offload_threshold_in_seconds=-5, offload_policies={"of": "old"}),
        Policies(topicDispatchRate={"c": DispatchRate(dispatchThrottlingRateInMsg=-7)}),
        Policies(subscription_types_enabled=("Sticky",)),
    ],
)
def test_what_only_a_later_change_is_held_to_does_not_keep_a_namespace_from_being_created(
    policies: Policies,
) -> None:
    check_policies(policies, Context())


def test_a_quota_type_is_the_size_unless_told() -> None:
    assert parse_key(None) is BacklogQuotaType.DESTINATION_STORAGE
    assert parse_key("message_age") is BacklogQuotaType.MESSAGE_AGE
    with pytest.raises(PreconditionFailed):
        parse_key("by_colour")
