"""A topic as a Delta table: it grows, takes new fields in, is compacted, and goes back in order."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from magnetar.client.admin import AdminClient
from magnetar.client.error import ConfigurationError
from magnetar.client.schema.schema import Schema
from magnetar.spark.delta import delta_settings
from magnetar.spark.job import table_command, table_replay
from magnetar.spark.job.folder import find_folder
from magnetar.spark.job.lake import Growth, Partition, SchemaMoved, grow
from magnetar.testing import MagnetarBroker
from tests.spark.engine import read_batch
from tests.spark.feed import PATIENCE_S, fresh, publish_values

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]


def record(*more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}, *more]}


OLD = record()
NEW = record({"name": "note", "type": ["null", "string"], "default": None})


def options_of(broker: MagnetarBroker, topic: str, **more: Any) -> dict[str, Any]:
    options = {"topic": f"topic://{topic}", "url": broker.service_url}
    usual = {"format": "delta", "partition": "day", "batch_bytes": "256MB"}
    return {**options, "admin_url": broker.admin_url, **usual, **more}


def key_of(value: dict[str, Any]) -> str:
    return f"k{value['n'] % 3}"


@contextmanager
def follow(spark: SparkSession, options: dict[str, Any], told: list[str]) -> Iterator[None]:
    """The job beside the test; its query runs all the while."""
    with ThreadPoolExecutor(1) as beside:
        growing = beside.submit(table_command.run, spark, options, told.append, told.append)
        try:
            while not spark.streams.active:
                assert not growing.done(), growing.result()
            yield
            assert not growing.done(), growing.result()
        finally:
            for query in spark.streams.active:
                query.stop()
    assert growing.result() == 0


def await_rows(spark: SparkSession, table: str, count: int) -> None:
    """Read it again and again: whatever is there is what was published first, each once."""
    deadline, found = time.monotonic() + PATIENCE_S, list[int]()
    while len(found) < count:
        assert time.monotonic() < deadline
        rows = spark.read.format("delta").load(table).select("value.n").collect()
        found = sorted(row["n"] for row in rows)
        assert found == list(range(len(found)))
    assert len(found) == count


def test_a_table_grows_takes_new_fields_in_and_goes_back_into_a_topic_in_order(
    spark: SparkSession,
    magnetar_broker: MagnetarBroker,
    admin: AdminClient,
    connection: dict[str, str],
    tmp_path: Path,
    set_zone: Callable[[str], None],
) -> None:
    set_zone("Asia/Kolkata")  # neither its days nor its hours begin with those of UTC
    topic, target, told = fresh("from"), fresh("to"), list[str]()
    for each in (topic, target):
        admin.scalable_topics.create(each)
        admin.scalable_topics.create_subscription(each, "keeps-everything")
    options = options_of(magnetar_broker, topic, output=str(tmp_path), typed=True, partition="hour")
    url = magnetar_broker.service_url
    publish_values(url, topic, Schema.avro(OLD), [{"n": n} for n in range(5)], key_of)
    with follow(spark, options | {"follow": 0.1}, told):
        await_rows(spark, str(tmp_path), 5)
        publish_values(url, topic, Schema.avro(OLD), [{"n": n} for n in range(5, 10)], key_of)
        await_rows(spark, str(tmp_path), 10)
    assert told[-1].startswith("10 messages in version ")
    admin.scalable_topics.split(topic, 0)
    noted = [{"n": n, "note": "new"} for n in range(10, 20)]
    publish_values(url, topic, Schema.avro(NEW), noted, key_of)
    # A query that was defined before the new schema came must not leave its fields out.
    place = find_folder(spark, str(tmp_path))
    old = table_command.source_options(options)
    stream = spark.readStream.format("magnetar").options(**old, startingOffsets="earliest").load()
    with pytest.raises(SchemaMoved):
        grow(spark, stream, place, Growth(Partition.HOUR, schema_version=0), told.append)
    compact = options | {"compact": True}
    assert table_command.run(spark, compact, told.append, told.append) == 0
    table = spark.read.format("delta").load(str(tmp_path))
    at = F.unix_seconds("publish_time").alias("at")
    rows = table.select("value.*", "date", "hour", at).collect()
    for row in rows:
        published = datetime.fromtimestamp(row["at"], UTC)
        assert (row["date"], row["hour"]) == (published.date(), published.hour)
    found = {row["n"]: row["note"] for row in rows}
    assert found == dict.fromkeys(range(10)) | dict.fromkeys(range(10, 20), "new")
    assert len(rows) == 20
    folders = {(row["date"], row["hour"]) for row in rows}
    assert len(table.inputFiles()) == len(folders), "small files are joined"
    back = options_of(magnetar_broker, target, table=str(tmp_path), tasks=3, values="avro")
    for _ in range(2):  # under one name nothing is written twice
        assert table_replay.run(spark, back, told.append, told.append) == 0
    expected, replayed = defaultdict(list), defaultdict(list)
    for number in range(20):
        expected[key_of({"n": number})].append(number)
    for row in read_batch(connection, topic=target, valueFormat="schema"):
        replayed[bytes(row["key"]).decode()].append(row["value"]["n"])
    assert replayed == expected


def test_what_is_no_table_and_another_spark_are_refused(
    spark: SparkSession, magnetar_broker: MagnetarBroker, tmp_path: Path
) -> None:
    options = options_of(magnetar_broker, fresh(), table=str(tmp_path), tasks=1, values="json")
    with pytest.raises(ConfigurationError, match="is no table"):
        table_replay.run(spark, options, print, print)
    with pytest.raises(ConfigurationError, match=r"and this is 9\.9\.9"):
        delta_settings("9.9.9")
