"""Settled ledgers read from the broker's own files, when they lie on this machine.

The broker says where its ledgers are and how the directory is numbered. A directory of another
machine, or another container, that has the same path has other numbers and is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from magnetar.errors import LedgerCorrupt, LedgerNotFound
from magnetar.ledger.backends.file.part import read_sealed
from magnetar.spark.stretch import Span


@dataclass(frozen=True, slots=True)
class LedgerFiles:
    """Where a broker keeps ledgers."""

    directory: str
    device: int
    inode: int

    @property
    def is_here(self) -> bool:
        try:
            status = Path(self.directory).stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def parse_files(document: Mapping[str, Any]) -> LedgerFiles:
    return LedgerFiles(str(document["directory"]), int(document["device"]), int(document["inode"]))


def open_span(files: LedgerFiles, span: Span) -> Iterator[bytes] | None:
    """The entries of a span, checksums verified; None when the files do not have all of it."""
    try:
        entries = read_sealed(Path(files.directory), span.ledger, span.first)
    except (LedgerNotFound, LedgerCorrupt, OSError):
        return None
    return islice(entries, span.count)
