"""The data directory of one process: who holds it, and in which format it is."""

from __future__ import annotations

import fcntl
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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
_STAMP: Final = re.compile(r"magnetar ([0-9]+)\n(?:stores ([0-9]+) from ([0-9]+)\n)?")
_FIRST_AFTER_ONE: Final = 1 << 40
"""Ids of ledgers from a time with one store are below: it counts them from 1."""
_STORE_WAIT_S: Final = 30.0
_STORE_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Over how many stores of ledgers a directory is spread. An id from `first` on tells its store;
    ledgers below are in store 0.
    """

    count: int = 1
    first: int = 0


@dataclass(frozen=True, slots=True)
class DataDirectory:
    path: Path

    @property
    def metadata_file(self) -> Path:
        return self.path / "metadata.db"

    @property
    def ledger_folder(self) -> Path:
        """Of store 0, the only one unless several workers have written."""
        return self.folder_of(0)

    def folder_of(self, store: int) -> Path:
        return self.path / (f"ledgers-{store}" if store else "ledgers")

    @property
    def spread(self) -> StoreLayout:
        return read_spread(self.path)

    @property
    def ledger_folders(self) -> tuple[Path, ...]:
        """Of all stores that were ever written to, that of store 0 first."""
        others = map(self.folder_of, range(1, self.spread.count))
        return self.ledger_folder, *(each for each in others if each.is_dir())


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
            raise DataDirectoryRefused(
                f"{path} is in use by {_read_holder(path / _LOCK)}"
            ) from None
        os.ftruncate(lock, 0)
        with suppress(OSError):  # on a full disk others do not learn who is inside
            os.pwrite(lock, f"pid {os.getpid()} since {clock.now_ms()}\n".encode(), 0)
        _ensure_format(path)
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
            holder = _read_holder(path / _LOCK)
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
            raise DataDirectoryRefused(
                f"{path} is in use by {_read_holder(path / _LOCK)}"
            ) from None
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


def read_spread(path: Path) -> StoreLayout:
    """What the format file says of stores; one, unless it says otherwise."""
    try:
        text = (path / _FORMAT).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return StoreLayout()
    found = _STAMP.fullmatch(text)
    if found is None or found.group(2) is None:
        return StoreLayout()
    return StoreLayout(int(found.group(2)), int(found.group(3)))


def widen_spread(directory: DataDirectory, workers: int) -> StoreLayout:
    """See that there is a store for each worker. What is there stays where it is, and a version
    that knows one store only stays out from then on.
    """
    present = directory.spread
    if workers <= present.count:
        return present
    is_empty = not directory.metadata_file.exists() and not directory.ledger_folder.exists()
    first = 0 if is_empty else _FIRST_AFTER_ONE
    spread = StoreLayout(workers, present.first if present.count > 1 else first)
    stamp = f"magnetar {FORMAT_VERSION}\nstores {spread.count} from {spread.first}\n"
    _store_durably(directory.path / _FORMAT, stamp)
    return spread


@contextmanager
def holding_stores(directory: DataDirectory, stores: Iterable[int], clock: Clock) -> Iterator[None]:
    """Keep other processes out of these stores until the end.

    A process that was inside a moment ago may be ending: it is waited for. Raise
    DataDirectoryRefused when it does not end.
    """
    with ExitStack() as stack:
        for store in stores:
            path = _store_lock(directory.path, store)
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, lock)
            deadline = clock.monotonic() + _STORE_WAIT_S
            while not _try_lock(lock):
                if clock.monotonic() > deadline:
                    raise DataDirectoryRefused(
                        f"{directory.folder_of(store)} is in use by {_read_holder(path)}"
                    )
                time.sleep(_STORE_LOOK_S)
            os.ftruncate(lock, 0)
            with suppress(OSError):
                os.pwrite(lock, f"pid {os.getpid()} since {clock.now_ms()}\n".encode(), 0)
        yield


def _store_lock(path: Path, store: int) -> Path:
    return path / f"{_LOCK}-{store}"


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_holder(lock: Path) -> str:
    """The process that wrote its name into the lock, in words."""
    found = _HOLDER.fullmatch(lock.read_text(encoding="utf-8", errors="replace"))
    if found is None:
        return "another process"
    since = datetime.fromtimestamp(int(found.group(2)) / 1000, UTC)
    return f"process {found.group(1)}, started {since:%Y-%m-%d %H:%M:%S} UTC"


def _ensure_format(path: Path) -> None:
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
