"""A disk in memory that outlives processes, fails, and loses what was not synced.

After a power cut a file keeps what was synced and any part of what was not, and the newest changes
of names that no sync of their directory made durable are undone.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from magnetar.ledger.backends.file.disk import AppendFile


class PowerLost(BaseException):
    """The machine ends in the middle of a disk operation."""


@dataclass(slots=True)
class _File:
    data: bytearray = field(default_factory=bytearray)
    end: int = 0
    """Of what was written; zeros may be laid behind it."""
    durable_end: int = 0
    durable_size: int = 0

    def write(self, data: bytes) -> None:
        self.data[self.end : self.end + len(data)] = data
        self.end += len(data)

    def note_durable(self) -> None:
        self.durable_end, self.durable_size = self.end, len(self.data)

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.end = min(self.end, size)
        self.durable_end = min(self.durable_end, size)
        self.durable_size = min(self.durable_size, size)

    def lose_power(self, random: Random) -> None:
        """Keep what is durable and some of what was written behind it; zeros that are durable stay
        where nothing was written over them.
        """
        kept = random.randint(self.durable_end, len(self.data))
        size = max(kept, self.durable_size)
        self.data[kept:] = bytes(size - kept)
        torn = kept - self.durable_end
        if torn > 1 and random.random() < 0.3:
            start = self.durable_end + random.randrange(torn)
            self.data[start:kept] = bytes(kept - start)
        self.end = size
        self.note_durable()


@dataclass(frozen=True, slots=True)
class _Renaming:
    """A change of names that is not durable, and how things stood before it."""

    directory: Path
    before: dict[Path, _File | None]


class SimulatedDisk:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._files: dict[Path, _File] = {}
        self._renamings: list[_Renaming] = []
        self._operations_left: int | None = None
        self.error: int | None = None
        """What writes and syncs fail with."""
        self.is_slow = False

    def cut_power(self) -> None:
        """What is found afterwards; open handles of the process before must not be used."""
        undone = self._random.randint(0, len(self._renamings))
        for change in reversed(self._renamings[undone:]):
            for path, file in change.before.items():
                self._files.pop(path, None)
                if file is not None:
                    self._files[path] = file
        self._renamings.clear()
        for file in self._files.values():
            file.lose_power(self._random)
        self._operations_left = None
        self.error = None

    def stop_after(self, operations: int) -> None:
        """The power goes with the operation after so many more."""
        self._operations_left = operations

    # ------------------------------------------------------------------ the contract

    def make_directory(self, path: Path) -> None:
        pass

    def sizes(self, directory: Path) -> dict[str, int]:
        return {
            path.name: len(file.data)
            for path, file in self._files.items()
            if path.parent == directory
        }

    def create(self, path: Path) -> AppendFile:
        self._step(path)
        self._note(path)
        self._files[path] = _File()
        return _SimulatedFile(self, path, self._files[path])

    def read(self, path: Path, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        file = self._files.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return [bytes(file.data[offset : offset + length]) for offset, length in spans]

    def load(self, path: Path, into: bytearray) -> None:
        into[:] = self.read(path, [(0, sys.maxsize)])[0]

    def truncate(self, path: Path, size: int) -> None:
        self._step(path)
        self._files[path].truncate(size)

    def rename(self, source: Path, target: Path) -> None:
        self._step(source)
        self._note(source, target)
        self._files[target] = self._files.pop(source)

    def remove(self, path: Path) -> None:
        self._step(path)
        if path in self._files:
            self._note(path)
            del self._files[path]

    def sync_directory(self, path: Path) -> None:
        self._step(path)
        self._renamings = [each for each in self._renamings if each.directory != path]

    def _note(self, *paths: Path) -> None:
        before = {path: self._files.get(path) for path in paths}
        self._renamings.append(_Renaming(paths[0].parent, before))

    def _step(self, path: Path) -> None:
        if self._operations_left is not None:
            if self._operations_left <= 0:
                raise PowerLost
            self._operations_left -= 1
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error), str(path))

    def write_to(self, path: Path, file: _File, pieces: Sequence[bytes]) -> None:
        try:
            self._step(path)
        except OSError:
            data = b"".join(pieces)
            file.write(data[: self._random.randint(0, len(data))])
            raise
        for piece in pieces:
            file.write(piece)

    def lay_zeros_in(self, path: Path, file: _File, size: int) -> None:
        self._step(path)
        file.data[file.end :] = bytes(size)

    def sync_file(self, path: Path, file: _File) -> None:
        self._step(path)
        file.note_durable()

    def truncate_file(self, path: Path, file: _File, size: int) -> None:
        self._step(path)
        file.truncate(size)


class _SimulatedFile:
    def __init__(self, disk: SimulatedDisk, path: Path, file: _File) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def write(self, pieces: Sequence[bytes]) -> None:
        self._disk.write_to(self._path, self._file, pieces)

    def lay_zeros(self, size: int) -> None:
        self._disk.lay_zeros_in(self._path, self._file, size)

    def sync(self) -> None:
        self._disk.sync_file(self._path, self._file)

    def truncate(self, size: int) -> None:
        self._disk.truncate_file(self._path, self._file, size)

    def close(self) -> None:
        pass
