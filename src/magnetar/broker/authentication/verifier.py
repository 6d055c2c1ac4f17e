"""Verification of credentials that takes long, such as password hashes, off the event loop."""

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


class _HostQueue:
    """The attempts of one address: few at once, the others wait for them."""

    def __init__(self) -> None:
        self.turn = asyncio.Semaphore(_PER_HOST_MAX)
        self.count = 0


class ThreadedVerifier:
    """One address has two attempts at once at most: there is a thread left for another."""

    def __init__(self, workers: Workers = ThreadWorker) -> None:
        self._worker = workers("authentication", _THREADS_MAX)
        self._hosts: dict[str, _HostQueue] = {}

    async def run(self, host: str, verify: Callable[[], T]) -> T:
        """Raise TooManyRequests when too many attempts from the address wait already."""
        queue = self._hosts.setdefault(host, _HostQueue())
        if queue.count >= _WAITING_PER_HOST_MAX:
            raise TooManyRequests(
                f"{queue.count} attempts to authenticate from {host} are under way; try again later"
            )
        queue.count += 1
        try:
            async with queue.turn:
                return await self._worker.run(verify)
        finally:
            queue.count -= 1
            if not queue.count:
                del self._hosts[host]

    def close(self) -> None:
        self._worker.close(wait=False)
