"""Blocking calls, made beside the event loop.

An owner of blocking work takes `Workers` and asks it for a worker: by default threads of its own. A
simulation hands in others (`testing/worker.py`) and stays on one thread. A call that has no owner
goes to the loop's own threads by `run_in_thread`; a simulated loop overrides `run_in_executor`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias, TypeVar

from magnetar.runtime.log import Logger

T = TypeVar("T")

_log = Logger(__name__)


async def run_in_thread(call: Callable[..., T], *arguments: object) -> T:
    return await asyncio.to_thread(call, *arguments)


class Worker(Protocol):
    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """What the call returns or raises; later calls may begin before it has ended."""

    def submit(self, call: Callable[..., None], *arguments: object) -> None:
        """Make a call that answers by `call_soon_threadsafe` itself, if at all; a failure is
        logged.
        """

    def close(self, *, wait: bool = True) -> None:
        """Take no more calls. Return when those taken were made; without `wait`, cancel those that
        were not begun.
        """


class Workers(Protocol):
    def __call__(self, name: str, threads: int = 1) -> Worker:
        """A worker that makes at most so many calls at once. One thread makes them in order."""


_Call: TypeAlias = tuple[Callable[..., Any], tuple[object, ...], "asyncio.Future[Any] | None"]


class ThreadWorker:
    """Threads are started as calls come, up to the bound, and end with the worker or the process.

    A lighter ThreadPoolExecutor: a submitted call costs neither a future nor a lock, which would be
    felt where the journal is written some thousand times a second.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name = name
        self._threads_max = threads
        self._threads: list[threading.Thread] = []
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._closed = False

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put((call, arguments, answer))
        return await answer

    def submit(self, call: Callable[..., None], *arguments: object) -> None:
        self._put((call, arguments, None))

    def close(self, *, wait: bool = True) -> None:
        self._closed = True
        while not wait and not self._calls.empty():
            _, _, answer = self._calls.get() or (None, None, None)
            if answer is not None:
                answer.cancel()
        for _ in self._threads:
            self._calls.put(None)
        while wait and self._threads:
            self._threads.pop().join()

    def _put(self, call: _Call) -> None:
        if self._closed:
            raise RuntimeError(f"{self._name}: closed, cannot take a call")
        if len(self._threads) < self._threads_max:
            name = f"{self._name}_{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._calls.put(call)

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            call, arguments, answer = work
            if answer is None or not answer.cancelled():
                _make(call, arguments, answer)
            del work, call, arguments, answer  # not kept alive until the next call


def _make(
    call: Callable[..., Any], arguments: tuple[object, ...], answer: asyncio.Future[Any] | None
) -> None:
    try:
        value = call(*arguments)
    # A call that is awaited raises for its caller; after any other the thread goes on.
    except BaseException as error:
        if answer is None:
            _log.error("call beside the event loop failed", error=error)
        else:
            _tell(answer, error, None)
    else:
        if answer is not None:
            _tell(answer, None, value)


def _tell(answer: asyncio.Future[Any], error: BaseException | None, value: object) -> None:
    def tell() -> None:
        if answer.done():
            return  # the caller stopped waiting
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    try:
        answer.get_loop().call_soon_threadsafe(tell)
    except RuntimeError:
        pass  # the loop was closed: there is no caller any more
