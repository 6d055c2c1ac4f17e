"""Records in one SQLite file: durable when a call returns. Several sessions may be on the file, as
brokers share a server; all of them in the process that opened it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from magnetar.errors import StoreClosed
from magnetar.metadata.backends.sqlite_file import SqliteFile
from magnetar.metadata.backends.sqlite_format import Witness
from magnetar.metadata.backends.sqlite_tree import (
    read_children,
    read_count,
    read_exists,
    read_page,
    read_record,
)
from magnetar.metadata.path import check_directory, check_path, child_of
from magnetar.metadata.sequence import check_deltas
from magnetar.metadata.store import (
    EMBEDDED_RECORD_BYTES_MAX,
    Cancel,
    ChangeListener,
    Record,
    SessionListener,
    Stat,
)
from magnetar.runtime.clock import Clock
from magnetar.runtime.worker import ThreadWorker, Workers

_PAGE: Final = 512


class SqliteSession:
    """One session on an open file: ephemeral records of its own in the tree that all share."""

    has_session = True
    record_bytes_max = EMBEDDED_RECORD_BYTES_MAX

    def __init__(self, file: SqliteFile, number: int) -> None:
        self._file = file
        self._number = number
        self._is_closed = False
        self._cancels: dict[Cancel, None] = {}

    async def get(self, path: str) -> Record | None:
        self._check_open()
        check_path(path)
        record = await self._file.look_up(lambda connection: read_record(connection, path))
        return None if record is None else self._claim(path, record)

    async def exists(self, path: str) -> bool:
        self._check_open()
        check_directory(path)
        return await self._file.look_up(lambda connection: read_exists(connection, path))

    async def children(self, path: str) -> tuple[str, ...]:
        self._check_open()
        check_directory(path)
        return await self._file.read(lambda connection: read_children(connection, path))

    async def count_children(self, path: str) -> int:
        self._check_open()
        check_directory(path)
        return await self._file.read(lambda connection: read_count(connection, path))

    async def scan_children(self, path: str) -> AsyncIterator[tuple[str, Record]]:
        check_directory(path)
        after = ""
        while True:
            page = await self.read_page(path, after)
            for name, record in page:
                yield name, record
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    async def read_page(self, path: str, after: str) -> list[tuple[str, Record]]:
        """The first of the direct children that hold a record and whose names follow `after`."""
        self._check_open()
        check_directory(path)
        page = await self._file.read(lambda connection: read_page(connection, path, after, _PAGE))
        return [(name, self._claim(child_of(path, name), record)) for name, record in page]

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        self._check_open()
        check_path(path)
        now_ms = self._file.clock.now_ms()
        owner = self._number if ephemeral else None
        stat = await self._file.write(lambda tree: tree.put(path, value, expect, owner, now_ms))
        return self._claim_stat(path, stat)

    async def put_sequence(
        self, prefix: str, value: bytes, *, deltas: Sequence[int], ephemeral: bool = False
    ) -> tuple[str, Stat]:
        self._check_open()
        check_path(prefix)
        check_deltas(deltas)
        now_ms = self._file.clock.now_ms()
        owner = self._number if ephemeral else None
        path, stat = await self._file.write(
            lambda tree: tree.put_sequence(prefix, value, deltas, owner, now_ms)
        )
        return path, self._claim_stat(path, stat)

    async def delete(self, path: str, *, expect: int) -> None:
        self._check_open()
        check_path(path)
        await self._file.write(lambda tree: tree.delete(path, expect))

    async def delete_recursive(self, path: str) -> None:
        self._check_open()
        check_path(path)
        await self._file.write(lambda tree: tree.delete_recursive(path))

    async def sync(self, path: str) -> None:
        """Nothing to do: a read sees every write that was acknowledged before it."""
        self._check_open()
        check_directory(path)

    def watch(self, prefix: str, listener: ChangeListener) -> Cancel:
        return self._note(self._file.watchers.add(prefix, listener))

    def watch_session(self, listener: SessionListener) -> Cancel:
        return self._note(self._file.watchers.add_session(listener))

    @property
    def is_connected(self) -> bool:
        return not self._is_closed and not self._file.is_closed

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for cancel in self._cancels:
            cancel()
        if not self._file.is_closed:
            await self._file.write(lambda tree: tree.end_session(self._number))

    def _note(self, cancel: Cancel) -> Cancel:
        """The same registration, which also ends with the session."""

        def end() -> None:
            self._cancels.pop(cancel, None)
            cancel()

        self._cancels[cancel] = None
        return end

    def _check_open(self) -> None:
        if self._is_closed or self._file.is_closed:
            raise StoreClosed("The metadata store is closed")

    def _claim(self, path: str, record: Record) -> Record:
        stat = record.stat
        return Record(record.value, self._claim_stat(path, stat)) if stat.ephemeral else record

    def _claim_stat(self, path: str, stat: Stat) -> Stat:
        if not stat.ephemeral:
            return stat
        return replace(stat, created_by_self=self._file.is_made_by(path, self._number))


class SqliteStore(SqliteSession):
    """The file with a session of its own; closing it ends all sessions."""

    def __init__(self, file: SqliteFile) -> None:
        self._numbers = count()
        super().__init__(file, next(self._numbers))

    @classmethod
    async def open(
        cls, file: Path, *, clock: Clock, workers: Workers = ThreadWorker
    ) -> SqliteStore:
        """Raise StoreUnavailable when the file cannot be used, DataDirectoryRefused when its format
        is unknown.
        """
        return cls(await SqliteFile.open(file, clock=clock, workers=workers))

    def open_session(self) -> SqliteSession:
        """One more session, which ends with this store at the latest."""
        return SqliteSession(self._file, next(self._numbers))

    @property
    def witness(self) -> Witness:
        """Of the last commit."""
        return self._file.witness

    def exchange(self, ledgers: Callable[[], str], on_committed: Callable[[Witness], None]) -> None:
        """From now on each commit keeps what `ledgers` says, and is reported to `on_committed`.

        The first is called by the writer's thread, the second on the event loop.
        """
        self._file.exchange(ledgers, on_committed)

    async def close(self) -> None:
        self._is_closed = True
        await self._file.close()
