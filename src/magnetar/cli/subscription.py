"""`magnetar admin subscriptions`, and the same verbs under the names they have among topics."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import (
    DISABLE,
    ENABLE,
    TOPIC,
    Flag,
    Options,
    Switch,
    UsageError,
    Verb,
    choose_enabled,
)
from magnetar.cli.value import parse_duration_ms, parse_duration_s, parse_pair
from magnetar.client.error import AdminNotFound
from magnetar.client.message_id import parse_message_id
from magnetar.runtime.clock import SystemClock

_NAME: Final = Flag(("-s", "--subscription"), "name of the subscription", required=True)
_FORCE: Final = Switch(("-f", "--force"), "even while consumers are connected")
_EXCLUDED: Final = Switch(("-e", "--exclude-reset-position"), "start after the position, not at it")
_PROPERTIES: Final = Flag(
    ("-p", "--property"),
    "a property; may be given again",
    parse=parse_pair,
    many=True,
    variable="KEY=VALUE",
)


def _create(admin: Any, options: Options) -> None:
    admin.subscriptions.create(
        options.topic,
        options.subscription,
        position=options.messageId,
        replicated=options.replicated,
        properties=dict(options.property or []),
    )


def _reset(admin: Any, options: Options) -> None:
    name = options.subscription
    if options.messageId is not None:
        admin.subscriptions.reset_to_id(
            options.topic, name, options.messageId, excluded=options.exclude_reset_position
        )
    elif options.time is not None:
        timestamp_ms = SystemClock().now_ms() - options.time
        admin.subscriptions.reset_to_time(options.topic, name, timestamp_ms)
    else:
        raise UsageError("magnetar: give one of --messageId and --time")


def _expire(admin: Any, options: Options) -> None:
    name = options.subscription
    if options.position is not None:
        admin.subscriptions.expire_to(
            options.topic, name, options.position, excluded=options.exclude_reset_position
        )
    elif options.expireTime is not None:
        admin.subscriptions.expire(options.topic, name, options.expireTime)
    else:
        raise UsageError("magnetar: give one of --position and --expireTime")


def _peek(admin: Any, options: Options) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for place in range(1, options.count + 1):
        try:
            entry = admin.subscriptions.peek(options.topic, options.subscription, place)
        except AdminNotFound as error:
            if not error.reason.startswith("Message not found"):
                raise
            break  # fewer messages wait than were asked for
        found.append({"id": entry.id, **entry.headers, "data": entry.data})
    return found


def _set_properties(admin: Any, options: Options) -> None:
    if not options.property and not options.clear:
        raise UsageError("magnetar: give --property, or --clear to remove all")
    properties = {} if options.clear else dict(options.property)
    admin.subscriptions.set_properties(options.topic, options.subscription, properties)


LIST: Final = Verb(
    "subscriptions",
    "list the subscriptions of a topic",
    (TOPIC,),
    lambda a, o: a.subscriptions.list(o.topic),
)
CREATE: Final = Verb(
    "create-subscription",
    "add a subscription",
    (
        TOPIC,
        _NAME,
        Flag(
            ("-m", "--messageId"),
            "where it starts: earliest, latest or ledger:entry (latest)",
            parse=parse_message_id,
            default=parse_message_id("latest"),
        ),
        Switch(("-r", "--replicated"), "also in the other clusters"),
        _PROPERTIES,
    ),
    _create,
    shows=False,
)
DELETE: Final = Verb(
    "unsubscribe",
    "delete a subscription",
    (TOPIC, _NAME, _FORCE),
    lambda a, o: a.subscriptions.delete(o.topic, o.subscription, force=o.force),
    shows=False,
)
RESET: Final = Verb(
    "reset-cursor",
    "move a subscription to a message or a time",
    (
        TOPIC,
        _NAME,
        Flag(("-t", "--time"), "how far back from now, such as 90s or 3h", parse_duration_ms),
        Flag(("-m", "--messageId"), "earliest, latest or ledger:entry", parse=parse_message_id),
        _EXCLUDED,
    ),
    _reset,
    shows=False,
)
SKIP: Final = Verb(
    "skip",
    "acknowledge the next messages",
    (TOPIC, _NAME, Flag(("-n", "--count"), "how many", parse=int, required=True)),
    lambda a, o: a.subscriptions.skip(o.topic, o.subscription, o.count),
    shows=False,
)
CLEAR: Final = Verb(
    "clear-backlog",
    "acknowledge everything that waits",
    (TOPIC, _NAME),
    lambda a, o: a.subscriptions.skip_all(o.topic, o.subscription),
    shows=False,
)
EXPIRE: Final = Verb(
    "expire-messages",
    "acknowledge what is older than a time, or up to a message",
    (
        TOPIC,
        _NAME,
        Flag(("-t", "--expireTime"), "age, such as 90s or 3h", parse=parse_duration_s),
        Flag(("-p", "--position"), "ledger:entry", parse=parse_message_id),
        _EXCLUDED,
    ),
    _expire,
    shows=False,
)
EXPIRE_ALL: Final = Verb(
    "expire-messages-all-subscriptions",
    "acknowledge what is older than a time, on every subscription",
    (
        TOPIC,
        Flag(("-t", "--expireTime"), "age, such as 90s", parse=parse_duration_s, required=True),
    ),
    lambda a, o: a.subscriptions.expire_all(o.topic, o.expireTime),
    shows=False,
)
PEEK: Final = Verb(
    "peek-messages",
    "show the next messages without acknowledging them",
    (TOPIC, _NAME, Flag(("-n", "--count"), "how many (1)", parse=int, default=1)),
    _peek,
)
GET_PROPERTIES: Final = Verb(
    "get-subscription-properties",
    "show the properties of a subscription",
    (TOPIC, _NAME),
    lambda a, o: a.subscriptions.properties(o.topic, o.subscription),
)
SET_PROPERTIES: Final = Verb(
    "update-subscription-properties",
    "set the properties of a subscription",
    (TOPIC, _NAME, _PROPERTIES, Switch(("-c", "--clear"), "remove all properties")),
    _set_properties,
    shows=False,
)
ANALYZE: Final = Verb(
    "analyze-backlog",
    "count what waits, entry by entry",
    (TOPIC, _NAME),
    lambda a, o: a.subscriptions.analyze_backlog(o.topic, o.subscription),
)
GET_REPLICATED: Final = Verb(
    "get-replicated-subscription-status",
    "show whether a subscription is replicated",
    (TOPIC, _NAME),
    lambda a, o: a.subscriptions.replicated_status(o.topic, o.subscription),
)
SET_REPLICATED: Final = Verb(
    "set-replicated-subscription-status",
    "replicate a subscription, or stop it",
    (TOPIC, _NAME, ENABLE, DISABLE),
    lambda a, o: a.subscriptions.set_replicated_status(
        o.topic, o.subscription, enabled=choose_enabled(o)
    ),
    shows=False,
)

TOPIC_VERBS: Final = (
    LIST,
    CREATE,
    DELETE,
    RESET,
    SKIP,
    CLEAR,
    EXPIRE,
    EXPIRE_ALL,
    PEEK,
    GET_PROPERTIES,
    SET_PROPERTIES,
    ANALYZE,
    GET_REPLICATED,
    SET_REPLICATED,
)
_SHORT: Final = {
    "subscriptions": "list",
    "create-subscription": "create",
    "unsubscribe": "delete",
    "reset-cursor": "reset",
    "expire-messages": "expire",
    "expire-messages-all-subscriptions": "expire-all",
    "peek-messages": "peek",
    "get-subscription-properties": "get-properties",
    "update-subscription-properties": "update-properties",
    "get-replicated-subscription-status": "get-replicated",
    "set-replicated-subscription-status": "set-replicated",
}


def _shortened(verb: Verb) -> Verb:
    """The verb under its short name; the long one still works."""
    name = _SHORT.get(verb.name, verb.name)
    aliases = (verb.name, *verb.aliases) if name != verb.name else verb.aliases
    return verb._replace(name=name, aliases=aliases)


VERBS: Final = tuple(_shortened(verb) for verb in TOPIC_VERBS)
