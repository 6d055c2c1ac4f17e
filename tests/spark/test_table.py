"""The table of a topic's past: written once, true after a crash, readable without a broker."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

from magnetar import PulsarClient
from magnetar.client.admin import AdminClient
from magnetar.client.error import ConfigurationError
from magnetar.spark.job import table_command
from magnetar.spark.job.folder import find_folder
from magnetar.spark.job.table import Table
from magnetar.testing import MagnetarBroker
from tests.spark.feed import fresh

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]

NAMESPACE = "public/tabled"
TOPIC = f"topic://{NAMESPACE}/orders"


def read_rows(path: Path) -> list[tuple[int, str, str]]:
    """With pyarrow alone."""
    rows = ds.dataset(path / "data", partitioning="hive").to_table().to_pylist()
    return sorted((row["segment"], row["key"].decode(), row["value"].decode()) for row in rows)


def test_sealed_segments_are_added_once_and_a_crash_in_between_is_harmless(
    spark: SparkSession,
    tmp_path: Path,
    magnetar_broker: MagnetarBroker,
    admin: AdminClient,
    connection: dict[str, str],
) -> None:
    def read(**more: str) -> DataFrame:
        return spark.read.format("magnetar").options(**connection, topic=TOPIC, **more).load()

    admin.namespaces.create(NAMESPACE)
    forever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    admin.namespaces.set_policy(NAMESPACE, "retention", forever)
    admin.scalable_topics.create(TOPIC)
    options = {
        "topic": TOPIC,
        "url": magnetar_broker.service_url,
        "admin_url": magnetar_broker.admin_url,
        "output": str(tmp_path),
        "format": "parquet",
    }
    told: list[str] = []

    def run() -> dict[str, Any]:
        assert table_command.run(spark, options, told.append, told.append) == 0
        manifest: dict[str, Any] = json.loads((tmp_path / "manifest.json").read_text())
        return manifest

    with PulsarClient(magnetar_broker.service_url) as client, client.producer(TOPIC) as producer:

        def send(word: str) -> None:
            for number in range(20):
                producer.submit(f"{word}{number}".encode(), key=f"k{number % 5}")
            producer.flush()

        assert run()["segments"] == {}
        send("a")
        admin.scalable_topics.split(TOPIC, 0)
        send("b")
        manifest = run()
        first = read_rows(tmp_path)
        assert [row[0] for row in first] == [0] * 20
        assert manifest["checkpoint"]["ended"] == [0]
        files = sorted((tmp_path / "data").rglob("*.parquet"))
        assert run() == manifest, "nothing new, nothing changed"
        assert sorted((tmp_path / "data").rglob("*.parquet")) == files
        admin.scalable_topics.merge(TOPIC, 1, 2)
        send("c")
        # As if a job had put the files of one segment into place and then been killed.
        record = table_command.load_record(options)
        end = '{"positions": {"1": "9223372036854775807:9223372036854775807"}}'
        Table(spark, find_folder(spark, str(tmp_path)), TOPIC).write(read(endingOffsets=end), [1])
        assert run()["checkpoint"]["ended"] == [0, 1, 2]
    assert len(record["segments"]) == 4
    rows = read_rows(tmp_path)
    assert [row[2] for row in rows if row[0] == 0] == [row[2] for row in first]
    assert sorted(row[2] for row in rows) == sorted(
        f"{word}{number}" for word in "ab" for number in range(20)
    )
    checkpoint = json.dumps(run()["checkpoint"])
    rest = read(startingOffsets=checkpoint).collect()
    assert sorted(bytes(row["value"]).decode() for row in rest) == sorted(
        f"c{number}" for number in range(20)
    )


def test_a_segment_with_open_transactions_is_written_when_they_have_ended_and_its_children_after(
    spark: SparkSession, tmp_path: Path, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    topic, told = f"topic://{fresh('open')}", list[str]()
    admin.scalable_topics.create(topic, segments=2)
    admin.scalable_topics.create_subscription(topic, "keeps-everything")
    url, admin_url = magnetar_broker.service_url, magnetar_broker.admin_url
    options = {"topic": topic, "url": url, "admin_url": admin_url, "output": str(tmp_path)}

    def run() -> dict[str, Any]:
        asked = options | {"format": "parquet"}
        assert table_command.run(spark, asked, told.append, told.append) == 0
        manifest: dict[str, Any] = json.loads((tmp_path / "manifest.json").read_text())
        return manifest["segments"]

    with PulsarClient(url) as client, client.producer(topic, batching=False) as producer:
        keys = [f"k{number}" for number in range(20)]
        for key in keys:
            producer.send(b"before", key=key)
        transaction = client.transaction()
        producer.send(b"committed", key=keys[0], transaction=transaction)
        for key in keys:
            producer.send(b"behind", key=key)
        admin.scalable_topics.merge(topic, 0, 1)
        for key in keys:
            producer.send(b"child", key=key)
        admin.scalable_topics.split(topic, 2)
        [free] = run()
        assert told[-1] == f"segments {1 - int(free)}, 2 wait for transactions that are open"
        transaction.commit()
        assert set(run()) == {"0", "1", "2"}
        assert "wait" not in told[-1]
    words = Counter(row[2] for row in read_rows(tmp_path))
    assert words == {"before": 20, "committed": 1, "behind": 20, "child": 20}


def test_a_folder_of_another_topic_and_a_regular_topic_are_refused(
    spark: SparkSession, tmp_path: Path, magnetar_broker: MagnetarBroker, admin: AdminClient
) -> None:
    place = find_folder(spark, str(tmp_path))
    Table(spark, place, "topic://public/default/one").store(
        {"format": 1, "topic": "topic://public/default/one", "segments": {}}
    )
    with pytest.raises(ConfigurationError, match="holds 'topic://public/default/one'"):
        Table(spark, place, "topic://public/default/two").load()
    admin.topics.create("persistent://public/default/plain")
    options = {"topic": "public/default/plain", "admin_url": magnetar_broker.admin_url}
    with pytest.raises(ConfigurationError, match="is not scalable"):
        table_command.load_record(options)
    with (
        place.locked(),
        pytest.raises(ConfigurationError, match="Another job writes"),
        place.locked(),
    ):
        pass
