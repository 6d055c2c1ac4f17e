"""A topic of a real Apache Pulsar, when MAGNETAR_PEER_URL and MAGNETAR_PEER_ADMIN name one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from magnetar import FeatureNotSupportedError, PulsarClient
from magnetar.client.admin import AdminClient
from magnetar.spark.sink_option import parse_sink
from magnetar.spark.sink_task import Written, name_task, write_task
from magnetar.spark.sink_topic import DeduplicationOff
from magnetar.spark.window import WindowSize
from tests.spark.driver import ROWS, Driver, TaskKilled
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


def write(topic: str, *, dies_after: int | None = None) -> Written:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 200, 10):
            if start == dies_after:
                raise TaskKilled
            part = range(start, start + 10)
            columns = {"key": [key_of(each) for each in part], "value": [str(e) for e in part]}
            yield pa.RecordBatch.from_pydict(columns)

    options = parse_sink(PEER | {"topic": topic}, is_stream=False)
    return write_task(options, None, batches(), name_task("peer", 0, 0), WindowSize(rows=7))


@pytest.mark.parametrize("kind", ["topic", "persistent"])
def test_a_retried_task_leaves_every_row_once_on_apache_pulsar(kind: str) -> None:
    namespace = f"public/spark-{uuid.uuid4().hex[:8]}"
    topic = f"{kind}://{namespace}/rows"
    with AdminClient(PEER["adminUrl"]) as admin:
        admin.namespaces.create(namespace)
        if kind == "topic":
            with pytest.raises(DeduplicationOff, match=f"set-deduplication {namespace} --enable"):
                write(topic)
            admin.namespaces.set_policy(namespace, "deduplication", True)
        with pytest.raises(TaskKilled):
            write(topic, dies_after=100)
        done = write(topic)
        assert done.written + done.known == 200 and done.known >= 90
        again = write(topic)
        assert (again.written, again.known) == (0, 200)
        found = read_batch(PEER, topic=topic)
        assert numbers(found) == list(range(200))
        assert all(values == sorted(values) for values in by_key(found).values())


def test_batches_are_transactions_over_scalable_topics_of_apache_pulsar() -> None:
    namespace = f"public/spark-{uuid.uuid4().hex[:8]}"
    topics = [f"topic://{namespace}/one", f"topic://{namespace}/other"]
    given = PEER | {"transactionNamespace": namespace}
    driver = Driver(given, topics, namespace)

    def expect(count: int) -> None:
        """5.0.0-M1 does not tell the last message of a transaction; its consumers get it."""
        found = []
        with PulsarClient(PEER["serviceUrl"]) as client:
            for topic in topics:
                with client.queue_consumer(
                    topic, subscription=uuid.uuid4().hex, initial_position="earliest"
                ) as consumer:
                    while (message := consumer.receive(2)) is not None:
                        found.append(int(message.value))
        assert sorted(found) == list(range(count))

    with AdminClient(PEER["adminUrl"]) as admin:
        admin.namespaces.create(namespace)
        admin.namespaces.set_policy(namespace, "deduplication", True)
        plan = driver.plan()
        with pytest.raises(TaskKilled):
            driver.task(plan, 0, range(ROWS), dies_when=lambda: True)
        done = driver.task(plan, 0, range(ROWS))
        assert done.known > 0
        expect(0)
        driver.commit(done, 0)
        expect(ROWS)
        driver.commit(driver.task(driver.plan(), 0, range(ROWS)), 0)
        expect(ROWS)
        regular = Driver(given, [f"persistent://{namespace}/regular"], "regular")
        with pytest.raises(FeatureNotSupportedError):
            regular.task(regular.plan(), 0, range(10))
        regular.abort(0)
