"""The numbers of ledgers that several workers make: each is given once, and they grow with time."""

from __future__ import annotations

import asyncio
from typing import Final

from magnetar.metadata.store import ANY_VERSION, MetadataStore

PATH: Final = "/magnetar/ledger-number"
_BLOCK: Final = 1_000


class LedgerNumbers:
    """Keeps how far numbers may have been given, a block at a time: those that a crash leaves over
    are never given.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = 0
        self._end = -1
        """Numbers below may be given; -1 before the first."""
        self._turn = asyncio.Lock()

    async def take(self, least: int) -> int:
        """A number that is not below `least`."""
        async with self._turn:
            if self._end < 0:
                record = await self._store.get(PATH)
                self._next = self._end = 1 if record is None else int(record.value)
            number = max(self._next, least)
            if number >= self._end:
                end = number + _BLOCK
                await self._store.put(PATH, str(end).encode(), expect=ANY_VERSION)
                self._end = end
            self._next = number + 1
            return number
