"""Small micro-batches go to Spark with their plan; what is larger is left to tasks."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest
from pyspark.serializers import read_int, write_with_length
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.python_streaming_source_runner import (
    EMPTY_PYARROW_RECORD_BATCHES,
    NON_EMPTY_PYARROW_RECORD_BATCHES,
    PREFETCHED_RECORDS_NOT_FOUND,
    SUPPORTS_ADMISSION_CONTROL,
    SUPPORTS_TRIGGER_AVAILABLE_NOW,
    check_support_func,
    partitions_func,
)

from magnetar import PulsarClient
from magnetar.client.admin import AdminClient
from magnetar.client.schema.schema import Schema
from magnetar.spark.offset import Place
from magnetar.spark.slice import Slice
from magnetar.spark.small_batch import SmallBatchReader, is_small, offer_small_batches
from magnetar.spark.source import MagnetarSource
from magnetar.spark.stream import TopicStreamReader
from magnetar.testing.plugin import StartBroker
from tests.spark.engine import Engine
from tests.spark.feed import fresh, numbers, publish


def make_slice(size: int, *, is_counted: bool = True) -> Slice:
    return Slice("topic://a/b/c", 0, "t", Place(1, 0), Place(1, 9), (), size, is_counted)


@pytest.mark.parametrize(
    ("slices", "small"),
    [
        ([], True),
        ([make_slice(100)], True),
        ([make_slice(60), make_slice(41)], False),
        ([make_slice(0, is_counted=False)], False),
    ],
)
def test_small_is_what_is_known_to_be(slices: list[Slice], small: bool) -> None:
    assert is_small(slices, 100) is small


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = fresh()
    admin.scalable_topics.create(name)
    return name


def ask_pyspark(
    source: MagnetarSource, reader: DataSourceStreamReader, start: Any, end: Any
) -> tuple[int, int]:
    """What PySpark's own runner makes of a plan: how many tasks, and whether rows come with it."""
    told = io.BytesIO()
    for offset in (start, end):
        write_with_length(json.dumps(offset).encode(), told)
    told.seek(0)
    answer = io.BytesIO()
    partitions_func(reader, source, source.schema(), 10_000, told, answer)
    answer.seek(0)
    tasks = read_int(answer)
    for _ in range(tasks):
        answer.read(read_int(answer))
    return tasks, read_int(answer)


def plan_all(options: dict[str, str]) -> tuple[int, int]:
    source = MagnetarSource(options | {"startingOffsets": "earliest"})
    reader = source.streamReader(source.schema())
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        return ask_pyspark(source, reader, start, end)
    finally:
        reader.stop()


def test_pyspark_takes_the_rows_of_a_small_batch_with_its_plan(
    connection: dict[str, str], topic: str
) -> None:
    options = connection | {"topic": topic, "inlineBytes": "256KB"}
    assert plan_all(options) == (1, EMPTY_PYARROW_RECORD_BATCHES)
    publish(connection["serviceUrl"], topic, range(50))
    assert plan_all(options) == (1, NON_EMPTY_PYARROW_RECORD_BATCHES)
    assert plan_all(options | {"inlineBytes": "10"}) == (1, PREFETCHED_RECORDS_NOT_FOUND)
    assert plan_all(options | {"inlineBytes": "0"}) == (1, PREFETCHED_RECORDS_NOT_FOUND)


def test_pyspark_still_sees_limits_and_available_now(
    connection: dict[str, str], topic: str
) -> None:
    limited = {"topic": topic, "maxMessagesPerTrigger": "5", "inlineBytes": "256KB"}
    source = MagnetarSource(connection | limited)
    reader = source.streamReader(source.schema())
    answer = io.BytesIO()
    check_support_func(reader, answer)
    answer.seek(0)
    assert read_int(answer) == SUPPORTS_ADMISSION_CONTROL | SUPPORTS_TRIGGER_AVAILABLE_NOW
    assert getattr(reader.getDefaultReadLimit(), "max_rows", None) == 5


def test_typed_values_come_with_the_plan_as_through_tasks(
    connection: dict[str, str], topic: str
) -> None:
    schema = Schema.json({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]})
    with (
        PulsarClient(connection["serviceUrl"]) as client,
        client.producer(f"topic://{topic}", schema=schema) as producer,
    ):
        for number in range(20):
            producer.send({"n": number}, key=f"k{number}", properties={"p": str(number)})
    found = {}
    for inline in ("1MB", "0"):
        engine = Engine(
            connection,
            topic=topic,
            startingOffsets="earliest",
            valueFormat="schema",
            inlineBytes=inline,
        )
        found[inline] = engine.run()
        assert engine.handed == (20 if inline == "1MB" else 0)
    assert found["1MB"] == found["0"]
    assert sorted(row["value"]["n"] for row in found["0"]) == list(range(20))


def test_a_batch_that_proves_to_be_large_is_left_to_tasks(
    connection: dict[str, str], topic: str
) -> None:
    url = connection["serviceUrl"]
    publish(url, topic, range(2000), batching=False)
    engine = Engine(connection, topic=topic, startingOffsets="earliest", inlineBytes="4KB")
    assert numbers(engine.run()) == list(range(2000))
    handed = engine.handed
    # By the mean of the ledger's entries it is small; it is a thousand times as large.
    with PulsarClient(url) as client, client.producer(f"topic://{topic}") as producer:
        producer.send(b"x" * 100_000)
    rows = engine.run()
    assert len(rows[-1]["value"]) == 100_000 and len(rows) == 2001
    assert engine.handed == handed


def test_where_pyspark_takes_no_rows_tasks_read_everything(
    connection: dict[str, str], topic: str
) -> None:
    source = MagnetarSource(connection | {"topic": topic, "inlineBytes": "256KB"})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, SmallBatchReader)
    inside = reader.simple_reader
    assert isinstance(inside, TopicStreamReader)
    assert offer_small_batches(inside, takes_rows=False) is inside


def test_a_connection_that_was_closed_in_a_pause_is_made_again(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory(keepAliveIntervalSeconds=1)
    options = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
    name = fresh()
    with AdminClient(broker.admin_url) as admin:
        admin.scalable_topics.create(name)
    source = MagnetarSource(options | {"topic": name, "inlineBytes": "256KB"})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, SmallBatchReader)
    try:
        offset = reader.initialOffset()
        for number in range(2):
            if number:
                time.sleep(4)
            publish(broker.service_url, name, [number])
            while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) == offset:
                time.sleep(0.01)
            reader.partitions(offset, end)
            handed = reader.getCache(offset, end)
            assert handed is not None
            assert [row["value"] for batch in handed for row in batch.to_pylist()] == [
                str(number).encode()
            ]
            reader.commit(end)
            offset = end
    finally:
        reader.stop()
