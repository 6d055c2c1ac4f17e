"""What a hold was moved past although its query has not read it.

A hold keeps what a query has not read. Expiry, quotas and administrators acknowledge for every
subscription, for a hold too. What they pass is noted with its cursor, in the same write as its
mark, until the query says that it has read on behind it: so a query that comes back to a log that
was trimmed meanwhile can tell what it has lost from what it had read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from magnetar.model.position import Position
from magnetar.model.subscription import HOLD_PROPERTY

_KEYS: Final = tuple(
    f"{HOLD_PROPERTY}.{end}.{part}" for end in ("first", "last") for part in ("ledger", "entry")
)


class Passed(NamedTuple):
    """Entries from the first to the last, both included."""

    first: Position
    last: Position


def parse_passed(properties: Mapping[str, int]) -> Passed | None:
    """From the properties of a cursor."""
    try:
        numbers = [properties[key] for key in _KEYS]
    except KeyError:
        return None
    return Passed(Position(*numbers[:2]), Position(*numbers[2:]))


def note_passed(properties: Mapping[str, int], passed: Passed | None) -> dict[str, int]:
    """The properties of a cursor with this noted, or nothing."""
    others = {key: value for key, value in properties.items() if key not in _KEYS}
    if passed is None:
        return others
    numbers = (*passed.first, *passed.last)
    return others | dict(zip(_KEYS, numbers, strict=True))


def add_passed(known: Passed | None, first: Position, last: Position) -> Passed | None:
    """Others acknowledge from the first entry that was not acknowledged up to another."""
    if last < first:
        return known
    return Passed(first if known is None else min(known.first, first), last)


def clear_passed(known: Passed | None, read: Position) -> Passed | None:
    """The query has read up to here."""
    return None if known is None or known.last <= read else known
