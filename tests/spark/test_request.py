"""How often a query asks its broker: as often over many topics or segments as over few."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from magnetar.client.admin import AdminClient
from magnetar.spark.sink_option import parse_sink
from magnetar.spark.sink_task import name_task, write_task
from tests.spark.engine import Engine
from tests.spark.feed import fresh, publish_regular
from tests.spark.request_log import Request, RequestLog
from tests.spark.test_sink import rows


@pytest.fixture
def log(connection: dict[str, str]) -> Iterator[RequestLog]:
    with RequestLog(connection["adminUrl"]) as log:
        yield log


def trigger(
    log: RequestLog, connection: dict[str, str], namespace: str
) -> dict[str, list[Request]]:
    """A trigger with rows and two without, over all topics of a namespace, by steps."""
    steps = {}
    reader = Engine(connection | {"adminUrl": log.url}, inlineBytes="0").make_reader(
        namespace=namespace, startingOffsets="earliest", holdName="query"
    )
    try:
        limit = reader.getDefaultReadLimit()
        start = reader.initialOffset()
        publish_regular(connection["serviceUrl"], f"{namespace}/t7", range(5))
        log.take()
        read = reader.latestOffset(start, limit)
        steps["plan"] = log.take()
        reader.partitions(start, read)
        steps["tasks"] = log.take()
        reader.commit(read)
        steps["commit"] = log.take()
        assert reader.latestOffset(read, limit) == read
        log.take()
        assert reader.latestOffset(read, limit) == read
        steps["idle"] = log.take()
        publish_regular(connection["serviceUrl"], f"{namespace}/t8", range(5))
        assert reader.latestOffset(read, limit) != read
        log.take()
    finally:
        reader.stop()
    return steps


def test_a_trigger_asks_as_often_over_twice_as_many_topics(
    connection: dict[str, str], admin: AdminClient, log: RequestLog
) -> None:
    """More topics than the driver listens to, so that it asks when idle too."""
    seen = []
    for count in (70, 140):
        namespace = f"public/many-{uuid.uuid4().hex[:8]}"
        admin.namespaces.create(namespace)
        for number in range(count):
            admin.topics.create(f"persistent://{namespace}/t{number}")
        seen.append(trigger(log, connection, namespace))
    few, many = seen
    for step, requests in few.items():
        assert [each[:2] for each in requests] == [each[:2] for each in many[step]]
    assert len(few["plan"]) == len(few["idle"]) == len(few["commit"]) == 1
    assert few["idle"][0].path == few["plan"][0].path
    # Nor do the question and its answer grow.
    assert many["idle"][0].size < few["plan"][0].size / 10
    assert abs(many["idle"][0].size - few["idle"][0].size) < 64


def test_a_sink_task_asks_as_often_whatever_was_sealed(
    connection: dict[str, str], admin: AdminClient, log: RequestLog
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    admin.scalable_topics.create_subscription(topic, "keeps-what-is-sealed")
    options = parse_sink(
        connection | {"adminUrl": log.url, "topic": f"topic://{topic}"}, is_stream=False
    )
    seen = []
    for batch, change in enumerate(("", "split", "merge", "split", "merge")):
        if change:
            active = [
                each["segmentId"]
                for each in admin.scalable_topics.metadata(topic)["segments"].values()
                if each["state"] == "ACTIVE"
            ]
            getattr(admin.scalable_topics, change)(topic, *active)
        write_task(options, None, rows(range(20)), name_task("q", 0, batch))
        seen.append([each[:2] for each in log.take()])
    assert len(admin.scalable_topics.metadata(topic)["segments"]) == 7
    assert seen[1] == seen[2] == seen[3] == seen[4]
    asked = [path for _, path in seen[-1] if "equence" in path]
    assert len(asked) == 2, "before its rows and after them"
