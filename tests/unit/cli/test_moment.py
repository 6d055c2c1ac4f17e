from __future__ import annotations

from datetime import datetime

import pytest

from magnetar.cli.command import UsageError
from magnetar.cli.moment import format_time, parse_moment_ms

NOW_MS = 1_700_000_000_000


def test_a_time_of_day_is_the_next_one() -> None:
    now = datetime.fromtimestamp(NOW_MS / 1000).astimezone()
    for text in ("00:00", "9:30", "23:59"):
        found = parse_moment_ms(text, NOW_MS)
        then = datetime.fromtimestamp(found / 1000).astimezone()
        assert then.strftime("%H:%M") == text.zfill(5)
        assert 0 < (then - now).total_seconds() <= 25 * 3600


def test_a_time_may_be_far_ahead_or_from_now() -> None:
    assert parse_moment_ms("+3h", NOW_MS) == NOW_MS + 3 * 3600 * 1000
    assert parse_moment_ms("2027-01-31T18:00+00:00", NOW_MS) == 1_801_418_400_000


@pytest.mark.parametrize("text", ["soon", "25:00", "+", "12:75", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_moment_ms(text)


def test_a_time_is_shown_as_people_read_it() -> None:
    assert format_time(parse_moment_ms("2027-01-31T18:00:05")) == "2027-01-31 18:00:05"
