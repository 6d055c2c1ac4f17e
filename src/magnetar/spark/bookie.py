"""Ledgers read at the bookies that have them, past the broker.

The broker copies the records of the ledgers and of the bookies when a batch is planned. What a task
reads by them stands below an end that the broker has confirmed; entries come with their digests
checked. Whatever fails, the broker is asked instead.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from magnetar.ledger.backends.bookkeeper import BookkeeperLedgerStore, BookkeeperPolicy
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import ABSENT
from magnetar.model.position import EntryId, LedgerId
from magnetar.runtime.clock import SYSTEM
from magnetar.spark.stretch import Span


@dataclass(frozen=True, slots=True)
class BookieRecords:
    """Records of a cluster's metadata, by their paths."""

    records: Mapping[str, bytes]


def parse_records(document: Mapping[str, Any]) -> BookieRecords:
    stated: Mapping[str, str] = document["records"]
    return BookieRecords({path: base64.b64decode(value) for path, value in stated.items()})


class BookieLedgers:
    """For one thread, on a loop that runs in steps."""

    def __init__(
        self, records: BookieRecords, *, timeout_s: float, entries_max: int, bytes_max: int
    ) -> None:
        self._records = records
        self._policy = BookkeeperPolicy(timeout_s=timeout_s, connect_timeout_s=timeout_s)
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._runner = asyncio.Runner()
        self._store: BookkeeperLedgerStore | None = None

    def read(self, span: Span) -> list[bytes]:
        """Entries from the first of the span on; none when the bookies know of no more."""

        async def body() -> list[bytes]:
            if self._store is None:
                self._store = await _open(self._records, self._policy)
            return await self._store.read(
                LedgerId(span.ledger),
                EntryId(span.first),
                entries_max=min(span.count, self._entries_max),
                bytes_max=self._bytes_max,
            )

        return self._runner.get_loop().run_until_complete(body())

    def close(self) -> None:
        if self._store is not None:
            self._runner.get_loop().run_until_complete(self._store.close())
        self._runner.close()


async def _open(records: BookieRecords, policy: BookkeeperPolicy) -> BookkeeperLedgerStore:
    """Over a copy of the metadata that nothing is written to."""
    copy = MemoryStore(MemoryTree(SYSTEM))
    for path, value in records.records.items():
        await copy.put(path, value, expect=ABSENT)
    store = BookkeeperLedgerStore(copy, _refuse_number, clock=SYSTEM, policy=policy)
    await store.open()
    return store


async def _refuse_number(path: str) -> int:
    raise AssertionError(f"readers make no ledgers, such as with {path}")
