"""A standalone broker that can be told at which touch of the disk it dies.

Run as a script. Once the file named by `--doom` appears, it names an operation, a part of the path,
a number and a share: at the so manieth such operation the process kills itself, a write after that
share of its bytes, anything else before or after it was done.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from magnetar.app.standalone import serving
from magnetar.ledger.backends.file import AppendFile, FilePolicy, SystemDisk
from magnetar.runtime.log import configure_logs
from magnetar.testing.broker import MagnetarBroker, Setting

# Small enough that extents roll, ledgers settle and catalogues are written all the time.
SMALL_FILES = FilePolicy(
    extent_bytes_max=32 * 1024,
    extent_records_max=200,
    settle_after_s=0.02,
    retry_after_s=0.1,
    journal_records_max=600,
    journal_bytes_max=256 * 1024,
    journal_extents_max=6,
    garbage_bytes_min=64 * 1024,
)


@dataclass(frozen=True, slots=True)
class Doom:
    operation: str
    place: str
    number: int
    share: float

    def format(self) -> str:
        return f"{self.operation} {self.place} {self.number} {self.share}"


def parse_doom(text: str) -> Doom:
    operation, place, number, share = text.split()
    return Doom(operation, place, int(number), float(share))


class MortalBroker(MagnetarBroker):
    """A broker on a mortal disk; ports, data and settings as with any other."""

    def __init__(self, *, set: Mapping[str, Setting]) -> None:
        super().__init__(set=set)
        self.doom_file = self.log.with_name("doom")

    def command(self) -> list[str]:
        arguments = super().command()[4:]
        return [sys.executable, __file__, "--doom", str(self.doom_file), *arguments]

    def doom(self, doom: Doom) -> None:
        written = self.doom_file.with_suffix(".new")
        written.write_text(doom.format())
        written.rename(self.doom_file)

    def spare(self) -> None:
        self.doom_file.unlink(missing_ok=True)


class MortalDisk(SystemDisk):
    """The real disk, until the doomed operation comes; several threads touch it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._doom: Doom | None = None
        self._seen = 0
        self._lock = threading.Lock()

    def create(self, path: Path) -> AppendFile:
        with self._touching("create", path):
            return MortalFile(self, path, super().create(path))

    def truncate(self, path: Path, size: int) -> None:
        with self._touching("truncate", path):
            super().truncate(path, size)

    def rename(self, source: Path, target: Path) -> None:
        with self._touching("rename", target):
            super().rename(source, target)

    def remove(self, path: Path) -> None:
        with self._touching("remove", path):
            super().remove(path)

    def sync_directory(self, path: Path) -> None:
        with self._touching("sync_directory", path):
            super().sync_directory(path)

    def write_to(self, path: Path, file: AppendFile, pieces: Sequence[bytes]) -> None:
        doom = self._find_doom("write", path)
        if doom is not None:
            data = b"".join(pieces)
            file.write([data[: int(len(data) * doom.share)]])
            die()
        file.write(pieces)

    def sync_file(self, path: Path, file: AppendFile) -> None:
        with self._touching("sync", path):
            file.sync()

    @contextmanager
    def _touching(self, operation: str, path: Path) -> Iterator[None]:
        doom = self._find_doom(operation, path)
        if doom is not None and doom.share < 0.5:
            die()
        yield
        if doom is not None:
            die()

    def _find_doom(self, operation: str, path: Path) -> Doom | None:
        """The doom, when this very operation is the one it names."""
        with self._lock:
            if self._doom is None:
                if not self._file.exists():
                    return None
                self._doom = parse_doom(self._file.read_text())
            if operation != self._doom.operation or self._doom.place not in str(path):
                return None
            self._seen += 1
            return self._doom if self._seen == self._doom.number else None


class MortalFile:
    def __init__(self, disk: MortalDisk, path: Path, file: AppendFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def write(self, pieces: Sequence[bytes]) -> None:
        self._disk.write_to(self._path, self._file, pieces)

    def lay_zeros(self, size: int) -> None:
        self._file.lay_zeros(size)

    def sync(self) -> None:
        self._disk.sync_file(self._path, self._file)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # the other threads may run for a moment; this one never goes on


async def serve(options: argparse.Namespace) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with serving(
        data=options.data,
        port=options.port,
        web_port=options.web_port,
        overrides=options.set,
        disk=MortalDisk(options.doom),
        files=SMALL_FILES,
    ):
        await told.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--doom", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--web-port", type=int, required=True)
    parser.add_argument("--set", action="append", default=[])
    configure_logs(level="info", as_json=False)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
