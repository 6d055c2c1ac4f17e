"""The data directory of one process: who holds it, and in which format it is."""

from __future__ import annotations

import fcntl
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from magnetar.errors import DataDirectoryRefused
from magnetar.runtime.clock import Clock

FORMAT_VERSION: Final = 2
UPGRADED: Final = frozenset({1})
"""Formats that are brought to the present one: the stamp first, so that an older version stays out
from then on, then each store by itself when it is opened."""
_LOCK: Final = "LOCK"
_FORMAT: Final = "FORMAT"
_IDENTITY: Final = "IDENTITY"
_HOLDER: Final = re.compile(r"pid ([0-9]+) since ([0-9]+)\n")
_STAMP: Final = re.compile(r"magnetar ([0-9]+)\n")


@dataclass(frozen=True, slots=True)
class DataDirectory:
    path: Path

    @property
    def metadata_file(self) -> Path:
        return self.path / "metadata.db"

    @property
    def ledger_folder(self) -> Path:
        return self.path / "ledgers"


def load_identity(directory: DataDirectory) -> str | None:
    """The name under which shared metadata knows the directory; None for one of its own."""
    try:
        return (directory.path / _IDENTITY).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None


def store_identity(directory: DataDirectory) -> str:
    """Give the directory a name that no other has."""
    identity = str(uuid.uuid4())
    _store_durably(directory.path / _IDENTITY, f"{identity}\n")
    return identity


@contextmanager
def holding(path: Path, clock: Clock) -> Iterator[DataDirectory]:
    """Make the directory when it is missing, and keep every other process out until the end.

    Raise DataDirectoryRefused when another process is inside, when the format is of another
    version, and when the directory holds something else. The lock goes with the process, however
    it ends; the file stays.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_uid == os.geteuid():
            path.chmod(0o700)
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DataDirectoryRefused(f"{path} cannot be used: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataDirectoryRefused(f"{path} is in use by {_read_holder(path)}") from None
        os.ftruncate(lock, 0)
        with suppress(OSError):  # on a full disk others do not hear who is inside
            os.pwrite(lock, f"pid {os.getpid()} since {clock.now_ms()}\n".encode(), 0)
        _settle_format(path)
        yield DataDirectory(path)
        os.ftruncate(lock, 0)
    finally:
        os.close(lock)


@contextmanager
def inspecting(path: Path) -> Iterator[str | None]:
    """Keep processes that would change the directory out, and change nothing; tell which process
    is inside already.

    Raise DataDirectoryRefused when there is no such directory.
    """
    if not path.is_dir():
        raise DataDirectoryRefused(f"{path} is not a directory")
    try:
        lock = os.open(path / _LOCK, os.O_RDONLY)
    except FileNotFoundError:
        yield None
        return
    try:
        holder = None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_holder(path)
        yield holder
    finally:
        os.close(lock)


@contextmanager
def reading(path: Path) -> Iterator[DataDirectory]:
    """Keep every other process out of a directory that a broker has written, and change nothing."""
    if read_format(path) != FORMAT_VERSION:
        raise DataDirectoryRefused(
            f"{path} is no data directory in format {FORMAT_VERSION}: start and stop a broker of"
            " this version on it first"
        )
    lock = os.open(path / _LOCK, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataDirectoryRefused(f"{path} is in use by {_read_holder(path)}") from None
        yield DataDirectory(path)
    finally:
        os.close(lock)


@contextmanager
def repairing(path: Path, clock: Clock) -> Iterator[DataDirectory]:
    """As `holding`, of a directory that a broker has written before."""
    if not (path / _FORMAT).exists():
        raise DataDirectoryRefused(f"{path} is no data directory of Magnetar")
    with holding(path, clock) as directory:
        yield directory


def read_format(path: Path) -> int | None:
    """The version in the format file; None when there is no file or no version in it."""
    try:
        text = (path / _FORMAT).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    found = _STAMP.fullmatch(text)
    return int(found.group(1)) if found else None


def _read_holder(path: Path) -> str:
    """The process that wrote its name into the lock, in words."""
    found = _HOLDER.fullmatch((path / _LOCK).read_text(encoding="utf-8", errors="replace"))
    if found is None:
        return "another process"
    since = datetime.fromtimestamp(int(found.group(2)) / 1000, UTC)
    return f"process {found.group(1)}, started {since:%Y-%m-%d %H:%M:%S} UTC"


def _settle_format(path: Path) -> None:
    """Stamp an empty directory; refuse one that this version cannot read."""
    if not (path / _FORMAT).exists():
        strangers = sorted(
            entry.name for entry in path.iterdir() if entry.name not in (_LOCK, f"{_FORMAT}.new")
        )
        if strangers:
            raise DataDirectoryRefused(
                f"{path} is no data directory of Magnetar and is not empty: it holds {strangers[0]}"
                f" and no {path / _FORMAT}"
            )
        _store_durably(path / _FORMAT, f"magnetar {FORMAT_VERSION}\n")
        return
    version = read_format(path)
    if version is None:
        raise DataDirectoryRefused(f"{path / _FORMAT} does not name a version")
    if version in UPGRADED:
        _store_durably(path / _FORMAT, f"magnetar {FORMAT_VERSION}\n")
    elif version != FORMAT_VERSION:
        raise DataDirectoryRefused(
            f"{path} is in format {version}; this version reads and writes format {FORMAT_VERSION}"
            f" ({path / _FORMAT})"
        )


def _store_durably(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
