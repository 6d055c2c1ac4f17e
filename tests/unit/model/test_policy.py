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
    NotAcceptable,
    PreconditionFailed,
    RecordUnreadable,
)
from magnetar.model.choice import BacklogAction, BacklogQuotaType
from magnetar.model.document import (
    decode_document,
    encode_document,
    format_document,
    parse_document,
)
from magnetar.model.policy import (
    BacklogQuota,
    Policies,
    RetentionPolicies,
    TopicPolicies,
)
from magnetar.model.schema import CompatibilityStrategy
from magnetar.model.tenancy import ClusterData, PartitionedTopicMetadata, TenantInfo
from magnetar.model.validation import (
    check_partitions,
    check_topic_buckets,
    check_topic_buckets_kept,
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


def test_the_number_of_partitions_has_bounds() -> None:
    for count in (0, -1):
        with pytest.raises(NotAcceptable, match="more than 0"):
            check_partitions(count)
    with pytest.raises(NotAcceptable, match="less than or equal to 4"):
        check_partitions(5, partitions_max=4)
    check_partitions(5)


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_the_number_of_topic_buckets_has_bounds(count: int) -> None:
    with pytest.raises(PreconditionFailed, match="numberOfTopicBuckets"):
        check_topic_buckets(count)


def test_the_number_of_topic_buckets_never_changes() -> None:
    check_topic_buckets_kept(Policies(), Policies(numberOfTopicBuckets=1))
    with pytest.raises(PreconditionFailed, match="cannot be changed"):
        check_topic_buckets_kept(Policies(numberOfTopicBuckets=2), Policies())
