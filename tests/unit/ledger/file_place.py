"""What the tests of the file store share: short ways to append and to read everything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from magnetar.errors import BrokerError
from magnetar.ledger.backends.file import FilePolicy
from magnetar.ledger.store import LedgerStore, LedgerWriter
from magnetar.model.position import EntryId, LedgerId, Term

ONE: Final = Term(1)
BY_HAND: Final = FilePolicy(settle_after_s=3600.0)
"""Nothing is settled unless the test says so."""


async def append(writer: LedgerWriter, entries: Sequence[bytes]) -> EntryId:
    """Append a run and wait for it; raise what refused it."""
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: BrokerError | None) -> None:
        if error is None:
            answered.set_result(None)
        else:
            answered.set_exception(error)

    first = writer.append(entries, done)
    await answered
    return first


async def read_all(store: LedgerStore, ledger: LedgerId) -> list[bytes]:
    entries: list[bytes] = []
    while more := await store.read(ledger, EntryId(len(entries)), entries_max=7, bytes_max=1 << 20):
        entries += more
    return entries


def numbered(count: int, *, start: int = 0, size: int = 20) -> list[bytes]:
    return [b"%0*d" % (size, number) for number in range(start, start + count)]


def extents(root: Path) -> list[Path]:
    return sorted((root / "journal").iterdir())


def written(extent: Path) -> bytes:
    """Without the zeros that were laid for what is written next."""
    return extent.read_bytes().rstrip(b"\0")


def settled(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "sealed").iterdir())
