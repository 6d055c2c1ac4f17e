"""How often a query asks its broker: as often over many topics or segments as over few."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from urllib.parse import parse_qs

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


def test_a_driver_that_repeats_a_batch_asks_as_often_over_twice_as_many_topics(
    connection: dict[str, str], admin: AdminClient, log: RequestLog
) -> None:
    """All it has of the batch are the offsets that another one has planned."""
    asked = []
    for count in (3, 6):
        namespace = f"public/again-{uuid.uuid4().hex[:8]}"
        admin.namespaces.create(namespace)
        for number in range(count):
            publish_regular(connection["serviceUrl"], f"{namespace}/t{number}", range(5))
        engine = Engine(
            connection | {"adminUrl": log.url},
            namespace=namespace,
            startingOffsets="earliest",
            inlineBytes="0",
            maxTasks="1",
        )
        first, second = engine.make_reader(), engine.make_reader()
        try:
            start = first.initialOffset()
            read = first.latestOffset(start, first.getDefaultReadLimit())
            log.take()
            (task,) = second.partitions(start, read)
            assert sum(each.size > 0 for each in task.slices) == count
            asked.append([each[:2] for each in log.take()])
        finally:
            first.stop()
            second.stop()
    assert asked[0] == asked[1]


def test_a_sink_task_asks_twice_about_active_segments_whatever_was_sealed(
    connection: dict[str, str], admin: AdminClient, log: RequestLog
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    admin.scalable_topics.create_subscription(topic, "keeps-what-is-sealed")
    options = parse_sink(
        connection | {"adminUrl": log.url, "topic": f"topic://{topic}"}, is_stream=False
    )
    requests: list[list[Request]] = []
    layouts: list[dict[str, set[str]]] = []
    for batch, change in enumerate(("", "", "split", "merge", "split", "merge", "")):
        if change:
            getattr(admin.scalable_topics, change)(topic, *sorted(layouts[-1]["ACTIVE"], key=int))
        layouts.append(segments_of(admin, topic))
        write_task(options, None, rows(range(20)), name_task("q", 0, batch))
        requests.append(log.take())
    assert len(layouts[-1]["SEALED"]) == 6
    for before, after, made in zip(layouts, layouts[1:], requests[1:], strict=False):
        # What an earlier task of this process has asked of sealed ones does not change.
        first, last = (set(parse_qs(each.query)["segments"]) for each in made)
        assert all(each.path.endswith("/lastSequenceIds") for each in made)
        assert first == after["ACTIVE"] | (after["SEALED"] - before["SEALED"])
        assert last == after["ACTIVE"]


def segments_of(admin: AdminClient, topic: str) -> dict[str, set[str]]:
    """The numbers of segments by their state."""
    found: dict[str, set[str]] = {"ACTIVE": set(), "SEALED": set()}
    for each in admin.scalable_topics.metadata(topic)["segments"].values():
        found[each["state"]].add(str(each["segmentId"]))
    return found
