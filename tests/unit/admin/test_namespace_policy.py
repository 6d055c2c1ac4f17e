from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admin.assembly import V2, Admin, run

BASE = f"{V2}/namespaces/public/default"
RATE = {
    "dispatchThrottlingRateInMsg": 5,
    "dispatchThrottlingRateInByte": 7,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}


@pytest.mark.parametrize(
    ("path", "verb", "value", "unset"),
    [
        ("messageTTL", "POST", 3600, None),
        ("deduplication", "POST", True, None),
        ("retention", "POST", {"retentionTimeInMinutes": 60, "retentionSizeInMB": 1024}, None),
        ("maxTopicsPerNamespace", "POST", 100, 0),
        ("maxProducersPerTopic", "POST", 50, None),
        ("maxConsumersPerTopic", "POST", 50, None),
        ("maxConsumersPerSubscription", "POST", 50, None),
        ("maxUnackedMessagesPerConsumer", "POST", 50, None),
        ("maxUnackedMessagesPerSubscription", "POST", 50, None),
        ("maxSubscriptionsPerTopic", "POST", 50, None),
        ("subscriptionExpirationTime", "POST", 60, None),
        ("compactionThreshold", "PUT", 0, None),
        ("dispatchRate", "POST", RATE, None),
        ("subscriptionDispatchRate", "POST", RATE, None),
        ("replicatorDispatchRate", "POST", RATE, None),
        (
            "publishRate",
            "POST",
            {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 6},
            None,
        ),
        (
            "subscribeRate",
            "POST",
            {"subscribeThrottlingRatePerConsumer": 5, "ratePeriodInSecond": 30},
            None,
        ),
        (
            "delayedDelivery",
            "POST",
            {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 0},
            None,
        ),
        (
            "inactiveTopicPolicies",
            "POST",
            {
                "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
                "maxInactiveDurationSeconds": 5,
                "deleteWhileInactive": True,
            },
            None,
        ),
        ("autoSubscriptionCreation", "POST", {"allowAutoSubscriptionCreation": False}, None),
        (
            "autoTopicCreation",
            "POST",
            {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
            None,
        ),
        ("subscriptionTypesEnabled", "POST", ["Shared"], []),
        ("dispatcherPauseOnAckStatePersistent", "POST", True, False),
    ],
)
def test_a_setting_is_set_told_and_removed(path: str, verb: str, value: Any, unset: Any) -> None:
    async def body(admin: Admin) -> None:
        async def told() -> Any:
            reply = await admin.get(f"{BASE}/{path}")
            assert reply.status == (204 if not reply.body else 200)
            return reply.json if reply.body else None

        assert await told() == unset
        set_reply = await admin.call(verb, f"{BASE}/{path}", value)
        assert (set_reply.status, set_reply.body) == (204, b"")
        assert await told() == value
        assert (await admin.delete(f"{BASE}/{path}")).status == 204
        assert await told() == unset

    run(body)


@pytest.mark.parametrize(
    ("path", "verb", "value", "unset"),
    [
        ("schemaCompatibilityStrategy", "PUT", "FORWARD", "UNDEFINED"),
        ("schemaValidationEnforced", "POST", True, False),
        ("isAllowAutoUpdateSchema", "POST", False, True),
        ("subscriptionAuthMode", "POST", "Prefix", "None"),
        ("replication", "POST", ["standalone"], ["standalone"]),
        ("offloadThreshold", "PUT", 5, -1),
        ("offloadThresholdInSeconds", "PUT", 60, -1),
    ],
)
def test_a_setting_that_always_has_a_value_is_told(
    path: str, verb: str, value: Any, unset: Any
) -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.get(f"{BASE}/{path}")).json == unset
        assert (await admin.call(verb, f"{BASE}/{path}", value)).status == 204
        assert (await admin.get(f"{BASE}/{path}")).json == value

    run(body)


def test_a_boolean_inside_quotes_counts() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.post(f"{BASE}/encryptionRequired", "true")).status == 204
        assert (await admin.get(f"{BASE}/encryptionRequired")).json is True

    run(body)


def test_a_null_body_removes_and_an_empty_one_too() -> None:
    async def body(admin: Admin) -> None:
        for gone in (None, ...):
            await admin.post(f"{BASE}/maxProducersPerTopic", 3)
            assert (await admin.post(f"{BASE}/maxProducersPerTopic", gone)).status == 204
            assert (await admin.get(f"{BASE}/maxProducersPerTopic")).status == 204

    run(body)


@pytest.mark.parametrize(
    ("verb", "path", "value", "status", "reason"),
    [
        ("POST", "messageTTL", -1, 412, "Invalid value for message TTL, message TTL must >= 0"),
        ("POST", "maxTopicsPerNamespace", -1, 412, "maxTopicsPerNamespace must be 0 or more"),
        ("POST", "maxConsumersPerTopic", -1, 412, "maxConsumersPerTopic must be 0 or more"),
        (
            "POST",
            "subscriptionExpirationTime",
            -60,
            412,
            "Invalid value for subscription expiration time",
        ),
        ("PUT", "compactionThreshold", -1, 412, "compactionThreshold must be 0 or more"),
        (
            "PUT",
            "offloadThresholdInSeconds",
            -60,
            412,
            "Invalid value for offloadThresholdInSecond",
        ),
        ("POST", "replication", [], 412, "ClusterIds should not be null or empty"),
        ("POST", "replication", ["nope"], 403, "Invalid cluster id: nope"),
        ("POST", "persistence", None, 400, "persistence policies should not be null"),
        ("POST", "entryFilters", {"entryFilterNames": "a"}, 400, "Entry filter 'a' not found"),
        (
            "POST",
            "offloadPolicies",
            {"managedLedgerOffloadDriver": "aws-s3"},
            412,
            "The bucket must be specified for namespace offload.",
        ),
    ],
)
def test_a_value_is_refused_with_its_reason(
    verb: str, path: str, value: Any, status: int, reason: str
) -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.call(verb, f"{BASE}/{path}", value)
        assert (reply.status, reply.reason) == (status, reason)

    run(body)


@pytest.mark.parametrize(
    ("override", "detail"),
    [
        (
            {"allowAutoTopicCreation": True, "topicType": "partitioned"},
            "[defaultNumPartitions] cannot be null when the type is partitioned.",
        ),
        (
            {
                "allowAutoTopicCreation": True,
                "topicType": "partitioned",
                "defaultNumPartitions": -1,
            },
            "[defaultNumPartitions] cannot be less than 1 for partition type.",
        ),
        (
            {
                "allowAutoTopicCreation": True,
                "topicType": "non-partitioned",
                "defaultNumPartitions": 3,
            },
            "[defaultNumPartitions] is not allowed to be set when the type is non-partition.",
        ),
        ({"allowAutoTopicCreation": True}, "Unknown topic type [null]"),
    ],
)
def test_auto_topic_creation_says_what_is_wrong(override: dict[str, Any], detail: str) -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.post(f"{BASE}/autoTopicCreation", override)
        sentence = "Invalid configuration for autoTopicCreationOverride. the detail is "
        assert (reply.status, reply.reason) == (412, sentence + detail)

    run(body)


def test_writing_asks_for_the_tenant_before_the_namespace() -> None:
    async def body(admin: Admin) -> None:
        value = {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
        for namespace, reason in (
            ("public/nonexist", "Namespace does not exist"),
            ("non-exist/default", "Tenant does not exist"),
        ):
            reply = await admin.post(f"{V2}/namespaces/{namespace}/autoTopicCreation", value)
            assert (reply.status, reply.reason) == (404, reason)

    run(body)


def test_backlog_quotas_are_kept_by_kind_and_below_retention() -> None:
    async def body(admin: Admin) -> None:
        quota = {"limitSize": 1024, "limitTime": -1, "policy": "producer_exception"}
        assert (await admin.post(f"{BASE}/backlogQuota", quota)).status == 204
        age = {"limitSize": -1, "limitTime": 60, "policy": "consumer_backlog_eviction"}
        path = f"{BASE}/backlogQuota?backlogQuotaType=message_age"
        assert (await admin.post(path, age)).status == 204
        found = (await admin.get(f"{BASE}/backlogQuotaMap")).json
        assert found["destination_storage"] == {**quota, "limit": 1024}
        assert found["message_age"]["limitTime"] == 60
        assert (await admin.delete(path)).status == 204
        assert set((await admin.get(f"{BASE}/backlogQuotaMap")).json) == {"destination_storage"}
        retention = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 5}
        assert (await admin.post(f"{BASE}/retention", retention)).status == 204
        large = await admin.post(f"{BASE}/backlogQuota", {**quota, "limitSize": 10**9})
        assert large.status == 412 and large.reason.startswith("Backlog Quota exceeds")
        unnamed = await admin.post(f"{BASE}/backlogQuota", {"limitSize": 5})
        assert unnamed.status == 400 and "policy cannot be null" in unnamed.reason
        assert (await admin.post(f"{BASE}/backlogQuota?backlogQuotaType=x", quota)).status == 412
        assert (await admin.delete(f"{BASE}/backlogQuota")).status == 204
        assert (await admin.get(f"{BASE}/backlogQuotaMap")).json == {}

    run(body)


def test_properties_are_merged_and_removed() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{BASE}/properties", {"a": "1"})).status == 204
        assert (await admin.put(f"{BASE}/property/b%2Fc/2")).status == 204
        assert (await admin.get(f"{BASE}/properties")).json == {"a": "1", "b/c": "2"}
        assert (await admin.get(f"{BASE}/property/b%2Fc")).body == b"2"
        assert (await admin.delete(f"{BASE}/property/b%2Fc")).body == b"2"
        assert (await admin.get(f"{BASE}/property/b%2Fc")).status == 204
        assert (await admin.delete(f"{BASE}/properties")).status == 204
        assert (await admin.get(f"{BASE}/properties")).json == {}

    run(body)


def test_groups_of_this_cluster_are_kept() -> None:
    async def body(admin: Admin) -> None:
        affinity = f"{BASE}/persistence/bookieAffinity"
        assert (await admin.get(affinity)).status == 204
        group = {"bookkeeperAffinityGroupPrimary": "p", "bookkeeperAffinityGroupSecondary": "s"}
        assert (await admin.post(affinity, group)).status == 204
        assert (await admin.get(affinity)).json == group
        assert (await admin.delete(affinity)).status == 204
        assert (await admin.get(affinity)).status == 204
        assert (await admin.post(f"{BASE}/antiAffinity", "g")).status == 204
        assert (await admin.get(f"{BASE}/antiAffinity")).body == b"g"
        assert (await admin.delete(f"{BASE}/antiAffinity")).status == 204
        assert (await admin.get(f"{BASE}/bundles")).json["numBundles"] == 4

    run(body)


def test_offload_thresholds_stand_inside_the_offload_policies() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.get(f"{BASE}/offloadDeletionLagMs")).status == 204
        assert (await admin.put(f"{BASE}/offloadDeletionLagMs", 0)).status == 204
        assert (await admin.get(f"{BASE}/offloadDeletionLagMs")).json == 0
        policies = {
            "managedLedgerOffloadDriver": "aws-s3",
            "managedLedgerOffloadBucket": "b",
            "managedLedgerOffloadRegion": "r",
            "managedLedgerOffloadThresholdInBytes": 7,
        }
        assert (await admin.post(f"{BASE}/offloadPolicies", policies)).status == 204
        assert (await admin.get(f"{BASE}/offloadPolicies")).json == policies
        assert (await admin.get(f"{BASE}/offloadThreshold")).json == 7
        assert (await admin.delete(f"{BASE}/removeOffloadPolicies")).status == 204
        assert (await admin.get(f"{BASE}/offloadPolicies")).status == 204

    run(body)


def test_a_misspelled_retention_leaves_the_one_that_is_set() -> None:
    async def check(admin: Admin) -> None:
        retention = {"retentionTimeInMinutes": 10080, "retentionSizeInMB": 10240}
        assert (await admin.post(f"{BASE}/retention", retention)).status == 204
        misspelled = {"retentionTimeInMins": 20000, "retentionSizeMB": 10240}
        refused = await admin.post(f"{BASE}/retention", misspelled)
        assert refused.status == 400
        assert refused.reason == (
            "The body does not fit: unknown field 'retentionTimeInMins'; "
            "did you mean retentionTimeInMinutes?"
        )
        assert (await admin.get(f"{BASE}/retention")).json == retention

    run(check)


def test_a_broker_may_be_told_to_refuse_every_unknown_field() -> None:
    async def check(admin: Admin) -> None:
        retention = {"retentionTimeInMinutes": 10080, "retentionSizeInMB": 10240, "other": 1}
        assert (await admin.post(f"{BASE}/retention", retention)).status == 204
        key = "httpRequestsFailOnUnknownPropertiesEnabled"
        assert (await admin.post(f"{V2}/brokers/configuration/{key}/true")).status == 200
        assert "unknown field 'other'" in (await admin.post(f"{BASE}/retention", retention)).reason

    run(check)
