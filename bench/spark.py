"""Spark reads and writes topics: rates beside other ways to do the same, all in one run.

Messages go to a regular topic, where the official client can read them too; then it is migrated,
and Spark reads the sealed segments. Every reader gets the same messages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from bench.gauge import median, rss_mib
from bench.spark_side import TOPIC, fill, produce, produce_arrow, read_official, tick
from magnetar.client.admin import AdminClient
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.delivery import EntryDecoder
from magnetar.model.position import Position
from magnetar.spark import make_session
from magnetar.spark.reading import Task, make_reading
from magnetar.spark.source import MagnetarSource, TopicReader
from magnetar.spark.task import EntrySource
from magnetar.testing import MagnetarBroker
from magnetar.wire.command import CommandMessage, message_id

SCHEMA = "key binary, value binary, publish_time timestamp, sequence_id bigint"


class TupleReader(TopicReader):
    """The baseline: the same entries, a message object and a tuple for each message."""

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Task)
        reading, _ = make_reading(self._options, self._schema, partition.files, None)
        source = EntrySource(reading)
        for piece in partition.slices:
            decoder = EntryDecoder(piece.topic, 0, message_bytes_max=10 << 20)
            for ledger, entry, data in source.read(piece):
                id = message_id(Position(ledger, entry))
                command = CommandMessage(consumer_id=0, message_id=id)
                found = decoder.decode(command, data, now_ms=0, is_wanted=lambda _: True)
                for message in found.messages:
                    yield message.key_bytes, message.data, message.publish_time, message.sequence_id
        source.close()


class TupleSource(MagnetarSource):
    @classmethod
    def name(cls) -> str:
        return "magnetar_tuples"

    def reader(self, schema: Any) -> TupleReader:
        made = super().reader(schema)
        return TupleReader(made._options, schema, None)


class NothingReader(DataSourceReader):
    """Arrow batches that are there already: what Spark itself takes."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        size = 50_000
        batch = pa.RecordBatch.from_arrays(
            [
                pa.nulls(size, pa.binary()),
                pa.array([b"v" * 100] * size, pa.binary()),
                pa.array(range(size), pa.timestamp("us", tz="UTC")),
                pa.array(range(size), pa.int64()),
            ],
            names=["key", "value", "publish_time", "sequence_id"],
        )
        left = self._rows // 2
        while left > 0:
            yield batch.slice(0, min(size, left))
            left -= size


class NothingWriter(DataSourceArrowWriter):
    """Takes batches and drops them: what Spark itself gives."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class NothingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "nothing_arrow"

    def writer(self, schema: Any, overwrite: bool) -> NothingWriter:
        return NothingWriter()

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> NothingReader:
        return NothingReader(int(self.options["rows"]))


def timed(body: Callable[[], Any]) -> float:
    start = time.perf_counter()
    return body() or time.perf_counter() - start


def drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def measure_reads(
    spark: SparkSession, broker: MagnetarBroker, options: dict[str, str], count: int, size: int
) -> dict[str, Any]:
    with AdminClient(broker.admin_url) as admin:
        admin.topics.create_partitioned(f"persistent://{TOPIC}", 2)
        fill(broker, count, size)
        official = read_official(broker, count)
        admin.scalable_topics.migrate_to_scalable(TOPIC, force=True)
    time.sleep(3)  # sealed ledgers are settled after a second
    reads = {
        "spark_files": ("magnetar", {"directRead": "auto"}),
        "spark_wire": ("magnetar", {"directRead": "never"}),
        "spark_tuples": ("magnetar_tuples", {}),
    }
    spent = {"official_client": official}
    for name, (form, more) in reads.items():
        frame = (
            spark.read.format(form)
            .options(**options, topic=TOPIC, taskBytes=str(max(1 << 20, count * size // 2)))
            .options(**more)
            .schema(SCHEMA)
            .load()
        )
        assert frame.count() == count
        spent[name] = timed(lambda frame=frame: drain(frame))  # type: ignore[misc]
    nothing = spark.read.format("nothing_arrow").option("rows", count).load()
    drain(nothing)
    spent["nothing_arrow"] = timed(lambda: drain(nothing))
    rates = {name: round(count / seconds) for name, seconds in spent.items()}
    best = rates["spark_files"]
    return {
        "messages": count,
        "per_s": rates,
        "files_to_tuples": round(best / rates["spark_tuples"], 2),
        "files_to_official": round(best / rates["official_client"], 2),
        "files_to_nothing": round(best / rates["nothing_arrow"], 2),
    }


def measure_triggers(
    spark: SparkSession, broker: MagnetarBroker, options: dict[str, str], seconds: float
) -> dict[str, Any]:
    """How long triggers take: with nothing to read, with a row, and the rate source's."""
    with AdminClient(broker.admin_url) as admin:
        admin.scalable_topics.create("public/default/idle")
        admin.scalable_topics.create("public/default/ticks")
    frames = {
        "rate": spark.readStream.format("rate").option("rowsPerSecond", 2).load(),
        "idle": spark.readStream.format("magnetar").options(**options, topic="idle").load(),
        "ticks": spark.readStream.format("magnetar").options(**options, topic="ticks").load(),
    }
    found: dict[str, Any] = {}
    for name, frame in frames.items():
        ticking = threading.Event()
        ticker = threading.Thread(target=tick, args=(broker, ticking, 0.5))
        if name == "ticks":
            ticker.start()
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", tempfile.mkdtemp())
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        await_progress(query, 3)
        time.sleep(seconds)
        seen = query.recentProgress[2:]
        query.stop()
        ticking.set()
        if name == "ticks":
            ticker.join()
        for kind, chosen in (("batch", [p for p in seen if p["numInputRows"]]), ("idle", seen)):
            spent = [p["durationMs"]["triggerExecution"] for p in chosen]
            spent = spent if kind == "batch" else [each for each in spent if each < 100]
            found[f"{name}_{kind}_ms"] = median(spent) if spent else None
    return found


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


def measure_memory(
    spark: SparkSession, broker: MagnetarBroker, options: dict[str, str], mib: int
) -> dict[str, Any]:
    """The largest Python worker while one task reads a topic of so many MiB."""
    topic = "public/default/large"
    with AdminClient(broker.admin_url) as admin:
        admin.scalable_topics.create(topic)
    value = os.urandom(10_000)

    async def body() -> None:
        async with (
            AsyncPulsarClient(broker.service_url) as client,
            client.producer(f"topic://{topic}", max_pending_messages=2000) as producer,
        ):
            for _ in range(mib * 1024 * 1024 // len(value)):
                await producer.submit(value)
            await producer.flush()

    asyncio.run(body())
    peak = [0.0]
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(peak, over))
    watcher.start()
    frame = spark.read.format("magnetar").options(**options, topic=topic, columns="value").load()
    spent = timed(lambda: drain(frame))
    over.set()
    watcher.join()
    return {"topic_mib": mib, "worker_peak_mib": round(peak[0]), "seconds": round(spent, 1)}


def _watch(peak: list[float], over: threading.Event) -> None:
    while not over.wait(0.05):
        for each in Path("/proc").iterdir():
            if each.name.isdecimal():
                try:
                    if b"pyspark.daemon" in (each / "cmdline").read_bytes():
                        peak[0] = max(peak[0], rss_mib(int(each.name)))
                except (OSError, LookupError):
                    continue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000, help="5000000 for the full run")
    parser.add_argument("--sink-rows", type=int, help="as many as --messages unless given")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each streaming measure")
    parser.add_argument("--memory-mib", type=int, default=100, help="10240 for the full run")
    parser.add_argument(
        "--only", nargs="*", default=["read", "trigger", "latency", "sink", "memory"]
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    spark = make_session(
        master="local[2]",
        settings={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.noDataProgressEventInterval": "0",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    for source in (TupleSource, NothingSource):
        spark.dataSource.register(source)
    result: dict[str, Any] = {"load1": os.getloadavg()[0]}
    # What was sealed and nobody is behind on would be deleted before it is read.
    kept = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
    with MagnetarBroker(set=kept) as broker:
        where = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
        if "read" in given.only:
            result["read"] = measure_reads(spark, broker, where, given.messages, given.size)
        if "trigger" in given.only or "latency" in given.only:
            result["trigger"] = measure_triggers(spark, broker, where, given.seconds)
        if "latency" in given.only:
            result["latency"] = measure_latency(spark, broker, where, given.seconds)
        if "sink" in given.only:
            result["sink"] = measure_sink(spark, broker, where, given.sink_rows or given.messages)
        if "memory" in given.only:
            result["memory"] = measure_memory(spark, broker, where, given.memory_mib)
    spark.stop()
    print(json.dumps(result, indent=None if given.json else 2))


if __name__ == "__main__":
    main()
