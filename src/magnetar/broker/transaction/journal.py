"""A journal: the records of one coordinator or one participating topic, in a log of its own.

An owner changes its state and appends the record in the same step, and answers its clients when
the record is durable. What is appended until the next commit of the ledger store leaves as one
entry. A write that fails ends the journal: the owner is loaded again from what is
stored. A snapshot is the records that lead to the present state; what stood before it is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from magnetar.broker.log_record import MetadataLogRecords
from magnetar.broker.transaction.batch import Batches
from magnetar.errors import BrokerError, TopicFenced
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.flight import PlainRun
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.log import Log
from magnetar.ledger.pace import CursorPace
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.model.log_path import journal_path
from magnetar.model.position import EARLIEST, Position, Term
from magnetar.model.transaction import Record, SnapshotBegun, SnapshotEnded
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.wire.transaction import decode_records, encode_entries

_log = Logger(__name__)

_CURSOR: Final = "snapshot"
_POLICY: Final = LogPolicy(roll_min_ms=0, roll_max_ms=0)
_SNAPSHOT_BYTES: Final = 4 << 20
_SNAPSHOT_GROWTH: Final = 4
"""A snapshot is taken when so many times its size was written since the last one."""
_RECORDS_AN_ENTRY: Final = 500
_ENTRY_BYTES: Final = 1 << 20
"""Well below what any ledger store takes."""
_READ_ENTRIES: Final = 1000
_READ_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Journals:
    """What all journals of a broker share that are of one kind."""

    clock: Clock
    ledgers: LedgerStore
    store: MetadataStore
    pace: CursorPace
    batches: Batches

    async def open(self, name: str, term: Term) -> tuple[Journal, list[Record]]:
        """The journal, made when there is none, and the records that lead to the state."""
        log = Log(
            name,
            self.ledgers,
            MetadataLogRecords(self.store, journal_path(name)),
            _POLICY,
            clock=self.clock,
            term=term,
            count_messages=_count_one,
            cache=EntryCache(0),
            pace=self.pace,
        )
        await log.open()
        await log.cursors.open(_CURSOR, start=EARLIEST)
        journal = Journal(log, self.clock, self.batches)
        return journal, await journal.read()

    async def exists(self, name: str) -> bool:
        return await self.store.exists(journal_path(name))


class Journal:
    def __init__(self, log: Log, clock: Clock, batches: Batches) -> None:
        self.log: Final = log
        self._clock = clock
        self._batches = batches
        self.failure: BrokerError | None = None
        self.failed: Final[list[Callable[[], None]]] = []
        """Called once, when a write failed or another owner has the journal."""
        self._loop = asyncio.get_running_loop()
        self._written_bytes = 0
        self._snapshot_bytes = 0
        self._is_snapshotting = False
        self._gathered: list[Record] = []
        """Appended since the last commit."""
        self._answers: list[asyncio.Future[None]] = []
        """One for each append of those."""
        self._gathered_s = 0.0
        """When the first of them was appended."""
        self.entries_appended = 0
        log.record.fenced.append(
            lambda: self._fail(TopicFenced(f"the journal {log.name} has another owner"))
        )

    async def read(self) -> list[Record]:
        """The records of the last whole snapshot, and those behind it. One that a crash has cut off
        counts for nothing: a snapshot stands in one ledger, and what follows in others.
        """
        records: list[Record] = []
        snapshot: list[Record] | None = None
        snapshot_ledger = -1
        position = EARLIEST
        reader = self.log.reader
        while (run := await reader.read(position, _READ_ENTRIES, _READ_BYTES)) is not None:
            if run.ledger_id != snapshot_ledger:
                snapshot = None
            for entry in run.data:
                self._written_bytes += len(entry)
                for record in decode_records(entry):
                    match record:
                        case SnapshotBegun():
                            snapshot, snapshot_ledger = [], run.ledger_id
                        case SnapshotEnded():
                            assert snapshot is not None, "one was begun"
                            records, snapshot = snapshot, None
                        case _:
                            (records if snapshot is None else snapshot).append(record)
            position = run.next_position
        return records

    def append(self, *records: Record) -> asyncio.Future[None]:
        """Records that are stored together; done when they are durable. It need not be awaited. Of
        very large ones the first may be stored alone.
        """
        answer: asyncio.Future[None] = self._loop.create_future()
        if self.failure is not None:
            _answer(answer, self.failure)
            return answer
        if len(self._gathered) + len(records) > _RECORDS_AN_ENTRY:
            self._batches.full += 1
            self._leave()
        if not self._answers:
            self._gathered_s = self._clock.monotonic()
            self.log.store.commit_soon(self._leave)
        self._gathered += records
        self._answers.append(answer)
        return answer

    def _leave(self) -> None:
        """Store what is gathered, with the commit that is about to leave."""
        if not self._answers:
            return
        records, self._gathered = self._gathered, []
        answers, self._answers = self._answers, []
        entries = encode_entries(records, _ENTRY_BYTES)
        size = sum(map(len, entries))
        self._batches.observe(len(records), size, self._clock.monotonic() - self._gathered_s)
        self._store(entries, answers)
        self.log.flights.send()

    def _store(self, entries: list[bytes], answers: list[asyncio.Future[None]]) -> None:
        run = PlainRun(entries, [1] * len(entries), partial(self._on_answer, answers))
        self._written_bytes += run.size
        self.entries_appended += len(entries)
        self.log.flights.append(run)

    def _on_answer(
        self,
        answers: list[asyncio.Future[None]],
        first: Position | None,
        error: BrokerError | None,
    ) -> None:
        if error is not None:
            self._fail(error)
        for answer in answers:
            _answer(answer, error)

    def _fail(self, error: BrokerError) -> None:
        if self.failure is None:
            self.failure = error
            _log.warning("journal failed", journal=self.log.name, reason=error.sentence)
            for call in self.failed:
                call()
            # What was gathered behind a refused entry must not be stored without that.
            answers, self._answers, self._gathered = self._answers, [], []
            for answer in answers:
                _answer(answer, error)

    # ------------------------------------------------------------------ snapshots

    @property
    def is_snapshot_due(self) -> bool:
        due_bytes = max(_SNAPSHOT_BYTES, _SNAPSHOT_GROWTH * self._snapshot_bytes)
        return self._written_bytes > due_bytes and not self._is_snapshotting

    async def snapshot(self, records: Callable[[], Iterable[Record]]) -> None:
        """Write the state as it is when the log has turned to a new ledger, then delete what stood
        before. Whatever happens on the way, the records lead to the same state.
        """
        self._is_snapshotting = True
        try:
            await self.log.roll()
            self._leave()
            entries = [
                entry for some in _cut(records()) for entry in encode_entries(some, _ENTRY_BYTES)
            ]
            size = sum(map(len, entries))
            start = self.log.sequence.end_position
            stored: asyncio.Future[None] = self._loop.create_future()
            self._store(entries, [stored])
            await stored
            self._snapshot_bytes, self._written_bytes = size, 0
            cursor = self.log.cursors[_CURSOR]
            cursor.acknowledge_through(self.log.sequence.previous_position(start))
            await self.log.trim()
        except BrokerError as failure:  # the next load reads more, that is all
            _log.warning("no snapshot", journal=self.log.name, reason=failure.sentence)
        finally:
            self._is_snapshotting = False

    async def close(self) -> None:
        self._leave()
        try:
            await self.log.close()
        except BrokerError as failure:
            _log.warning("journal not closed", journal=self.log.name, reason=failure.sentence)

    async def delete(self) -> None:
        self._leave()
        await self.log.delete()


def _answer(answer: asyncio.Future[None], error: BrokerError | None) -> None:
    if answer.done():
        return  # the caller was cancelled
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)
        answer.exception()  # retrieved, though no caller may wait


def _cut(records: Iterable[Record]) -> Iterator[list[Record]]:
    some: list[Record] = [SnapshotBegun()]
    for record in records:
        if len(some) >= _RECORDS_AN_ENTRY:
            yield some
            some = []
        some.append(record)
    some.append(SnapshotEnded())
    yield some


def _count_one(entry: bytes) -> int:
    return 1
