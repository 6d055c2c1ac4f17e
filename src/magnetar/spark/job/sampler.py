"""One look at every scalable topic: what its segments carry, and how its layout changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import pyarrow as pa

from magnetar import Admin, AdminError, AdminNotFound, AdminUnreachable

SCHEMA: Final = pa.schema(
    [
        ("record", pa.string()),
        ("topic", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("epoch", pa.int64()),
        ("segment", pa.int64()),
        ("hash_first", pa.int32()),
        ("hash_last", pa.int32()),
        ("msg_rate_in", pa.float64()),
        ("bytes_rate_in", pa.float64()),
        ("msg_rate_out", pa.float64()),
        ("bytes_rate_out", pa.float64()),
        ("reported_at", pa.timestamp("us", tz="UTC")),
        ("consumers", pa.int32()),
        ("kind", pa.string()),
        ("segments", pa.list_(pa.int64())),
        ("children", pa.list_(pa.int64())),
        ("reason", pa.string()),
    ]
)
_TYPES: Final = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.list_(pa.int64()): "array<long>",
}
SPARK_SCHEMA: Final = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in SCHEMA)
SAMPLE: Final = "sample"
CHANGE: Final = "change"
KNOWN: Final = "known"
"""The kind of the row that tells the last layout change of a topic that was told."""
UNREACHABLE: Final = "unreachable"
"""The kind of the row that stands for topics that could not be asked about."""
SAMPLE_COLUMNS: Final = (
    "topic, at, epoch, segment, hash_first, hash_last, msg_rate_in, bytes_rate_in, msg_rate_out,"
    " bytes_rate_out, reported_at, consumers"
)
CHANGE_COLUMNS: Final = "topic, at, epoch, kind, segments, children, reason"
_HISTORY_MAX: Final = 100
"""Changes that a topic's record keeps."""
_RATES: Final = {
    "msg_rate_in": "msgRateIn",
    "bytes_rate_in": "bytesRateIn",
    "msg_rate_out": "msgRateOut",
    "bytes_rate_out": "bytesRateOut",
}


def list_topics(admin: Admin, namespaces: Iterable[str] = ()) -> list[str]:
    """The scalable topics of some namespaces, or of all there are."""
    wanted = list(namespaces)
    if not wanted:
        wanted = [each for tenant in admin.tenants.list() for each in admin.namespaces.list(tenant)]
    return sorted({name for each in wanted for name in admin.scalable_topics.list(each)})


def is_away(error: AdminError | AdminUnreachable) -> bool:
    """Whether it is for a broker that cannot answer now; others are mistakes, which stay."""
    return isinstance(error, AdminUnreachable) or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def look(admin: Admin, known: Mapping[str, int], *, at_ms: int) -> pa.Table:
    """Samples and changes of topics of which the last known change is given, and what is known
    now. Of a topic that its broker cannot tell of, which moves, only that stays.
    """
    rows: list[dict[str, Any]] = []
    for topic, last in known.items():
        try:
            stats = admin.scalable_topics.stats(topic)
            history = admin.scalable_topics.history(topic)
        except AdminNotFound:  # it was deleted since it was listed
            continue
        except AdminError as error:
            if not is_away(error):
                raise
            rows.append({"record": KNOWN, "topic": topic, "epoch": last})
            continue
        rows += format_samples(topic, stats, at_ms)
        rows += find_changes(topic, history, last, stats["epoch"])
        told = max((each["epoch"] for each in history), default=0)
        rows.append({"record": KNOWN, "topic": topic, "epoch": told})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def format_samples(topic: str, stats: Mapping[str, Any], at_ms: int) -> list[dict[str, Any]]:
    """One row for each active segment: what was reported of it, else what it carries now."""
    consumers = [each["consumerCount"] for each in stats["subscriptions"].values()]
    rows = []
    for number, segment in stats["segments"].items():
        if segment["state"] != "ACTIVE":
            continue
        load = segment.get("reportedLoad", segment)
        first, last = (int(each, 16) for each in segment["hashRange"].split("-"))
        reported_ms = load.get("atMs")
        rows.append(
            {
                "record": SAMPLE,
                "topic": topic,
                "at": at_ms * 1000,
                "epoch": stats["epoch"],
                "segment": int(number),
                "hash_first": first,
                "hash_last": last,
                **{name: float(load[field]) for name, field in _RATES.items()},
                "reported_at": None if reported_ms is None else reported_ms * 1000,
                "consumers": max(consumers, default=0),
            }
        )
    return rows


def find_changes(
    topic: str, history: Iterable[Mapping[str, Any]], known: int, epoch: int
) -> list[dict[str, Any]]:
    """What was not told yet. A topic whose epoch went back is another one of the same name."""
    events = list(history)
    since = known if epoch >= known else -1
    new = [each for each in events if each["epoch"] > since]
    rows = [
        {
            "record": CHANGE,
            "topic": topic,
            "at": each["atMs"] * 1000,
            "epoch": each["epoch"],
            "kind": each["kind"],
            "segments": each["segmentIds"],
            "children": each["childIds"],
            "reason": each["reason"],
        }
        for each in new
    ]
    if since >= 0 and len(new) == len(events) >= _HISTORY_MAX and new[0]["epoch"] > since + 1:
        lost = f"changes after epoch {since} were forgotten by the topic before they were seen"
        rows.insert(
            0,
            {
                **rows[0],
                "epoch": since + 1,
                "kind": "MISSED",
                "segments": [],
                "children": [],
                "reason": lost,
            },
        )
    return rows
