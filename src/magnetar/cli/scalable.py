"""What `magnetar admin scalable-topics` does beside a single call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from magnetar.cli.command import Options, UsageError
from magnetar.cli.derive import Form, Own, peek
from magnetar.cli.lineage import format_lineage
from magnetar.cli.moment import format_time, parse_moment_ms
from magnetar.cli.policy import build_value, policy_parts
from magnetar.cli.value import join
from magnetar.client.error import AdminError
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name
from magnetar.operation.policy_table import AUTO_SCALE
from magnetar.runtime.clock import SystemClock

_READ_MAX: Final = 2000
"""Entries of one segment that are read to count their messages."""


def _describe(admin: Any, options: Options) -> Any:
    metadata = admin.scalable_topics.metadata(options.topic)
    if options.output == "json":
        return metadata
    return format_lineage(scalable_name(parse_topic(options.topic)).full, metadata)


def _segments(admin: Any, options: Options) -> Any:
    found = admin.scalable_topics.segments(options.topic)
    if options.output == "json":
        return found
    return [
        {
            "segment": int(number),
            "hashes": each["hashRange"],
            "state": f"{each['state']}{', missing' if each.get('isMissing') else ''}",
            "msg/s in": each["msgRateIn"],
            "msg/s out": each["msgRateOut"],
            "bytes": each.get("storageSize", 0),
            "backlog in entries": ", ".join(
                f"{name} {count['msgBacklog']}" for name, count in each["subscriptions"].items()
            ),
        }
        for number, each in found.items()
    ]


def _load(admin: Any, options: Options) -> Any:
    """As a table, one line for each segment."""
    found = admin.scalable_topics.load(options.topic)
    if options.output == "json":
        return found
    return [{"segment": int(number), **each} for number, each in found.items()]


def _explain(admin: Any, options: Options) -> Any:
    found = admin.scalable_topics.explain(options.topic)
    if options.output == "json":
        return found
    waiting = [
        f"{name}: {sentence}"
        for name, sentences in found["subscriptions"].items()
        for sentence in sentences
    ]
    return "\n".join([*found["scaling"], *waiting])


def _decisions(admin: Any, options: Options) -> Any:
    found = admin.scalable_topics.decisions(options.topic)
    if options.output == "json":
        return found
    return [
        {
            "time": format_time(each["atMs"]),
            "times": each.get("times", 1),
            "because": each["trigger"],
            "segments": each["activeSegments"],
            "consumers": each["consumers"],
            "decision": " ".join([each["decision"], *map(str, each.get("segments", ()))]),
            "reason": each.get("failure", each["reason"]),
            "held by": ", ".join(each["heldBy"]),
        }
        for each in found
    ]


def _scale(admin: Any, options: Options) -> None:
    until_ms = parse_moment_ms(options.hold_until) if options.hold_until else None
    admin.scalable_topics.scale(options.topic, options.segments, hold_until_ms=until_ms)


def _update_properties(admin: Any, options: Options) -> None:
    if not options.property and not options.clear:
        raise UsageError("magnetar: give --property, or --clear to remove all")
    kept = {} if options.clear else admin.scalable_topics.properties(options.topic)
    admin.scalable_topics.set_properties(options.topic, {**kept, **dict(join(options.property))})


# Subscriptions
def _subscriptions(admin: Any, options: Options) -> Any:
    found = admin.scalable_topics.subscriptions(options.topic)
    if options.output == "json":
        return found
    return [
        {
            "subscription": name,
            "type": each["type"],
            "backlog": _count_messages(admin, options.topic, name, each["backlog"]),
            "entries": each["msgBacklog"],
        }
        for name, each in found.items()
    ]


def _count_messages(admin: Any, topic: str, name: str, entries: Mapping[str, int]) -> str:
    """Messages that wait: counted where the backlog is short, else estimated by its begin.

    A broker keeps the place of a subscription in entries, and an entry may be a batch.
    """
    count, is_estimate = 0.0, False
    for segment, backlog in entries.items():
        if not backlog:
            continue
        try:
            read = admin.scalable_topics.analyze_backlog(
                topic, int(segment), name, entries_max=_READ_MAX
            )
        except AdminError:
            return "?"  # the segment is on another broker, or it went meanwhile
        is_estimate |= read["aborted"]
        each = read["messages"] / max(1, read["entries"])
        count += backlog * each if read["aborted"] else read["messages"]
    return f"{'about ' if is_estimate else ''}{round(count)}"


def _seek(admin: Any, options: Options) -> None:
    timestamp_ms = SystemClock().now_ms() - options.time
    admin.scalable_topics.seek(options.topic, options.subscription, timestamp_ms)


def _peek(admin: Any, options: Options) -> list[dict[str, Any]]:
    place = (options.topic, options.segment_id, options.subscription)
    return peek(partial(admin.scalable_topics.peek, *place), options.count)


OWN: Final[Own] = {
    "scalable_topics.describe": _describe,
    "scalable_topics.segments": _segments,
    "scalable_topics.load": _load,
    "scalable_topics.explain": _explain,
    "scalable_topics.decisions": _decisions,
    "scalable_topics.scale": _scale,
    "scalable_topics.update_properties": _update_properties,
    "scalable_topics.set_auto_scale_policy": Form(
        tuple(policy_parts(AUTO_SCALE)), partial(build_value, AUTO_SCALE)
    ),
    "scalable_topics.subscriptions": _subscriptions,
    "scalable_topics.seek": _seek,
    "scalable_topics.peek": _peek,
}
