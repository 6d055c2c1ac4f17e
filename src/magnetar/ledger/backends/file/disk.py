"""What the file store asks of a disk, and the real one.

Every call may raise OSError. Nothing is retried here: what a failure means is known one floor up.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

_PIECES_MAX: Final = 1024
"""How many buffers one vectored write may carry."""


class AppendFile(Protocol):
    """A file that is written from its beginning to its end; one thread uses it."""

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append all of it, or raise after an unknown part of it was written."""

    def lay_zeros(self, size: int) -> None:
        """Put so many zeros behind what was written, for the next writes to go over: a sync after
        which the file is no longer than before has less to do.
        """

    def sync(self) -> None:
        """Return when everything written so far survives a power failure."""

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    def make_directory(self, path: Path) -> None: ...

    def sizes(self, directory: Path) -> dict[str, int]:
        """Names and sizes of the files in a directory; empty when it is missing."""

    def create(self, path: Path) -> AppendFile:
        """Open an empty file for appending; what was there under this name is gone."""

    def read(self, path: Path, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read (offset, length) spans; shorter where the file ends."""

    def load(self, path: Path, into: bytearray) -> None:
        """Put a whole file in place of what was there. Who reads many files takes one buffer for
        all: memory that a process touches first costs more than what is done with the bytes.
        """

    def truncate(self, path: Path, size: int) -> None: ...

    def rename(self, source: Path, target: Path) -> None: ...

    def remove(self, path: Path) -> None:
        """Removing a missing file is not an error."""

    def sync_directory(self, path: Path) -> None:
        """Make names created, renamed or removed in it durable."""


class SystemAppendFile:
    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self._end = 0

    def write(self, pieces: Sequence[bytes]) -> None:
        for start in range(0, len(pieces), _PIECES_MAX):
            chunk = pieces[start : start + _PIECES_MAX]
            written = os.writev(self._descriptor, chunk)
            self._end += written
            if written == sum(map(len, chunk)):
                continue
            rest = memoryview(b"".join(chunk))[written:]
            while rest:
                written = os.write(self._descriptor, rest)
                self._end += written
                rest = rest[written:]

    def lay_zeros(self, size: int) -> None:
        os.pwrite(self._descriptor, bytes(size), self._end)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        os.close(self._descriptor)


class SystemDisk:
    """The operating system's files."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def sizes(self, directory: Path) -> dict[str, int]:
        try:
            with os.scandir(directory) as found:
                return {item.name: item.stat().st_size for item in found if item.is_file()}
        except FileNotFoundError:
            return {}

    def create(self, path: Path) -> AppendFile:
        return SystemAppendFile(path)

    def read(self, path: Path, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return [_read_span(descriptor, offset, length) for offset, length in spans]
        finally:
            os.close(descriptor)

    def load(self, path: Path, into: bytearray) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            into.extend(bytes(max(0, size - len(into))))
            del into[size:]
            got = 0
            with memoryview(into) as whole:
                while got < size and (step := os.preadv(descriptor, [whole[got:]], got)):
                    got += step
            del into[got:]
        finally:
            os.close(descriptor)

    def truncate(self, path: Path, size: int) -> None:
        os.truncate(path, size)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read_span(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    if len(data) == length or not data:
        return data
    pieces = [data]
    got = len(data)
    while got < length:
        data = os.pread(descriptor, length - got, offset + got)
        if not data:
            break
        pieces.append(data)
        got += len(data)
    return b"".join(pieces)
