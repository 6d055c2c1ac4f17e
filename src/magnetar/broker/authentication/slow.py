"""Credentials that are slow to judge, judged off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from magnetar.errors import TooManyRequests
from magnetar.runtime.worker import ThreadWorker, Workers

T = TypeVar("T")

_THREADS_MAX: Final = 3
_PER_HOST_MAX: Final = 2
_WAITING_PER_HOST_MAX: Final = 64


class _Lane:
    """The attempts of one address: few at once, the others wait for them."""

    def __init__(self) -> None:
        self.turn = asyncio.Semaphore(_PER_HOST_MAX)
        self.count = 0


class SlowJudge:
    """One address has two attempts at once at most: there is a thread left for another."""

    def __init__(self, workers: Workers = ThreadWorker) -> None:
        self._worker = workers("authentication", _THREADS_MAX)
        self._lanes: dict[str, _Lane] = {}

    async def run(self, host: str, judge: Callable[[], T]) -> T:
        """Raise TooManyRequests when too many attempts from the address wait already."""
        lane = self._lanes.setdefault(host, _Lane())
        if lane.count >= _WAITING_PER_HOST_MAX:
            raise TooManyRequests(
                f"{lane.count} attempts to authenticate from {host} are under way; try again later"
            )
        lane.count += 1
        try:
            async with lane.turn:
                return await self._worker.run(judge)
        finally:
            lane.count -= 1
            if not lane.count:
                del self._lanes[host]

    def close(self) -> None:
        self._worker.close(wait=False)
