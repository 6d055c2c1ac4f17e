"""Where a cursor's state is kept: a metadata record, and a ledger of the cursor's own.

The record names that ledger. A ledger is replaced in an order that leaves one of the two readable
after a crash: first the new ledger with the state in it, then the record, then the old ledger is
deleted. Recovery takes the last entry of the ledger, else the record.

In a shared store the version of the record does not fence a former owner: a new owner reads the
record when it opens the log, and writes it with the first acknowledgement only. What a former owner
writes in between is never read. So a write of the record is certain once the record of the log was
written after it, which fails for a former owner: a new one writes that before it reads the cursors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from magnetar.errors import (
    BrokerError,
    LedgerCorrupt,
    LedgerNotFound,
    RecordNotFound,
    TopicFenced,
    VersionConflict,
)
from magnetar.ledger.belonging import LedgerUse, UseKind, check_use
from magnetar.ledger.disposal import Disposal
from magnetar.ledger.info import LogPolicy, LogRecords
from magnetar.ledger.log_record import LogRecord
from magnetar.ledger.pace import CursorPace
from magnetar.ledger.store import LedgerStore, LedgerWriter
from magnetar.ledger.versioned import VersionedRecord
from magnetar.model.position import LedgerId, Term
from magnetar.model.stored_log import CursorInfo
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)


class CursorHome(Protocol):
    """What cursors need of their log."""

    @property
    def name(self) -> str: ...
    @property
    def store(self) -> LedgerStore: ...
    @property
    def disposal(self) -> Disposal: ...
    @property
    def records(self) -> LogRecords: ...
    @property
    def term(self) -> Term: ...
    @property
    def scope(self) -> TaskScope: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def pace(self) -> CursorPace: ...
    @property
    def policy(self) -> LogPolicy: ...
    @property
    def record(self) -> LogRecord: ...


async def load_cursor(
    home: CursorHome, name: str, record: CursorInfo, version: int
) -> tuple[CursorInfo, int]:
    """The last durable state of a cursor, with the version of its record; its ledger is fenced, so
    that a former owner cannot add to it.

    A former owner that closes meanwhile puts its state into the record and deletes the ledger: then
    the record is read again. An unreadable ledger costs what was acknowledged since the
    record was written, which is delivered again.
    """
    while record.ledger_id >= 0:
        try:
            return await _load_state(home, name, record), version
        except (LedgerNotFound, LedgerCorrupt) as error:
            found = (await home.records.load_cursors()).get(name)
            if found is None or found[0].ledger_id == record.ledger_id:
                _log.error("cursor ledger unreadable", error=error, log=home.name, cursor=name)
                break
            record, version = found
    return record, version


async def _load_state(home: CursorHome, name: str, record: CursorInfo) -> CursorInfo:
    ledger = LedgerId(record.ledger_id)
    check_use(await home.store.describe(ledger), LedgerUse(UseKind.LOG, home.name, name))
    await home.store.recover(ledger, term=home.term)
    return replace(
        await read_cursor(home.store, home.records, record),
        ledger_id=record.ledger_id,
        cursor_properties=dict(record.cursor_properties),
        rest=record.rest,
    )


async def read_cursor(store: LedgerStore, records: LogRecords, record: CursorInfo) -> CursorInfo:
    """The last durable state: that of the cursor's ledger when it has one with anything in it."""
    if record.ledger_id < 0:
        return record
    ledger = LedgerId(record.ledger_id)
    last = (await store.describe(ledger)).last
    if last < 0:
        return record
    (entry,) = await store.read(ledger, last, entries_max=1, bytes_max=1)
    return records.decode_cursor(entry)


class CursorLedger:
    """One call at a time that waits."""

    def __init__(self, home: CursorHome, name: str, *, ledger_id: int, version: int) -> None:
        self._home = home
        self._name = name
        store = partial(home.records.store_cursor, name)
        self._record = VersionedRecord(self._load_record, store, home.disposal, version)
        self.id = ledger_id
        """-1 while there is none."""
        self.last_entry = -1
        """As far as this process wrote it."""
        self.lost: BrokerError | None = None
        """Another owner has the record, or the log."""
        self._writer: LedgerWriter | None = None
        self._bytes = 0
        self._certain_after = -1
        """How many writes of the log's record do not make that of the cursor certain."""

    @property
    def version(self) -> int:
        """Of the metadata record; -1 while there is none."""
        return self._record.version

    @property
    def is_certain(self) -> bool:
        """Whether every owner to come reads what was written."""
        return self._home.record.is_confirmed_since(self._certain_after)

    async def make_certain(self) -> None:
        """Raise TopicFenced when another owner has the log, which may not have read it."""
        if self.is_certain:
            return
        try:
            await self._home.record.confirm()
        except TopicFenced as fenced:
            self.lost = fenced
            raise

    @property
    def has_room(self) -> bool:
        """Whether the ledger takes another state; else it is to be replaced."""
        policy = self._home.policy
        return (
            self._writer is not None
            and self.last_entry + 1 < policy.cursor_entries_max
            and self._bytes < policy.cursor_bytes_max
        )

    def append(self, data: bytes, on_done: Callable[[BrokerError | None], None]) -> None:
        """Raise LedgerSealed when it is to be replaced."""
        assert self._writer is not None, "the caller looked whether there is room"
        self._bytes += len(data)

        def on_written(error: BrokerError | None) -> None:
            if error is None:
                self.last_entry += 1
            on_done(error)

        self._writer.append([data], on_written)

    async def roll_over(self, take: Callable[[], tuple[CursorInfo, bytes]]) -> None:
        """Write what `take` gives to a fresh ledger, and name that in the record."""
        home = self._home
        writer = await home.store.create(
            term=home.term,
            properties=LedgerUse(UseKind.LOG, home.name, self._name).format(),
            deletion_intended=True,
            replication=home.policy.replication,
        )
        info, data = take()
        with self._record.naming(writer.id):
            await asyncio.gather(_append(writer, data), self._announce())
            await self._put_record(
                replace(info, ledger_id=writer.id, ranges=(), bits={}, batches={})
            )
        home.store.cancel_deletion([writer.id])
        self._retire()
        self._writer = writer
        self.id = writer.id
        self.last_entry = 0
        self._bytes = len(data)

    async def dissolve(self, info: CursorInfo) -> None:
        """Put the state into the record and do without a ledger."""
        await self._announce()
        await self._put_record(replace(info, ledger_id=-1))
        self._retire()

    async def remove(self) -> None:
        """Delete the record, then the ledger."""
        try:
            await self._announce()
            await self._home.records.remove_cursor(self._name)
        except RecordNotFound:
            pass  # a former attempt whose answer was lost
        self._note_change()
        self._retire()

    async def seal(self) -> None:
        if self._writer is not None:
            await self._writer.seal()
            self._writer = None

    async def _announce(self) -> None:
        """The record is about to name another ledger than the present one, or none."""
        if self.id >= 0:
            await self._home.disposal.announce([self.id])

    def _retire(self) -> None:
        """The record does not name the present ledger any more."""
        if self.id >= 0:
            self._home.disposal.add(self.id)
        self._writer = None
        self.id = self.last_entry = -1
        self._bytes = 0

    async def _put_record(self, info: CursorInfo) -> None:
        if self.lost is not None:
            raise self.lost
        try:
            await self._record.store(info)
        except VersionConflict as conflict:
            await self._retake(info, conflict)
        self._note_change()

    def _note_change(self) -> None:
        if self._home.store.is_shared:
            self._certain_after = self._home.record.stores_begun

    async def _retake(self, info: CursorInfo, conflict: VersionConflict) -> None:
        """Another owner wrote the record: a former one that has just been fenced, or a new one."""
        try:
            await self._home.record.confirm()
        except TopicFenced:
            self.lost = conflict
            raise conflict from None
        found = await self._load_record()
        theirs, self._record.version = (info, -1) if found is None else found
        is_dropped = theirs.ledger_id not in (-1, info.ledger_id, self.id)
        if is_dropped:
            await self._home.disposal.announce([theirs.ledger_id])
        await self._record.store(info)
        if is_dropped:
            self._home.disposal.add(theirs.ledger_id)

    async def _load_record(self) -> tuple[CursorInfo, int] | None:
        return (await self._home.records.load_cursors()).get(self._name)


async def _append(writer: LedgerWriter, data: bytes) -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_done(error: BrokerError | None) -> None:
        if answer.cancelled():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

    writer.append([data], on_done)
    await answer
