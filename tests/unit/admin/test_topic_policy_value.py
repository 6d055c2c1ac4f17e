"""Every policy of a topic and the values it cannot have, over REST."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest

from magnetar.model.name import parse_topic
from magnetar.operation.policy_operation import TOPIC_TABLE
from tests.unit.admin.assembly import V2, Admin, run

TOPIC: Final = parse_topic("persistent://public/default/t")
URL: Final = f"{V2}/persistent/public/default/t"
EMPTY: Final = object()
IN_QUERY: Final = ("messageTTL", "subscriptionExpirationTime")


class Bad(NamedTuple):
    """A value, a word of the sentence that refuses it, and the status: 400 where Pulsar's tools
    know that answer.
    """

    value: Any
    word: str
    status: int = 412


def _number(name: str, *, negative: str = "", bits: int = 31) -> list[Bad]:
    word = negative or name
    beyond = 2**bits
    return [Bad(-1, word), *(Bad(x, name) for x in ("many", 1.5, [1], {}, True, beyond, EMPTY))]


def _flag(name: str) -> list[Bad]:
    return [Bad(value, name) for value in ("maybe", 7, [], {"on": True}, EMPTY)]


def _rate(name: str = "dispatchRate") -> list[Bad]:
    return [
        *(Bad(value, name) for value in ("fast", 5, [], EMPTY)),
        Bad({"dispatchThrottlingRateInMsg": "fast"}, "dispatchThrottlingRateInMsg"),
        Bad({"dispatchThrottlingRateInMsg": 2**31}, "dispatchThrottlingRateInMsg"),
        Bad({"dispatchThrottlingRateInByte": 2**63}, "dispatchThrottlingRateInByte"),
        Bad({"relativeToPublishRate": "maybe"}, "relativeToPublishRate"),
        Bad({"dispatchThrottlingRateInMsg": -2}, "dispatch rate"),
        Bad({"dispatchThrottlingRateInByte": -2}, "dispatch rate"),
        Bad({"dispatchThrottlingRateInMsg": 1, "ratePeriodInSecond": -1}, "dispatch rate"),
    ]


def _query(name: str, word: str) -> list[Bad]:
    return [Bad("-1", word), *(Bad(x, name) for x in ("many", "1.5", "", str(2**31), EMPTY))]


S3: Final = {
    "managedLedgerOffloadDriver": "aws-s3",
    "managedLedgerOffloadBucket": "b",
    "managedLedgerOffloadRegion": "r",
}
NO_SUBSCRIPTIONS: Final = "delete_when_no_subscriptions"
QUOTA: Final = {"limitSize": 1, "policy": "producer_exception"}

BAD: Final[dict[str, list[Bad]]] = {
    "retention": [
        *(Bad(value, "retention") for value in (5, "long", [1, 2], EMPTY)),
        Bad({"retentionTimeInMinutes": "long", "retentionSizeInMB": 1}, "retentionTimeInMinutes"),
        Bad({"retentionTimeInMinutes": 2**31, "retentionSizeInMB": 1}, "retentionTimeInMinutes"),
        Bad({"retentionTimeInMinutes": 1, "retentionSizeInMB": 2**63}, "retentionSizeInMB"),
        Bad({"retentionTimeInMinutes": 1, "retentionSizeInMB": -2}, "size limit", 400),
        Bad({"retentionTimeInMinutes": -2, "retentionSizeInMB": 1}, "time limit", 400),
        Bad({"retentionTimeInMinutes": 1, "retentionSizeInMB": 0}, "retention", 400),
        Bad({"retentionTimeInMinutes": 10, "retentionSizeInMB": 1}, "backlog quota"),
    ],
    "persistence": [
        *(Bad(value, "persistence") for value in (2, "three", [], EMPTY)),
        Bad({"bookkeeperEnsemble": "two"}, "bookkeeperEnsemble"),
        Bad({"managedLedgerMaxMarkDeleteRate": "nan"}, "managedLedgerMaxMarkDeleteRate"),
        Bad({"managedLedgerMaxMarkDeleteRate": "inf"}, "managedLedgerMaxMarkDeleteRate"),
        Bad({"managedLedgerStorageClassName": "tape"}, "managedLedgerStorageClassName"),
        Bad({"bookkeeperEnsemble": 0}, "Ensemble", 400),
        Bad({"bookkeeperEnsemble": 6}, "Ensemble", 400),
        Bad({"bookkeeperWriteQuorum": -1}, "WriteQuorum", 400),
        Bad({"bookkeeperAckQuorum": 0}, "AckQuorum", 400),
        Bad({"bookkeeperEnsemble": 2, "bookkeeperWriteQuorum": 3}, "WriteQuorum", 400),
        Bad({"bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 2}, "AckQuorum", 400),
    ],
    "dispatchRate": _rate(),
    "subscriptionDispatchRate": _rate("subscriptionDispatchRate"),
    "replicatorDispatchRate": _rate("replicatorDispatchRate"),
    "{subscription}/dispatchRate": _rate(),
    "publishRate": [
        *(Bad(value, "publishRate") for value in ("fast", 5, [], EMPTY)),
        Bad({"publishThrottlingRateInMsg": {}}, "publishThrottlingRateInMsg"),
        Bad({"publishThrottlingRateInByte": 2**63}, "publishThrottlingRateInByte"),
        Bad({"publishThrottlingRateInMsg": -2}, "publish rate"),
        Bad({"publishThrottlingRateInByte": -2}, "publish rate"),
    ],
    "subscribeRate": [
        *(Bad(value, "subscribeRate") for value in ("fast", 5, [], EMPTY)),
        Bad({"subscribeThrottlingRatePerConsumer": "x"}, "subscribeThrottlingRatePerConsumer"),
        Bad({"subscribeThrottlingRatePerConsumer": -2}, "subscribe rate"),
        Bad({"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": -1}, "subscribe rate"),
    ],
    "inactiveTopicPolicies": [
        *(Bad(value, "inactiveTopicPolicies") for value in ("never", 5, [], EMPTY)),
        Bad({"inactiveTopicDeleteMode": "delete_at_once"}, "inactiveTopicDeleteMode"),
        Bad({"maxInactiveDurationSeconds": "long"}, "maxInactiveDurationSeconds"),
        Bad(
            {
                "inactiveTopicDeleteMode": NO_SUBSCRIPTIONS,
                "deleteWhileInactive": True,
                "maxInactiveDurationSeconds": -1,
            },
            "maxInactiveDurationSeconds",
        ),
        Bad({"deleteWhileInactive": True}, "inactiveTopicDeleteMode"),
        Bad({"deleteWhileInactive": "maybe"}, "deleteWhileInactive"),
    ],
    "delayedDelivery": [
        *(Bad(value, "delayedDelivery") for value in ("late", 5, [], EMPTY)),
        Bad({"active": "maybe"}, "active"),
        Bad({"active": True, "tickTime": "soon"}, "tickTime"),
        Bad({"active": True, "tickTime": -1}, "tickTime"),
        Bad({"active": True, "maxDeliveryDelayInMillis": -1}, "maxDeliveryDelayInMillis"),
        Bad({"active": True, "maxDeliveryDelayInMillis": 2**63}, "maxDeliveryDelayInMillis"),
    ],
    "offloadPolicies": [
        *(Bad(value, "offloadPolicies") for value in ("s3", 5, [], EMPTY)),
        Bad({}, "managedLedgerOffloadDriver"),
        Bad({**S3, "managedLedgerOffloadDriver": "floppy"}, "managedLedgerOffloadDriver"),
        Bad({**S3, "managedLedgerOffloadDriver": 5}, "managedLedgerOffloadDriver"),
        Bad({"managedLedgerOffloadDriver": "aws-s3"}, "bucket"),
        Bad({"managedLedgerOffloadDriver": "azureblob"}, "bucket"),
        Bad({**S3, "managedLedgerOffloadRegion": ""}, "region"),
        Bad({**S3, "managedLedgerOffloadBucket": 5}, "managedLedgerOffloadBucket"),
        Bad({**S3, "managedLedgerOffloadThresholdInBytes": -2}, "ThresholdInBytes"),
        Bad({**S3, "managedLedgerOffloadThresholdInSeconds": "old"}, "ThresholdInSeconds"),
        Bad({**S3, "managedLedgerOffloadDeletionLagInMillis": 2**63}, "DeletionLagInMillis"),
        Bad({**S3, "managedLedgerOffloadMaxThreads": 0}, "MaxThreads"),
        Bad({**S3, "managedLedgerOffloadedReadPriority": "NEITHER"}, "ReadPriority"),
    ],
    "messageTTL": _query("messageTTL", "message TTL"),
    "subscriptionExpirationTime": _query("subscriptionExpirationTime", "expiration time"),
    "maxProducers": _number("maxProducers"),
    "maxConsumers": _number("maxConsumers"),
    "maxConsumersPerSubscription": _number("maxConsumersPerSubscription"),
    "maxSubscriptionsPerTopic": _number("maxSubscriptionsPerTopic"),
    "maxUnackedMessagesOnConsumer": _number("maxUnackedMessagesOnConsumer", negative="maxUnacked"),
    "maxUnackedMessagesOnSubscription": _number(
        "maxUnackedMessagesOnSubscription", negative="maxUnacked"
    ),
    "maxMessageSize": [*_number("maxMessageSize"), Bad(5_242_881, "maxMessageSize")],
    "deduplicationSnapshotInterval": _number("deduplicationSnapshotInterval", negative="interval"),
    "compactionThreshold": _number("compactionThreshold", bits=63),
    "deduplicationEnabled": _flag("deduplicationEnabled"),
    "schemaCompatibilityStrategy": [
        Bad(value, "schemaCompatibilityStrategy") for value in ("SOMETIMES", 5, [], {}, EMPTY)
    ],
    "schemaValidationEnforced": _flag("schemaValidationEnforced"),
    "replication": [
        *(Bad(value, "replication") for value in ("standalone", 5, {}, [5], EMPTY)),
        Bad([], "ClusterIds"),
        Bad(["mars"], "local cluster"),
        Bad(["standalone", "mars"], "mars"),
    ],
    "subscriptionTypesEnabled": [
        Bad(value, "subscriptionTypesEnabled")
        for value in ("Shared", 5, {}, ["Wild"], ["Shared", 5], EMPTY)
    ],
    "entryFilters": [
        *(Bad(value, "entryFilters") for value in ("all", 5, [], EMPTY)),
        Bad({"entryFilterNames": 5}, "entryFilterNames"),
        Bad({"entryFilterNames": " , "}, "entryFilterNames", 400),
        Bad({"entryFilterNames": "nobody"}, "nobody", 400),
    ],
    "autoSubscriptionCreation": [
        *(Bad(value, "autoSubscriptionCreation") for value in ("yes", 5, [], EMPTY)),
        Bad({"allowAutoSubscriptionCreation": "maybe"}, "allowAutoSubscriptionCreation"),
    ],
    # Without a body it is switched on.
    "dispatcherPauseOnAckStatePersistent": _flag("dispatcherPauseOnAckStatePersistent")[:-1],
    "backlogQuota": [
        *(Bad(value, "backlogQuota") for value in ("much", 5, [], EMPTY)),
        Bad({**QUOTA, "limitSize": "much"}, "limitSize"),
        Bad({**QUOTA, "limitSize": 2**63}, "limitSize"),
        Bad({**QUOTA, "limitTime": 2**31}, "limitTime"),
        Bad({**QUOTA, "policy": "look_away"}, "policy"),
        Bad({"limitSize": 10}, "policy cannot be null", 400),
        Bad({**QUOTA, "limitSize": 2**40}, "retention"),
    ],
}


def _written() -> dict[str, str]:
    """The paths under which policies of a topic are set, with the method that does it."""
    root = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/"
    rows = [route for route in TOPIC_TABLE.rows if route.method in ("POST", "PUT")]
    return {route.path.removeprefix(root): route.method for route in rows}


def test_every_policy_has_values_that_it_cannot_have() -> None:
    assert set(BAD) == set(_written())


async def _set(admin: Admin, name: str, value: Any) -> Any:
    path = f"{URL}/{name.format(subscription='s')}"
    method = _written()[name]
    if name in IN_QUERY:
        return await admin.call(method, path if value is EMPTY else f"{path}?{name}={value}")
    return await admin.call(method, path, ... if value is EMPTY else value)


async def _prepare(admin: Admin, name: str) -> None:
    """What a value may contradict."""
    await admin.put(URL)
    if name == "retention":
        quota = {"limitSize": 2 << 20, "policy": "producer_exception"}
        assert (await _set(admin, "backlogQuota", quota)).status == 204
    if name == "backlogQuota":
        kept = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 1}
        assert (await _set(admin, "retention", kept)).status == 204


@pytest.mark.parametrize("backend", ["system-topic", "metadata-store"])
@pytest.mark.parametrize("name", sorted(BAD))
def test_a_value_that_cannot_be_is_refused_by_name_and_changes_nothing(
    name: str, backend: str
) -> None:
    async def body(admin: Admin) -> None:
        await _prepare(admin, name)
        before = await admin.service.policies.get(TOPIC)
        for bad in BAD[name]:
            reply = await _set(admin, name, bad.value)
            assert reply.status == bad.status, (bad, reply.body)
            assert bad.word in reply.reason, (bad, reply.reason)
        assert await admin.service.policies.get(TOPIC) == before
        garbled = await admin.call(_written()[name], f"{URL}/{name}", raw=b"{oops")
        assert garbled.status == (412 if name in IN_QUERY else 400)

    run(body, topicPoliciesServiceClassName=backend, backlogQuotaDefaultLimitGB=-1)


def test_an_unknown_kind_of_quota_is_refused() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(URL)
        for method in ("POST", "DELETE"):
            path = f"{URL}/backlogQuota?backlogQuotaType=colour"
            reply = await admin.call(method, path, QUOTA if method == "POST" else ...)
            assert reply.status == 412
            assert "destination_storage and message_age" in reply.reason

    run(body)


def test_a_call_without_a_body_pauses_dispatch_and_takes_no_other_policy_away() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(URL)
        pause = f"{URL}/dispatcherPauseOnAckStatePersistent"
        assert (await admin.post(pause)).status == 204
        assert (await admin.get(pause)).json is True
        assert (await admin.post(f"{URL}/maxProducers", 3)).status == 204
        assert (await admin.post(f"{URL}/maxProducers", None)).status == 412
        assert (await admin.get(f"{URL}/maxProducers")).json == 3

    run(body)


def test_a_broker_may_refuse_more_copies_than_it_keeps() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(URL)
        two = {"bookkeeperEnsemble": 2, "bookkeeperWriteQuorum": 2, "bookkeeperAckQuorum": 2}
        one = {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 1}
        namespace = f"{V2}/namespaces/public/default"
        for path in (f"{URL}/persistence", f"{namespace}/persistence"):
            reply = await admin.post(path, two)
            assert (reply.status, reply.reason) == (
                400,
                "Bookkeeper-Ensemble must be <= 1 and > 0.",
            )
            assert (await admin.post(path, one)).status == 204
        other = await admin.put(f"{V2}/namespaces/public/copies", {"persistence": two})
        assert other.status == 400

    maxima = ("managedLedgerMaxEnsembleSize", "managedLedgerMaxWriteQuorum")
    run(body, **dict.fromkeys((*maxima, "managedLedgerMaxAckQuorum"), 1))
