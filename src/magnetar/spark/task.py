"""What one task does: read its slices, entry by entry, and make record batches of them.

While Spark works on a batch, nothing is read (`wire`): the window of one reader and the batches
under construction bound the memory.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from magnetar import EARLIEST_ID, MessageId, NotFoundError, PulsarTimeoutError
from magnetar.columns import (
    ChunkUnbegun,
    ColumnDecoder,
    EntryEncrypted,
    EntryUnreadable,
    StoredEntry,
)
from magnetar.errors import LedgerCorrupt, MagnetarError
from magnetar.spark.access import open_admin
from magnetar.spark.bookie import BookieLedgers, BookieRecords
from magnetar.spark.decryption import Decryption
from magnetar.spark.file import LedgerFiles, open_span
from magnetar.spark.offset import BEFORE_ALL
from magnetar.spark.option import BadValue, Broker
from magnetar.spark.plan import DataLost
from magnetar.spark.row import Finish
from magnetar.spark.slice import Slice
from magnetar.spark.stretch import Span
from magnetar.spark.survey import parse_ledgers
from magnetar.spark.value import ValueUnreadable
from magnetar.spark.wire import PATIENCE, ReadersAhead, Wire

_LOOK_BACK: Final = (64, 4096)


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
    files: LedgerFiles | BookieRecords | None = None
    decryption: Decryption = field(default_factory=Decryption)
    wants: Callable[[int], bool] = lambda published_ms: True
    """Of which times of publishing entries are decoded."""

    def make_decoder(self, *more: str) -> ColumnDecoder:
        decrypt = self.decryption.make_decrypt()
        return ColumnDecoder((*self.columns, *more), decrypt=decrypt, wants=self.wants)


class EntrySource:
    """The entries of slices, from files where they are and over the wire otherwise."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._wire = Wire(reading.broker, reading.window_bytes)
        self.ahead = ReadersAhead(self._wire)
        files = reading.files
        is_here = isinstance(files, LedgerFiles) and files.is_here
        self._files = files if is_here and isinstance(files, LedgerFiles) else None
        self._bookies: BookieLedgers | None = None
        if isinstance(files, BookieRecords):
            self._bookies = BookieLedgers(
                files,
                timeout_s=reading.broker.timeout_s / PATIENCE,
                entries_max=reading.batch_rows,
                bytes_max=reading.window_bytes,
            )
        self.is_verified = False
        """Whether the last entry came with its checksum checked."""

    def close(self) -> None:
        self._wire.close()
        if self._bookies is not None:
            self._bookies.close()

    def read(self, piece: Slice) -> Iterator[StoredEntry]:
        if not piece.is_counted:
            yield from self._read_uncounted(piece)
            return
        left = deque(piece.spans)
        while left:
            if self._files is not None:
                span = yield from self._read_file(self._files, left[0], piece.hidden)
                left.popleft()
                if span is None:
                    continue
                left.appendleft(span)
            elif self._bookies is not None:
                span = yield from self._read_bookies(self._bookies, left[0], piece.hidden)
                left.popleft()
                if span is None:
                    continue
                left.appendleft(span)
            waiting = [left.popleft()]
            while left and self._files is None and self._bookies is None:
                waiting.append(left.popleft())
            yield from self._read_wire(piece, deque(waiting))

    def _read_file(
        self, files: LedgerFiles, span: Span, hidden: tuple[Span, ...]
    ) -> Generator[StoredEntry, None, Span | None]:
        """Return what the files do not have of the span."""
        entries = open_span(files, span)
        following = span.first
        if entries is not None:
            try:
                for data in entries:
                    self.is_verified = True
                    if not hidden or not any(each.holds(span.ledger, following) for each in hidden):
                        yield StoredEntry(span.ledger, following, data)
                    following += 1
            except (OSError, LedgerCorrupt):
                pass  # gone or damaged under our eyes: the broker decides what is true
        self.is_verified = False
        return None if following > span.last else Span(span.ledger, following, span.last)

    def _read_bookies(
        self, bookies: BookieLedgers, span: Span, hidden: tuple[Span, ...]
    ) -> Generator[StoredEntry, None, Span | None]:
        """Return what bookies do not give of the span; then none of them is asked any more."""
        left: Span | None = span
        while left is not None:
            try:
                found = bookies.read(left)
            except (MagnetarError, OSError) as error:
                self._leave_bookies(str(error))
                break
            if not found:
                break  # the end of an open ledger is known to its writer alone
            for number, data in enumerate(found, left.first):
                self.is_verified = True
                if not hidden or not any(each.holds(span.ledger, number) for each in hidden):
                    yield StoredEntry(span.ledger, number, data)
            following = left.first + len(found)
            left = None if following > span.last else Span(span.ledger, following, span.last)
        self.is_verified = False
        return left

    def _leave_bookies(self, reason: str) -> None:
        warnings.warn(
            f"Bookies cannot be read directly, the broker is asked instead: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )
        if self._bookies is not None:
            self._bookies.close()
            self._bookies = None

    def _read_wire(self, piece: Slice, spans: deque[Span]) -> Iterator[StoredEntry]:
        """Exactly the entries of the spans; what is not there is lost."""
        self.is_verified = False
        try:
            reader = self.ahead.open(piece, MessageId(spans[0].ledger, spans[0].first))
        except NotFoundError:
            self.lose(piece, f"{piece.topic} was deleted")
            return
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
                if idle >= PATIENCE:
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
                    if self._is_lost(piece, spans[0].ledger, each.ledger):
                        first = f"{spans[0].ledger}:{expected}"
                        self.lose(
                            piece, f"entries from {first} up to {place[0]}:{place[1]} are gone"
                        )
                    expected = _skip(spans, each)
                    if not spans or (spans[0].ledger, expected) != place:
                        continue
                yield each
                expected += 1
                if expected > spans[0].last:
                    spans.popleft()
                    expected = spans[0].first if spans else 0

    def _is_lost(self, piece: Slice, expected: int, ledger: int) -> bool:
        """Whether entries that did not come were deleted. That takes a whole ledger: in one that is
        there, what does not come is hidden, being of transactions or markers.
        """
        return expected != ledger and self._is_gone(piece, expected)

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
        start = EARLIEST_ID
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
            self._wire.close_all([reader])

    def read_before(self, piece: Slice, entry: StoredEntry, count: int | None) -> list[StoredEntry]:
        """Up to `count` entries of the same ledger before one, or all there are, and itself."""
        start = (
            EARLIEST_ID if count is None else MessageId(entry.ledger, max(0, entry.entry - count))
        )
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
            self._wire.close_all([reader])

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
    source: EntrySource, slices: Sequence[Slice], finish: Finish
) -> Generator[pa.RecordBatch, None, None]:
    """The same from a source that stays open."""
    source.ahead.expect(slices)
    try:
        yield from join_small(_read_all(source, slices, finish), source.reading)
    finally:
        source.ahead.close()


def _read_all(
    source: EntrySource, slices: Iterable[Slice], finish: Finish
) -> Iterator[pa.RecordBatch]:
    for piece in slices:
        for batch in _read_slice(source, piece):
            if batch.num_rows:
                yield finish(batch, piece)


def join_small(batches: Iterable[pa.RecordBatch], reading: Reading) -> Iterator[pa.RecordBatch]:
    """The same rows: Spark takes one batch of many segments sooner than one of each."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        is_full = rows + batch.num_rows > reading.batch_rows
        if held and (is_full or size + batch.nbytes > reading.batch_bytes):
            yield _join(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if held:
        yield _join(held)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


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
