"""A migration plan of a cluster with ready, held and refused topics."""

from __future__ import annotations

from pathlib import Path

import pulsar
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from magnetar.client.admin import AdminClient
from magnetar.spark.job.load_history import Cluster
from magnetar.spark.job.migration_plan import migration_plan
from magnetar.spark.job.wave import WaveLimit
from magnetar.testing import MagnetarBroker

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]

NAMESPACE = "public/planned"
ROOT = f"persistent://{NAMESPACE}"


def test_a_plan_tells_who_is_ready_who_holds_on_and_what_is_left_to_read(
    spark: SparkSession, tmp_path: Path, magnetar_broker: MagnetarBroker
) -> None:
    url = magnetar_broker.admin_url
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(magnetar_broker.service_url, logger=logger)
    with AdminClient(url) as admin:
        admin.namespaces.create(NAMESPACE)
        admin.topics.create_partitioned(f"{ROOT}/idle", 3)
        admin.topics.create(f"{ROOT}/unread")
        admin.scalable_topics.create(f"topic://{NAMESPACE}/scalable")
        client.subscribe(f"{ROOT}/unread", "audit").close()
        producer = client.create_producer(f"{ROOT}/unread", batching_enabled=False)
        for number in range(7):
            producer.send(str(number).encode())
        producer.close()
        held = client.create_producer(f"{ROOT}/held", producer_name="billing")
        try:
            waves = migration_plan(
                spark,
                Cluster(url),
                str(tmp_path),
                WaveLimit(topics=1),
                namespaces=[NAMESPACE],
                say=lambda line: None,
            )
        finally:
            held.close()
            client.close()
    rows = {row["topic"]: row for row in pq.read_table(tmp_path / "topic").to_pylist()}
    assert set(rows) == {f"{ROOT}/idle", f"{ROOT}/unread", f"{ROOT}/held"}
    assert rows[f"{ROOT}/idle"]["readiness"] == "ready"
    assert rows[f"{ROOT}/idle"]["partitions"] == 3
    assert rows[f"{ROOT}/unread"]["subscriptions"] == [
        {"name": "audit", "backlog": 7, "drain_s": None}
    ]
    assert rows[f"{ROOT}/held"]["readiness"] == "v4-clients"
    (holder,) = rows[f"{ROOT}/held"]["clients"]
    assert (holder["kind"], holder["name"]) == ("producer", "billing")
    assert [wave.topics for wave in waves] == [
        (f"{ROOT}/idle",),
        (f"{ROOT}/unread",),
        (f"{ROOT}/held",),
    ]
    assert [wave.unread for wave in waves] == [0, 1, 0]
    assert waves[2].hosts == ("127.0.0.1",)
    kept = pq.read_table(tmp_path / "wave.parquet").to_pylist()
    assert [row["topics"] for row in kept] == [list(wave.topics) for wave in waves]
    page = (tmp_path / "plan.html").read_text()
    assert "billing" in page and "wave 3" in page and "not being read" in page
