"""Cursors that a log is made with: all of them stand at its start, and its own record says so.

A cursor gets a record of its own with its first write, and that one counts from then on. To delete
a cursor is to take its name off the list first: without either record it was never there. In a
store that brokers share every cursor gets its record at once, and the list goes: brokers of other
kinds do not know it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from magnetar.errors import RecordUnreadable

_KEY: Final = "pulsar.magnetar.cursors"


def format_born(names: Iterable[str]) -> dict[str, str]:
    """The property of a log that names the cursors; nothing for none."""
    ordered = sorted(names)
    return {_KEY: json.dumps(ordered)} if ordered else {}


def parse_born(properties: Mapping[str, str]) -> tuple[str, ...]:
    text = properties.get(_KEY)
    if text is None:
        return ()
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise RecordUnreadable(f"The cursors that a log was made with are {text!r}")
    return tuple(names)


def without_born(properties: Mapping[str, str], name: str) -> dict[str, str] | None:
    """The properties without the cursor; None when they do not name it."""
    names = parse_born(properties)
    if name not in names:
        return None
    return without_list(properties) | format_born(each for each in names if each != name)


def without_list(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without any of these cursors."""
    return {key: value for key, value in properties.items() if key != _KEY}
