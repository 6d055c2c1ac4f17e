from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from tests.unit.admin.assembly import V2, Admin
from tests.unit.admin.assembly import run as run_admin

TOPICS = f"{V2}/persistent/public/default"
NAMESPACE = f"{V2}/namespaces/public/default"
RATE = {
    "dispatchThrottlingRateInMsg": 5,
    "dispatchThrottlingRateInByte": 7,
    "relativeToPublishRate": True,
    "ratePeriodInSecond": 30,
}
S3 = {
    "managedLedgerOffloadDriver": "aws-s3",
    "s3ManagedLedgerOffloadBucket": "b",
    "s3ManagedLedgerOffloadRegion": "r",
}


Run: TypeAlias = Callable[..., None]


@pytest.fixture(params=["system-topic", "metadata-store"])
def run(request: pytest.FixtureRequest) -> Run:
    """Each test over both of what keeps policies."""

    def with_backend(body: Callable[[Admin], Awaitable[None]], **settings: Any) -> None:
        run_admin(body, topicPoliciesServiceClassName=request.param, **settings)

    return with_backend


@pytest.mark.parametrize(
    ("path", "value", "applied"),
    [
        (
            "retention",
            {"retentionTimeInMinutes": 1440, "retentionSizeInMB": 20480},
            {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
        ),
        ("maxProducers", 0, 0),
        ("maxConsumers", 10, 0),
        ("maxConsumersPerSubscription", 10, 0),
        ("maxSubscriptionsPerTopic", 10, 0),
        ("maxUnackedMessagesOnConsumer", 10, 50_000),
        ("maxUnackedMessagesOnSubscription", 10, 200_000),
        ("maxMessageSize", 1024, 5_242_880),
        ("deduplicationSnapshotInterval", 10, ...),
        ("compactionThreshold", 10, 0),
        ("deduplicationEnabled", True, False),
        ("dispatchRate", RATE, ...),
        ("subscriptionDispatchRate", RATE, ...),
        ("replicatorDispatchRate", RATE, ...),
        ("offloadPolicies", S3, ...),
        (
            "autoSubscriptionCreation",
            {"allowAutoSubscriptionCreation": False},
            {"allowAutoSubscriptionCreation": True},
        ),
        (
            "delayedDelivery",
            {"active": True, "tickTime": 5, "maxDeliveryDelayInMillis": 6},
            {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 0},
        ),
        ("replication", ["standalone"], ["standalone"]),
        ("subscriptionTypesEnabled", ["Shared"], ...),
        ("s1/dispatchRate", RATE, ...),
    ],
)
def test_a_setting_is_set_told_and_removed(run: Run, path: str, value: Any, applied: Any) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/p/partitions", 2)
        url = f"{TOPICS}/p/{path}"
        assert (await admin.get(url)).status == 204
        if applied is not ...:
            assert (await admin.get(f"{url}?applied=true")).json == applied
        assert (await admin.post(url, value)).status == 204
        assert (await admin.get(url)).json == value
        assert (await admin.get(f"{url}?applied=true")).json == value
        assert (await admin.get(f"{url}?isGlobal=true")).status == 204
        assert (await admin.delete(url)).status == 204
        assert (await admin.get(url)).status == 204

    run(body)


@pytest.mark.parametrize("path", ["messageTTL", "subscriptionExpirationTime"])
def test_a_setting_in_the_query_is_set_and_removed(run: Run, path: str) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        url = f"{TOPICS}/a/{path}"
        assert (await admin.post(f"{url}?{path}=600")).status == 204
        assert (await admin.get(url)).json == 600
        assert (await admin.post(f"{url}?{path}=-1")).status == 412
        assert (await admin.get(url)).json == 600
        assert (await admin.delete(url)).status == 204
        assert (await admin.get(url)).status == 204

    run(body)


def test_the_local_value_wins_over_the_global_one_and_that_over_the_namespaces(run: Run) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        url = f"{TOPICS}/a/maxProducers"

        async def applied() -> int:
            return int((await admin.get(f"{url}?applied=true")).json)

        await admin.post(f"{NAMESPACE}/maxProducersPerTopic", 30)
        assert await applied() == 30
        await admin.post(f"{url}?isGlobal=true", 20)
        assert await applied() == 20
        await admin.post(url, 10)
        assert await applied() == 10
        assert (await admin.get(f"{url}?isGlobal=true")).json == 20
        await admin.delete(f"{url}?isGlobal=true")
        assert await applied() == 10
        await admin.delete(url)
        assert await applied() == 30

    run(body)


def test_the_schema_strategy_falls_back_to_the_namespaces(run: Run) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        url = f"{TOPICS}/a/schemaCompatibilityStrategy"
        assert (await admin.get(f"{url}?applied=true")).json == "FULL"
        await admin.put(f"{NAMESPACE}/schemaCompatibilityStrategy", "FORWARD")
        assert (await admin.get(f"{url}?applied=true")).json == "FORWARD"
        assert (await admin.get(url)).status == 204
        assert (await admin.put(url, "BACKWARD")).status == 204
        assert (await admin.get(url)).json == "BACKWARD"
        assert (await admin.delete(url)).status == 204
        assert (await admin.get(f"{url}?applied=true")).json == "FORWARD"

    run(body)


@pytest.mark.parametrize(
    ("minutes", "megabytes", "status"),
    [
        (1, 0, 400),
        (0, 1, 400),
        (-1, 0, 400),
        (0, -1, 400),
        (-2, 1, 400),
        (1, -2, 400),
        (0, 0, 204),
        (-1, -1, 204),
        (1, 1, 204),
    ],
)
def test_retention_is_both_or_neither(run: Run, minutes: int, megabytes: int, status: int) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        value = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        assert (await admin.post(f"{TOPICS}/a/retention", value)).status == status

    run(body, backlogQuotaDefaultLimitGB=-1)


def test_backlog_quotas_of_a_topic_are_kept_by_kind(run: Run) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        quota = {"limitSize": 1024, "limitTime": -1, "policy": "producer_exception"}
        url = f"{TOPICS}/a/backlogQuota"
        assert (await admin.get(f"{url}Map")).json == {}
        assert (await admin.post(url, quota)).status == 204
        assert (await admin.get(f"{url}Map")).json == {
            "destination_storage": {**quota, "limit": 1024}
        }
        applied = (await admin.get(f"{url}Map?applied=true")).json
        assert set(applied) == {"destination_storage", "message_age"}
        assert (await admin.delete(url)).status == 204
        assert (await admin.get(f"{url}Map")).json == {}

    run(body)


def test_policies_belong_to_whole_topics_that_exist(run: Run) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/p/partitions", 1)
        partition = await admin.get(f"{TOPICS}/p-partition-0/retention")
        assert partition.status == 412
        assert partition.reason == "Not allowed to set/get topic policy for a partition"
        assert (await admin.get(f"{TOPICS}/nope/retention")).status == 404
        assert (await admin.delete(f"{TOPICS}/nope/policies")).status == 204
        await admin.post(f"{TOPICS}/p/maxProducers", 1)
        await admin.post(f"{TOPICS}/p/maxProducers?isGlobal=true", 1)
        assert (await admin.delete(f"{TOPICS}/p/policies")).status == 204
        assert (await admin.get(f"{TOPICS}/p/maxProducers?isGlobal=true")).status == 204

    run(body)


def test_policies_can_be_switched_off(run: Run) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        for reply in (
            await admin.get(f"{TOPICS}/a/retention"),
            await admin.post(f"{TOPICS}/a/maxProducers", 1),
        ):
            assert reply.status == 405 and reply.reason.startswith(
                "Topic level policies is disabled"
            )

    run(body, topicLevelPoliciesEnabled=False)
