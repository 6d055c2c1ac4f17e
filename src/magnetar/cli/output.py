"""Printing of results: readable lines and tables, or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from magnetar.cli.moment import format_time

_CELL_MAX: Final = 60
"""Characters of a structure that is shown on the line of its name."""
_MOMENTS_MS: Final = range(10**12, 10**13)
"""From 2001 to 2286."""
_TIMESTAMP: Final = "timestamp"
_EPOCH: Final = "1970-01-01T00:00:00Z"
"""How Pulsar's stats spell a time that never was."""
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def format_result(result: Any, style: str, emphasize: Callable[[str], str] = str) -> str:
    """The text to print; empty for nothing to show. Headings are emphasized, if the place where
    they are shown can do that.
    """
    plain = _plain(result)
    if style == "json":
        return json.dumps(plain, indent=2, ensure_ascii=False)
    if plain is None:
        return "not set"
    if isinstance(plain, Mapping):
        return "\n".join(_outline(plain))
    if isinstance(plain, list):
        if plain and all(isinstance(row, Mapping) for row in plain):
            return _format_table(plain, emphasize)
        return "\n".join(_cell(item) for item in plain)
    return _cell(plain)


def format_lines(items: Iterator[Any], style: str) -> Iterator[str]:
    """The same text as that of the whole list, while its items come."""
    if style != "json":
        yield from (_cell(_plain(item)) for item in items)
        return
    line = "["
    for item in items:
        yield line
        line = f"  {_indented(item)},"
    if line == "[":
        yield "[]"
    else:
        yield line.removesuffix(",")
        yield "]"


def _indented(item: Any) -> str:
    return json.dumps(_plain(item), indent=2, ensure_ascii=False).replace("\n", "\n  ")


def _plain(value: Any) -> Any:
    """The same in JSON's own types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _outline(values: Mapping[str, Any]) -> Iterator[str]:
    """One line for each key, and what is too long for a line set in below it."""
    width = max((len(key) for key in values), default=0)
    for key, value in values.items():
        text = _format_moment(key, value) or _cell(value)
        if len(text) <= _CELL_MAX or not isinstance(value, Mapping | list):
            yield f"{key.ljust(width)}  {text}".rstrip()
        else:
            yield key
            yield from (f"  {line}" for line in _inset(value))


def _inset(value: Mapping[str, Any] | Sequence[Any]) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _outline(value)
        return
    for item in value:
        lines = _outline(item) if isinstance(item, Mapping) else iter((_cell(item),))
        yield f"- {next(lines, '{}')}"
        yield from (f"  {line}" for line in lines)


def _cell(value: Any) -> str:
    """For the eye: a rate to three digits, however many were computed."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return json.dumps(round(value, 3))
    return json.dumps(value, ensure_ascii=False)


def _is_moment(key: str, value: Any) -> bool:
    """Milliseconds since 1970, told from a duration by their size."""
    is_named = key.endswith("Ms") or "time" in key.lower()
    return is_named and isinstance(value, int) and value in _MOMENTS_MS


def _format_moment(key: str, value: Any) -> str:
    """Empty when it is none; 0 and -1 in a field for a time say that there was none."""
    if _is_moment(key, value):
        return format_time(value)
    if value == _EPOCH:
        return "never"
    is_time = key.lower().endswith(_TIMESTAMP) and not isinstance(value, bool)
    return "never" if is_time and value in (0, -1) else ""


def _heading(key: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The words of a name, such as SEGMENT IDS for segmentIds."""
    is_moment = any(_is_moment(key, row.get(key)) for row in rows)
    return _WORD_START.sub(" ", key.removesuffix("Ms") if is_moment else key).upper()


def _table_cell(key: str, value: Any) -> str:
    """In a table nothing is JSON: names stand before values, commas between the items of a list."""
    if moment := _format_moment(key, value):
        return moment
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_table_cell(name, each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(_table_cell(key, each) for each in value)
    return _cell(value)


def _format_table(rows: Sequence[Mapping[str, Any]], emphasize: Callable[[str], str]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [[_heading(key, rows) for key in columns]]
    lines += [[_table_cell(key, row[key]) if key in row else "" for key in columns] for row in rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    head, *body = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join((emphasize(head), *body))
