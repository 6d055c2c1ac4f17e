"""The part of Spark that drives a streaming source, without Spark: logs of offsets and commits, one
micro-batch after another, tasks through a pickle. What it does between two calls of the source, and
in which order, is what the real engine does; a few tests run that too.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from magnetar.spark.small_batch import SmallBatchReader
from magnetar.spark.source import MagnetarSource

Rows = list[dict[str, Any]]


def plan_batch(options: dict[str, str], **more: str) -> list[tuple[bytes, bytes]]:
    """The tasks of a batch query: reader and partition, as workers get them."""
    source = MagnetarSource(options | more)
    reader = source.reader(source.schema())
    return [(pickle.dumps(reader), pickle.dumps(each)) for each in reader.partitions()]


def read_batch(options: dict[str, str], **more: str) -> Rows:
    """All rows of a batch query."""
    rows: Rows = []
    for reader, task in plan_batch(options, **more):
        for batch in pickle.loads(reader).read(pickle.loads(task)):
            rows += batch.to_pylist()
    return rows


class Killed(Exception):
    """The driver died at this point."""


class Engine:
    """Its logs live on when a driver is killed; `batches` are what the sink has, by number."""

    def __init__(self, connection: dict[str, str], **options: str) -> None:
        self._options = connection | options
        self.offsets: list[str] = []
        self.commits: list[int] = []
        self.batches: dict[int, Rows] = {}
        self.handed = 0
        """So many rows came with a plan, not through tasks."""
        self.between: Callable[[str, int], None] = lambda step, number: None
        """Called before each step with its name; may act on the broker, or raise."""

    def make_reader(self, **options: Any) -> DataSourceStreamReader:
        source = MagnetarSource(self._options | options)
        return source.streamReader(source.schema())

    def run(self, **options: Any) -> Rows:
        """A query with trigger(availableNow=True); all rows so far, in the order of batches."""
        reader = self.make_reader(**options)
        try:
            inside = reader.simple_reader if isinstance(reader, SmallBatchReader) else reader
            inside.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
            self._run(reader)
        finally:
            reader.stop()
        return self.rows()

    def _run(self, reader: DataSourceStreamReader) -> None:
        if len(self.offsets) > len(self.commits):
            self._run_batch(reader, len(self.commits))  # planned by a driver that died
        while True:
            number = len(self.offsets)
            start = self._start(reader, number)
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            if number and end == start:
                return
            self.between("log offsets", number)
            self.offsets.append(json.dumps(end))
            if number:
                self.between("commit", number - 1)
                reader.commit(json.loads(self.offsets[number - 1]))
            self._run_batch(reader, number)

    def _start(self, reader: DataSourceStreamReader, number: int) -> Any:
        """The log has the ends of batches: where the first begins is asked for each time."""
        return json.loads(
            self.offsets[number - 1] if number else json.dumps(reader.initialOffset())
        )

    def _run_batch(self, reader: DataSourceStreamReader, number: int) -> None:
        start, end = self._start(reader, number), json.loads(self.offsets[number])
        tasks = [pickle.dumps(each) for each in reader.partitions(start, end)]
        handed = self._hand_over(reader, start, end)
        self.batches[number] = self._read(reader, tasks) if handed is None else handed
        self.between("log commit", number)
        self.commits.append(number)

    def _hand_over(self, reader: DataSourceStreamReader, start: Any, end: Any) -> Rows | None:
        """Rows that come with the plan."""
        if not isinstance(reader, SmallBatchReader):
            return None
        self.between("task", 0)
        batches = reader.getCache(start, end)
        if batches is None:
            return None
        rows: Rows = []
        for batch in batches:
            self.between("record batch", 0)
            rows += batch.to_pylist()
        self.handed += len(rows)
        return rows

    def _read(self, reader: DataSourceStreamReader, tasks: list[bytes]) -> Rows:
        worker = pickle.dumps(reader)
        rows: Rows = []
        for index, task in enumerate(tasks):
            self.between("task", index)
            for batch in pickle.loads(worker).read(pickle.loads(task)):
                self.between("record batch", index)
                rows += batch.to_pylist()
        return rows

    def rows(self) -> Rows:
        return [row for number in sorted(self.batches) for row in self.batches[number]]
