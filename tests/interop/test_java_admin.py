"""Apache Pulsar's own admin client, from its published jar, sets and reads topic policies."""

from __future__ import annotations

import uuid

import pytest

from magnetar.testing.broker import MagnetarBroker
from tests.interop.java_client import run_java

METADATA = "org.apache.pulsar.broker.service.MetadataStoreTopicPoliciesService"
VALUES = {
    "retention": "-1",
    "ttl": "10",
    "global ttl": "20",
    "global maxProducers": "null",
    "maxConsumers": "null",
    "applied maxConsumers": "4",
    "maxProducers": "3",
    "maxMessageSize": "1000",
    "dispatchRate": "7",
    "publishRate": "8",
    "subscribeRate": "5",
    "quota": "100",
    "delay": "60",
    "inactive": "99",
    "persistence": "2.5",
    "dedup": "true",
    "compaction": str(1 << 20),
    "schema": "FORWARD",
    "types": "[Shared]",
    "sub rate": "3",
    "removed ttl": "null",
    "applied ttl": "20",
    "negative": "412",
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
