"""One event loop on a thread of its own, and calls into it from any other thread."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial, wraps
from itertools import groupby
from operator import itemgetter
from threading import get_ident
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from magnetar.client.error import AlreadyClosedError, ConfigurationError, PulsarError
from magnetar.client.handle import Closable, FirstFailure, behind, summarize
from magnetar.runtime.event_loop import new_loop

I = TypeVar("I")  # noqa: E741  an item
Work = Callable[[Sequence[Any]], object]
_WORK: Final = itemgetter(0)


class _Turn:
    """The burst's next turn on the loop. The loop knows of it before others may rely on it: a call
    that a signal ends in between, or that is overtaken there, costs one turn more and loses none.
    """

    __slots__ = ("_run", "is_over")

    def __init__(self, run: Callable[[], object] | None = None) -> None:
        self._run = run
        self.is_over = run is None

    def __call__(self) -> None:
        """On the loop. What is called from here on needs another turn."""
        self.is_over = True
        if self._run is not None:
            self._run()


class Burst:
    """Calls of one consumer or producer, in the order of its threads.

    `settle` notes what an application has received, before any call about it. A call that fails
    does so after its caller has gone on: `check` raises its error at the next occasion.
    """

    def __init__(
        self,
        loop: BackgroundLoop,
        settle: Callable[[], object] | None = None,
        failed: FirstFailure | None = None,
    ) -> None:
        self._loop = loop
        self._settle = settle
        self._calls: deque[tuple[Work, Any]] = deque()
        self._turn = _Turn()
        self._failed = failed or FirstFailure()

    def __len__(self) -> int:
        return len(self._calls)

    def call(self, work: Callable[[Sequence[I]], object], item: I) -> None:
        """Pass the item to `work`, on the loop, with others that go there one after the other: it
        must take them all.
        """
        self._calls.append((work, item))
        if self._turn.is_over:
            self.wake()

    def call_alone(self, work: Callable[[Sequence[I]], object], item: I) -> None:
        """The same for what may refuse an item: that is no matter of the others."""
        self.call(self._run_alone, partial(work, (item,)))

    def check(self) -> None:
        """Raise unless a call from here can work, and what went wrong since the last time."""
        self._loop.check()
        if self._failed.error is not None:
            self._failed.check()

    def check_failure(self) -> None:
        """Raise what went wrong since the last time."""
        if self._failed.error is not None:
            self._failed.check()

    def wake(self) -> None:
        """Run soon, for what was received or called before; what this thread asks of the loop from
        here on comes behind.
        """
        if self._turn.is_over:
            turn = _Turn(self._run)
            self._loop.wake(turn)
            self._turn = turn

    def _run(self) -> None:
        calls, count = self._calls, len(self._calls)
        if self._settle is not None:
            self._settle()  # whatever these calls are about was received before them
        pending = [calls.popleft() for _ in range(count)]
        for work, group in groupby(pending, key=_WORK):
            self._try(partial(work, [item for _, item in group]))

    def _run_alone(self, calls: Sequence[Callable[[], object]]) -> None:
        for call in calls:
            self._try(call)

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except PulsarError as error:
            self._failed.note(error)


H = TypeVar("H", bound=Closable)
T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with behind(error):
            self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{summarize(self._inner)}>"

    def _run(self, body: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(body)

    def _call(self, function: Callable[[], T]) -> T:
        return self._loop.call(function)


def waited(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncHandle[Any], P], R]:
    """The async method, for the handle around its own: it runs it and waits for it."""

    @wraps(method)
    def call(self: SyncHandle[Any], /, *positional: P.args, **named: P.kwargs) -> R:
        body: Coroutine[Any, Any, R] = getattr(self._inner, method.__name__)(*positional, **named)
        return self._run(body)

    return call


_STOP_S: Final = 5.0
_forks = 0
"""How often this process and those before it were forked."""


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class CallOutcome(Generic[T]):
    """What one thread waits for. It ends on the loop, and wakes the thread then: a future of the
    loop would do so a turn later.
    """

    __slots__ = ("_failure", "_is_cancelled", "_is_done", "_listeners", "_result", "ended")

    def __init__(self) -> None:
        self._is_done = self._is_cancelled = False
        self._result: T | None = None
        self._failure: BaseException | None = None
        self._listeners: list[Callable[[CallOutcome[T]], object]] = []
        self.ended = threading.Lock()
        """Held until there is a result."""
        self.ended.acquire()

    def done(self) -> bool:
        return self._is_done

    def cancelled(self) -> bool:
        return self._is_cancelled

    def cancel(self) -> bool:
        if self._is_done:
            return False
        self._is_cancelled = True
        self.set_exception(AlreadyClosedError("The client was closed meanwhile"))
        return True

    def set_result(self, result: T, /) -> None:
        if not self._is_done:  # what ends it first, counts
            self._result = result
            self._end()

    def set_exception(self, exception: BaseException, /) -> None:
        if not self._is_done:
            self._failure = exception
            self._end()

    def result(self) -> T:
        if self._failure is not None:
            raise self._failure
        return self._result  # type: ignore[return-value]

    def exception(self) -> BaseException | None:
        return self._failure

    def add_done_callback(self, on_done: Callable[[Any], object], /) -> None:
        if self._is_done:
            on_done(self)
        else:
            self._listeners.append(on_done)

    def _end(self) -> None:
        self._is_done = True
        try:
            for listener in self._listeners:
                listener(self)
        finally:  # only then does the caller go on, as after the callbacks of a future
            self.ended.release()


class BackgroundLoop:
    """Ends with `close`, with its last user, or with the program; `goodbye` runs before.

    A process that was forked has no part in it: the thread stayed with the parent.
    """

    def __init__(self, goodbye: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._forks = _forks
        self._loop = new_loop()
        self._thread = threading.Thread(
            target=_run, args=(self._loop, goodbye), name="magnetar client", daemon=True
        )
        self._thread.start()
        self._ident = self._thread.ident
        self._is_closed = False
        self._finalizer = weakref.finalize(self, _stop, _forks, self._loop, self._thread)

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that started the loop."""
        return _forks != self._forks

    @property
    def is_open(self) -> bool:
        return not self._is_closed and not self.is_foreign

    def run(self, body: Coroutine[Any, Any, T]) -> T:
        """Run `body` on the loop and return its result; Ctrl-C cancels it there."""
        try:
            self.check()
            waiting = asyncio.run_coroutine_threadsafe(body, self._loop)
        except RuntimeError:
            body.close()
            raise AlreadyClosedError("The client is closed") from None
        except BaseException:
            body.close()
            raise
        try:
            while not _has_ended(waiting):
                if not self._thread.is_alive():
                    waiting.cancel()  # it reached the loop as that ended
                    body.close()
            return waiting.result()
        except CancelledError:
            raise AlreadyClosedError("The client was closed meanwhile") from None
        except BaseException:
            waiting.cancel()  # what was done changes nothing; what was not, ends there too
            raise

    def run_outcome(self, begin: Callable[[CallOutcome[T]], object]) -> T:
        """As `run`, in half the time, for what needs no task of its own: `begin` runs at once."""
        self.check()
        outcome: CallOutcome[T] = CallOutcome()

        def start() -> None:
            if outcome.done():
                return  # given up meanwhile
            try:
                begin(outcome)
            # Whatever it is, it belongs to the caller.
            except BaseException as error:
                outcome.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(start)
            while not outcome.ended.acquire(timeout=_STOP_S):
                if not self._thread.is_alive():
                    raise AlreadyClosedError("The client was closed meanwhile")
        except RuntimeError:
            raise AlreadyClosedError("The client is closed") from None
        except BaseException:
            # What was done changes nothing; what was not, ends there too.
            self.wake(outcome.cancel)
            raise
        return outcome.result()

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

    def wake(self, function: Callable[[], object]) -> None:
        """Call a function soon, on the loop; the caller goes on. Does nothing once it is closed, or
        in a process that was forked.
        """
        if self.is_foreign:
            return
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            pass  # the loop is closed: nothing there to be done

    def close(self) -> None:
        """Stop the thread; calling again changes nothing."""
        self._is_closed = True
        self._finalizer()

    def check(self) -> None:
        """Raise unless a call from here can work."""
        if _forks == self._forks and not self._is_closed and get_ident() != self._ident:
            return
        if self.is_foreign:
            raise AlreadyClosedError(
                "This client belongs to the parent process; create one after the fork"
            )
        if self._is_closed:
            raise AlreadyClosedError("The client is closed")
        raise ConfigurationError(
            "A blocking call from the client's own thread would never return;"
            " listeners and interceptors hand such work to another thread"
        )


def _has_ended(waiting: Future[Any]) -> bool:
    try:
        waiting.exception(_STOP_S)
    except TimeoutError:
        return False
    return True


def _run(loop: asyncio.AbstractEventLoop, goodbye: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(goodbye())
        _cancel_tasks(loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        _cancel_tasks(loop)
    finally:
        loop.close()


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Those too that begin meanwhile: a thread may call until the loop is closed."""
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


def _stop(forks: int, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if forks != _forks:
        return
    loop.call_soon_threadsafe(loop.stop)
    if threading.current_thread() is not thread:
        thread.join(_STOP_S)
