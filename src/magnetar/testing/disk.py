"""A disk that fails on demand and remembers what a power cut would leave of it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from magnetar.ledger.backends.file.disk import AppendFile, SystemDisk


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of names that no directory sync has made durable, and how things stood before it."""

    directory: Path
    before: dict[Path, bytes | None]


@dataclass(frozen=True, slots=True)
class _Durable:
    """What of a file survives: the bytes that were written, and zeros laid behind them."""

    end: int
    size: int

    def cut(self, size: int) -> _Durable:
        return _Durable(min(self.end, size), min(self.size, size))


_NOTHING = _Durable(0, 0)


class FaultyDisk(SystemDisk):
    """Real files underneath. Faults are switched on and off at any time and hold for all files.

    After a power cut a file keeps what was synced and any part of what was not, and the newest
    changes of names that were not synced are undone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durable: dict[Path, _Durable] = {}
        self._changes: list[_Change] = []
        self._room_bytes: int | None = None
        self._write_error: int | None = None
        self._sync_error: int | None = None
        self._truncate_error: int | None = None
        self._gate = threading.Event()
        self._gate.set()
        self.syncs = 0

    def fill(self, room_bytes: int = 0) -> None:
        """From now on, this many bytes fit and no more."""
        self._room_bytes = room_bytes

    def fail_writes(self, error: int = errno.EIO) -> None:
        self._write_error = error

    def fail_syncs(self, error: int = errno.EIO) -> None:
        self._sync_error = error

    def fail_truncates(self, error: int = errno.EIO) -> None:
        self._truncate_error = error

    def hold_syncs(self) -> None:
        """Make every sync wait until `release_syncs`: the slowest disk there is."""
        self._gate.clear()

    def release_syncs(self) -> None:
        self._gate.set()

    def heal(self) -> None:
        self._room_bytes = self._write_error = self._sync_error = self._truncate_error = None

    def cut_power(self, root: Path, target: Path, random: Random) -> None:
        """Write into `target` what could be found under `root` if the power failed now."""
        with self._lock:
            files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
            durable = dict(self._durable)
            for change in reversed(self._changes[random.randint(0, len(self._changes)) :]):
                for path, content in change.before.items():
                    files.pop(path, None)
                    if content is not None:
                        files[path] = content
                        durable[path] = _Durable(len(content), len(content))
            directories = [path for path in root.rglob("*") if path.is_dir()]
        for directory in (root, *directories):
            (target / directory.relative_to(root)).mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            torn = _tear(content, durable.get(path, _NOTHING), random)
            (target / path.relative_to(root)).write_bytes(torn)

    def create(self, path: Path) -> AppendFile:
        with self._lock:
            self._check_room(path)
            self._change(path)
            self._durable[path] = _NOTHING
            return _FaultyFile(self, path, super().create(path))

    def truncate(self, path: Path, size: int) -> None:
        with self._lock:
            _raise(self._truncate_error, path)
            super().truncate(path, size)
            self._durable[path] = self._durable.get(path, _Durable(size, size)).cut(size)

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            self._change(source, target)
            super().rename(source, target)
            self._durable[target] = self._durable.pop(source, _NOTHING)

    def remove(self, path: Path) -> None:
        with self._lock:
            self._change(path)
            super().remove(path)

    def sync_directory(self, path: Path) -> None:
        self._gate.wait()
        with self._lock:
            _raise(self._sync_error, path)
            super().sync_directory(path)
            self._changes = [change for change in self._changes if change.directory != path]

    def _change(self, *paths: Path) -> None:
        before = {path: path.read_bytes() if path.exists() else None for path in paths}
        self._changes.append(_Change(paths[0].parent, before))

    def _check_room(self, path: Path) -> None:
        if self._room_bytes is not None and self._room_bytes <= 0:
            _raise(errno.ENOSPC, path)

    def write_to(self, path: Path, file: AppendFile, pieces: Sequence[bytes]) -> int:
        """How much was written."""
        with self._lock:
            _raise(self._write_error, path)
            data = b"".join(pieces)
            if self._room_bytes is None:
                file.write([data])
                return len(data)
            fitting, self._room_bytes = data[: self._room_bytes], self._room_bytes - len(data)
            file.write([fitting])
            if len(fitting) < len(data):
                self._room_bytes = 0
                _raise(errno.ENOSPC, path)
            return len(data)

    def lay_zeros_in(self, path: Path, file: AppendFile, size: int) -> None:
        with self._lock:
            _raise(self._write_error, path)
            if self._room_bytes is not None:
                _raise(errno.ENOSPC, path)
            file.lay_zeros(size)

    def sync_file(self, path: Path, end: int) -> None:
        self._gate.wait()
        with self._lock:
            self.syncs += 1
            _raise(self._sync_error, path)
            self._durable[path] = _Durable(end, path.stat().st_size)

    def truncate_file(self, path: Path, file: AppendFile, size: int) -> None:
        with self._lock:
            _raise(self._truncate_error, path)
            file.truncate(size)
            self._durable[path] = self._durable[path].cut(size)


class _FaultyFile:
    def __init__(self, disk: FaultyDisk, path: Path, file: AppendFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file
        self._end = 0

    def write(self, pieces: Sequence[bytes]) -> None:
        self._end += self._disk.write_to(self._path, self._file, pieces)

    def lay_zeros(self, size: int) -> None:
        self._disk.lay_zeros_in(self._path, self._file, size)

    def sync(self) -> None:
        self._disk.sync_file(self._path, self._end)

    def truncate(self, size: int) -> None:
        self._disk.truncate_file(self._path, self._file, size)

    def close(self) -> None:
        self._file.close()


def _raise(error: int | None, path: Path) -> None:
    if error is not None:
        raise OSError(error, os.strerror(error), str(path))


def _tear(content: bytes, durable: _Durable, random: Random) -> bytes:
    """Keep what is durable; end the writing behind it anywhere, and blank a stretch of it now and
    then. Zeros that are durable stay where nothing was written over them."""
    kept = random.randint(min(durable.end, len(content)), len(content))
    zeros = bytes(max(0, min(durable.size, len(content)) - kept))
    if kept - durable.end < 2 or random.random() < 0.5:
        return content[:kept] + zeros
    start = random.randint(durable.end, kept - 1)
    end = random.randint(start + 1, kept)
    return content[:start] + bytes(end - start) + content[end:kept] + zeros
