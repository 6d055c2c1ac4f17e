"""Counts what came about in a run: a checker judges nothing that never happens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Final

from magnetar.testing.simulation.history import (
    Configured,
    Decided,
    Dispatched,
    Entry,
    Refused,
    Rewound,
    Stored,
)

NAMES: Final = (
    "splits",
    "merges",
    "changes by load",
    "migrations",
    "policies",
    "transactions",
    "refusals",
    "seeks",
    "seeks into the middle",
    "redeliveries",
)
NOT_BY_LOAD: Final = frozenset(("manual", "repair", "scale"))
"""Why else a layout changes."""


def count(entries: Iterable[Entry]) -> Counter[str]:
    found: Counter[str] = Counter()
    dispatched: set[tuple[str, ...]] = set()
    records: dict[str, bytes] = {}
    for entry in entries:
        match entry.event:
            case Stored(path, value) if b'"nextSegmentId"' in value:
                records[path] = value
            case Configured(_, _, is_confirmed):
                found["policies"] += is_confirmed
            case Decided():
                found["transactions"] += 1
            case Refused():
                found["refusals"] += 1
            case Rewound(_, _, True, to):
                found["seeks"] += 1
                found["seeks into the middle"] += to != "the earliest"
            case Dispatched(_, part, subscription, _, _, what):
                found["redeliveries"] += (part, subscription, what) in dispatched
                dispatched.add((part, subscription, what))
    for record in records.values():
        layout = json.loads(record)
        found["migrations"] += "migratedFrom" in layout
        for change in layout.get("magnetarHistory", ()):
            if change["kind"] in ("SPLIT", "MERGE"):
                found[f"{change['kind'].lower()}s"] += 1
                found["changes by load"] += change["reason"] not in NOT_BY_LOAD
    return found
