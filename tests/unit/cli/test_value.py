from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from magnetar.cli.moment import parse_datetime_ms
from magnetar.cli.value import (
    join,
    parse_duration_ms,
    parse_duration_s,
    parse_list,
    parse_pair,
    parse_size,
)


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_duration_s, "90", 90),
        (parse_duration_s, "90s", 90),
        (parse_duration_s, "5m", 300),
        (parse_duration_s, "3h", 10_800),
        (parse_duration_s, "2d", 172_800),
        (parse_duration_s, "1w", 604_800),
        (parse_duration_s, "-1", -1),
        (parse_duration_ms, "2s", 2000),
        (parse_size, "4096", 4096),
        (parse_size, "10M", 10 * 2**20),
        (parse_size, "2g", 2 * 2**30),
        (parse_size, "-1", -1),
        (parse_list, "a, b,,c", ["a", "b", "c"]),
        (parse_pair, "k=v=w", ("k", "v=w")),
        (parse_datetime_ms, "1970-01-01T00:00:01Z", 1000),
        (parse_datetime_ms, "1970-01-01T01:00:00+01:00", 0),
        (parse_datetime_ms, "1970-01-01", 0),
    ],
)
def test_what_people_write_is_understood(
    parse: Callable[[str], object], text: str, expected: object
) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_duration_s, "soon"),
        (parse_duration_s, "m"),
        (parse_size, "10X"),
        (parse_size, ""),
        (parse_pair, "k"),
        (parse_pair, "=v"),
        (parse_datetime_ms, "yesterday"),
    ],
)
def test_anything_else_is_named_in_the_refusal(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=repr(text)):
        parse(text)


def test_a_flag_given_twice_is_one_list() -> None:
    assert join([["a"], ["b", "c"]]) == ["a", "b", "c"]
    assert join(None) == []
