from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.admin.body import decode_body, find_unknown
from magnetar.admin.table import all_routes
from magnetar.errors import BadRequest, PreconditionFailed
from magnetar.model.autoscale import AutoScaleOverride
from magnetar.model.policy import (
    BacklogQuota,
    DelayedDeliveryPolicies,
    DispatchRate,
    Policies,
    RetentionPolicies,
)
from magnetar.model.tenancy import ClusterData, TenantInfo, TopicGrant

NEW_RELEASE = {"compressionLevelOfTomorrow": 3}
"""What a client of another release may send besides."""


@pytest.mark.parametrize(
    ("schema", "value", "meant"),
    [
        (RetentionPolicies, {"retentionTimeInMins": 20000}, "retentionTimeInMinutes"),
        (RetentionPolicies, {"retentionTimeInMinutes": 1, "mb": 1}, "retentionSizeInMB"),
        (BacklogQuota, {"limit_size": 5, "policy": "producer_exception"}, "limitSize"),
        (DispatchRate, {"rate": 5}, "dispatchThrottlingRateInMsg"),
        (TenantInfo, {"adminRoles": [], "allowedCluster": ["here"]}, "allowedClusters"),
        (ClusterData, {"serviceURL": "http://here:8080"}, "serviceUrl"),
        (Policies, {"retentionPolicies": {}, "bundles": {}}, "retention_policies"),
        (Policies, {"retention_policies": {"time": 5}}, "retentionTimeInMinutes"),
        (Policies, {"topicDispatchRate": {"here": {"rate": 5}}}, "dispatchThrottlingRateInMsg"),
        (AutoScaleOverride, {"enabled": True, "maxSegment": 5}, "maxSegments"),
        (list[TopicGrant], [{"topic": "t", "roles": "me"}], "role"),
        (int | TenantInfo, {"roles": []}, "adminRoles"),
    ],
)
def test_a_field_that_stands_in_for_a_missing_one_is_refused(
    schema: object, value: object, meant: str
) -> None:
    with pytest.raises(BadRequest, match=rf"unknown field '\w+'; .*\b{meant}\b"):
        decode_body(json.dumps(value).encode(), schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (RetentionPolicies, {"retentionTimeInMinutes": 5, "retentionSizeInMB": None}),
        (BacklogQuota, {"limit": 5, "limitTime": 0, "policy": "producer_exception"}),
        (ClusterData, {"serviceUrl": "http://here:8080"}),
        (TenantInfo, {"adminRoles": []}),
        (Policies, {"bundles": {"numBundles": 4}}),
        (Policies, {"properties": {"any": "word"}, "deleted": False}),
    ],
)
def test_a_field_of_another_release_is_ignored_unless_all_are_refused(
    schema: object, value: dict[str, object]
) -> None:
    body = json.dumps(value | NEW_RELEASE).encode()
    assert decode_body(body, schema) == decode_body(json.dumps(value).encode(), schema)
    with pytest.raises(BadRequest, match="unknown field 'compressionLevelOfTomorrow'"):
        decode_body(body, schema, strict=True)


def test_what_a_published_client_sends_under_a_name_of_its_own_is_ignored() -> None:
    body = b'{"tickTime": 5, "active": true, "maxDelayInMillis": 7}'
    assert decode_body(body, DelayedDeliveryPolicies) == DelayedDeliveryPolicies(
        tickTime=5, active=True
    )


def test_an_empty_object_sets_the_defaults() -> None:
    assert decode_body(b"{}", RetentionPolicies) == RetentionPolicies()


def test_the_refusal_of_a_topic_policy_names_the_policy() -> None:
    with pytest.raises(PreconditionFailed, match=r"^Invalid value for retention: unknown field"):
        decode_body(b'{"time": 1}', RetentionPolicies, policy="retention")


def test_the_answer_to_many_and_long_fields_is_short() -> None:
    many = {f"field{number}": number for number in range(100_000)}
    assert find_unknown(many | {"adminRoles": []}, TenantInfo) == (
        "100000 unknown fields, among them 'field0'"
    )
    assert len(find_unknown({"x" * 1_000_000: 1}, TenantInfo) or "") < 200


@given(st.data())
def test_a_body_without_unknown_fields_is_never_refused_for_them(data: st.DataObject) -> None:
    bodies = [route.body for route in all_routes() if route.body is not None]
    schemas = [each.schema for each in bodies if hasattr(each.schema, "__struct_encode_fields__")]
    schema = data.draw(st.sampled_from(schemas))
    names = st.sampled_from(schema.__struct_encode_fields__)
    value = data.draw(st.dictionaries(names, st.none() | st.integers() | st.booleans()))
    assert find_unknown(value, schema, strict=True) is None
