"""How a cursor's state becomes durable.

Each write is the whole state, as one entry in a ledger of the cursor's own, so that the group
commit of the ledger store is shared. The metadata record names that ledger. A worn ledger is
replaced: first the new ledger with the state in it, then the record, then the old ledger is
deleted. At rest (a new cursor, a clean close, a seek) the record holds the state and there is no
ledger; but brokers of Apache Pulsar, which may be the next to read it in a shared store, look for
batches that are acknowledged in part in a ledger only. Recovery takes the last entry of the ledger,
else the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from magnetar.errors import (
    BrokerError,
    LedgerCorrupt,
    LedgerNotFound,
    LedgerSealed,
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
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_RECORD_BYTES_MAX: Final = 256 * 1024  # what a metadata store takes without complaint
_RETRY_S: Final = 1.0

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


async def load_cursor(home: CursorHome, name: str, record: CursorInfo) -> CursorInfo:
    """The last durable state of a cursor; its ledger is fenced, so that a former owner cannot add
    to it.

    A ledger that cannot be read costs what was acknowledged since the record was written, which is
    delivered again.
    """
    if record.ledger_id < 0:
        return record
    ledger = LedgerId(record.ledger_id)
    try:
        check_use(await home.store.describe(ledger), LedgerUse(UseKind.LOG, home.name, name))
        await home.store.recover(ledger, term=home.term)
        state = await read_cursor(home.store, home.records, record)
    except (LedgerNotFound, LedgerCorrupt) as error:
        _log.error("cursor ledger unreadable", error=error, log=home.name, cursor=name)
        return record
    return replace(
        state,
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


class CursorLog:
    """One write at a time. Whoever waits while one is under way shares the next."""

    def __init__(
        self,
        home: CursorHome,
        name: str,
        snapshot: Callable[[], CursorInfo],
        *,
        ledger_id: int = -1,
        version: int = -1,
    ) -> None:
        self._home = home
        self._name = name
        self._snapshot = snapshot
        self._loop = asyncio.get_running_loop()
        store = partial(home.records.store_cursor, name)
        self._record = VersionedRecord(self._load_record, store, home.disposal, version)
        self.ledger_id = ledger_id
        self.last_entry = -1  # of the ledger, as far as this process wrote it
        self.dirty = False
        self._writer: LedgerWriter | None = None
        self._ledger_bytes = 0
        self._size = 0
        self._written_at = float("-inf")
        self._timer: Timer | None = None
        self._busy = False
        self._joining = False
        self._entering = 0
        self._closed = False
        self._lost: VersionConflict | None = None
        self._writing: list[asyncio.Future[None]] = []  # answered by the write under way
        self._waiting: list[asyncio.Future[None]] = []  # answered by the next one

    @property
    def version(self) -> int:
        """Of the metadata record; -1 while there is none."""
        return self._record.version

    # Asking for writes

    def soil(self) -> None:
        """The state has changed; write it when its time comes."""
        self.dirty = True
        if self._timer is None and not self._busy and not self._closed:
            self._await_turn()

    async def flush(self) -> None:
        """Return once the state as it is now is durable."""
        if not self.dirty and not self._busy:
            return
        if self._closed:
            raise TopicFenced(f"cursor {self._name} of {self._home.name} is closed")
        if self._lost is not None:
            raise self._lost
        answer: asyncio.Future[None] = self._loop.create_future()
        if not self.dirty:
            self._writing.append(answer)
        else:
            self._waiting.append(answer)
            if not self._busy:
                self._hasten()
        await answer

    async def settle(self) -> None:
        """Put the state into the metadata record and do without a ledger, unless it is too big for
        a record, or other brokers would read only a part of it there.
        """
        await self._enter()
        try:
            info = self._take()
            is_partial = self._home.store.is_shared and bool(info.batches)
            if is_partial or len(self._home.records.encode_cursor(info)) > _RECORD_BYTES_MAX:
                await self._replace_ledger()
            else:
                await self._announce()
                await self._put_record(replace(info, ledger_id=-1))
                self._retire_ledger()
        except BrokerError as error:
            self._leave(error)
            raise
        self._leave(None)
        await self._home.disposal.run()

    async def close(self) -> None:
        """Settle when there is anything to settle, then stay silent."""
        if self._closed:
            return
        try:
            if self._lost is None and (self.dirty or self._busy or self.ledger_id >= 0):
                await self.settle()
        finally:
            self._silence()
            await self._seal_writer()

    async def remove(self) -> None:
        """Delete the record, then the ledger."""
        await self._enter()
        try:
            await self._announce()
            await self._home.records.remove_cursor(self._name)
        except RecordNotFound:
            pass  # a former attempt whose answer was lost
        except BrokerError as error:
            self._leave(error)
            raise
        self._silence()
        self._leave(None)
        self._retire_ledger()
        await self._home.disposal.run()

    # Writing

    def _hasten(self) -> None:
        self._set_timer(None)
        wait_s = self._home.pace.wait_s(self._written_at, self._size)
        if wait_s > 0:
            self._set_timer(wait_s)
        else:
            self._on_due()

    def _await_turn(self) -> None:
        """Write with the next commit of the store, or when the time for one of its own has come: a
        rate that the operator chose holds for the latter.
        """
        rate = self._home.policy.cursor_writes_per_s
        place_s = self._home.pace.reserve(self._size)
        self._set_timer(place_s if rate <= 0 else max(place_s, 1 / rate))
        if self._home.pace.may_join(place_s):
            self._join()

    def _join(self) -> None:
        if not self._joining:
            self._joining = True
            self._home.store.join(self._on_commit)

    def _on_commit(self) -> None:
        self._joining = False
        if self._timer is None:
            return  # written, being written or closed by now
        if self._home.pace.join_wait_s(self._written_at) > 0:
            self._join()
        else:
            self._set_timer(None)
            self._on_due()

    def _on_due(self) -> None:
        self._timer = None
        if self._busy or self._closed:
            return
        self._busy = True
        writer = self._writer
        if writer is None or self._is_worn():
            self._home.scope.start(self._rewrite(), f"cursor {self._name}")
            return
        data = self._home.records.encode_cursor(self._take())
        self._note_size(len(data))
        try:
            writer.append([data], self._on_written)
        except LedgerSealed:
            self._home.scope.start(self._rewrite(), f"cursor {self._name}")

    def _on_written(self, error: BrokerError | None) -> None:
        if error is None:
            self.last_entry += 1
            self._leave(None)
        elif self._closed:
            self._leave(error)
        else:
            self._home.scope.start(self._rewrite(), f"cursor {self._name}")

    async def _rewrite(self) -> None:
        """Write the state to a fresh ledger; called when busy."""
        try:
            await self._replace_ledger()
        except BrokerError as error:
            _log.warning(
                "cursor not written",
                log=self._home.name,
                cursor=self._name,
                reason=f"{type(error).__name__}: {error.sentence}",
            )
            self._leave(error)
        else:
            self._leave(None)
            await self._home.disposal.run()

    async def _replace_ledger(self) -> None:
        home = self._home
        writer = await home.store.create(
            term=home.term,
            properties=LedgerUse(UseKind.LOG, home.name, self._name).format(),
            deletion_intended=True,
            replication=home.policy.replication,
        )
        info = self._take()
        data = home.records.encode_cursor(info)
        self._note_size(len(data))
        with self._record.naming(writer.id):
            await asyncio.gather(self._append(writer, data), self._announce())
            await self._put_record(replace(info, ledger_id=writer.id, ranges=(), batches={}))
        home.store.cancel_deletion([writer.id])
        self._retire_ledger()
        self._writer = writer
        self.ledger_id = writer.id
        self.last_entry = 0
        self._ledger_bytes = len(data)

    async def _append(self, writer: LedgerWriter, data: bytes) -> None:
        answer: asyncio.Future[None] = self._loop.create_future()

        def on_done(error: BrokerError | None) -> None:
            if answer.cancelled():
                return
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        writer.append([data], on_done)
        await answer

    async def _put_record(self, info: CursorInfo) -> None:
        if self._lost is not None:
            raise self._lost
        try:
            await self._record.store(info)
        except VersionConflict as conflict:
            await self._retake(info, conflict)

    async def _retake(self, info: CursorInfo, conflict: VersionConflict) -> None:
        """Somebody else wrote the record: a former owner with its last breath, or a new one."""
        try:
            await self._home.record.confirm()
        except TopicFenced:
            self._lost = conflict
            raise conflict from None
        found = await self._load_record()
        theirs, self._record.version = (info, -1) if found is None else found
        is_dropped = theirs.ledger_id not in (-1, info.ledger_id, self.ledger_id)
        if is_dropped:
            await self._home.disposal.announce([theirs.ledger_id])
        await self._record.store(info)
        if is_dropped:
            self._home.disposal.add(theirs.ledger_id)

    async def _load_record(self) -> tuple[CursorInfo, int] | None:
        return (await self._home.records.load_cursors()).get(self._name)

    # Ledgers that are no longer needed

    async def _announce(self) -> None:
        """The record is about to name another ledger than the present one, or none."""
        if self.ledger_id >= 0:
            await self._home.disposal.announce([self.ledger_id])

    def _retire_ledger(self) -> None:
        """The record does not name the present ledger any more."""
        if self.ledger_id >= 0:
            self._home.disposal.add(self.ledger_id)
        self._writer = None
        self.ledger_id = self.last_entry = -1
        self._ledger_bytes = 0

    async def _seal_writer(self) -> None:
        if self._writer is not None:
            await self._writer.seal()
            self._writer = None

    # The one write at a time

    async def _enter(self) -> None:
        """Become the write under way, before any other that has not started."""
        self._entering += 1
        try:
            while self._busy:
                answer: asyncio.Future[None] = self._loop.create_future()
                self._writing.append(answer)
                await asyncio.wait([answer])
                answer.exception()  # somebody else's failure
        finally:
            self._entering -= 1
        self._busy = True
        self._set_timer(None)

    def _take(self) -> CursorInfo:
        """The state to write; whoever waited for it is answered by this write."""
        self.dirty = False
        self._writing += self._waiting
        self._waiting = []
        return self._snapshot()

    def _leave(self, error: BrokerError | None) -> None:
        self._busy = False
        answered, self._writing = self._writing, []
        if error is not None:
            self.dirty = True
        for answer in answered:
            if not answer.done():
                if error is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(error)
        if self._closed or self._lost is not None:
            self._refuse_waiting()
        elif self._entering:
            self._set_timer(_RETRY_S)  # in case who wants to enter gives up
        elif self._waiting:
            self._hasten()
        elif self.dirty and error is None:
            self._await_turn()
        elif self.dirty:
            self._set_timer(_RETRY_S)

    def _refuse_waiting(self) -> None:
        refused, self._waiting = self._waiting, []
        for answer in refused:
            if not answer.done():
                answer.set_exception(TopicFenced(f"cursor {self._name} is closed or taken over"))

    def _silence(self) -> None:
        self._closed = True
        self._set_timer(None)

    def _set_timer(self, delay_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            None if delay_s is None else self._home.clock.call_later(delay_s, self._on_due)
        )

    def _note_size(self, size: int) -> None:
        self._size = size
        self._ledger_bytes += size
        self._written_at = self._home.pace.now()

    def _is_worn(self) -> bool:
        policy = self._home.policy
        return (
            self.last_entry + 1 >= policy.cursor_entries_max
            or self._ledger_bytes >= policy.cursor_bytes_max
        )
