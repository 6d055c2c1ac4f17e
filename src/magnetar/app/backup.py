"""A copy of a data directory while a broker writes to it, and the way back.

The copy is what a crash would have left: a broker that starts on it recovers as after one. All that
was acknowledged before the backup began is in it, since it was in the files by then. Metadata and
journal witness each other's last commit, and refuse a partner from another time: so the metadata is
read as of one moment, and the journal up to a place just behind it that knows of no later commit.
Where the broker is faster, it is tried again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from magnetar.app.directory import (
    FORMAT_VERSION,
    DataDirectory,
    inspecting,
    load_identity,
    read_format,
)
from magnetar.app.doctor import Report, check_bytes, examine_directory, ignore, measure
from magnetar.cli.progress import Progress, show_bytes
from magnetar.errors import DataDirectoryRefused
from magnetar.ledger.backends.file.catalogue import CATALOGUE_NAME, COPY_NAME
from magnetar.ledger.backends.file.part import SEALED_DIRECTORY, TEMPORARY_SUFFIX
from magnetar.ledger.backends.file.settlement import JOURNAL_DIRECTORY

_TRIES: Final = 20
_PARTIAL: Final = ".partial"
_CHUNK: Final = 1 << 20


class Copied(NamedTuple):
    files: int
    size: int


def run_backup(data: Path, target: Path) -> int:
    with _show_copy(data) as progress:
        done = _attempt(lambda: back_up(data, target, progress.add))
    return _tell(done, f"{data} is backed up in {target}, checked")


def run_restore(backup: Path, data: Path) -> int:
    with _show_copy(backup) as progress:
        done = _attempt(lambda: restore(backup, data, progress.add))
    return _tell(done, f"{data} is as {backup}, checked")


def _show_copy(source: Path) -> Progress:
    """What is copied is read again to be checked."""
    return show_bytes("copied and checked", measure(source) + check_bytes(source))


def _attempt(work: Callable[[], Copied]) -> Copied | str:
    try:
        return work()
    except (DataDirectoryRefused, OSError) as refusal:
        return refusal.sentence if isinstance(refusal, DataDirectoryRefused) else str(refusal)


def _tell(done: Copied | str, what: str) -> int:
    if isinstance(done, str):
        print(f"magnetar: {done}", file=sys.stderr)
        return 1
    print(f"{what}: {done.files:,} files, {done.size:,} bytes")
    return 0


def back_up(data: Path, target: Path, report: Report = ignore) -> Copied:
    """Copy a directory, in use or not, to a place that does not exist yet or is empty.

    Raise DataDirectoryRefused where that is not possible; then nothing is at the target.
    """
    with inspecting(data), _making(data, target) as partial:
        directory = DataDirectory(data)
        if load_identity(directory) is not None:
            raise DataDirectoryRefused(
                f"the metadata of {data} is on a store that brokers share; back up that store too,"
                " with the brokers stopped"
            )
        copy = DataDirectory(partial)
        faults = ["the broker changed its files all the time"]
        for _ in range(_TRIES):
            if _copy_moment(directory, copy, report):
                faults = examine_directory(partial, report).faults
                if not faults:
                    return _finish(partial)
        raise DataDirectoryRefused(f"{data} could not be copied: {faults[0]}")


def restore(backup: Path, data: Path, report: Report = ignore) -> Copied:
    """Copy a backup to a place that does not exist yet or is empty, and check it there."""
    with inspecting(backup) as holder, _making(backup, data) as partial:
        if holder is not None:
            raise DataDirectoryRefused(f"{backup} is in use by {holder}")

        def copy(source: str, target: str) -> str:
            report(os.stat(source).st_size)
            return shutil.copy2(source, target)

        without = shutil.ignore_patterns("LOCK*")
        shutil.copytree(backup, partial, dirs_exist_ok=True, ignore=without, copy_function=copy)
        if faults := examine_directory(partial, report).faults:
            raise DataDirectoryRefused(f"{backup} cannot be used: {faults[0]}")
        return _finish(partial)


@contextmanager
def _making(source: Path, target: Path) -> Iterator[Path]:
    """A directory that takes the target's name when all went well, and goes when not."""
    if read_format(source) != FORMAT_VERSION:
        raise DataDirectoryRefused(f"{source} is no data directory in format {FORMAT_VERSION}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataDirectoryRefused(f"{target} is there already and is not an empty directory")
    partial = target.with_name(f"{target.name}{_PARTIAL}")
    if partial.exists():
        raise DataDirectoryRefused(f"{partial} is left of an earlier attempt; remove it first")
    partial.mkdir(mode=0o700, parents=True)
    try:
        shutil.copyfile(source / "FORMAT", partial / "FORMAT")
        yield partial
        if target.exists():
            target.rmdir()
        partial.rename(target)
        _sync(target.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _copy_moment(source: DataDirectory, copy: DataDirectory, report: Report) -> bool:
    """Whether the copy is of one moment, as far as its files tell."""
    _copy_stores(source, copy, report)  # most of it, before the moment
    if not source.metadata_file.exists():
        return True
    uri = f"{source.metadata_file.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT commits FROM witness").fetchone()  # from here on the moment
        is_whole = _copy_stores(source, copy, report)
        if is_whole:
            copy.metadata_file.unlink(missing_ok=True)
            with closing(sqlite3.connect(copy.metadata_file)) as made:
                connection.backup(made)
    return is_whole


def _copy_stores(source: DataDirectory, copy: DataDirectory, report: Report) -> bool:
    """All of them, whether or not one has changed meanwhile."""
    is_whole = True
    for folder in source.ledger_folders:
        is_whole &= _copy_ledgers(folder, copy.path / folder.name, report)
    return is_whole


def _copy_ledgers(source: Path, copy: Path, report: Report) -> bool:
    """Add what the copy lacks; whether the catalogue and the names of files stayed meanwhile."""
    before = _outline(source)
    finished = _finished_extents(copy)
    for folder in ("", JOURNAL_DIRECTORY, SEALED_DIRECTORY):
        (copy / folder).mkdir(parents=True, exist_ok=True)
    for name in sorted(before):
        if name in finished:
            continue
        try:
            if name.startswith(JOURNAL_DIRECTORY):
                _copy_extent(source / name, copy / name, report)
            else:
                _copy_file(source / name, copy / name, report)
        except FileNotFoundError:
            return False
    for path in [*copy.rglob("*")]:
        if path.is_file() and str(path.relative_to(copy)) not in before:
            path.unlink()
    return _outline(source) == before


def _outline(root: Path) -> dict[str, int]:
    """The names of the files, with what tells a new catalogue from the one before."""
    names = [CATALOGUE_NAME, COPY_NAME]
    for folder in (JOURNAL_DIRECTORY, SEALED_DIRECTORY):
        if (root / folder).is_dir():
            names += (f"{folder}/{each}" for each in os.listdir(root / folder))
    found = {}
    for name in names:
        if not name.endswith(TEMPORARY_SUFFIX):
            try:
                found[name] = os.stat(root / name).st_ino
            except FileNotFoundError:
                continue
    return found


def _finished_extents(copy: Path) -> set[str]:
    """Those that were closed before they were copied: when the next one is there, one has been."""
    journal = copy / JOURNAL_DIRECTORY
    names = sorted(os.listdir(journal)) if journal.is_dir() else []
    return {f"{JOURNAL_DIRECTORY}/{name}" for name in names[:-1]}


def _copy_extent(source: Path, copy: Path, report: Report) -> None:
    """An extent is written from its beginning to its end, over zeros. A reader may be overtaken and
    find a group where it found no group before it: so what was found written is read again.
    """
    with source.open("rb", buffering=0) as reader, copy.open("wb") as writer:
        found = reader.readall()
        end, size = len(found.rstrip(b"\0")), len(found)
        reader.seek(0)
        writer.write(reader.read(end))
        writer.truncate(size)
    report(size)


def _copy_file(source: Path, copy: Path, report: Report) -> None:
    """Parts never change, and catalogues are replaced."""
    is_part = source.parent.name == SEALED_DIRECTORY
    with source.open("rb") as reader:
        size = os.fstat(reader.fileno()).st_size
        if is_part and size and copy.exists() and copy.stat().st_size == size:
            return
        with copy.open("wb") as writer:
            while chunk := reader.read(_CHUNK):
                writer.write(chunk)
                report(len(chunk))


def _finish(root: Path) -> Copied:
    """Make all of it durable, and count it."""
    files = [path for path in root.rglob("*") if path.is_file()]
    for path in (*files, *(path for path in root.rglob("*") if path.is_dir()), root):
        _sync(path)
    return Copied(len(files), sum(path.stat().st_size for path in files))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
