"""Serial queue: bodies run one after the other, in the order of their coming, in one task."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from magnetar.errors import ServiceNotReady
from magnetar.runtime.task import TaskScope

T = TypeVar("T")

_CLOSING: Final = "The controller of the topic is closing"


class Turns:
    """A caller may give up waiting for its turn; the turn itself goes on to its end.

    A turn taken inside a turn is the same turn. There is no task while nothing waits.
    """

    def __init__(self, name: str) -> None:
        self._scope = TaskScope(name)
        self._waiting: deque[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_busy(self) -> bool:
        return self._worker is not None

    async def run(self, body: Callable[[], Awaitable[T]]) -> T:
        if self._worker is not None and asyncio.current_task() is self._worker:
            return await body()
        return await asyncio.shield(self._put(body))

    def start(self, body: Callable[[], Awaitable[None]]) -> None:
        """Take a turn without waiting for its outcome."""
        if not self._closed:
            self._put(body).add_done_callback(_forget)

    def _put(self, body: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        if self._closed:
            raise ServiceNotReady(_CLOSING)
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, done))
        if self._worker is None:
            self._worker = self._scope.start(self._work(), "turns")
        return done

    async def _work(self) -> None:
        try:
            while self._waiting:
                body, done = self._waiting.popleft()
                await _answer(body, done)
        finally:
            self._worker = None

    async def close(self) -> None:
        """Give up what runs and refuse what waits."""
        self._closed = True
        await self._scope.close()
        while self._waiting:
            _, done = self._waiting.popleft()
            _refuse(done, ServiceNotReady(_CLOSING))


async def _answer(body: Callable[[], Awaitable[T]], done: asyncio.Future[T]) -> None:
    """Run a body; its failure belongs to its caller."""
    try:
        outcome = await body()
    except asyncio.CancelledError:  # the turns end: the caller was not cancelled itself
        _refuse(done, ServiceNotReady(_CLOSING))
        raise
    except Exception as failure:
        _refuse(done, failure)
    else:
        if not done.done():
            done.set_result(outcome)


def _refuse(done: asyncio.Future[Any], failure: Exception) -> None:
    if not done.done():
        done.set_exception(failure)
        done.exception()  # the caller may be gone


def _forget(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
