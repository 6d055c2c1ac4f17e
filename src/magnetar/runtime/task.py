"""Background tasks with an owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from magnetar.errors import MagnetarError
from magnetar.runtime.log import Logger
from magnetar.runtime.watchdog import names_work

T = TypeVar("T")

_log = Logger(__name__)


async def yield_to_loop() -> None:
    """Let other tasks have their turn in the middle of long work."""
    await asyncio.sleep(0)


class TaskScope:
    """Owns the tasks started through it: failures are logged by name, closing ends them all.

    One task's failure leaves the others alone. `async with` closes at the end.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def start(self, body: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run `body` on the side. A scope that is closed starts nothing more."""
        if self._closed:
            body.close()
            raise RuntimeError(f"{self._name}: closed, cannot start {name}")
        task = asyncio.create_task(body, name=f"{self._name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def periodic(
        self, interval_s: float, body: Callable[[], Awaitable[None] | None], name: str
    ) -> asyncio.Task[None]:
        """Call `body` again and again, `interval_s` after the last end; failures are logged."""
        return self.start(self._repeat(interval_s, body, name), name)

    @names_work(lambda local: str(local["name"]))
    async def _repeat(
        self, interval_s: float, body: Callable[[], Awaitable[None] | None], name: str
    ) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                waiting = body()
                if waiting is not None:
                    await waiting
            # Only the body knows what a round can raise, and one bad round must not stop the next.
            except Exception as error:
                _log.error("periodic task failed", scope=self._name, task=name, **_explain(error))

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("task failed", task=task.get_name(), **_explain(error))

    async def close(self) -> None:
        """Cancel what still runs and wait for it. Closing twice is the same as once."""
        self._closed = True
        own = (
            asyncio.current_task()
        )  # a task may close the scope it runs in: it cannot wait for itself
        while waiting := [task for task in self._tasks if task is not own]:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _explain(error: BaseException) -> dict[str, Any]:
    """A refusal is no defect: its sentence says what it says, and a trace would hide it."""
    return {"reason": error.sentence} if isinstance(error, MagnetarError) else {"error": error}
