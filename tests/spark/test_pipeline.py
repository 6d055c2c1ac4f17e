"""Spark's declarative pipelines, with topics at both ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from magnetar.client.admin import AdminClient
from tests.spark.engine import read_batch
from tests.spark.feed import fresh, numbers, publish
from tests.tidy.source import ROOT

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def test_the_example_of_a_declared_pipeline_reads_and_writes_topics(
    connection: dict[str, str], admin: AdminClient, environment: dict[str, str], tmp_path: Path
) -> None:
    topic = fresh("orders")
    for each in (topic, f"{topic}-large"):
        admin.scalable_topics.create(each)
        admin.scalable_topics.create_subscription(each, "keeps-everything")
    publish(connection["serviceUrl"], topic, range(200), lambda value: f"k{value % 7}")
    specification = (ROOT / "demo" / "pipeline" / "spark-pipeline.yml").read_text()
    example = ROOT / "demo" / "pipeline" / "transformations"
    (tmp_path / "transformations").symlink_to(example, target_is_directory=True)
    told = specification.replace("file:///tmp/magnetar-pipeline", f"file://{tmp_path}/storage")
    (tmp_path / "spark-pipeline.yml").write_text(told)
    done = subprocess.run(
        [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run"],
        cwd=tmp_path,
        env={
            **os.environ,
            **environment,
            "PYSPARK_PYTHON": sys.executable,
            "MAGNETAR_URL": connection["serviceUrl"],
            "MAGNETAR_ADMIN_URL": connection["adminUrl"],
            "ORDERS": f"topic://{topic}",
        },
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert numbers(read_batch(connection, topic=f"{topic}-large")) == list(range(100, 200))
