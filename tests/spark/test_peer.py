"""A topic of a real Apache Pulsar, when MAGNETAR_PEER_URL and MAGNETAR_PEER_ADMIN name one."""

from __future__ import annotations

import os

import pytest

from magnetar.client.admin import AdminClient
from tests.spark.engine import Engine, read_batch
from tests.spark.feed import by_key, fresh, numbers, publish, publish_regular

PEER = {
    "serviceUrl": os.environ.get("MAGNETAR_PEER_URL", ""),
    "adminUrl": os.environ.get("MAGNETAR_PEER_ADMIN", ""),
}
pytestmark = pytest.mark.skipif(not all(PEER.values()), reason="no Apache Pulsar is named")


def key_of(value: int) -> str:
    return f"k{value % 7}"


def test_a_scalable_topic_of_apache_pulsar_is_read_over_a_split() -> None:
    topic = fresh()
    with AdminClient(PEER["adminUrl"]) as admin:
        admin.scalable_topics.create(topic)
        publish(PEER["serviceUrl"], topic, range(100), key_of)
        engine = Engine(PEER, topic=topic, startingOffsets="earliest")
        assert numbers(engine.run()) == list(range(100))
        admin.scalable_topics.split(topic, 0)
        admin.namespaces.unload("public/default")  # or the sealed segment stays closed to readers
        publish(PEER["serviceUrl"], topic, range(100, 200), key_of)
        rows = engine.run()
        assert numbers(rows) == list(range(200))
        assert all(values == sorted(values) for values in by_key(rows).values())
        assert numbers(read_batch(PEER, topic=topic)) == list(range(200))


def test_a_regular_topic_of_apache_pulsar_is_read() -> None:
    topic = fresh()
    with AdminClient(PEER["adminUrl"]) as admin:
        admin.topics.create_partitioned(f"persistent://{topic}", 2)
        publish_regular(PEER["serviceUrl"], topic, range(100))
        name = f"persistent://{topic}"
        assert numbers(read_batch(PEER, topic=name)) == list(range(100))
        engine = Engine(PEER, topic=name, startingOffsets="earliest", maxMessagesPerTrigger="60")
        assert numbers(engine.run()) == list(range(100))
