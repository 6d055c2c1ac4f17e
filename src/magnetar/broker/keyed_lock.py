"""A lock for each key, of which there may be any number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyedLock:
    def __init__(self) -> None:
        self._held: dict[str, asyncio.Future[None]] = {}

    def __contains__(self, key: str) -> bool:
        """Whether the lock is held."""
        return key in self._held

    async def wait(self, key: str) -> None:
        """Wait until the present holder is done; another one may come at once."""
        if (held := self._held.get(key)) is not None:
            await asyncio.shield(held)

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        while key in self._held:
            await self.wait(key)
        self._held[key] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            self._held.pop(key).set_result(None)
