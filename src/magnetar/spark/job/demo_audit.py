"""What the demo needs of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from magnetar.spark.java import check_java
from magnetar.spark.job.order_audit import Counter, Findings, order_audit
from magnetar.spark.job.order_audit_command import load_generations, read_topic
from magnetar.spark.job.session import quiet_java
from magnetar.spark.session import make_session

__all__ = ["audit", "check_java", "start"]

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def start() -> SparkSession:
    with quiet_java() as log:
        spark = make_session(master="local[2]", name="magnetar demo", settings=_SETTINGS)
    log.unlink()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def audit(
    spark: SparkSession,
    service_url: str,
    admin_url: str,
    topic: str,
    sent: Mapping[str, int],
    folder: Path,
) -> Findings:
    """`sent` says how many messages each key has, numbered by the property `n` from 0."""
    counts = pa.table({"key": list(sent), "count": list(sent.values())})
    pq.write_table(counts, folder / "expected.parquet")
    counter = Counter("property", "n")
    options = {"url": service_url, "admin_url": admin_url, "topic": topic}
    found, _ = order_audit(
        read_topic(spark, options, counter),
        counter,
        load_generations(options),
        first=0,
        expected=spark.read.parquet(str(folder / "expected.parquet")),
    )
    return found
