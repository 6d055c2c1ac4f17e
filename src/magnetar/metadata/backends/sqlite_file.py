"""One SQLite file with one writing thread and a few that read.

The writer takes everything that waits, decides each operation inside one transaction, and syncs
once for all of them. The write-ahead log lets readers go on meanwhile. They too answer together
what was asked for at once: to be woken by a thread costs the event loop more than a row is worth.
One process at a time may open the file, so ephemeral records found at open have no session and are
dropped.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from magnetar.errors import BrokerError, StoreClosed, StoreUnavailable
from magnetar.metadata.backends.sqlite_format import Witness, connect
from magnetar.metadata.backends.sqlite_tree import SqliteTree
from magnetar.metadata.store import Change
from magnetar.metadata.watch import Watchers
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger, PacedLog
from magnetar.runtime.worker import Workers, run_in_thread

_log = Logger(__name__)

_GROUP_MAX: Final = 1_024
_WAITING_MAX: Final = 65_536
_READERS: Final = 2
_READS_MAX: Final = 64
_FAILURES_EVERY_S: Final = 10.0

T = TypeVar("T")


@dataclass(slots=True)
class _Write(Generic[T]):
    run: Callable[[SqliteTree], T]
    done: asyncio.Future[T]


@dataclass(slots=True)
class _Read(Generic[T]):
    run: Callable[[sqlite3.Connection], T]
    done: asyncio.Future[T]


@dataclass(slots=True)
class _Outcome:
    request: _Write[Any] | _Read[Any]
    value: Any = None
    refusal: Exception | None = None

    def resolve(self) -> None:
        if self.request.done.done():  # the caller stopped waiting
            return
        if self.refusal is not None:
            self.request.done.set_exception(self.refusal)
        else:
            self.request.done.set_result(self.value)


class SqliteFile:
    """Runs what sessions ask for. Belongs to the event loop that opened it."""

    def __init__(
        self,
        file: str,
        tree: SqliteTree,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        workers: Workers,
    ) -> None:
        self.clock: Final = clock
        self.watchers: Final = Watchers()
        self.is_closed = False
        self._file = file
        self._tree = tree
        self._loop = loop
        self._waiting: queue.SimpleQueue[_Write[Any]] = queue.SimpleQueue()
        self._lost = False
        self._broken = False
        """Set on the writer's thread: what state the tree is in is not known any more."""
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._readers = workers("metadata-read", _READERS)
        self._asked: list[_Read[Any]] = []
        self._reading = 0
        self._is_over = False
        self._failures = PacedLog(_log, _FAILURES_EVERY_S, clock.monotonic)
        self._on_committed: Callable[[Witness], None] = lambda witness: None
        self._writer = workers("metadata-write")

    @classmethod
    async def open(cls, file: Path, *, clock: Clock, workers: Workers) -> SqliteFile:
        """Raise StoreUnavailable when the file cannot be used, DataDirectoryRefused when its format
        is unknown.
        """
        loop = asyncio.get_running_loop()
        try:
            tree = await run_in_thread(SqliteTree, str(file), clock.chance)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StoreUnavailable(f"Cannot open metadata file {file}: {error}") from error
        return cls(str(file), tree, clock, loop, workers)

    @property
    def witness(self) -> Witness:
        """Of the last commit."""
        return self._tree.witness

    def exchange(self, ledgers: Callable[[], str], on_committed: Callable[[Witness], None]) -> None:
        """From now on each commit keeps what `ledgers` says, and is reported to `on_committed`.

        The first is called by the writer's thread, the second on the event loop.
        """
        self._tree.ledgers = ledgers
        self._on_committed = on_committed
        on_committed(self._tree.witness)

    def is_made_by(self, path: str, session: int) -> bool:
        """Whether an ephemeral record is of this session."""
        return self._tree.owners.get(path) == session

    async def close(self) -> None:
        if self.is_closed and not self._lost:
            return
        self.is_closed = True
        try:
            if not self._lost:
                await self.write(lambda tree: tree.end_sessions())
        except StoreUnavailable:
            pass  # logged; the next start drops what belongs to no session
        finally:
            self._lost = False
            self._is_over = True
            await run_in_thread(self._join)
            left, self._asked = self._asked, []
            for read in left:
                _Outcome(read, refusal=StoreClosed("The metadata store is closed")).resolve()
            self.watchers.clear()

    def _join(self) -> None:
        self._writer.close()
        self._readers.close()
        for connection in self._connections:
            connection.close()
        self._tree.close()

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """One that may take long."""
        try:
            return await self._readers.run(lambda: query(self._open()))
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _open(self) -> sqlite3.Connection:
        """The connection of this thread."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._file, writes=False)
            self._connections.append(connection)
        return connection

    def _unreadable(self, error: sqlite3.Error) -> StoreUnavailable:
        return StoreUnavailable(f"Cannot read metadata file {self._file}: {error}")

    async def look_up(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """One of which many may be asked for at once, each for a row or none."""
        done: asyncio.Future[T] = self._loop.create_future()
        if not self._asked:
            self._loop.call_soon(self._start_reading)
        self._asked.append(_Read(query, done))
        return await done

    def _start_reading(self) -> None:
        while self._asked and self._reading < _READERS and not self._is_over:
            group, self._asked = self._asked[:_READS_MAX], self._asked[_READS_MAX:]
            self._reading += 1
            self._readers.submit(self._run_reads, group)

    def _run_reads(self, group: Sequence[_Read[Any]]) -> None:
        outcomes = [self._run_read(read) for read in group]
        self._loop.call_soon_threadsafe(self._on_group_read, outcomes)

    def _run_read(self, read: _Read[Any]) -> _Outcome:
        try:
            return _Outcome(read, value=read.run(self._open()))
        except sqlite3.Error as error:
            return _Outcome(read, refusal=self._unreadable(error))
        # A bug, raised to its own caller: others of the group wait for their answers too.
        except Exception as error:
            return _Outcome(read, refusal=error)

    def _on_group_read(self, outcomes: Sequence[_Outcome]) -> None:
        self._reading -= 1
        self._start_reading()
        for outcome in outcomes:
            outcome.resolve()

    async def write(self, run: Callable[[SqliteTree], T]) -> T:
        if self._waiting.qsize() >= _WAITING_MAX:
            raise StoreUnavailable("Too many metadata writes are waiting")
        done: asyncio.Future[T] = self._loop.create_future()
        self._waiting.put(_Write(run, done))
        self._writer.submit(self._run_writes)
        return await done

    def _run_writes(self) -> None:
        """Commit all that waits: the calls for those behind the first then find nothing to do."""
        group = [] if self._broken else self._take()
        if not group:
            return
        try:
            outcomes, changes = self._commit(group)
        except BaseException:
            self._broken = True
            self._loop.call_soon_threadsafe(self._on_writer_lost, group)
            raise
        self._loop.call_soon_threadsafe(self._on_group, outcomes, changes)

    def _take(self) -> list[_Write[Any]]:
        group: list[_Write[Any]] = []
        while len(group) < _GROUP_MAX and not self._waiting.empty():
            group.append(self._waiting.get())
        return group

    def _commit(self, group: Sequence[_Write[Any]]) -> tuple[list[_Outcome], list[Change]]:
        outcomes: list[_Outcome] = []
        try:
            self._tree.begin()
            for write in group:
                try:
                    outcomes.append(_Outcome(write, value=write.run(self._tree)))
                except BrokerError as refusal:
                    outcomes.append(_Outcome(write, refusal=refusal))
            self._tree.commit()
        except sqlite3.Error as error:
            self._tree.rollback()
            sentence = f"Cannot write metadata file {self._file}: {error}"
            self._failures.error("metadata write failed", reason=sentence)
            return [_Outcome(write, refusal=StoreUnavailable(sentence)) for write in group], []
        return outcomes, self._tree.changes

    def _on_group(self, outcomes: Sequence[_Outcome], changes: Sequence[Change]) -> None:
        if changes:
            self._on_committed(self._tree.witness)
        self.watchers.tell(changes)  # before the callers go on: caches read their own writes
        for outcome in outcomes:
            outcome.resolve()

    def _on_writer_lost(self, group: list[_Write[Any]]) -> None:
        self._lost = self.is_closed = True
        while not self._waiting.empty():
            group.append(self._waiting.get())
        for write in group:
            _Outcome(write, refusal=StoreUnavailable("The metadata writer stopped")).resolve()
