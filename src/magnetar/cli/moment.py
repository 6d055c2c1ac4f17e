"""Points in time as people write and read them, in their own time zone."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta

from magnetar.cli.command import UsageError
from magnetar.cli.value import parse_duration_s
from magnetar.runtime import wall


def parse_moment_ms(text: str, now_ms: int | None = None) -> int:
    """`18:00` (the next one), `2027-01-31T18:00`, or `+3h`; in milliseconds since 1970."""
    now_ms = wall.now_ms() if now_ms is None else now_ms
    now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone()
    if text.startswith("+") and re.fullmatch(r"\+[0-9]+[smhdw]?", text):
        return now_ms + parse_duration_s(text[1:]) * 1000
    if found := re.fullmatch(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", text):
        then = now.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        if then <= now:
            then += timedelta(days=1)
        return round(then.timestamp() * 1000)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise UsageError(
            f"magnetar: {text!r} is not a time such as 18:00, 2027-01-31T18:00 or +3h"
        ) from None


def parse_ago_ms(text: str) -> int:
    """How far back from now, as `90s` or `3h`."""
    return wall.now_ms() - parse_duration_s(text) * 1000


def parse_datetime_ms(text: str) -> int:
    """ISO 8601; a time without zone is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 2024-01-31T12:00:00Z"
        ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def format_time(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return at.strftime("%Y-%m-%d %H:%M:%S")
