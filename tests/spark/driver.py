"""Spark's driver of a transactional write, without Spark: it makes a writer to plan a batch, a
pickle of it for the tasks, and another writer to commit or abort.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from magnetar.spark.sink import TopicStreamWriter
from magnetar.spark.source import MagnetarSource

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("key", StringType()),
        StructField("value", BinaryType()),
    ]
)
QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"
ROWS = 24_000
"""More than a task hands to the broker at once, so that one that dies has stored some."""


class TaskKilled(Exception):
    """The task died here."""


@contextmanager
def as_task(partition: int, **properties: str) -> Iterator[None]:
    """What Spark tells a task."""
    context = TaskContext._getOrCreate()
    context._partitionId, context._localProperties = partition, properties
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


def spread(topics: list[str], values: range) -> Iterator[pa.RecordBatch]:
    """Values in turn over topics."""
    for start in range(values.start, values.stop, 4000):
        part = range(start, min(start + 4000, values.stop))
        yield pa.RecordBatch.from_pydict(
            {
                "topic": [topics[each % len(topics)] for each in part],
                "key": [f"k{each % 7}" for each in part],
                "value": [b"%d" % each for each in part],
            }
        )


def dying(
    batches: Iterator[pa.RecordBatch], dies_when: Callable[[], bool]
) -> Iterator[pa.RecordBatch]:
    for number, each in enumerate(batches):
        if number == 5:
            deadline = time.monotonic() + 20
            while not dies_when() and time.monotonic() < deadline:
                time.sleep(0.05)
            raise TaskKilled
        yield each


class Driver:
    """Of one query; `place` is where its checkpoint lies."""

    def __init__(
        self, connection: dict[str, str], topics: list[str], query: str, place: str = "/one"
    ) -> None:
        self._options = connection | {
            "transactional": "true",
            "checkpointLocation": f"{place}/{query}",
        }
        self._topics = topics
        self._query = query

    def _make(self) -> TopicStreamWriter:
        return MagnetarSource(self._options).streamWriter(SCHEMA, False)

    def plan(self) -> bytes:
        return pickle.dumps(self._make())

    def task(
        self,
        plan: bytes,
        batch: int,
        values: range,
        *,
        dies_when: Callable[[], bool] | None = None,
    ) -> Any:
        rows = spread(self._topics, values)
        with as_task(0, **{QUERY: self._query, BATCH: str(batch)}):
            return pickle.loads(plan).write(dying(rows, dies_when) if dies_when else rows)

    def commit(self, done: Any, batch: int) -> None:
        self._make().commit([done], batch)

    def abort(self, batch: int) -> None:
        self._make().abort([None], batch)
