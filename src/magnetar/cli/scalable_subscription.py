"""`magnetar admin scalable-topics`: subscriptions of the whole topic."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import Flag, Options, Switch, Verb
from magnetar.cli.scalable import TOPIC
from magnetar.cli.value import parse_duration_ms, parse_duration_s
from magnetar.client.error import AdminNotFound
from magnetar.runtime.clock import SystemClock

_NAME: Final = Flag(("-s", "--subscription"), "name of the subscription", required=True)


def _list(admin: Any, options: Options) -> Any:
    found = admin.scalable_topics.subscriptions(options.topic)
    if options.output == "json":
        return found
    return [
        {"subscription": name, "type": each["type"], "backlog": each["msgBacklog"]}
        for name, each in found.items()
    ]


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
