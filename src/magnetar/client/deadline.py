"""Until when to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from magnetar.client.error import ConfigurationError
from magnetar.client.quantity import Duration
from magnetar.runtime.clock import Clock


def find_deadline(timeout: Duration | None, clock: Clock) -> float | None:
    """The clock's time at which waiting ends; one that is over already waits for nothing."""
    if timeout is None:
        return None
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise ConfigurationError(f"timeout is seconds or a timedelta, not {timeout!r}")
    return clock.monotonic() + timeout


async def wait_all(
    waiting: Collection[asyncio.Future[Any]], *, clock: Clock, timeout: float | None
) -> None:
    """Until each of them has ended, well or not, or the time is over."""
    try:
        async with clock.timeout(timeout):
            await asyncio.wait(waiting)
    except TimeoutError:
        pass  # the caller looks at what has ended
