"""One event loop on a thread of its own, and calls into it from any other thread."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Generic, TypeVar

from magnetar.client.error import AlreadyClosedError, ConfigurationError

T = TypeVar("T")

_STOP_S: Final = 5.0


class _Call(Generic[T]):
    """One call from another thread, which waits for the future that it begins."""

    __slots__ = ("_begin", "_inside", "_is_given_up", "_outcome", "ended")

    def __init__(self, begin: Callable[[], asyncio.Future[T]]) -> None:
        self._begin = begin
        self._inside: asyncio.Future[T] | None = None
        self._outcome: BaseException | None = None
        self._is_given_up = False
        self.ended = threading.Lock()
        """Held until there is a result."""
        self.ended.acquire()

    def start(self) -> None:
        """On the loop."""
        try:
            self._inside = self._begin()
        # Whatever it is, it belongs to the caller.
        except BaseException as error:
            self._outcome = error
            self.ended.release()
            return
        self._inside.add_done_callback(self._end)
        if self._is_given_up:
            self._inside.cancel()

    def give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_given_up = True
        loop.call_soon_threadsafe(self._cancel)

    def result(self) -> T:
        if self._outcome is not None:
            raise self._outcome
        assert self._inside is not None
        return self._inside.result()

    def _end(self, inside: asyncio.Future[T]) -> None:
        if inside.cancelled():
            self._outcome = AlreadyClosedError("The client was closed meanwhile")
        else:
            self._outcome = inside.exception()
        self.ended.release()

    def _cancel(self) -> None:
        if self._inside is not None:
            self._inside.cancel()


class BackgroundLoop:
    """Ends with `close`, with its last user, or with the program; `goodbye` runs before.

    A process that was forked has no part in it: the thread stayed with the parent.
    """

    def __init__(self, goodbye: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_run, args=(self._loop, goodbye), name="magnetar client", daemon=True
        )
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._process, self._loop, self._thread)

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that started the loop."""
        return os.getpid() != self._process

    @property
    def is_open(self) -> bool:
        return self._finalizer.alive and not self.is_foreign

    def run(self, body: Coroutine[Any, Any, T]) -> T:
        """Run `body` on the loop and return its result; Ctrl-C cancels it there."""
        try:
            self.check()
        except BaseException:
            body.close()
            raise
        waiting = asyncio.run_coroutine_threadsafe(body, self._loop)
        try:
            return waiting.result()
        except CancelledError:
            raise AlreadyClosedError("The client was closed meanwhile") from None
        except BaseException:
            waiting.cancel()  # what was done changes nothing; what was not, ends there too
            raise

    def run_future(self, begin: Callable[[], asyncio.Future[T]]) -> T:
        """As `run`, in half the time, for what needs no task of its own: `begin` runs at once."""
        self.check()
        call = _Call(begin)
        try:
            self._loop.call_soon_threadsafe(call.start)
            while not call.ended.acquire(timeout=_STOP_S):
                if not self._thread.is_alive():
                    raise AlreadyClosedError("The client was closed meanwhile")
        except RuntimeError:
            raise AlreadyClosedError("The client is closed") from None
        except BaseException:
            call.give_up(self._loop)  # what was done changes nothing; what was not, ends there too
            raise
        return call.result()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop: what it touches belongs to the loop's thread."""

        async def body() -> T:
            return function()

        return self.run(body())

    def start(self, body: Coroutine[Any, Any, asyncio.Future[T]]) -> Future[T]:
        """Run what gives a future of the loop; the one returned here is for any thread."""
        outside: Future[T] = Future()

        def on_done(inside: asyncio.Future[T]) -> None:
            if not outside.set_running_or_notify_cancel():
                return
            if inside.cancelled():
                outside.set_exception(AlreadyClosedError("It was cancelled"))
            elif (error := inside.exception()) is not None:
                outside.set_exception(error)
            else:
                outside.set_result(inside.result())

        async def follow() -> None:
            (await body).add_done_callback(on_done)

        self.run(follow())
        return outside

    def close(self) -> None:
        """Stop the thread; calling again changes nothing."""
        self._finalizer()

    def check(self) -> None:
        """Raise unless a call from here can work."""
        if self.is_foreign:
            raise AlreadyClosedError(
                "This client belongs to the parent process; create one after the fork"
            )
        if not self._finalizer.alive:
            raise AlreadyClosedError("The client is closed")
        if threading.current_thread() is self._thread:
            raise ConfigurationError(
                "A blocking call from the client's own thread would never return;"
                " listeners and interceptors hand such work to another thread"
            )


def _run(loop: asyncio.AbstractEventLoop, goodbye: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(goodbye())
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _stop(process: int, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if os.getpid() != process:
        return
    loop.call_soon_threadsafe(loop.stop)
    if threading.current_thread() is not thread:
        thread.join(_STOP_S)
