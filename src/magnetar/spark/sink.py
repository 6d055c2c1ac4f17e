"""Writing a DataFrame to topics, each row exactly once.

A row's number is the batch's, then its place in its task. All attempts of a task, a speculative
twin and a driver that was started again give the same rows the same numbers and write under one
producer name. What is stored under the name is not written again; docs/spark.md says what that asks
of a query.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from magnetar.spark.avro_type import make_definition
from magnetar.spark.record import check_columns, value_type
from magnetar.spark.sink_option import SinkFormat, SinkOptions
from magnetar.spark.sink_task import Written, write_task
from magnetar.spark.sink_topic import prepare_topics

ROW_BITS: Final = 36
"""So many bits of a number count the rows of a task; the rest count batches."""
_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"


def first_number(batch_id: int) -> int:
    return batch_id << ROW_BITS


class TopicWriter(DataSourceArrowWriter):
    """A batch write. It is named by the option writeId, or by chance."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options
        self._definition = _definition(options, schema)
        self._name = options.write_id or uuid.uuid4().hex[:16]
        if options.topic is not None:
            prepare_topics(options, [options.topic])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None
        name = f"spark-{self._name}-{context.partitionId()}"
        return write_task(self._options, self._definition, iterator, name, 0)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write, named by the query, whose id Spark keeps in its checkpoint."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options
        self._definition = _definition(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        assert query is not None and batch is not None, "Spark says which query and batch it runs"
        name = f"spark-{query}-{context.partitionId()}"
        first = first_number(int(batch))
        return write_task(self._options, self._definition, iterator, name, first)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Every row is stored by the time its task has ended: nothing is left to do."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was stored stays; the batch is run again and leaves it out."""


def _definition(options: SinkOptions, schema: StructType) -> str | None:
    if options.format is SinkFormat.BYTES:
        return None
    return make_definition(value_type(schema))
