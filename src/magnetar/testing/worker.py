"""Blocking calls made on the event loop itself, for tests and simulations on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from magnetar.runtime.log import Logger
from magnetar.runtime.task import yield_to_loop

T = TypeVar("T")

_log = Logger(__name__)


class InlineWorker:
    """Makes each call at once, in the order they come."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name = name
        self._closed = False

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Other tasks have their turn before and after: a caller cannot rely on going first."""
        self._check()
        await yield_to_loop()
        try:
            return call(*arguments)
        finally:
            await yield_to_loop()

    def submit(self, call: Callable[..., None], *arguments: object) -> None:
        self._check()
        try:
            call(*arguments)
        # As on a thread: no caller waits for it.
        except Exception as error:
            _log.error("call beside the event loop failed", error=error)

    def close(self, *, wait: bool = True) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise RuntimeError(f"{self._name}: closed, cannot take a call")
