"""Writing a DataFrame, beside the SDK that sends the same rows."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.spark_side import produce, produce_arrow
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker


def timed(body: Callable[[], Any]) -> float:
    start = time.perf_counter()
    body()
    return time.perf_counter() - start


def measure_sink(
    spark: SparkSession, broker: MagnetarBroker, options: dict[str, str], count: int
) -> dict[str, Any]:
    """One task, exactly once, beside two ways of the SDK to send the same rows from one process:
    its producer, row by row, and its bulk producer, which gets Arrow batches as the sink does.
    What a write of ten rows takes is told apart as the start.
    """
    with tempfile.TemporaryDirectory() as home:
        spark.range(count).selectExpr(
            "concat('k', id % 1000) AS key", "repeat('v', 100) AS value"
        ).coalesce(1).write.parquet(f"{home}/rows")
        rows = spark.read.parquet(f"{home}/rows").coalesce(1)
        with AdminClient(broker.admin_url) as admin:
            for name in ("sink", "plain", "bulk", "warm"):
                admin.scalable_topics.create(f"public/default/{name}", segments=2)
                admin.topic_policies.set(f"topic://public/default/{name}", "deduplication", True)

        def write(frame: DataFrame, topic: str) -> None:
            frame.write.format("magnetar").options(
                **options, topic=f"topic://public/default/{topic}"
            ).mode("append").save()

        write(rows.limit(10), "warm")
        start = timed(lambda: write(rows.limit(10), "warm"))
        sink = timed(lambda: write(rows, "sink"))
        nothing = rows.write.format("nothing_arrow").mode("append")
        nothing.save()
        floor = timed(nothing.save)
        table = pq.read_table(f"{home}/rows")
    bulk = timed(lambda: asyncio.run(produce_arrow(broker, table)))
    keys, values = (table.column(name).to_pylist() for name in ("key", "value"))
    listed = [(key, value.encode()) for key, value in zip(keys, values, strict=True)]
    plain = timed(lambda: asyncio.run(produce(broker, listed)))
    return {
        "rows": count,
        "start_s": round(start, 2),
        "sink_per_s": round(count / sink),
        "sink_after_start_per_s": round(count / (sink - start)),
        "nothing_per_s": round(count / floor),
        "sdk_per_s": round(count / plain),
        "sdk_arrow_per_s": round(count / bulk),
        "sink_to_sdk": round(plain / sink, 2),
        "sink_to_sdk_arrow": round(bulk / sink, 2),
        "sink_after_start_to_sdk_arrow": round(bulk / (sink - start), 2),
    }
