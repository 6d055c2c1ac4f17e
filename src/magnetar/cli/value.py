"""Durations, sizes, lists and pairs as people write them on a command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

_SECONDS: Final[Mapping[str, int]] = {
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86_400,
    "w": 7 * 86_400,
    "y": 365 * 86_400,
}
parse_fraction, parse_constant, parse_file = float, str, Path
_BYTES: Final[Mapping[str, int]] = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def _scaled(text: str, units: Mapping[str, int], expected: str) -> int:
    body, factor = text.strip(), 1
    if body and body[-1].lower() in units:
        body, factor = body[:-1], units[body[-1].lower()]
    try:
        return int(body) * factor
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected}") from None


def parse_duration_s(text: str) -> int:
    """`90`, `90s`, `5m`, `3h`, `2d`, `1w`, `1y`; a bare number counts seconds."""
    return _scaled(text, _SECONDS, "a duration such as 90s, 5m, 3h, 2d or 1w")


def parse_duration_ms(text: str) -> int:
    return parse_duration_s(text) * 1000


def parse_duration_min(text: str) -> int:
    return _whole(parse_duration_s(text), 60)


def parse_seconds(text: str) -> float:
    """Between two looks at a broker."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 0.1 to 3600 seconds")
    return seconds


def parse_size(text: str) -> int:
    """`4096`, `10M`, `16G`, `3T`."""
    return _scaled(text, _BYTES, "a size such as 4096, 10M or 16G")


def parse_size_mb(text: str) -> int:
    return _whole(parse_size(text), 2**20)


def _whole(value: int, unit: int) -> int:
    return value if value < 0 else value // unit


def parse_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def parse_pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def parse_pairs(text: str) -> list[tuple[str, str]]:
    """`team=blue,stage=test`."""
    return [parse_pair(item) for item in parse_list(text)]


def parse_hash(text: str) -> int:
    """`24576`, or hexadecimal as `0x6000`."""
    try:
        return int(text, 16 if text[:2].lower() == "0x" else 10)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a hash such as 0x6000") from None


def join(lists: Iterable[Iterable[T]] | None) -> list[T]:
    """One list of a flag given several times, each time with commas."""
    return [item for each in lists or () for item in each]
