"""`magnetar admin scalable-topics`: subscriptions of the whole topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from magnetar.cli.command import Flag, Options, Switch, Verb
from magnetar.cli.scalable import TOPIC
from magnetar.cli.value import parse_duration_ms, parse_duration_s
from magnetar.client.error import AdminError, AdminNotFound
from magnetar.runtime.clock import SystemClock

_READ_MAX: Final = 2000
"""Entries of one segment that are read to count their messages."""
_NAME: Final = Flag(("-s", "--subscription"), "name of the subscription", required=True)


def _list(admin: Any, options: Options) -> Any:
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
    found: list[dict[str, Any]] = []
    for place in range(1, options.count + 1):
        try:
            entry = admin.scalable_topics.peek(
                options.topic, options.segment_id, options.subscription, place
            )
        except AdminNotFound as error:
            if not error.reason.startswith("Message not found"):
                raise
            break  # fewer messages wait than were asked for
        found.append({"id": entry.id, **entry.headers, "data": entry.data})
    return found


VERBS: Final = (
    Verb("subscriptions", "list the subscriptions of a topic", (TOPIC,), _list),
    Verb(
        "get-subscription",
        "show a subscription: its backlog by segment, its consumers, what waits",
        (TOPIC, _NAME),
        lambda a, o: a.scalable_topics.subscription(o.topic, o.subscription),
    ),
    Verb(
        "create-subscription",
        "add a subscription",
        (
            TOPIC,
            _NAME,
            Flag(
                ("-t", "--type"),
                "how its consumers share messages (STREAM)",
                choices=("STREAM", "QUEUE"),
                default="STREAM",
            ),
        ),
        lambda a, o: a.scalable_topics.create_subscription(o.topic, o.subscription, kind=o.type),
        shows=False,
    ),
    Verb(
        "delete-subscription",
        "delete a subscription from every segment",
        (TOPIC, _NAME, Switch(("-f", "--force"), "even while consumers are connected")),
        lambda a, o: a.scalable_topics.delete_subscription(o.topic, o.subscription, force=o.force),
        shows=False,
    ),
    Verb(
        "seek",
        "move a subscription back in time, in every segment",
        (
            TOPIC,
            _NAME,
            Flag(
                ("-t", "--time"),
                "how far back from now, such as 90s or 1h",
                parse=parse_duration_ms,
                required=True,
            ),
        ),
        _seek,
        shows=False,
    ),
    Verb(
        "clear-backlog",
        "acknowledge everything that waits",
        (TOPIC, _NAME),
        lambda a, o: a.scalable_topics.clear_backlog(o.topic, o.subscription),
        shows=False,
    ),
    Verb(
        "expire-messages",
        "acknowledge what is older than a time",
        (
            TOPIC,
            _NAME,
            Flag(("-t", "--expireTime"), "age, such as 90s", parse_duration_s, required=True),
        ),
        lambda a, o: a.scalable_topics.expire(o.topic, o.subscription, o.expireTime),
        shows=False,
    ),
    Verb(
        "peek-messages",
        "show the next messages of one segment without acknowledging them",
        (
            TOPIC,
            Flag(("-i", "--segment-id"), "id of the segment", parse=int, required=True),
            _NAME,
            Flag(("-n", "--count"), "how many (1)", parse=int, default=1),
        ),
        _peek,
    ),
)
