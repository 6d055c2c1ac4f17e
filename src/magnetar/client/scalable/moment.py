"""Points in time as applications write them."""

from __future__ import annotations

from datetime import datetime

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
