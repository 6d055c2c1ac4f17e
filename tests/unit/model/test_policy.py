"""Policies as JSON, and what they may hold."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import (
    BadRequest,
    BrokerError,
    NotAcceptable,
    PreconditionFailed,
    RecordUnreadable,
)
from magnetar.model.document import (
    decode_document,
    encode_document,
    format_document,
    parse_document,
)
from magnetar.model.policy import (
    AutoTopicCreationOverride,
    BacklogAction,
    BacklogQuota,
    BacklogQuotaType,
    ClusterData,
    PartitionedTopicMetadata,
    PersistencePolicies,
    Policies,
    RetentionPolicies,
    TenantInfo,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy
from magnetar.model.validation import (
    check_auto_topic_creation,
    check_backlog_quota,
    check_max_message_size,
    check_message_ttl,
    check_not_negative,
    check_partitions,
    check_persistence,
    check_policies,
    check_quota_within_retention,
    check_retention,
    check_retention_exceeds_quotas,
    check_subscription_expiration,
    check_subscription_types,
    check_topic_buckets,
    check_topic_buckets_kept,
    parse_quota_type,
)

KINDS = (Policies, TopicPolicies, ClusterData, TenantInfo, PartitionedTopicMetadata)
MIB = 1 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_with_nothing_set_survives_storage(kind: type[Any]) -> None:
    assert decode_document(encode_document(kind()), kind) == kind()


def test_nulls_are_left_out_and_defaults_are_shown() -> None:
    shown = format_document(Policies())
    assert "persistence" not in shown
    assert shown["replication_clusters"] == []
    assert shown["auth_policies"] == {
        "namespace_auth": {},
        "destination_auth": {},
        "subscription_auth_roles": {},
    }
    assert shown["schema_compatibility_strategy"] == "UNDEFINED"
    assert shown["is_allow_auto_update_schema_with_replicator"] is True


def test_a_null_is_as_good_as_a_missing_field() -> None:
    given_fields = dict.fromkeys(msgspec.structs.asdict(Policies()), None)
    assert parse_document(given_fields, Policies) == Policies()


def test_unknown_fields_are_ignored() -> None:
    parsed = parse_document({"partitions": 3, "invented": {"x": 1}}, PartitionedTopicMetadata)
    assert parsed == PartitionedTopicMetadata(partitions=3)


def test_numbers_may_come_as_text() -> None:
    assert parse_document({"partitions": "3"}, PartitionedTopicMetadata).partitions == 3


def test_a_namespace_as_a_client_writes_it_is_read() -> None:
    text = """{"auth_policies": {"namespace_auth": {"role": ["produce", "consume"]}},
      "replication_clusters": ["standalone"], "bundles": {"boundaries":
      ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2},
      "backlog_quota_map": {"destination_storage": {"limitSize": 1024,
      "policy": "producer_exception"}}, "retention_policies": {"retentionTimeInMinutes": 5,
      "retentionSizeInMB": 6}, "message_ttl_in_seconds": null,
      "publishMaxMessageRate": {"standalone": {"publishThrottlingRateInMsg": 9}},
      "schema_compatibility_strategy": "FORWARD", "subscription_auth_mode": "Prefix"}"""
    policies = parse_document(json.loads(text), Policies)
    assert policies.replication_clusters == ("standalone",)
    assert policies.backlog_quota_map == {
        BacklogQuotaType.DESTINATION_STORAGE: BacklogQuota(
            limitSize=1024, policy=BacklogAction.PRODUCER_EXCEPTION
        )
    }
    assert policies.retention_policies == RetentionPolicies(
        retentionTimeInMinutes=5, retentionSizeInMB=6
    )
    assert policies.publishMaxMessageRate["standalone"].publishThrottlingRateInMsg == 9
    assert policies.schema_compatibility_strategy is CompatibilityStrategy.FORWARD
    assert decode_document(encode_document(policies), Policies) == policies


@pytest.mark.parametrize(
    "value",
    [
        [],
        "text",
        {"message_ttl_in_seconds": "soon"},
        {"message_ttl_in_seconds": 2**31},
        {"backlog_quota_map": {"by_colour": {}}},
        {"backlog_quota_map": {"message_age": {"policy": "shrug"}}},
        {"replication_clusters": "c1"},
    ],
)
def test_what_cannot_be_is_a_bad_request_that_names_the_kind(value: object) -> None:
    with pytest.raises(BadRequest, match="Policies"):
        parse_document(value, Policies)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"partitions": {}}', b"\xff"])
def test_a_stored_record_that_cannot_be_read_is_told_so(data: bytes) -> None:
    with pytest.raises(RecordUnreadable):
        decode_document(data, PartitionedTopicMetadata)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        decode_document(data, Policies)
    except RecordUnreadable:
        pass


def test_the_older_name_of_a_quota_size_still_counts() -> None:
    assert BacklogQuota(limit=7).size == 7
    assert BacklogQuota(limit=7, limitSize=9).size == 9
    assert BacklogQuota().size == 0


@pytest.mark.parametrize(("minutes", "megabytes"), [(0, 0), (-1, -1), (1, 1), (-1, 5), (5, -1)])
def test_a_retention_with_both_or_neither_limit_passes(minutes: int, megabytes: int) -> None:
    check_retention(RetentionPolicies(retentionTimeInMinutes=minutes, retentionSizeInMB=megabytes))


@pytest.mark.parametrize(
    ("minutes", "megabytes"), [(1, 0), (0, 1), (-1, 0), (0, -1), (-2, 1), (1, -2)]
)
def test_a_retention_that_makes_no_sense_is_refused(minutes: int, megabytes: int) -> None:
    with pytest.raises(BadRequest, match="Invalid retention policy"):
        check_retention(
            RetentionPolicies(retentionTimeInMinutes=minutes, retentionSizeInMB=megabytes)
        )


def test_a_quota_without_an_action_is_refused() -> None:
    with pytest.raises(BadRequest, match="policy cannot be null"):
        check_backlog_quota(BacklogQuota(limitSize=5))
    check_backlog_quota(BacklogQuota(limitSize=5, policy=BacklogAction.PRODUCER_EXCEPTION))


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
    quota = BacklogQuota(limitSize=size, limitTime=seconds)
    retention = RetentionPolicies(retentionTimeInMinutes=minutes, retentionSizeInMB=megabytes)
    if fits:
        check_quota_within_retention(quota, retention, level="topic")
        check_retention_exceeds_quotas(retention, [quota], level="topic")
        return
    with pytest.raises(PreconditionFailed, match=r"Backlog Quota exceeds .* for topic"):
        check_quota_within_retention(quota, retention, level="topic")
    with pytest.raises(PreconditionFailed, match=r"Retention Quota must exceed .* for namespace"):
        check_retention_exceeds_quotas(retention, [quota], level="namespace")


@pytest.mark.parametrize(
    ("ensemble", "write", "ack", "passes"),
    [(3, 3, 2, True), (1, 1, 1, True), (6, 1, 1, False), (3, 0, 1, False), (1, 2, 1, False)],
)
def test_quorums_fit_into_each_other(ensemble: int, write: int, ack: int, passes: bool) -> None:
    persistence = PersistencePolicies(
        bookkeeperEnsemble=ensemble, bookkeeperWriteQuorum=write, bookkeeperAckQuorum=ack
    )
    if passes:
        check_persistence(persistence)
    else:
        with pytest.raises(BadRequest, match="Bookkeeper"):
            check_persistence(persistence)


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
        check_auto_topic_creation(override, partitions_max=10)
    else:
        with pytest.raises(refusal):
            check_auto_topic_creation(override, partitions_max=10)


def test_switching_automatic_creation_off_needs_no_type() -> None:
    check_auto_topic_creation(AutoTopicCreationOverride(allowAutoTopicCreation=False))


def test_limits_have_bounds() -> None:
    check_not_negative("maxProducers", None)
    check_not_negative("maxProducers", 0)
    with pytest.raises(PreconditionFailed, match="maxProducers must be 0 or more"):
        check_not_negative("maxProducers", -1)
    check_max_message_size(5, broker_max=5)
    for size in (-1, 6):
        with pytest.raises(PreconditionFailed):
            check_max_message_size(size, broker_max=5)
    for count in (0, -1):
        with pytest.raises(NotAcceptable, match="more than 0"):
            check_partitions(count)
    with pytest.raises(NotAcceptable, match="less than or equal to 4"):
        check_partitions(5, partitions_max=4)
    check_partitions(5)
    with pytest.raises(PreconditionFailed, match="message TTL"):
        check_message_ttl(-1)
    with pytest.raises(PreconditionFailed, match="expiration"):
        check_subscription_expiration(-1)
    with pytest.raises(PreconditionFailed, match="Sticky"):
        check_subscription_types(["Shared", "Sticky"])


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_the_number_of_topic_buckets_has_bounds(count: int) -> None:
    with pytest.raises(PreconditionFailed, match="numberOfTopicBuckets"):
        check_topic_buckets(count)


def test_the_number_of_topic_buckets_never_changes() -> None:
    check_topic_buckets_kept(Policies(), Policies(numberOfTopicBuckets=1))
    with pytest.raises(PreconditionFailed, match="cannot be changed"):
        check_topic_buckets_kept(Policies(numberOfTopicBuckets=2), Policies())


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
        check_policies(policies)


def test_a_namespace_is_created_with_no_policies_at_all() -> None:
    check_policies(Policies())


def test_a_quota_type_is_the_size_unless_told() -> None:
    assert parse_quota_type(None) is BacklogQuotaType.DESTINATION_STORAGE
    assert parse_quota_type("message_age") is BacklogQuotaType.MESSAGE_AGE
    with pytest.raises(PreconditionFailed):
        parse_quota_type("by_colour")
