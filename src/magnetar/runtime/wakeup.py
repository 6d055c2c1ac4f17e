"""Waking what waits on a loop until something has changed."""

from __future__ import annotations

import asyncio


class Wakeup:
    """A caller looks for itself, before and after it waits: a change is not remembered. So it holds
    nothing while it is idle, where an `asyncio.Event` holds a deque.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] | None = None

    async def wait(self) -> None:
        """Until the next change."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = {}
        self._waiting[changed] = None
        try:
            await changed
        finally:
            if self._waiting is not None:
                self._waiting.pop(changed, None)

    def wake(self) -> None:
        """Something has changed; called on the loop."""
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            for changed in waiting:
                if not changed.done():
                    changed.set_result(None)
