"""The data directory that a promotion reads: nothing in it is changed, not even by SQLite."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from magnetar.app.directory import DataDirectory, load_identity, reading
from magnetar.app.storage import find_older_metadata
from magnetar.errors import DataDirectoryRefused
from magnetar.ledger.backends.file.check import check_ledgers
from magnetar.ledger.backends.file.disk import SystemDisk
from magnetar.ledger.backends.file.ledger import FileLedger
from magnetar.ledger.backends.file.reader import RunReader
from magnetar.ledger.backends.file.recovery import examine
from magnetar.ledger.backends.file.witness import parse_witness
from magnetar.ledger.store import LedgerInfo
from magnetar.metadata.backends.sqlite_format import Witness, check_pages, check_rows, load_witness
from magnetar.metadata.backends.sqlite_tree import read_children, read_record
from magnetar.metadata.store import Record
from magnetar.runtime.worker import ThreadWorker, run_in_thread

_READ_ENTRIES: Final = 1_000
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """What a data directory holds. `identity` is that of its metadata and of no other."""

    identity: str
    records: dict[str, Record]
    next_ledger: int
    """Higher than the number of any ledger that there ever was."""
    _files: dict[int, FileLedger]
    _readers: dict[int, RunReader]
    """For each ledger that of its store."""

    @property
    def ledgers(self) -> dict[int, LedgerInfo]:
        """What is known of each ledger."""
        return {number: file.info for number, file in self._files.items()}

    async def read(self, ledger: int, first: int) -> list[bytes]:
        """Entries from `first` on; nothing behind the last one."""
        found = self._files[ledger]
        if first > found.last:
            return []
        found.check(first)
        entries_max = min(_READ_ENTRIES, found.readable_end(first) - first)
        return await self._readers[ledger].read(
            found, first, entries_max=entries_max, bytes_max=_READ_BYTES
        )


@asynccontextmanager
async def open_source(path: Path) -> AsyncIterator[Source]:
    """Keep brokers out of a directory while it is read.

    Raise DataDirectoryRefused when one is inside, and when the directory is not whole.
    """
    with reading(path) as directory:
        if load_identity(directory) is not None:
            raise DataDirectoryRefused(
                f"the metadata of {path} is on a ZooKeeper already: its broker is part of a cluster"
            )
        if not directory.metadata_file.exists():
            raise DataDirectoryRefused(f"nothing was ever stored in {path}")
        readers = [
            RunReader(
                folder,
                SystemDisk(),
                cached_bytes_max=8 * _READ_BYTES,
                workers=ThreadWorker,
            )
            for folder in directory.ledger_folders
        ]
        try:
            yield await run_in_thread(_load, directory, readers)
        finally:
            for reader in readers:
                await run_in_thread(reader.close)


def _load(directory: DataDirectory, readers: Sequence[RunReader]) -> Source:
    with TemporaryDirectory() as copy:
        # Even a connection that only reads would make files beside the database.
        for name in ("", "-wal"):
            file = directory.metadata_file.with_name(directory.metadata_file.name + name)
            if file.exists():
                shutil.copy2(file, copy)
        database = Path(copy) / directory.metadata_file.name
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            witness, records = _load_metadata(connection, directory)
    files: dict[int, FileLedger] = {}
    by_ledger: dict[int, RunReader] = {}
    next_ledger = 0
    for number, (folder, reader) in enumerate(zip(directory.ledger_folders, readers, strict=True)):
        # What the metadata has seen of ledgers is of the time with one store.
        seen = None if number else parse_witness(witness.ledgers)
        faults = [str(each) for each in check_ledgers(folder, seen) if not each.is_harmless]
        if faults:
            raise _not_whole(directory, faults[0])
        examined = examine(folder, SystemDisk(), seen=seen)
        older = find_older_metadata(directory.metadata_file, witness, examined.witness)
        if older is not None:
            raise _not_whole(directory, older)
        files |= examined.ledgers
        by_ledger |= dict.fromkeys(examined.ledgers, reader)
        next_ledger = max(next_ledger, examined.next_ledger)
    return Source(witness.identity, records, next_ledger, files, by_ledger)


def _load_metadata(
    connection: sqlite3.Connection, directory: DataDirectory
) -> tuple[Witness, dict[str, Record]]:
    try:
        faults = check_pages(connection)
        witness = None if faults else load_witness(connection)
        if not faults:
            faults = check_rows(connection, witness)
        if faults or witness is None:
            raise _not_whole(directory, next(iter(faults), "the metadata has no witness"))
        return witness, dict(_walk(connection, ""))
    except sqlite3.DatabaseError as error:
        raise _not_whole(directory, f"{directory.metadata_file}: {error}") from None


def _not_whole(directory: DataDirectory, fault: str) -> DataDirectoryRefused:
    path = directory.path
    return DataDirectoryRefused(f"{path} is not whole: {fault}; see magnetar doctor {path}")


def _walk(connection: sqlite3.Connection, path: str) -> Iterator[tuple[str, Record]]:
    for name in read_children(connection, path or "/"):
        child = f"{path}/{name}"
        record = read_record(connection, child)
        if record is not None and not record.stat.ephemeral:
            yield child, record
        yield from _walk(connection, child)
