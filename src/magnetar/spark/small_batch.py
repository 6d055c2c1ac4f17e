"""A micro-batch that is small goes to Spark together with its plan: no task, no worker to wake.

PySpark has this for its simple stream readers, which it knows by their class. So the reader of a
query wears that class where there is one; everything it is asked for is answered by the reader
inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from magnetar.spark.reading import Task
from magnetar.spark.row import Finish
from magnetar.spark.slice import Slice
from magnetar.spark.stream import TopicStreamReader
from magnetar.spark.task import EntrySource, read_slices

_SURPRISE: Final = 16
"""Sizes are estimates: with so many times as much, tasks read it after all."""


_SimpleReader: Any = None
with suppress(ImportError, AttributeError):  # no part of PySpark's public interface
    _SimpleReader = import_module("pyspark.sql.datasource_internal")._SimpleStreamReaderWrapper


def offer_small_batches(
    reader: TopicStreamReader, *, takes_rows: bool = _SimpleReader is not None
) -> DataSourceStreamReader:
    """The same reader, which also hands over rows where PySpark takes them."""
    return SmallBatchReader(reader) if takes_rows and reader.options.inline_bytes else reader


def is_small(slices: Sequence[Slice], bytes_max: int) -> bool:
    """Whether all of it is known to be no more than so many bytes."""
    return all(each.is_counted for each in slices) and sum(e.size for e in slices) <= bytes_max


class SmallBatchReader(_SimpleReader or DataSourceStreamReader):  # type: ignore[misc]
    simple_reader: TopicStreamReader
    """The one inside, under PySpark's name for it."""

    def __init__(self, reader: TopicStreamReader) -> None:
        super().__init__(reader)
        self._tasks: Sequence[InputPartition] = ()
        self._open: tuple[EntrySource, Finish] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_tasks": (), "_open": None}

    def getDefaultReadLimit(self) -> ReadLimit:
        return self.simple_reader.getDefaultReadLimit()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self.simple_reader.latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._tasks = self.simple_reader.partitions(start, end)
        return self._tasks

    def getCache(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[pa.RecordBatch] | None:
        """PySpark asks right after the plan; None leaves the rows to its tasks."""
        match self._tasks:
            case [Task() as task] if is_small(task.slices, self.simple_reader.options.inline_bytes):
                return self._read_here(task)
            case _:
                return None

    def _read_here(self, task: Task) -> Iterator[pa.RecordBatch] | None:
        if self._open is None:
            reading, finish = self.simple_reader.make_reading(task)
            self._open = EntrySource(reading), finish
        entries, finish = self._open
        left = self.simple_reader.options.inline_bytes * _SURPRISE
        batches = []
        with closing(read_slices(entries, task.slices, finish)) as found:
            for batch in found:
                left -= batch.nbytes
                if left < 0:
                    return None
                batches.append(batch)
        return iter(batches)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.simple_reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self.simple_reader.commit(end)

    def stop(self) -> None:
        if self._open is not None:
            self._open[0].close()
            self._open = None
        self.simple_reader.stop()
