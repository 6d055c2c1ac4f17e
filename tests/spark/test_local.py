"""The source and the sink inside a real, local Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from magnetar.client.admin import AdminClient
from magnetar.client.error import ConfigurationError
from magnetar.spark import register
from magnetar.spark.job.session import check_java
from magnetar.spark.source import MagnetarSource
from tests.spark.engine import read_batch
from tests.spark.feed import by_key, fresh, numbers, publish

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]


def key_of(value: int) -> str:
    return f"k{value % 7}"


def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first attempt of every task dies after it has handed some rows on."""
    context = TaskContext.get()
    assert context is not None
    for number, each in enumerate(batches):
        yield each
        if number == 1 and context.attemptNumber() == 0:
            raise RuntimeError("planted: this attempt dies")


def copy(
    spark: SparkSession, connection: dict[str, str], source: str, target: str, home: Path
) -> None:
    """A streaming query from topic to topic, until it has read all there is."""
    frame = (
        spark.readStream.format("magnetar")
        .options(**connection)
        .options(topic=source, startingOffsets="earliest", batchRows="10", inlineBytes="0")
        .load()
        .select("key", "value")
        .mapInArrow(fail_once, "key binary, value binary")
    )
    query = (
        frame.writeStream.format("magnetar")
        .options(**connection)
        .options(topic=target, checkpointLocation=str(home))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(180)


def test_a_stream_from_topic_to_topic_is_exact_over_failed_tasks_and_a_killed_driver(
    spark: SparkSession, connection: dict[str, str], admin: AdminClient, tmp_path: Path
) -> None:
    source, target = fresh("from"), fresh("to")
    admin.scalable_topics.create(source)
    # The commit log is taken away below, and the hold has moved by then: retention keeps the rows.
    forever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    admin.topic_policies.set(f"topic://{source}", "retention", forever)
    admin.scalable_topics.create(target, segments=2)
    publish(connection["serviceUrl"], source, range(120), key_of, batching=False)
    copy(spark, connection, source, target, tmp_path)
    # As if the driver had died after the tasks and before the commit log.
    for each in (tmp_path / "commits").iterdir():
        each.unlink()
    admin.scalable_topics.split(source, 0)
    admin.scalable_topics.split(target, 0)
    publish(connection["serviceUrl"], source, range(120, 180), key_of, batching=False)
    copy(spark, connection, source, target, tmp_path)
    found = read_batch(connection, topic=target)
    assert numbers(found) == list(range(180))
    [hold] = admin.scalable_topics.subscriptions(source)
    assert admin.scalable_topics.stats(source)["subscriptions"][hold]["msgBacklog"] == 0


def test_sql_reads_and_a_batch_write_is_repeated_without_a_trace(
    spark: SparkSession, connection: dict[str, str], admin: AdminClient
) -> None:
    topic = fresh()
    frame = spark.range(100).selectExpr(
        "concat('k', id % 5) AS key", "named_struct('id', id, 'square', id * id) AS value"
    )
    for _ in range(2):
        (
            frame.write.format("magnetar")
            .options(**connection)
            .options(topic=f"topic://{topic}", valueFormat="avro", writeId="squares")
            .mode("append")
            .save()
        )
    loaded = (
        spark.read.format("magnetar")
        .options(**connection)
        .options(topic=topic, valueFormat="schema")
    )
    table: DataFrame = loaded.load()
    assert table.schema["value"].dataType.simpleString() == "struct<id:bigint,square:bigint>"
    total = table.selectExpr("count(*) AS n", "sum(value.square) AS s").first()
    assert total is not None and (total["n"], total["s"]) == (100, sum(i * i for i in range(100)))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        some = loaded.option("pushDown", "true").load().where("key = cast('k3' AS binary)")
        assert {row["value"]["id"] for row in some.collect()} == set(range(3, 100, 5))
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    loaded = loaded.option("pushDown", "false")
    narrow = loaded.schema("value struct<id: bigint>, topic string").load()
    assert {row["value"]["id"] for row in narrow.collect()} == set(range(100))


def test_a_running_query_sees_a_split_and_keeps_every_key_in_order(
    spark: SparkSession, connection: dict[str, str], admin: AdminClient, tmp_path: Path
) -> None:
    topic = fresh()
    admin.scalable_topics.create(topic)
    seen: dict[int, list[Any]] = {}

    def keep(frame: DataFrame, number: int) -> None:
        seen[number] = sorted(frame.collect(), key=lambda row: (row["segment"], row["message_id"]))

    query = (
        spark.readStream.format("magnetar")
        .options(**connection)
        .options(topic=topic, startingOffsets="earliest")
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        publish(connection["serviceUrl"], topic, range(100), key_of)
        query.processAllAvailable()
        admin.scalable_topics.split(topic, 0)
        publish(connection["serviceUrl"], topic, range(100, 200), key_of)
        query.processAllAvailable()
    finally:
        query.stop()
    rows = [row for number in sorted(seen) for row in seen[number]]
    assert numbers(rows) == list(range(200))
    assert all(values == sorted(values) for values in by_key(rows).values())


def test_a_refusal_reaches_the_person_who_started_the_query(
    spark: SparkSession, connection: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="topic and topics contradict each other"):
        spark.read.format("magnetar").options(**connection).options(topic="a", topics="b").load()
    typed = {"topic": f"topic://{fresh('never')}", "valueFormat": "avro"}
    frame = spark.sql("SELECT named_struct('b', array(map(1, 'x'))) AS a")
    with pytest.raises(Exception, match=r"The keys of the map a\.b\[\] are int"):
        frame.write.format("magnetar").options(**connection, **typed).mode("append").save()
    query = (
        spark.readStream.format("magnetar")
        .options(**connection)
        .options(topic=fresh("nowhere"))
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    with pytest.raises(StreamingQueryException, match="There is no topic public/default/nowhere"):
        query.awaitTermination(60)


class Registrations:
    """A session that has what is public only, and writes down what is registered."""

    def __init__(self) -> None:
        self.registered: list[type] = []
        self.dataSource = SimpleNamespace(register=self.registered.append)


def test_the_source_is_registered_once_in_every_session() -> None:
    first, second = Registrations(), Registrations()
    for session in (first, first, second):
        assert register(session) is session  # type: ignore[arg-type, comparison-overlap]
    assert first.registered == second.registered == [MagnetarSource]


def test_missing_java_is_a_sentence_that_says_what_to_install() -> None:
    with pytest.raises(ConfigurationError, match="Spark needs Java 17 or newer, but no java was"):
        check_java({"PATH": "/nowhere"})
    with pytest.raises(ConfigurationError, match="JAVA_HOME is /nowhere, which has no bin/java"):
        check_java({"PATH": "/usr/bin", "JAVA_HOME": "/nowhere"})
