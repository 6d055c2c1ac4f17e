"""Until when to wait."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from magnetar.client.error import ConfigurationError
from magnetar.client.quantity import Duration


def find_deadline(timeout: Duration | None) -> float | None:
    """The loop's time at which waiting ends; one that is over already waits for nothing."""
    if timeout is None:
        return None
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise ConfigurationError(f"timeout is seconds or a timedelta, not {timeout!r}")
    return asyncio.get_running_loop().time() + timeout
