"""What blocking producers and consumers have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, Self, TypeVar

from magnetar.client.facade.loop import BackgroundLoop


class AsyncHandle(Protocol):
    async def close(self) -> None: ...


H = TypeVar("H", bound=AsyncHandle)
T = TypeVar("T")


class SyncHandle(Generic[H]):
    """Every method runs the async one of the same name, and waits for it."""

    def __init__(self, loop: BackgroundLoop, inner: H) -> None:
        self._loop = loop
        self._inner = inner

    def close(self) -> None:
        """Does nothing after the client's own close, or in a process that was forked."""
        if self._loop.is_open:
            self._run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, body: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(body)

    def _run_future(self, begin: Callable[[], asyncio.Future[T]]) -> T:
        return self._loop.run_future(begin)

    def _call(self, function: Callable[[], T]) -> T:
        return self._loop.call(function)
