"""Writing a DataFrame to topics, each row exactly once.

A row's number is the batch's, then its place in its task. All attempts of a task, a speculative
twin and a driver that was started again give the same rows the same numbers and write under one
producer name. What is stored under the name is not written again; docs/spark.md says what that asks
of a query.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from magnetar.client.admin import AdminClient
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import (
    AdminConflict,
    AdminError,
    AdminNotFound,
    AdminPreconditionFailed,
)
from magnetar.client.policy import BatchingPolicy
from magnetar.client.scalable.resumable import AsyncResumableProducer
from magnetar.client.schema.schema import Schema
from magnetar.errors import MagnetarError
from magnetar.model.name import TopicDomain
from magnetar.model.segment import SegmentId
from magnetar.spark.option import parse_name
from magnetar.spark.record import Outbound, check_columns, make_definition, read_rows, value_type
from magnetar.spark.sink_option import RowOrder, SinkFormat, SinkOptions
from magnetar.spark.survey import make_client

ROW_BITS: Final = 36
"""So many bits of a number count the rows of a task; the rest count batches."""
_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SETTLED_S: Final = 30.0


class DeduplicationOff(MagnetarError):
    """Exactly once needs the broker to know what it has stored of a producer."""


@dataclass
class Written(WriterCommitMessage):
    """What one task did: rows it wrote, and rows that an earlier attempt had written."""

    written: int
    known: int


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


# ---------------------------------------------------------------------- topics


def prepare_topics(options: SinkOptions, topics: list[str]) -> None:
    """Make what is missing, and see that the broker tells duplicates; again changes nothing."""
    broker = options.broker
    with AdminClient(broker.admin_url, token=broker.token, timeout=broker.timeout_s) as admin:
        for topic in topics:
            _prepare(admin, options, topic)


def _prepare(admin: AdminClient, options: SinkOptions, topic: str) -> None:
    name = parse_name(topic)
    key = f"{name.namespace}/{name.local}"
    is_scalable = _is_scalable(admin, key)
    if is_scalable is None:
        is_scalable = name.domain is TopicDomain.TOPIC
        try:
            if is_scalable:
                admin.scalable_topics.create(key)
            else:
                admin.topics.create(f"persistent://{key}")
        except AdminConflict:
            pass  # another task was quicker
    if not options.exactly_once:
        return
    full = f"topic://{key}" if is_scalable else f"persistent://{key}"
    if admin.topic_policies.get(full, "deduplication", applied=True):
        return
    if not options.enable_deduplication:
        raise DeduplicationOff(
            f"Deduplication is off for {full}, so a row could be stored twice; switch it on with"
            f" `magnetar admin topic-policies set-deduplication {full} --enable`, leave"
            " enableDeduplication at true, or set exactlyOnce to false"
        )
    admin.topic_policies.set(full, "deduplication", True)
    _await_deduplication(admin, key, is_scalable)


def _is_scalable(admin: AdminClient, key: str) -> bool | None:
    """None when there is no such topic."""
    try:
        admin.scalable_topics.metadata(key)
        return True
    except AdminNotFound:
        pass
    try:
        count = int(admin.topics.partitioned_metadata(f"persistent://{key}").get("partitions", 0))
        if not count:
            admin.topics.stats(f"persistent://{key}")
        return False
    except AdminNotFound:
        return None


def _await_deduplication(admin: AdminClient, key: str, is_scalable: bool) -> None:
    """A topic that is in use takes a moment to look through what it has."""
    if not is_scalable:
        return
    deadline = time.monotonic() + _SETTLED_S
    for number in admin.scalable_topics.metadata(key)["segments"]:
        while True:
            try:
                admin.scalable_topics.last_sequence_id(key, int(number), "spark")
                break
            except AdminPreconditionFailed:
                if time.monotonic() > deadline:
                    raise
            except AdminError:
                break  # not asked for this way: the producers are told when they attach
            time.sleep(0.02)


# ---------------------------------------------------------------------- tasks


def write_task(
    options: SinkOptions,
    definition: str | None,
    batches: Iterator[pa.RecordBatch],
    name: str,
    first: int,
) -> Written:
    """Write the rows of one task; all of them are stored when it returns."""
    rows: Iterator[Outbound] = (row for each in batches for row in read_rows(each, options))
    if options.order is RowOrder.SORTED:
        rows = iter(sorted(rows, key=_content))
    with asyncio.Runner() as runner:
        return runner.run(_write(options, definition, rows, name, first))


def _content(row: Outbound) -> tuple[Any, ...]:
    return (row.topic, row.key, repr(row.value), row.properties, row.event_time_ms, row.has_key)


async def _write(
    options: SinkOptions, definition: str | None, rows: Iterator[Outbound], name: str, first: int
) -> Written:
    admin_url, token = options.broker.admin_url, options.broker.token
    async with make_client(options.broker) as client:
        with AdminClient(admin_url, token=token) as admin:
            desk = _Desk(options, definition, client, admin, name)
            result = await desk.write(rows, first)
            await desk.close()
            return result


class _Desk:
    """The producers of one task, one for each topic it meets."""

    def __init__(
        self,
        options: SinkOptions,
        definition: str | None,
        client: AsyncPulsarClient,
        admin: AdminClient,
        name: str,
    ) -> None:
        self._options = options
        self._schema = _schema(options, definition)
        self._client = client
        self._admin = admin
        self._name = name
        self._producers: dict[str, AsyncResumableProducer[Any]] = {}
        self._failure: BaseException | None = None

    async def write(self, rows: Iterator[Outbound], first: int) -> Written:
        written = known = 0
        for number, row in enumerate(rows, first):
            producer = self._producers.get(row.topic) or await self._open(row.topic)
            key = _key(row)
            if self._options.exactly_once and producer.is_stored(key, number):
                known += 1
                continue
            if self._failure is not None:
                raise self._failure
            sent = await producer.submit(
                row.value,
                key=key,
                properties=dict(row.properties),
                event_time=_moment(row.event_time_ms),
                sequence_id=number,
            )
            sent.add_done_callback(self._on_sent)
            written += 1
        for producer in self._producers.values():
            await producer.flush()
        if self._failure is not None:
            raise self._failure
        return Written(written, known)

    def _on_sent(self, sent: asyncio.Future[Any]) -> None:
        failure = None if sent.cancelled() else sent.exception()
        if failure is not None and self._failure is None:
            self._failure = failure

    async def _open(self, topic: str) -> AsyncResumableProducer[Any]:
        options = self._options
        if topic != options.topic or options.exactly_once:
            await asyncio.to_thread(prepare_topics, options, [topic])
        producer = await self._client.bulk.resumable_producer(
            topic,
            schema=self._schema,
            name=self._name,
            compression=options.compression.value,
            batching=BatchingPolicy(
                max_delay=0.01, max_messages=options.batch_messages, max_bytes=options.batch_bytes
            ),
            max_pending_messages=options.pending_max,
            send_timeout=options.broker.timeout_s,
        )
        self._producers[topic] = producer
        if options.exactly_once:
            await producer.resume(self._last_stored(topic))
        return producer

    def _last_stored(self, topic: str) -> Any:
        name = parse_name(topic)
        key = f"{name.namespace}/{name.local}"

        async def ask(segment: SegmentId, producer: str) -> int | None:
            try:
                return await asyncio.to_thread(
                    self._admin.scalable_topics.last_sequence_id, key, int(segment), producer
                )
            except (AdminNotFound, AdminPreconditionFailed):
                return None

        return ask

    async def close(self) -> None:
        for producer in self._producers.values():
            await producer.close()


def _schema(options: SinkOptions, definition: str | None) -> Schema[Any]:
    match options.format:
        case SinkFormat.BYTES:
            return Schema.BYTES
        case SinkFormat.JSON:
            return Schema.json(definition or "")
        case SinkFormat.AVRO:
            return Schema.avro(definition or "")


def _key(row: Outbound) -> str | bytes | None:
    """Text where it is text, so that it is hashed as every other client hashes it."""
    if not row.has_key:
        return None
    try:
        return row.key.decode()
    except UnicodeDecodeError:
        return row.key


def _moment(at_ms: int) -> datetime | None:
    return _EPOCH + timedelta(milliseconds=at_ms) if at_ms else None
