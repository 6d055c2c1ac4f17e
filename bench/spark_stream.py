"""How long triggers of a streaming query take, and how old a message is when Spark has it."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from statistics import mean
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from bench.gauge import median
from bench.spark_side import tick
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker

TRIGGER = "100 milliseconds"
TURNS = 3


class SilentReader(DataSourceStreamReader):
    """Never has anything: what a source in Python costs whatever it does."""

    def initialOffset(self) -> dict[str, int]:
        return {"offset": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        return iter(())


class SilentSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "silent"

    def schema(self) -> str:
        return "value binary"

    def streamReader(self, schema: Any) -> SilentReader:
        return SilentReader()


def measure_triggers(
    spark: SparkSession, broker: MagnetarBroker, options: dict[str, str], seconds: float
) -> dict[str, Any]:
    """Triggers with nothing to read (the mean of the quicker three quarters), and micro-batches of
    a row or two: Spark's rate source, a source in Python that does nothing, ours. They take turns,
    and the first turn of each only warms the JVM up.
    """
    with AdminClient(broker.admin_url) as admin:
        for name in ("idle", "ticks"):
            admin.scalable_topics.create(f"public/default/{name}")
    spark.dataSource.register(SilentSource)

    def ours(topic: str, **more: str) -> DataFrame:
        return spark.readStream.format("magnetar").options(**options, topic=topic, **more).load()

    frames = {
        "rate": spark.readStream.format("rate").option("rowsPerSecond", 1).load(),
        "silent_python": spark.readStream.format("silent").load(),
        "idle": ours("idle"),
        "ticks": ours("ticks"),
        "ticks_by_tasks": ours("ticks", inlineBytes="0"),
    }
    idle: dict[str, list[int]] = {name: [] for name in frames}
    batches: dict[str, list[int]] = {name: [] for name in frames}
    over = threading.Event()
    ticker = threading.Thread(target=tick, args=(broker, over, 1.0))
    ticker.start()
    for turn in range(TURNS + 1):
        for name, frame in frames.items():
            seen = _observe(frame, seconds / TURNS)
            if turn:
                idle[name] += [_spent(each) for each in seen if not each["numInputRows"]]
                batches[name] += [_spent(each) for each in seen if each["numInputRows"]]
    over.set()
    ticker.join()
    found: dict[str, Any] = {}
    for name in frames:
        if idle[name]:
            quick = sorted(idle[name])[: len(idle[name]) * 3 // 4 + 1]
            found[f"{name}_idle_ms"] = round(mean(quick), 2)
        if batches[name]:
            found[f"{name}_batch_ms"] = median(batches[name])
    for name, one, other in (
        ("idle_to_rate", "idle_idle_ms", "rate_idle_ms"),
        ("idle_to_python", "idle_idle_ms", "silent_python_idle_ms"),
        ("batch_to_rate", "ticks_batch_ms", "rate_batch_ms"),
        ("batch_by_tasks_to_rate", "ticks_by_tasks_batch_ms", "rate_batch_ms"),
    ):
        if found.get(one) and found.get(other):
            found[name] = round(found[one] / found[other], 2)
    return found


def _observe(frame: DataFrame, seconds: float) -> list[Any]:
    """The triggers of a query in its stride."""
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", tempfile.mkdtemp())
        .trigger(processingTime=TRIGGER)
        .start()
    )
    await_progress(query, 3)
    time.sleep(seconds)
    seen = query.recentProgress
    query.stop()
    return list(seen[len(seen) // 4 :])


def _spent(progress: Any) -> int:
    spent: int = progress["durationMs"]["triggerExecution"]
    return spent


def await_progress(query: Any, count: int) -> None:
    deadline = time.monotonic() + 120
    while len(query.recentProgress) < count and time.monotonic() < deadline:
        time.sleep(0.2)


def measure_latency(
    spark: SparkSession, broker: MagnetarBroker, options: dict[str, str], seconds: float
) -> dict[str, Any]:
    """From publish to the rows, at a trigger of 500 ms."""
    delays: list[float] = []

    def note(frame: DataFrame, _: int) -> None:
        rows = frame.select("publish_time").collect()
        now = time.time()
        delays.extend(now - row["publish_time"].timestamp() for row in rows)

    query = (
        spark.readStream.format("magnetar")
        .options(**options, topic="ticks")
        .load()
        .writeStream.foreachBatch(note)
        .option("checkpointLocation", tempfile.mkdtemp())
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    await_progress(query, 1)
    over = threading.Event()
    ticker = threading.Thread(target=tick, args=(broker, over, 0.02))
    ticker.start()
    time.sleep(seconds)
    over.set()
    ticker.join()
    query.stop()
    settled = delays[len(delays) // 4 :] or [0.0]
    return {"messages": len(settled), "p50_ms": round(median(settled) * 1000)}
