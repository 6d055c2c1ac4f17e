"""One task of a write: from Arrow batches to stored entries.

Rows go in windows: numbered, put together by segment and bucket, and sent as whole entries while
the next window is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from magnetar import (
    AdminNotFound,
    AdminPreconditionFailed,
    AsyncPulsarClient,
    BatchingPolicy,
    NotFoundError,
    Schema,
    TopicTerminatedError,
)
from magnetar.columns import AsyncBulk, AsyncResumableProducer, JoinedTransaction, Sheet, make_sheet
from magnetar.model.name import TopicDomain
from magnetar.model.segment import SegmentId
from magnetar.model.transaction import TransactionId
from magnetar.spark.option import parse_name
from magnetar.spark.pool import POOL, Link
from magnetar.spark.record import read_rows
from magnetar.spark.sink_option import RowOrder, SinkFormat, SinkOptions
from magnetar.spark.sink_topic import DeduplicationOff, check_deduplication, prepare_topic
from magnetar.spark.window import WINDOW, WindowSize, cut_windows, sort_rows

ROW_BITS: Final = 36
"""So many bits of a number count the rows of a task; the rest count batches."""
BATCH_BITS: Final = 63 - ROW_BITS
Plan = list[tuple[str, Sheet]]
"""The rows of a window, by the topics they go to."""


@dataclass
class Written(WriterCommitMessage):
    """What one task did: rows it wrote, and rows that an earlier attempt had written."""

    written: int
    known: int
    write: str = ""
    """Of a streaming query its id: the driver is not told it otherwise."""
    transaction: TransactionId | None = None


@dataclass(frozen=True, slots=True)
class TaskName:
    """What all attempts of a task have in common."""

    producer: str
    first: int
    """The number of its first row."""
    write: str
    transaction: TransactionId | None = None


def name_task(
    write: str, partition: int, batch: int, transaction: TransactionId | None = None
) -> TaskName:
    """Rows are numbered by their batch, or by the transaction: what an aborted one has sent under a
    number counts as stored. A coordinator never gives out a number twice.
    """
    name = f"spark-{write}-{partition}"
    if transaction is None:
        return TaskName(name, batch << ROW_BITS, write)
    turn, number = divmod(transaction.least, 1 << BATCH_BITS)
    name = f"{name}-{transaction.most}.{turn}"
    return TaskName(name, number << ROW_BITS, write, transaction)


def write_task(
    options: SinkOptions,
    definition: str | None,
    batches: Iterator[pa.RecordBatch],
    name: TaskName,
    window: WindowSize = WINDOW,
) -> Written:
    """Write the rows of one task; all of them are stored when it returns."""
    schema = _schema(options, definition)
    rows: Iterator[pa.RecordBatch] = (read_rows(each, options, schema) for each in batches)
    if options.order is RowOrder.SORTED:
        rows = sort_rows(rows)
    plans = plan_windows(cut_windows(rows, window), name.first)
    link = POOL.borrow(options.broker)

    async def body(client: AsyncPulsarClient) -> Written:
        within = None
        if name.transaction is not None:
            within = await AsyncBulk(client).join_transaction(name.transaction)
        producers = _TaskProducers(options, definition, link, client, name.producer, within)
        written, known = await producers.write(plans)
        await producers.leave()
        return Written(written, known, name.write, name.transaction)

    try:
        done = link.run(body)
    except BaseException:
        link.close()
        raise
    POOL.give_back(link)
    return done


class _TaskProducers:
    """The producers of one task, one for each topic it meets; those that an earlier task of this
    process has left go on under this one's name.
    """

    def __init__(
        self,
        options: SinkOptions,
        definition: str | None,
        link: Link,
        client: AsyncPulsarClient,
        name: str,
        transaction: JoinedTransaction | None,
    ) -> None:
        self._options = options
        self._definition = definition
        self._idle = link.producers
        self._client = client
        self._admin = link.admin
        self._name = name
        self._transaction = transaction
        self._producers: dict[str, AsyncResumableProducer[Any]] = {}
        self._failure: BaseException | None = None

    async def write(self, plans: Iterator[Plan]) -> tuple[int, int]:
        """How many rows were written, and how many were stored before."""
        written = known = 0
        # Beside the loop, which takes receipts meanwhile, however long Spark takes.
        while (plan := await asyncio.to_thread(next, plans, None)) is not None:
            for topic, sheet in plan:
                producer = self._producers.get(topic) or await self._open(topic)
                fresh = producer.drop_stored(sheet) if self._options.exactly_once else sheet
                known += len(sheet) - len(fresh)
                written += len(fresh)
                if len(fresh):
                    await producer.submit_sheet(fresh, self._on_sent, self._transaction)
            if self._failure is not None:
                raise self._failure
        for producer in self._producers.values():
            await producer.flush()
        if self._failure is not None:
            raise self._failure
        if self._options.exactly_once:  # it may have been switched off since the task began
            for topic, producer in self._producers.items():
                await asyncio.to_thread(self._load_stored, topic, producer.active)
        return written, known

    def _on_sent(self, sent: asyncio.Future[Any]) -> None:
        failure = None if sent.cancelled() else sent.exception()
        if failure is not None and self._failure is None:
            self._failure = failure

    async def _open(self, topic: str) -> AsyncResumableProducer[Any]:
        producer = await self._go_on(topic)
        if producer is None:
            options = self._options
            if topic != options.topic or options.exactly_once:
                await asyncio.to_thread(prepare_topic, self._admin, options, topic)
            producer = await AsyncBulk(self._client).resumable_producer(
                topic,
                schema=_schema(options, self._definition),
                name=self._name,
                compression=options.compression.value,
                batching=BatchingPolicy(
                    max_delay=0.01,
                    max_messages=options.batch_messages,
                    max_bytes=options.batch_bytes,
                ),
                max_pending_messages=options.pending_max,
                send_timeout=options.broker.timeout_s,
            )
            await self._resume(topic, producer)
        self._producers[topic] = producer
        return producer

    async def _go_on(self, topic: str) -> AsyncResumableProducer[Any] | None:
        """With a producer that was left; None where the topic may be another by now."""
        producer = await self._idle.borrow(self._key_of(topic))
        if producer is None:
            return None
        producer.take_name(self._name)
        try:
            await self._resume(topic, producer)
        except (NotFoundError, TopicTerminatedError, AdminNotFound, DeduplicationOff):
            await producer.close()
            return None
        return producer

    def _key_of(self, topic: str) -> Hashable:
        """Tasks with the same may go on with one another's producers."""
        options = self._options
        settings = (options.compression, options.batch_messages, options.batch_bytes)
        return topic, options.format, self._definition, *settings, options.pending_max

    async def _resume(self, topic: str, producer: AsyncResumableProducer[Any]) -> None:
        """Asks for all segments by one call, once their names are taken."""

        async def load(segments: Collection[SegmentId]) -> dict[SegmentId, int]:
            return await asyncio.to_thread(self._load_stored, topic, segments)

        if self._options.exactly_once:
            await producer.resume(load)

    def _load_stored(self, topic: str, segments: Collection[SegmentId]) -> dict[SegmentId, int]:
        """Nothing is known of regular topics, nor by Apache Pulsar: there the producers tell."""
        name = parse_name(topic)
        found: dict[str, int] = {}
        try:
            found = self._admin.scalable_topics.last_sequence_ids(
                f"{name.namespace}/{name.local}", producer=self._name, segments=map(str, segments)
            )
        except AdminNotFound:
            pass
        except AdminPreconditionFailed as error:
            raise DeduplicationOff(
                f"Deduplication of {topic} was switched off while the query wrote to it, so a row"
                f" could be stored twice: {error.sentence}"
            ) from None
        if not found:
            check_deduplication(self._admin, topic)
        return {SegmentId(int(segment)): number for segment, number in found.items()}

    async def leave(self) -> None:
        """The name is free for the next attempt of the task, wherever that runs."""
        for topic, producer in self._producers.items():
            await producer.leave()
            await self._idle.give_back(self._key_of(topic), producer)


def plan_windows(windows: Iterator[pa.RecordBatch], first: int) -> Iterator[Plan]:
    for window in windows:
        yield plan_sheets(window, first)
        first += window.num_rows


def plan_sheets(window: pa.RecordBatch, first: int) -> Plan:
    """The rows of each topic, numbered from `first` on all together.

    Those of a scalable topic are sorted, for it may have buckets; what keeps its order there is a
    key. A regular topic keeps the order of all rows of a task.
    """
    topics = window.column("topic")
    codes = topics.indices.to_numpy()
    names: list[str] = topics.dictionary.to_pylist()
    scalable = [parse_name(name).domain is TopicDomain.TOPIC for name in names]
    sheet, order = make_sheet(
        window.column("key"),
        window.column("value"),
        first,
        events_ms=_events(window),
        properties=_properties(window),
        sorts=np.array(scalable)[codes] if any(scalable) else None,
    )
    present = np.unique(codes).tolist()
    if len(present) == 1:
        return [(names[present[0]], sheet)]
    moved = codes[order]
    return [(names[code], sheet.take(moved == code)) for code in present]


def _events(window: pa.RecordBatch) -> npt.NDArray[np.int64]:
    events: npt.NDArray[np.int64] = window.column("event_ms").to_numpy()
    return events


def _properties(window: pa.RecordBatch) -> list[list[tuple[str, str]]] | None:
    column = window.column("properties")
    if pc.all(pc.is_null(column)).as_py():
        return None
    return [sorted(each or ()) for each in column.to_pylist(maps_as_pydicts=None)]


def _schema(options: SinkOptions, definition: str | None) -> Schema[Any]:
    match options.format:
        case SinkFormat.BYTES:
            return Schema.BYTES
        case SinkFormat.JSON:
            return Schema.json(definition or "")
        case SinkFormat.AVRO:
            return Schema.avro(definition or "")
