"""A driver of its own: copies a topic to another until it has read all there is.

Run as `python -m tests.spark.copy_driver`, with what it needs as JSON. In one batch a task stops
half way, and says so by a file, until another file lets it go on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from magnetar.spark import make_session
from tests.spark.conftest import SETTINGS

Mapping = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def stop_half_way(home: str, rows: int, batch: int | None) -> Mapping:
    """After so many rows of a task, in that micro-batch or in any."""

    def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number = context.getLocalProperty("streaming.sql.batchId")
        is_meant = batch is None or number == str(batch)
        waiting, free = Path(home, f"waiting-{context.partitionId()}"), Path(home, "free")
        seen = 0
        for each in batches:
            yield each
            seen += each.num_rows
            while is_meant and seen >= rows and not free.exists():
                waiting.touch()
                time.sleep(0.02)

    return hand_on


def copy(spark: SparkSession, given: dict[str, str]) -> None:
    connection = json.loads(given["connection"])
    frame = (
        spark.readStream.format("magnetar")
        .options(**connection, topic=given["source"], startingOffsets="earliest")
        .option("batchRows", "1000")
        .load()
        .select("key", "value")
        .mapInArrow(
            stop_half_way(given["home"], int(given["rows"]), int(given["batch"])),
            "key binary, value binary",
        )
    )
    query = (
        frame.writeStream.format("magnetar")
        .options(**connection, topic=given["target"], checkpointLocation=given["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    session = make_session(master="local[1]", name="copy", settings=SETTINGS)
    session.sparkContext.setLogLevel("OFF")
    copy(session, json.loads(sys.argv[1]))
    session.stop()
