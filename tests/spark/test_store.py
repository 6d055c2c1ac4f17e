"""Every job on a store that speaks S3: nothing is left to a folder that driver and tasks share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from magnetar.client.admin import AdminClient
from magnetar.spark.job.folder import find_folder
from magnetar.testing import MagnetarBroker
from tests.spark.feed import fresh, publish
from tests.spark.round_trip import run_job
from tests.spark.standalone import ObjectStore, Processes

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def test_every_job_takes_the_uri_of_an_object_store(
    spark: SparkSession,
    magnetar_broker: MagnetarBroker,
    admin: AdminClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace = fresh("stored").replace("/default/", "/")
    admin.namespaces.create(namespace)
    topic = f"{namespace}/orders"
    admin.scalable_topics.create(topic)
    admin.scalable_topics.create_subscription(topic, "keeps-everything")
    publish(magnetar_broker.service_url, topic, range(30), lambda value: f"k{value % 3}")
    admin.scalable_topics.split(topic, 0)
    admin.topics.create(f"persistent://{namespace}/regular")
    where = ["--url", magnetar_broker.service_url, "--admin-url", magnetar_broker.admin_url]
    asked = ["--admin-url", magnetar_broker.admin_url, "--namespace", namespace]
    pace = ["--interval", "1s", "--flush", "1s", "--for", "2s"]
    monkeypatch.chdir(tmp_path)
    with Processes(tmp_path) as processes:
        store = ObjectStore(processes)
        store.make_bucket()
        for name, value in store.settings.items():
            configuration = spark.sparkContext._jsc.hadoopConfiguration()
            configuration.set(name.removeprefix("spark.hadoop."), value)
        lake = find_folder(spark, "s3a://lake/")
        run_job(spark, ["order-audit", f"topic://{topic}", "--output", lake.child("audit"), *where])
        run_job(spark, ["table", f"topic://{topic}", "--output", lake.child("sealed"), *where])
        run_job(spark, ["migration-plan", "--output", lake.child("plan"), *asked])
        run_job(spark, ["load-history", "--output", lake.child("history"), *pace, *asked])
        grid = ["--grid", "scale=1,2"]
        run_job(spark, ["what-if", lake.child("history"), "--output", lake.child("answer"), *grid])
        assert json.loads(lake.read("audit/findings.json") or "")["messages"] == 30
        manifest = json.loads(lake.read("sealed/manifest.json") or "")
        assert [each["rows"] for each in manifest["segments"].values()] == [30]
        assert spark.read.parquet(lake.child("sealed/data")).count() == 30
        assert f"{namespace}/regular" in (lake.read("plan/plan.html") or "")
        seen = spark.read.parquet(lake.child("history/sample")).select("topic").distinct().collect()
        assert [row["topic"] for row in seen] == [f"topic://{topic}"]
        assert lake.has("answer/recommended.json") and lake.has("answer/report.html")
    assert not [each for each in tmp_path.iterdir() if each.name != "s3"]
