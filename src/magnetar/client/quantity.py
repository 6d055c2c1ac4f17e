"""Durations and sizes as applications write them."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from magnetar.client.error import ConfigurationError


def to_ms(what: str, moment: datetime, *, least_ms: int | None = None) -> int:
    """Milliseconds since 1970; `what` names the argument in the refusal."""
    if not isinstance(moment, datetime):
        raise ConfigurationError(f"{what} is a datetime, not {moment!r}")
    if moment.tzinfo is None:
        raise ConfigurationError(
            f"{what} has no time zone; write datetime(..., tzinfo=UTC) or datetime.now(UTC)"
        )
    time_ms = int(moment.timestamp() * 1000)
    if least_ms is not None and time_ms < least_ms:
        raise ConfigurationError(f"{what} must be after 1970: {moment!r}")
    return time_ms


Duration: TypeAlias = float | timedelta
"""Seconds, or a timedelta."""
Size: TypeAlias = int | str
"""Bytes, or text such as "64MB"; a kilobyte has 1024 bytes."""

_SIZE: Final = re.compile(r"\s*(\d+)\s*([KMG]?)I?B?\s*", re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def parse_duration(what: str, duration: Duration, *, least: float = 0.0) -> float:
    """Seconds; `what` names the argument in the refusal."""
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        seconds = float(duration)
    else:
        raise ConfigurationError(f"{what} is seconds or a timedelta, not {duration!r}")
    if not math.isfinite(seconds) or seconds < least:
        raise ConfigurationError(f"{what} must not be below {least:g} seconds: {duration!r}")
    return seconds


def parse_size(what: str, size: Size) -> int:
    """Bytes; `what` names the argument in the refusal."""
    if isinstance(size, int) and not isinstance(size, bool):
        number = size
    else:
        found = _SIZE.fullmatch(size) if isinstance(size, str) else None
        if found is None:
            raise ConfigurationError(f"{what} is bytes or text such as '64MB', not {size!r}")
        number = int(found[1]) * _UNITS[found[2].upper()]
    if number < 0:
        raise ConfigurationError(f"{what} must not be below 0: {size!r}")
    return number
