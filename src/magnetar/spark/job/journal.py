"""What was sampled and is not yet in the tables: one file for each look, named by its time.

A broker can be asked what it carries now, not what it carried then. So a look is written down
before Spark hears of it; a batch that is run again reads the same files. The newest file also tells
which layout changes are known, and is therefore the last to go.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from magnetar.client.error import ConfigurationError

_SUFFIX: Final = ".arrow"
_KNOWN: Final = b"known"
_PAUSED: Final = "paused"


class Journal:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)

    def lock(self) -> int:
        """Held while the returned file is open: two who sample would have two of each sample."""
        lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ConfigurationError(
                f"Another load-history already samples into {self.path.parent}"
            ) from None
        (self.path / _PAUSED).unlink(missing_ok=True)  # of one that was killed
        return lock

    @property
    def slots(self) -> list[int]:
        """Times of the looks, oldest first, in milliseconds since 1970."""
        return sorted(int(each.stem) for each in self.path.glob(f"*{_SUFFIX}"))

    @property
    def newest(self) -> int | None:
        return max(self.slots, default=None)

    @property
    def committed(self) -> int:
        """Up to which look everything is in the tables."""
        path = self.path / "committed"
        return int(path.read_text()) if path.exists() else 0

    @property
    def is_paused(self) -> bool:
        return (self.path / _PAUSED).exists()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing new is sampled or handed to Spark meanwhile."""
        mark = self.path / _PAUSED
        mark.touch()
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)

    def append(self, slot: int, rows: pa.Table, known: Mapping[str, int]) -> None:
        """`known` is the last layout change that was told of each topic."""
        table = rows.replace_schema_metadata({_KNOWN: json.dumps(known).encode()})
        with pa.BufferOutputStream() as sink:
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            self._store(f"{slot}{_SUFFIX}", sink.getvalue().to_pybytes())

    def read(self, slot: int) -> pa.Table:
        with pa.memory_map(str(self.path / f"{slot}{_SUFFIX}")) as source:
            return pa.ipc.open_file(source).read_all()

    def known(self) -> dict[str, int]:
        newest = self.newest
        if newest is None:
            return {}
        found: dict[str, int] = json.loads(self.read(newest).schema.metadata[_KNOWN])
        return found

    def forget(self, slot: int) -> None:
        """All up to a look is in the tables."""
        self._store("committed", str(slot).encode())
        for each in self.slots[:-1]:
            if each <= slot:
                (self.path / f"{each}{_SUFFIX}").unlink(missing_ok=True)

    def _store(self, name: str, content: bytes) -> None:
        """Whole or not at all, whatever happens."""
        passing = self.path / f".{name}.new"
        with passing.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        passing.replace(self.path / name)
