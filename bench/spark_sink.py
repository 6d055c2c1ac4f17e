"""Writing a DataFrame, beside the SDK that sends the same rows."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.gauge import cpu_s, median
from bench.spark_side import produce, produce_arrow
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker

PLAIN_ROWS = 200_000


def timed(body: Callable[[], Any]) -> float:
    start = time.perf_counter()
    body()
    return time.perf_counter() - start


def measure_sink(
    spark: SparkSession,
    broker: MagnetarBroker,
    options: dict[str, str],
    count: int,
    repeat: int,
) -> dict[str, Any]:
    """One task, exactly once, beside ways of the SDK to send the same rows from one process: its
    bulk producer, which gets Arrow batches as the sink does, out of the same Parquet file and out
    of memory; and its producer, row by row, with fewer rows. They take turns, the median of each
    counts, and a ratio is that of the turns, which a machine that is busy for a while hits on both
    sides. What a write of ten rows takes is told apart as the start. Processor time is that of all
    processes that a way keeps busy, but for the JVM, in which Spark reads the file; over this one
    the clock says more than about us where there are few cores.
    """
    with tempfile.TemporaryDirectory() as home:
        spark.range(count).selectExpr(
            "concat('k', id % 1000) AS key", "repeat('v', 100) AS value"
        ).coalesce(1).write.parquet(f"{home}/rows")
        rows = spark.read.parquet(f"{home}/rows").coalesce(1)
        (file,) = Path(home, "rows").glob("*.parquet")
        table = pq.read_table(file)
        listed = [
            (key, value.encode())
            for key, value in zip(
                *(table.column(name)[:PLAIN_ROWS].to_pylist() for name in ("key", "value")),
                strict=True,
            )
        ]

        def write(frame: DataFrame, topic: str) -> None:
            frame.write.format("magnetar").options(
                **options, topic=f"topic://public/default/{topic}"
            ).mode("append").save()

        def read_file(topic: str) -> None:
            batches = pq.ParquetFile(file).iter_batches(10_000)
            asyncio.run(produce_arrow(broker, topic, batches))

        nothing = rows.write.format("nothing_arrow").mode("append")
        ways: dict[str, Callable[[str], Any]] = {
            "start": lambda topic: write(rows.limit(10), topic),
            "nothing": lambda topic: nothing.save(),
            "sink": lambda topic: write(rows, topic),
            "sdk_file": read_file,
            "sdk_memory": lambda topic: asyncio.run(
                produce_arrow(broker, topic, table.to_batches(10_000))
            ),
            "sdk_rows": lambda topic: asyncio.run(produce(broker, topic, listed)),
        }
        spent: dict[str, list[float]] = {name: [] for name in ways}
        worked: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(repeat + 1):  # the first one warms up
            for name, way in ways.items():
                topic = f"{name.replace('_', '-')}-{turn}"
                _make_topic(broker, topic)
                before = _python_s()
                spent[name].append(timed(lambda way=way, topic=topic: way(topic)))  # type: ignore[misc]
                worked[name].append(_python_s() - before)
    took = {name: median(each[1:]) for name, each in spent.items()}
    sink, bulk = took["sink"], took["sdk_file"]

    def by_turn(times: dict[str, list[float]], name: str) -> float:
        pairs = zip(times[name][1:], times["sink"][1:], strict=True)
        return round(median([one / other for one, other in pairs]), 2)

    return {
        "rows": count,
        "repeat": repeat,
        "start_s": round(took["start"], 2),
        "sink_per_s": round(count / sink),
        "nothing_per_s": round(count / took["nothing"]),
        "sdk_file_per_s": round(count / bulk),
        "sdk_memory_per_s": round(count / took["sdk_memory"]),
        "sdk_rows_per_s": round(len(listed) / took["sdk_rows"]),
        "sink_to_sdk_file": by_turn(spent, "sdk_file"),
        "sink_to_sdk_memory": by_turn(spent, "sdk_memory"),
        "sink_to_sdk_file_processor": by_turn(worked, "sdk_file"),
        "sink_after_start_to_sdk_memory": round(took["sdk_memory"] / (sink - took["start"]), 2),
        "sink_to_sdk_rows": round(count / sink / (len(listed) / took["sdk_rows"]), 1),
        "spent_s": {name: [round(one, 2) for one in each] for name, each in spent.items()},
        "worked_s": {name: [round(one, 2) for one in each] for name, each in worked.items()},
    }


def _python_s() -> float:
    """Of this process, the broker and Spark's workers: every Python below this one."""
    parents, pythons = {}, set()
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                parents[int(each.name)] = int(
                    (each / "stat").read_text().rpartition(")")[2].split()[1]
                )
                if b"python" in (each / "cmdline").read_bytes().split(b"\0")[0]:
                    pythons.add(int(each.name))
            except OSError:
                continue  # it has gone meanwhile
    total = 0.0
    for pid in pythons:
        above = pid
        while above > 1 and above != os.getpid():
            above = parents.get(above, 0)
        if above == os.getpid():
            try:
                total += cpu_s(pid)
            except OSError:
                continue
    return total


def _make_topic(broker: MagnetarBroker, name: str) -> None:
    with AdminClient(broker.admin_url) as admin:
        admin.scalable_topics.create(f"public/default/{name}", segments=2)
        admin.topic_policies.set(f"topic://public/default/{name}", "deduplication", True)
