"""Writing a DataFrame to topics, each row exactly once.

A row's number is the batch's, then its place in its task. All attempts of a task, a speculative
twin and a driver that was started again give the same rows the same numbers and write under one
producer name. What is stored under the name is not written again; docs/spark.md says what that asks
of a query, and how a batch becomes visible at once with `transactional`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from magnetar.model.transaction import TransactionId
from magnetar.spark.avro_type import make_definition
from magnetar.spark.record import check_columns, value_type
from magnetar.spark.sink_option import SinkFormat, SinkOptions
from magnetar.spark.sink_task import Written, name_task, write_task
from magnetar.spark.sink_topic import prepare_topics
from magnetar.spark.sink_transaction import abort_batch, begin_batch, commit_batch

_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"


class _Writer:
    """Spark makes a writer to plan a batch, and pickles it for the tasks: a transaction begins
    then, and not when Spark makes another writer to commit a micro-batch.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options
        self._definition = _definition(options, schema)
        self._transaction: TransactionId | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._options.transactional and self._transaction is None:
            self._transaction = begin_batch(self._options)
        return self.__dict__

    def _write(self, batches: Iterator[pa.RecordBatch], write: str, batch: int) -> Written:
        context = TaskContext.get()
        assert context is not None
        name = name_task(write, context.partitionId(), batch, self._transaction)
        return write_task(self._options, self._definition, batches, name)


class TopicWriter(_Writer, DataSourceArrowWriter):
    """A batch write. It is named by the option writeId, or by chance."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._name = options.write_id or uuid.uuid4().hex[:16]
        if options.topic is not None:
            prepare_topics(options, [options.topic])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._write(iterator, self._name, 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Without a transaction every row is stored by the time its task has ended."""
        if self._transaction is not None:
            commit_batch(self._options, self._transaction, self._options.write_id, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._transaction is not None:
            abort_batch(self._options, self._transaction)


class TopicStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A streaming write, named by the query, whose id Spark keeps in its checkpoint."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        assert query is not None and batch is not None, "Spark says which query and batch it runs"
        return self._write(iterator, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Without a transaction every row is stored by the time its task has ended."""
        if not self._options.transactional:
            return
        done = _first_written(messages)
        if done is None or done.transaction is None:
            abort_batch(self._options, None)  # a batch without tasks: nothing was written
        else:
            commit_batch(self._options, done.transaction, done.write, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Without a transaction what was stored stays; a repeated batch leaves it out."""
        if self._options.transactional:
            done = _first_written(messages)
            abort_batch(self._options, None if done is None else done.transaction)


def _first_written(messages: list[WriterCommitMessage | None]) -> Written | None:
    """All tasks of a batch tell the same of it."""
    return next((each for each in messages if isinstance(each, Written)), None)


def _definition(options: SinkOptions, schema: StructType) -> str | None:
    if options.format is SinkFormat.BYTES:
        return None
    return make_definition(value_type(schema))
