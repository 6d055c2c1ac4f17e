"""How many bytes of messages may wait for their receipts, in one client."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

MEMORY_BYTES_DEFAULT: Final = 64 * 1024 * 1024


class MemoryLimit:
    """First come, first served. A message larger than all there is waits until nothing else is."""

    def __init__(self, bytes_max: int = MEMORY_BYTES_DEFAULT) -> None:
        self._bytes_max = bytes_max
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def used(self) -> int:
        return self._used

    def try_take(self, size: int) -> bool:
        """0 bytes at most means that there is no limit."""
        if self._waiting or not self._fits(size):
            return False
        self._used += size
        return True

    async def take(self, size: int) -> None:
        if self.try_take(size):
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give(size)  # the place was handed over and is not used
            raise

    def give(self, size: int) -> None:
        self._used -= size
        while self._waiting:
            wanted, place = self._waiting[0]
            if not place.done():
                if not self._fits(wanted):
                    return
                self._used += wanted
                place.set_result(None)
            self._waiting.popleft()

    def _fits(self, size: int) -> bool:
        return self._bytes_max == 0 or self._used == 0 or self._used + size <= self._bytes_max
