"""Spark reads and writes topics: rates beside other ways to do the same, all in one run.

Messages go to a regular topic, where the official client can read them too; then it is migrated,
and Spark reads the sealed segments. Every reader gets the same messages.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from bench.gauge import median
from bench.spark_memory import measure_memory
from bench.spark_side import TOPIC, fill, read_official
from bench.spark_sink import measure_sink, timed
from bench.spark_stream import measure_latency, measure_triggers
from bench.spark_typed import measure_segments, measure_typed
from magnetar.client.admin import AdminClient
from magnetar.client.delivery import EntryDecoder
from magnetar.client.message import Origin
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
            decoder = EntryDecoder(Origin(piece.topic), message_bytes_max=10 << 20)
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
    """Arrow batches that are there already: what Spark itself takes. With keys they are the rows
    that the other readers give; without, it has a column less to look into.
    """

    def __init__(self, rows: int, *, has_keys: bool) -> None:
        self._rows = rows
        self._has_keys = has_keys

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        size = 50_000
        keys = [b"k%d" % (n % 1000) if self._has_keys else None for n in range(size)]
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array(keys, pa.binary()),
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
        return NothingReader(int(self.options["rows"]), has_keys="keys" in self.options)


def drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def measure_reads(
    spark: SparkSession,
    broker: MagnetarBroker,
    options: dict[str, str],
    count: int,
    size: int,
    repeat: int,
) -> dict[str, Any]:
    """Readers of Arrow batches take turns, and the median of each counts."""
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
    frames = {
        name: spark.read.format(form)
        .options(**options, topic=TOPIC, taskBytes=str(max(1 << 20, count * size // 2)))
        .options(**more)
        .schema(SCHEMA)
        .load()
        for name, (form, more) in reads.items()
    }
    tuples = frames.pop("spark_tuples")
    assert frames["spark_files"].count() == count
    nothing = spark.read.format("nothing_arrow").option("rows", count)
    frames["nothing_arrow"] = nothing.load()
    frames["nothing_arrow_keys"] = nothing.option("keys", "true").load()
    turns: dict[str, list[float]] = {name: [] for name in frames}
    for _ in range(repeat + 1):  # the first one warms up
        for name, frame in frames.items():
            turns[name].append(timed(lambda frame=frame: drain(frame)))  # type: ignore[misc]
    spent = {name: median(each[1:]) for name, each in turns.items()}
    spent |= {"official_client": official, "spark_tuples": timed(lambda: drain(tuples))}
    rates = {name: round(count / seconds) for name, seconds in spent.items()}
    best = rates["spark_files"]
    return {
        "messages": count,
        "per_s": rates,
        "spent_s": {name: [round(one, 2) for one in each] for name, each in turns.items()},
        "files_to_tuples": round(best / rates["spark_tuples"], 2),
        "files_to_official": round(best / rates["official_client"], 2),
        "files_to_nothing": round(best / rates["nothing_arrow"], 2),
        "files_to_same_rows": round(best / rates["nothing_arrow_keys"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000, help="5000000 for the full run")
    parser.add_argument("--sink-rows", type=int, help="as many as --messages unless given")
    parser.add_argument("--repeat", type=int, default=3, help="turns of reads and the sink")
    parser.add_argument("--batches", type=int, default=20, help="over one segment and over 64")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each streaming measure")
    parser.add_argument("--memory-mib", type=int, default=100, help="10240 for the full run")
    parser.add_argument(
        "--only",
        nargs="*",
        default=["read", "typed", "segments", "trigger", "latency", "sink", "memory"],
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
            result["read"] = measure_reads(
                spark, broker, where, given.messages, given.size, given.repeat
            )
        if "typed" in given.only:
            result["typed"] = measure_typed(spark, where, given.messages, given.repeat)
        if "segments" in given.only:
            result["segments"] = measure_segments(spark, broker, where, given.batches)
        if "trigger" in given.only or "latency" in given.only:
            result["trigger"] = measure_triggers(spark, broker, where, given.seconds)
        if "latency" in given.only:
            result["latency"] = measure_latency(spark, broker, where, given.seconds)
        if "sink" in given.only:
            result["sink"] = measure_sink(
                spark, broker, where, given.sink_rows or given.messages, given.repeat
            )
        if "memory" in given.only:
            result["memory"] = measure_memory(spark, broker, where, given.memory_mib)
    spark.stop()
    print(json.dumps(result, indent=None if given.json else 2))


if __name__ == "__main__":
    main()
