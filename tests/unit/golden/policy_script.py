"""Requests that set, read, remove and misuse every policy of namespaces and topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.unit.golden.request import V2, Request

_RATE: Final[list[Any]] = [
    {"dispatchThrottlingRateInMsg": 10, "ratePeriodInSecond": 2},
    {"dispatchThrottlingRateInMsg": 10, "sometimes": 1},
    {"dispatchThrottlingRateInMsg": "fast"},
    {"dispatchThrottlingRateInMsg": -2},
    {"dispatchThrottlingRateInMsg": 2**31},
    {"relativeToPublishRate": True, "dispatchThrottlingRateInByte": 2**40},
    {},
]
_COUNT: Final[list[Any]] = [7, -1, 0, "many", 1.5, True, 2**31, 2**63, [1]]
_FLAG: Final[list[Any]] = [True, False, "maybe", 7, {"on": True}]
_S3: Final = {
    "managedLedgerOffloadDriver": "aws-s3",
    "managedLedgerOffloadBucket": "b",
    "managedLedgerOffloadRegion": "r",
}
_QUOTA: Final = {"limitSize": 10 << 20, "policy": "producer_exception"}

# The first value is one that the policy can have; each is read back after it is set.
_SHARED: Final[dict[str, list[Any]]] = {
    "retention": [
        {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20480},
        {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100},
        {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
        {"retentionTimeInMinutes": 1, "retentionSizeInMB": 0},
        {"retentionTimeInMinutes": "long", "retentionSizeInMB": 1},
        {"retentionTimeInMinutes": -2, "retentionSizeInMB": 1},
        {"retentionTimeInMinutes": 2**31, "retentionSizeInMB": 1},
        {"retentionTimeInMinutes": 1, "retentionSizeInMB": 5, "forever": True},
        {"retentionTimeInMinutes": 10},
        5,
    ],
    "persistence": [
        {
            "bookkeeperEnsemble": 1,
            "bookkeeperWriteQuorum": 1,
            "bookkeeperAckQuorum": 1,
            "managedLedgerMaxMarkDeleteRate": 2.5,
        },
        {"bookkeeperEnsemble": 2, "bookkeeperWriteQuorum": 3},
        {"bookkeeperEnsemble": 0},
        {"bookkeeperEnsemble": "two"},
        {"managedLedgerStorageClassName": "tape"},
        {"bookies": 3},
    ],
    "dispatchRate": _RATE,
    "subscriptionDispatchRate": _RATE,
    "replicatorDispatchRate": _RATE,
    "publishRate": [
        {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 1000},
        {"publishThrottlingRateInMsg": -2},
        {"publishThrottlingRateInMsg": {}},
        {"publishThrottlingRateInByte": 2**63},
        {"publishRate": 5},
    ],
    "subscribeRate": [
        {"subscribeThrottlingRatePerConsumer": 5, "ratePeriodInSecond": 30},
        {"subscribeThrottlingRatePerConsumer": "x"},
        {"subscribeThrottlingRatePerConsumer": -2},
        {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": -1},
        {"rate": 5},
    ],
    "inactiveTopicPolicies": [
        {
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 60,
            "deleteWhileInactive": True,
        },
        {"inactiveTopicDeleteMode": "delete_at_once"},
        {"maxInactiveDurationSeconds": "long"},
        {"deleteWhileInactive": True},
        {"deleteWhileInactive": False, "maxInactiveDurationSeconds": -1},
        {"inactive": True},
    ],
    "delayedDelivery": [
        {"active": True, "tickTime": 2000, "maxDeliveryDelayInMillis": 60_000},
        {"active": False},
        {"active": True, "tickTime": -1},
        {"active": True, "maxDeliveryDelayInMillis": 2**63},
        {"active": "maybe"},
        {"active": True, "tick": 1},
    ],
    "offloadPolicies": [
        _S3,
        {},
        {**_S3, "managedLedgerOffloadDriver": "floppy"},
        {**_S3, "managedLedgerOffloadRegion": ""},
        {**_S3, "managedLedgerOffloadThresholdInBytes": -2},
        {**_S3, "managedLedgerOffloadedReadPriority": "NEITHER"},
        {**_S3, "managedLedgerOffloadTape": "x"},
    ],
    "maxConsumersPerSubscription": _COUNT,
    "maxSubscriptionsPerTopic": _COUNT,
    "deduplicationSnapshotInterval": _COUNT,
    "compactionThreshold": _COUNT,
    "schemaCompatibilityStrategy": ["FULL", "SOMETIMES", 5, []],
    "schemaValidationEnforced": _FLAG,
    "replication": [["standalone"], [], ["mars"], ["standalone", "mars"], "standalone", [5]],
    "subscriptionTypesEnabled": [["Shared", "Exclusive"], [], ["Wild"], "Shared", [5]],
    "entryFilters": [
        {"entryFilterNames": "nobody"},
        {"entryFilterNames": " , "},
        {"entryFilterNames": 5},
        {"filters": "x"},
    ],
    "autoSubscriptionCreation": [
        {"allowAutoSubscriptionCreation": False},
        {"allowAutoSubscriptionCreation": "maybe"},
        {"allow": True},
        {},
    ],
    "dispatcherPauseOnAckStatePersistent": _FLAG,
    "backlogQuota": [
        _QUOTA,
        {"limitTime": 3600, "policy": "consumer_backlog_eviction"},
        {"limitSize": 10},
        {**_QUOTA, "limitSize": "much"},
        {**_QUOTA, "limitTime": 2**31},
        {**_QUOTA, "policy": "look_away"},
        {**_QUOTA, "quota": 1},
        {**_QUOTA, "limitSize": 2**40},
    ],
}
_NAMESPACE: Final[dict[str, list[Any]]] = {
    **_SHARED,
    "deduplication": _FLAG,
    "schemaAutoUpdateCompatibilityStrategy": ["Full", "Sometimes", 5],
    "messageTTL": _COUNT,
    "allowedClusters": [["standalone"], [], ["mars"], "standalone", [5]],
    "autoTopicCreation": [
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
        {"allowAutoTopicCreation": False},
        {"allowAutoTopicCreation": True, "topicType": "partitioned"},
        {"allowAutoTopicCreation": True, "topicType": "round"},
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 0},
        {"allow": True},
    ],
    "maxProducersPerTopic": _COUNT,
    "maxConsumersPerTopic": _COUNT,
    "maxUnackedMessagesPerConsumer": _COUNT,
    "maxUnackedMessagesPerSubscription": _COUNT,
    "maxTopicsPerNamespace": [10_000, *_COUNT[1:]],
    "subscriptionExpirationTime": _COUNT,
    "isAllowAutoUpdateSchema": _FLAG,
    "encryptionRequired": _FLAG,
    "subscriptionAuthMode": ["Prefix", "Suffix", 5, "None"],
    "allowedTopicPropertyKeysForMetrics": [["team"], [], "team", [5], ["a", "b"]],
    "offloadThreshold": _COUNT,
    "offloadThresholdInSeconds": _COUNT,
    "offloadDeletionLagMs": _COUNT,
    "scalableTopicAutoScalePolicy": [
        {"maxSegments": 8, "splitMsgRateInThreshold": 100.5, "mergeMsgRateInThreshold": 10},
        {"splitMsgRateInThreshold": 100.5},
        {"enabled": False},
        {"maxSegments": 0},
        {"maxSegments": "many"},
        {"minSegments": 9, "maxSegments": 3},
        {"sizes": 1},
        {},
    ],
    "persistence/bookieAffinity": [{"bookkeeperAffinityGroupPrimary": "g"}, {}, 5],
    "antiAffinity": ["group", "", 5],
}
_TOPIC: Final[dict[str, list[Any]]] = {
    **_SHARED,
    "deduplicationEnabled": _FLAG,
    "maxProducers": _COUNT,
    "maxConsumers": _COUNT,
    "maxUnackedMessagesOnConsumer": _COUNT,
    "maxUnackedMessagesOnSubscription": _COUNT,
    "maxMessageSize": [1000, 5_242_881, *_COUNT[1:]],
    "sub/dispatchRate": _RATE,
}
# Topics take these two as a query parameter of the same name.
_IN_QUERY: Final = ("messageTTL", "subscriptionExpirationTime")
_TOPIC_QUERY: Final = ("60", "0", "-1", "many", "1.5", "", str(2**31))
_WRITTEN_BY_PUT: Final = (
    "schemaCompatibilityStrategy",
    "schemaAutoUpdateCompatibilityStrategy",
    "offloadThreshold",
    "offloadThresholdInSeconds",
    "offloadDeletionLagMs",
)
_READ_AS: Final = {"backlogQuota": "backlogQuotaMap"}
_REMOVED_AS: Final = {"offloadPolicies": "removeOffloadPolicies"}


def namespace_policies(root: str) -> Iterator[Request]:
    for name, values in _NAMESPACE.items():
        put = name in _WRITTEN_BY_PUT or name == "compactionThreshold"
        method, path = "PUT" if put else "POST", f"{root}/{name}"
        read = f"{root}/{_READ_AS.get(name, name)}"
        yield Request("GET", read)
        for value in values:
            yield Request(method, path, json.dumps(value))
            yield Request("GET", read)
        yield Request(method, path)
        yield Request(method, path, "null")
        yield Request(method, path, "{")
        yield Request("GET", read)
        yield Request(method, path, json.dumps(values[0]))
        yield Request("GET", root)
        yield Request("DELETE", f"{root}/{_REMOVED_AS.get(name, name)}")
        yield Request("GET", read)
        yield Request("GET", read.replace("/shop/", "/nosuch/"))
        yield Request(method, path.replace("/shop/eu", "/shop/nosuch"), json.dumps(values[0]))
    yield Request("POST", f"{root}/backlogQuota?backlogQuotaType=message_age", json.dumps(_QUOTA))
    by_age = {"limitTime": 60, "policy": "producer_request_hold"}
    yield Request("POST", f"{root}/backlogQuota?backlogQuotaType=message_age", json.dumps(by_age))
    yield Request("POST", f"{root}/backlogQuota?backlogQuotaType=mood", json.dumps(_QUOTA))
    yield Request("GET", f"{root}/backlogQuotaMap")
    yield Request("DELETE", f"{root}/backlogQuota?backlogQuotaType=message_age")
    yield Request("GET", f"{root}/backlogQuotaMap")


def topic_policies(domain: str) -> Iterator[Request]:
    root, missing = f"{V2}/{domain}/shop/eu/policed", f"{V2}/{domain}/shop/eu/nosuch"
    for name, values in _TOPIC.items():
        method, path = "PUT" if name in _WRITTEN_BY_PUT else "POST", f"{root}/{name}"
        read = f"{root}/{_READ_AS.get(name, name)}"
        yield Request("GET", read)
        yield Request("GET", f"{read}?applied=true")
        for value in values:
            yield Request(method, path, json.dumps(value))
            yield Request("GET", read)
        yield Request(method, path)
        yield Request(method, path, "null")
        yield Request(method, path, "{")
        yield from _over_both_scopes(method, path, read, json.dumps(values[0]), values[-1])
        yield Request("GET", f"{missing}/{_READ_AS.get(name, name)}")
        yield Request(method, f"{missing}/{name}", json.dumps(values[0]))
    for name in _IN_QUERY:
        path = f"{root}/{name}"
        yield Request("POST", path)
        for text in _TOPIC_QUERY:
            yield Request("POST", f"{path}?{name}={text}")
            yield Request("GET", path)
        yield Request("POST", f"{path}?{name}=90&isGlobal=true")
        for query in ("isGlobal=true", "applied=true", "isGlobal=true&applied=true"):
            yield Request("GET", f"{path}?{query}")
        yield Request("DELETE", f"{path}?isGlobal=true")
        yield Request("DELETE", path)
        yield Request("GET", f"{path}?applied=true")
        yield Request("POST", f"{missing}/{name}?{name}=60")
    by_age = json.dumps({"limitTime": 60, "policy": "producer_request_hold"})
    yield Request("POST", f"{root}/backlogQuota?backlogQuotaType=message_age", by_age)
    yield Request("POST", f"{root}/backlogQuota?backlogQuotaType=mood", by_age)
    yield Request("GET", f"{root}/backlogQuotaMap")
    yield Request("DELETE", f"{root}/backlogQuota?backlogQuotaType=message_age")
    yield Request("GET", f"{root}/backlogQuotaMap")
    yield Request("POST", f"{root}/maxProducers", "3")
    yield Request("DELETE", f"{root}/policies")
    yield Request("GET", f"{root}/maxProducers")
    yield Request("DELETE", f"{missing}/policies")


def _over_both_scopes(
    method: str, path: str, read: str, good: str, other: Any
) -> Iterator[Request]:
    yield Request(method, path, good)
    yield Request(method, f"{path}?isGlobal=true", json.dumps(other))
    yield Request(method, f"{path}?isGlobal=true", good)
    yield Request(method, f"{path}?isGlobal=perhaps", good)
    for query in ("isGlobal=true", "isGlobal=false", "applied=true", "applied=perhaps"):
        yield Request("GET", f"{read}?{query}")
    yield Request("DELETE", path)
    yield Request("GET", read)
    yield Request("GET", f"{read}?applied=true")
    yield Request("DELETE", f"{path}?isGlobal=true")
    yield Request("GET", f"{read}?isGlobal=true")
    yield Request("DELETE", path)
