"""What a query has left to read, as its progress reports tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from magnetar.spark.offset import Offset, format_offset
from magnetar.spark.plan import TopicView
from magnetar.spark.stretch import count_bytes, count_entries, spans_between

LAG: Final = "lag"


def measure_lag(read: Offset, views: Mapping[str, TopicView]) -> dict[str, dict[str, int]]:
    """Entries and bytes behind what was read, by topic."""
    lag = {}
    for name, view in views.items():
        entries = size = 0
        for segment in view.segments:
            if segment.id in read.of(name).ended:
                continue
            spans = spans_between(segment.ledgers, read.of(name).place(segment.id), segment.end)
            entries += count_entries(spans)
            size += count_bytes(segment.ledgers, spans)
        lag[name] = {"entries": entries, "bytes": size}
    return lag


def describe_latest(latest: Offset, lag: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """The offset after everything there is, with the lag of each topic and of all."""
    document = format_offset(latest)
    for name, each in lag.items():
        document[name][LAG] = dict(each)
    total = {unit: sum(each[unit] for each in lag.values()) for unit in ("entries", "bytes")}
    return document | {LAG: total}


def lag_of(progress: Mapping[str, Any]) -> dict[str, int] | None:
    """The lag of a query from a progress report of Spark, as `json.loads(progress.json)`; None
    while it has read nothing, or where its sources do not say it.
    """
    found: dict[str, int] | None = None
    for source in progress.get("sources", ()):
        lag = (source.get("latestOffset") or {}).get(LAG)
        if lag is not None:
            found = found or {"entries": 0, "bytes": 0}
            found = {unit: found[unit] + int(lag[unit]) for unit in found}
    return found
