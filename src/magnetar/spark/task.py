"""What one task does: read its slices, entry by entry, and make record batches of them.

The event loop of the client runs only while this task waits for it. While Spark works on a batch,
nothing is read: the window of one reader and the batch under construction bound the memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.column import ChunkUnbegun, ColumnDecoder, EntryEncrypted, EntryUnreadable
from magnetar.client.entry_reader import AsyncEntryReader, StoredEntry
from magnetar.client.error import NotFoundError, PulsarTimeoutError
from magnetar.client.message_id import EARLIEST, MessageId
from magnetar.errors import LedgerCorrupt, MagnetarError
from magnetar.spark.access import open_admin
from magnetar.spark.decryption import Decryption
from magnetar.spark.file import LedgerFiles, open_span
from magnetar.spark.offset import BEFORE_ALL
from magnetar.spark.option import BadValue, Broker
from magnetar.spark.plan import DataLost
from magnetar.spark.row import Finish
from magnetar.spark.slice import Slice
from magnetar.spark.stretch import Span
from magnetar.spark.survey import catch_up, make_client, parse_ledgers
from magnetar.spark.value import ValueUnreadable

T = TypeVar("T")

_LOOK_BACK: Final = (64, 4096)
_PATIENCE: Final = 3
"""How often nothing may come, each time for a third of the operation timeout."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a task reads; the same for all of a query."""

    broker: Broker
    columns: tuple[str, ...]
    fail_on_loss: bool
    bad_value: BadValue
    batch_rows: int
    batch_bytes: int
    window_bytes: int
    files: LedgerFiles | None = None
    decryption: Decryption = field(default_factory=Decryption)

    def make_decoder(self, *more: str) -> ColumnDecoder:
        return ColumnDecoder((*self.columns, *more), decrypt=self.decryption.make_decrypt())


class Wire:
    """A client on a loop of its own that runs in steps; opened when first needed.

    Steps run on the runner's loop and not by the runner, which has each task's result spelled out
    when it takes its handler of signals away: that costs more than reading a large entry.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._runner = asyncio.Runner()
        self._client: AsyncPulsarClient | None = None

    def open(self, topic: str, start: MessageId) -> AsyncEntryReader:
        window = self._reading.window_bytes

        async def body() -> AsyncEntryReader:
            if self._client is None:
                self._client = make_client(self._reading.broker)
            await catch_up()
            return await self._client.bulk.entry_reader(topic, start=start, window=window)

        return self._run(body())

    def take(self, reader: AsyncEntryReader) -> list[StoredEntry]:
        return self._run(reader.take(self._reading.broker.timeout_s / _PATIENCE))

    def close_reader(self, reader: AsyncEntryReader) -> None:
        self._run(reader.close())

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        return self._runner.get_loop().run_until_complete(step)

    def close(self) -> None:
        if self._client is not None:
            self._run(self._client.close(immediate=True))
        self._runner.close()


class EntrySource:
    """The entries of slices, from files where they are and over the wire otherwise."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._wire = Wire(reading)
        files = reading.files
        self._files = files if files is not None and files.is_here else None
        self.is_verified = False
        """Whether the last entry came with its checksum checked."""

    def close(self) -> None:
        self._wire.close()

    def read(self, piece: Slice) -> Iterator[StoredEntry]:
        if not piece.is_counted:
            yield from self._read_uncounted(piece)
            return
        left = deque(piece.spans)
        while left:
            if self._files is not None:
                span = yield from self._read_file(self._files, left[0])
                left.popleft()
                if span is None:
                    continue
                left.appendleft(span)
            waiting = [left.popleft()]
            while left and self._files is None:
                waiting.append(left.popleft())
            yield from self._read_wire(piece, deque(waiting))

    def _read_file(
        self, files: LedgerFiles, span: Span
    ) -> Generator[StoredEntry, None, Span | None]:
        """Return what the files do not have of the span."""
        entries = open_span(files, span)
        following = span.first
        if entries is not None:
            try:
                for data in entries:
                    self.is_verified = True
                    yield StoredEntry(span.ledger, following, data)
                    following += 1
            except (OSError, LedgerCorrupt):
                pass  # gone or damaged under our eyes: the broker decides what is true
        self.is_verified = False
        return None if following > span.last else Span(span.ledger, following, span.last)

    def _read_wire(self, piece: Slice, spans: deque[Span]) -> Iterator[StoredEntry]:
        """Exactly the entries of the spans; what is not there is lost."""
        self.is_verified = False
        try:
            reader = self._wire.open(piece.topic, MessageId(spans[0].ledger, spans[0].first))
        except NotFoundError:
            self.lose(piece, f"{piece.topic} was deleted")
            return
        try:
            expected = spans[0].first
            idle = 0
            while spans:
                try:
                    entries = self._wire.take(reader)
                    idle = 0
                except PulsarTimeoutError:
                    idle += 1
                    if self._is_gone(piece, spans[0].ledger):
                        self.lose(piece, f"entries {spans[0].ledger}:{expected} and after are gone")
                        return
                    if idle >= _PATIENCE:
                        raise
                    continue
                except NotFoundError:
                    self.lose(piece, f"{piece.topic} was deleted")
                    return
                for each in entries:
                    if not spans:
                        break
                    place = (each.ledger, each.entry)
                    if place < (spans[0].ledger, expected):
                        continue
                    if place > (spans[0].ledger, expected):
                        told = (
                            f"entries from {spans[0].ledger}:{expected} up to {place[0]}:{place[1]}"
                        )
                        self.lose(piece, f"{told} are gone")
                        expected = _skip(spans, each)
                        if not spans or (spans[0].ledger, expected) != place:
                            continue
                    yield each
                    expected += 1
                    if expected > spans[0].last:
                        spans.popleft()
                        expected = spans[0].first if spans else 0
        finally:
            self._wire.close_reader(reader)

    def _is_gone(self, piece: Slice, ledger: int) -> bool:
        """Whether the broker says that the ledger is not there any more."""
        broker = self.reading.broker
        name = piece.label.partition("://")[2]
        with open_admin(broker.admin_url, broker.access, timeout_s=broker.timeout_s) as admin:
            try:
                if piece.topic.startswith("persistent://") and piece.label == piece.topic:
                    stats = admin.topics.internal_stats(piece.topic)
                else:
                    stats = admin.scalable_topics.segment_internal_stats(name, piece.segment)
            except MagnetarError:
                return False
        return all(each.ledger != ledger for each in parse_ledgers(stats))

    def _read_uncounted(self, piece: Slice) -> Iterator[StoredEntry]:
        start = EARLIEST
        if piece.after != BEFORE_ALL:
            start = MessageId(piece.after.ledger, max(0, piece.after.entry))
        reader = self._wire.open(piece.topic, start)
        try:
            while True:
                for each in self._wire.take(reader):
                    place = (each.ledger, each.entry)
                    if place > piece.through.position:
                        return
                    if place > piece.after.position or piece.after.batch >= 0:
                        yield each
                    if place == piece.through.position:
                        return
        finally:
            self._wire.close_reader(reader)

    def read_before(self, piece: Slice, entry: StoredEntry, count: int | None) -> list[StoredEntry]:
        """Up to `count` entries of the same ledger before one, or all there are, and itself."""
        start = EARLIEST if count is None else MessageId(entry.ledger, max(0, entry.entry - count))
        reader = self._wire.open(piece.topic, start)
        found: list[StoredEntry] = []
        try:
            while True:
                for each in self._wire.take(reader):
                    if (each.ledger, each.entry) > (entry.ledger, entry.entry):
                        return found
                    found.append(each)
                    if (each.ledger, each.entry) == (entry.ledger, entry.entry):
                        return found
        finally:
            self._wire.close_reader(reader)

    def lose(self, piece: Slice, what: str) -> None:
        if self.reading.fail_on_loss:
            raise DataLost(
                f"Messages were deleted before they were read: segment {piece.segment} of"
                f" {piece.label}, {what}. Set failOnDataLoss to false to go on behind them"
            )


def _skip(spans: deque[Span], entry: StoredEntry) -> int:
    """Drop what stands before an entry; the entry expected next."""
    while spans and (spans[0].ledger, spans[0].last) < (entry.ledger, entry.entry):
        spans.popleft()
    if not spans:
        return 0
    return max(spans[0].first, entry.entry if spans[0].ledger == entry.ledger else 0)


def read_task(
    reading: Reading, slices: tuple[Slice, ...], finish: Finish
) -> Iterator[pa.RecordBatch]:
    """Record batches of all slices, in order; `finish` makes Spark's columns of ours."""
    with closing(EntrySource(reading)) as source:
        yield from read_slices(source, slices, finish)


def read_slices(
    source: EntrySource, slices: Iterable[Slice], finish: Finish
) -> Generator[pa.RecordBatch, None, None]:
    """The same from a source that stays open."""
    for piece in slices:
        for batch in _read_slice(source, piece):
            if batch.num_rows:
                yield finish(batch, piece)


def _read_slice(source: EntrySource, piece: Slice) -> Iterator[pa.RecordBatch]:
    reading = source.reading
    decoder = reading.make_decoder()
    for entry in source.read(piece):
        decoder.checks = not source.is_verified
        start, end = _part_of_batch(piece, entry)
        try:
            decoder.add(*entry, start=start, end=end)
        except EntryUnreadable as error:
            if reading.bad_value is BadValue.FAIL:
                raise ValueUnreadable(
                    f"{piece.label}, segment {piece.segment}: {error.sentence}. {_advise(error)}"
                ) from None
            decoder.add_unreadable(entry.ledger, entry.entry)
        except ChunkUnbegun:
            yield decoder.take()
            yield _read_chunked(source, piece, entry)
        if decoder.rows >= reading.batch_rows or decoder.size >= reading.batch_bytes:
            yield decoder.take()
    yield decoder.take()


def _advise(error: EntryUnreadable) -> str:
    if isinstance(error, EntryEncrypted):
        return (
            "Name the file of the private key in decryptionKeys, or set onEncrypted to raw to get"
            " the ciphertext"
        )
    return "Set badValue to null to get a row without a value instead"


def _part_of_batch(piece: Slice, entry: StoredEntry) -> tuple[int, int | None]:
    start, end = 0, None
    if piece.after.batch >= 0 and piece.after.position == (entry.ledger, entry.entry):
        start = piece.after.batch + 1
    if piece.through.batch >= 0 and piece.through.position == (entry.ledger, entry.entry):
        end = piece.through.batch + 1
    return start, end


def _read_chunked(source: EntrySource, piece: Slice, entry: StoredEntry) -> pa.RecordBatch:
    """The message that ends in this entry and begins before the slice."""
    reading = source.reading
    for count in (*_LOOK_BACK, None):
        decoder = reading.make_decoder("ledger", "entry")
        try:
            for each in source.read_before(piece, entry, count):
                try:
                    decoder.add(*each)
                except EntryUnreadable:
                    continue
                except ChunkUnbegun:
                    if each == entry:
                        raise
        except ChunkUnbegun:
            continue
        batch = decoder.take()
        last = batch.slice(batch.num_rows - 1)
        return last.select([each for each in last.schema.names if each in reading.columns])
    source.lose(piece, f"the first chunks of the message at {entry.ledger}:{entry.entry} are gone")
    return reading.make_decoder().take()


def column_names(wanted: Iterable[str]) -> tuple[str, ...]:
    """The columns to decode for those that Spark asks for."""
    needed: set[str] = set()
    for name in wanted:
        needed |= {"message_id": {"ledger", "entry", "batch_index"}}.get(name, {name})
    return tuple(sorted(needed - {"topic", "segment"}))
