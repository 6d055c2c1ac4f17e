"""Bring something in line with the store, again whenever asked, one try at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from magnetar.errors import StoreClosed, StoreUnavailable
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.task import TaskScope

_RETRY_FIRST_S: Final = 0.1
_RETRY_MOST_S: Final = 5.0


class Settler:
    """Runs `settle` after each request, and once more for requests that came meanwhile.

    A store that does not answer is asked again; a closed one ends it.
    """

    def __init__(
        self,
        scope: TaskScope,
        name: str,
        settle: Callable[[], Awaitable[None]],
        *,
        retry_first_s: float = _RETRY_FIRST_S,
        retry_most_s: float = _RETRY_MOST_S,
    ) -> None:
        self._scope = scope
        self._name = name
        self._settle = settle
        self._backoff = Backoff(retry_first_s, retry_most_s)
        self._asked = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def request(self) -> None:
        self._asked = not self._closed
        if self._asked and self._idle.is_set():
            self._idle.clear()
            self._scope.start(self._run(), self._name)

    async def settled(self) -> None:
        """Wait until every request so far was carried out, or the settler was closed."""
        await self._idle.wait()

    def close(self) -> None:
        """Take no more requests; a try under way ends by itself or with its scope."""
        self._closed = True
        self._asked = False
        self._idle.set()

    async def _run(self) -> None:
        self._backoff.reset()
        try:
            while self._asked:
                self._asked = False
                try:
                    await self._settle()
                    self._backoff.reset()
                except StoreUnavailable:
                    await asyncio.sleep(self._backoff.next_s())
                    self._asked = not self._closed
                except StoreClosed:
                    self.close()
        finally:
            self._idle.set()
