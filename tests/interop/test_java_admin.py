"""Apache Pulsar's own admin client, from its published jar, sets and reads topic policies."""

from __future__ import annotations

import uuid

import pytest

from magnetar.testing.broker import MagnetarBroker
from tests.interop.java_client import run_java

METADATA = "org.apache.pulsar.broker.service.MetadataStoreTopicPoliciesService"
RATE = (
    "DispatchRateImpl(dispatchThrottlingRateInMsg=7, dispatchThrottlingRateInByte=70,"
    " relativeToPublishRate=false, ratePeriodInSecond=1)"
)
QUOTA = "BacklogQuotaImpl(limit=100, limitSize=100, limitTime=-1, policy=producer_exception)"
EACH = {
    "retention": "RetentionPolicies{retentionTimeInMinutes=-1, retentionSizeInMB=-1}",
    "quota": QUOTA,
    "age quota": QUOTA,
    "delay": "DelayedDeliveryPoliciesImpl(tickTime=50, active=true, maxDeliveryDelayInMillis=60)",
    "expiration": "5",
    "ttl": "10",
    "unacked of a consumer": "11",
    "unacked of a subscription": "12",
    "inactive": "InactiveTopicPolicies(inactiveTopicDeleteMode=delete_when_no_subscriptions,"
    " maxInactiveDurationSeconds=99, deleteWhileInactive=true)",
    "offload": "filesystem",
    "persistence": "PersistencePolicies(bookkeeperEnsemble=2, bookkeeperWriteQuorum=2,"
    " bookkeeperAckQuorum=1, managedLedgerMaxMarkDeleteRate=2.5,"
    " managedLedgerStorageClassName=null)",
    "dedup": "true",
    "dedup interval": "13",
    "dispatch": RATE,
    "subscription dispatch": RATE,
    "one subscription": RATE,
    "replicator": RATE,
    "publish": "PublishRate(publishThrottlingRateInMsg=8, publishThrottlingRateInByte=9)",
    "subscribe": "SubscribeRate(subscribeThrottlingRatePerConsumer=5, ratePeriodInSecond=6)",
    "compaction": str(1 << 20),
    "producers": "14",
    "consumers": "15",
    "consumers of a subscription": "16",
    "subscriptions": "17",
    "message size": "1000",
    "types": "[Shared]",
    "schema": "FORWARD",
    "creation": "AutoSubscriptionCreationOverrideImpl(allowAutoSubscriptionCreation=true)",
    "pause": "true",
    "filters": "null",
    "clusters": "[standalone]",
    "validation": "true",
}
UNSET = {"pause": "false", "validation": "false"}
SCOPES = ("local", "global")
VALUES = {
    **{f"{scope} {name}": value for scope in SCOPES for name, value in EACH.items()},
    **{f"removed {scope} {name}": UNSET.get(name, "null") for scope in SCOPES for name in EACH},
    "applied ttl": "10",
    "applied global ttl": "20",
    "ttl of all clusters": "20",
    "negative": "412",
    "quorums": "400",
    "filter": "400",
    "deleted": "null",
}


@pytest.mark.parametrize(("backend", "read"), [("system-topic", "events"), (METADATA, "nothing")])
def test_the_published_admin_client_sets_and_reads_topic_policies(backend: str, read: str) -> None:
    with MagnetarBroker(set={"topicPoliciesServiceClassName": backend}) as broker:
        topic = f"persistent://public/default/t-{uuid.uuid4().hex[:8]}"
        lines = run_java("Policies", broker.admin_url, broker.service_url, topic, read)
    told = dict(line.split(" = ", 1) for line in lines if " = " in line)
    assert told == VALUES
    events = [line.split()[1:] for line in lines if line.startswith("event ")]
    assert (events[-1:] == [[topic, "2"]]) == (read == "events")
    assert ([f"__G__{topic}", "gone"] in events) == (read == "events")
