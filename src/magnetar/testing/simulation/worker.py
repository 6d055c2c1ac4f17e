"""What brokers do in threads, done on the virtual loop: later, in order, and perhaps not to the
end.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from magnetar.testing.simulation.disk import PowerLost, SimulatedDisk
from magnetar.testing.simulation.loop import VirtualLoop

T = TypeVar("T")

_DELAY_S: Final = (0.00005, 0.002)
_SLOW_S: Final = (0.02, 0.5)


class SimulatedWorkers:
    """Hands out the workers of one process; their calls take longer while its disk is slow."""

    def __init__(self, loop: VirtualLoop, disk: SimulatedDisk) -> None:
        self._loop = loop
        self._disk = disk
        self._workers: list[SimulatedWorker] = []

    def __call__(self, name: str, threads: int = 1) -> SimulatedWorker:
        worker = SimulatedWorker(self._loop, self._disk, name)
        self._workers.append(worker)
        return worker

    def lose_power(self) -> None:
        """Calls that were begun end at some operation of the disk."""
        for worker in self._workers:
            worker.lose_power()


class SimulatedWorker:
    """Makes one call at a time, each a while after it came or after the one before."""

    def __init__(self, loop: VirtualLoop, disk: SimulatedDisk, name: str) -> None:
        self._loop = loop
        self._disk = disk
        self._name = name
        self._calls: deque[Callable[[], None]] = deque()
        self._closed = False

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        answer: asyncio.Future[T] = self._loop.create_future()

        def make() -> None:
            if answer.done():
                return
            try:
                answer.set_result(call(*arguments))
            except Exception as error:
                answer.set_exception(error)

        self._put(make)
        return await answer

    def submit(self, call: Callable[..., None], *arguments: object) -> None:
        self._put(lambda: call(*arguments))

    def close(self, *, wait: bool = True) -> None:
        self._closed = True
        while wait and self._calls:
            self._calls.popleft()()
        self._calls.clear()

    def lose_power(self) -> None:
        if self._calls and self._loop.random.random() < 0.5:
            self._disk.stop_after(self._loop.random.randrange(6))
            try:
                self._calls.popleft()()
            except PowerLost:
                pass
        self._calls.clear()

    def _put(self, call: Callable[[], None]) -> None:
        if self._closed:
            raise RuntimeError(f"{self._name}: closed, cannot take a call")
        context = contextvars.copy_context()
        self._calls.append(lambda: _call_in(context, call))
        if len(self._calls) == 1:
            self._begin()

    def _begin(self) -> None:
        delay_s = self._loop.random.uniform(*_SLOW_S if self._disk.is_slow else _DELAY_S)
        self._loop.call_later(delay_s, self._make_next)

    def _make_next(self) -> None:
        if self._calls:
            self._calls[0]()
            self._calls.popleft()
            if self._calls:
                self._begin()


def _call_in(context: contextvars.Context, call: Callable[[], Any]) -> None:
    context.run(call)
