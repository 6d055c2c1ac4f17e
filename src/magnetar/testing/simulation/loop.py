"""An event loop whose time is virtual, and processes that can be killed on it.

Time stands still while callbacks run, and jumps to the next timer when none is ready: an hour of
waiting costs nothing, and two runs from one seed take the same steps. What a thread would do is
done on the loop, after a delay that the seed chooses.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import heapq
import warnings
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar, cast

from magnetar.runtime.clock import LoopClock

T = TypeVar("T")

STEPS_MAX: Final = 2_000_000
START_MS: Final = 1_700_000_000_000
_CLEANUPS_MAX: Final = 100
_RESOLUTION_S: Final = 1e-9


class Stuck(Exception):
    """Nothing is ready, no timer runs, and the run has not ended."""


@dataclass(eq=False)
class Process:
    """What lives and dies together: its callbacks and tasks run as long as it is alive."""

    name: str
    is_alive: bool = True
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    on_killed: list[Callable[[], None]] = field(default_factory=list)
    skew_ms: int = 0
    """How far its wall clock is off."""
    is_paused: bool = False
    held: list[asyncio.Handle] = field(default_factory=list)
    """Callbacks and timers that wait for the end of a pause."""


_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current_process() -> Process:
    process = _process.get()
    assert process is not None, "called outside of every simulated process"
    return process


class _Silence:
    """The selector of a loop that no file descriptor wakes: waiting is a jump in time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("nothing is ready and no timer runs")
        self._loop.advance(timeout)
        return []

    def close(self) -> None:
        pass


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.connect: Callable[..., Coroutine[Any, Any, Any]] | None = None
        """Makes the connections of this loop; the simulated network sets it."""
        self.steps = 0
        self._now_s = 0.0
        self._selector = _Silence(self)
        self._clock_resolution = _RESOLUTION_S
        self.failures: list[str] = []
        self.set_exception_handler(self._on_failure)

    def time(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        self._now_s += seconds

    # ------------------------------------------------------------------ processes

    def spawn(self, process: Process, body: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run `body` as a part of the process."""
        context = contextvars.copy_context()
        context.run(_process.set, process)
        return self.create_task(body, name=name, context=context)

    def kill(self, process: Process) -> None:
        """End a process between two steps: none of its callbacks runs again."""
        process.is_alive = False
        process.held.clear()
        scheduled = cast(list[asyncio.TimerHandle], self._scheduled)  # type: ignore[attr-defined]
        ready = cast(list[asyncio.Handle], self._ready)  # type: ignore[attr-defined]
        for handle in [*ready, *scheduled]:
            if _owner_of(handle) is process:
                handle.cancel()
        for task in process.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        for callback in process.on_killed:
            callback()

    def pause(self, process: Process) -> None:
        """Stop a process after this turn of the loop, as a stop signal or a long collection of
        garbage would: what reaches it waits, and its peers notice nothing but silence.
        """
        process.is_paused = True
        timers = cast(list[asyncio.TimerHandle], self._scheduled)  # type: ignore[attr-defined]
        process.held += sorted(each for each in timers if _owner_of(each) is process)
        timers[:] = [each for each in timers if _owner_of(each) is not process]
        heapq.heapify(timers)

    def resume(self, process: Process) -> None:
        """What arrived in the pause is handled first, then the timers that ran out."""
        process.is_paused = False
        held, process.held = process.held, []
        for each in held:
            if isinstance(each, asyncio.TimerHandle):
                heapq.heappush(self._scheduled, each)  # type: ignore[attr-defined]
            else:
                self._ready.append(each)  # type: ignore[attr-defined]

    def bury(self, processes: Iterable[Process]) -> None:
        """At the end of a run: close, and let go of what killed processes left standing.

        Their cleanup runs here, where the world has ended, and not at some collection of garbage.
        Tasks that it starts are those of this loop, and end with it.
        """
        asyncio.set_event_loop(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a cleanup would await is not awaited
            for task in [task for process in processes for task in process.tasks]:
                if not task.done():
                    _end(cast(Coroutine[Any, Any, Any], task.get_coro()))
            asyncio.set_event_loop(None)
            self.close()  # and with it goes what the cleanup has scheduled
            gc.collect()

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task = super().create_task(coro, name=name, context=context)
        process = _process.get() if context is None else context.get(_process)
        if process is not None:
            process.tasks.append(task)
        return task

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        process = _process.get() if context is None else context.get(_process)
        if process is None:
            return handle
        if context is not None and not process.is_alive:
            handle.cancel()
        elif process.is_paused:
            process.held.append(self._ready.pop())  # type: ignore[attr-defined]
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        process = _process.get() if context is None else context.get(_process)
        if process is None:
            return handle
        if context is not None and not process.is_alive:
            handle.cancel()
        elif process.is_paused:
            timers = cast(list[asyncio.TimerHandle], self._scheduled)  # type: ignore[attr-defined]
            timers.remove(handle)
            heapq.heapify(timers)
            process.held.append(handle)
        return handle

    # ------------------------------------------------------------------ what would leave the thread

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """A thread's work is done at once when its turn comes: a while later, by the seed."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_later(self.random.uniform(0.00005, 0.002), work)
        return future

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: Any
    ) -> Any:
        assert self.connect is not None
        return await self.connect(protocol_factory, host, port)

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _run_once(self) -> None:
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Stuck(f"no end after {STEPS_MAX} steps")
        super()._run_once()  # type: ignore[misc]

    def _on_failure(self, loop: object, context: dict[str, Any]) -> None:
        process = _process.get()
        if process is None or process.is_alive:
            self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")


def _end(body: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine whose loop has ended; its cleanup may want to wait several times."""
    for _ in range(_CLEANUPS_MAX):
        try:
            body.close()
        except (Exception, asyncio.CancelledError):
            continue
        return


def _owner_of(handle: asyncio.Handle) -> Process | None:
    context = cast(contextvars.Context, handle._context)  # type: ignore[attr-defined]
    return context.get(_process)


class VirtualClock(LoopClock):
    """The wall clock, the steady clock and the chance of one process."""

    def __init__(self, loop: VirtualLoop, process: Process) -> None:
        self.chance = loop.random
        self._loop = loop
        self._process = process

    def now_ms(self) -> int:
        return START_MS + self._process.skew_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()
