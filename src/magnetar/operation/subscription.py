"""Subscriptions of a topic, or of all partitions of one."""

from __future__ import annotations

from typing import Final

from magnetar.model.permission import TOPIC_CONSUME
from magnetar.operation.row import (
    BYTES,
    COUNT,
    FORCE,
    REQUIRED,
    SUBSCRIPTION,
    TOPIC,
    Kind,
    Place,
    Reader,
    Result,
    Table,
    Verb,
    body,
    field,
    flag,
    local,
    path,
)

TABLE: Final = Table(
    "subscriptions", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}", TOPIC, for_owner=True
)
_ONE: Final = "/subscription/{subscription}"
_POSITION: Final = body("target", Kind.DOCUMENT)._replace(missing="A position is required")
_AT: Final = local("position", Kind.MESSAGE_ID)
_TARGET: Final = (
    _POSITION,
    field("position", Kind.MESSAGE_ID, REQUIRED),
    field("excluded", Kind.FLAG, False),
)
_NOT_AT_IT: Final = local("excluded", Kind.FLAG).asked(
    "start after the position, not at it", "-e", "--exclude-reset-position"
)
_PROPERTIES: Final = field("properties", Kind.PROPERTIES).asked(
    "a property; may be given again", "-p", "--property", many=True, variable="KEY=VALUE"
)


def _verbs(name: str, help: str, short: str = "") -> tuple[Verb, Verb]:
    """Among the verbs of topics, and under a short name among those of subscriptions."""
    aliases = (name,) if short else ()
    return Verb(name, help, group="topics"), Verb(short or name, help, aliases)


TABLE.add(
    "list",
    "GET",
    "/subscriptions",
    TOPIC_CONSUME,
    "Names of a topic's subscriptions; of all partitions together.",
    result=Result.NAMES,
    cli=_verbs("subscriptions", "list the subscriptions of a topic", "list"),
)
TABLE.add(
    "create",
    "PUT",
    _ONE,
    TOPIC_CONSUME,
    "Create a subscription at a position, at the end unless told.",
    SUBSCRIPTION,
    body("start", Kind.DOCUMENT, None),
    field("position", Kind.MESSAGE_ID).asked(
        "where it starts: earliest, latest or ledger:entry (latest)", "-m", "--messageId"
    ),
    flag("replicated").asked("also in the other clusters", "-r", "--replicated"),
    _PROPERTIES,
    cli=_verbs("create-subscription", "add a subscription", "create"),
)
TABLE.add(
    "delete",
    "DELETE",
    _ONE,
    TOPIC_CONSUME,
    "Delete a subscription without consumers, or with them when forced.",
    SUBSCRIPTION,
    FORCE.asked("even while consumers are connected", "-f", "--force"),
    cli=_verbs("unsubscribe", "delete a subscription", "delete"),
)
TABLE.compose(
    "reset",
    "Move a subscription to a message or a time.",
    SUBSCRIPTION,
    local("time", Kind.NUMBER).asked(
        "how far back from now, such as 90s or 3h", "-t", "--time", reader=Reader.AGO_MS
    ),
    _AT.asked("earliest, latest or ledger:entry", "-m", "--messageId"),
    _NOT_AT_IT,
    cli=_verbs("reset-cursor", "move a subscription to a message or a time", "reset"),
)
TABLE.add(
    "reset_to_time",
    "POST",
    f"{_ONE}/resetcursor/{{timestamp}}",
    TOPIC_CONSUME,
    "Move a subscription to what was published at or after a time.",
    SUBSCRIPTION,
    path("timestamp_ms", kind=Kind.NUMBER, wire="timestamp"),
)
TABLE.add(
    "reset_to_id",
    "POST",
    f"{_ONE}/resetcursor",
    TOPIC_CONSUME,
    "Move a subscription to a message id.\n\nWith `excluded` it is moved behind the message.",
    SUBSCRIPTION,
    *_TARGET,
)
TABLE.add(
    "skip",
    "POST",
    f"{_ONE}/skip/{{count}}",
    TOPIC_CONSUME,
    "Acknowledge the next entries of the backlog.",
    SUBSCRIPTION,
    path("count", "how many", "-n", "--count", kind=Kind.NUMBER),
    cli=_verbs("skip", "acknowledge the next messages"),
)
TABLE.add(
    "skip_all",
    "POST",
    f"{_ONE}/skip_all",
    TOPIC_CONSUME,
    "Acknowledge the whole backlog.",
    SUBSCRIPTION,
    cli=_verbs("clear-backlog", "acknowledge everything that waits"),
)
TABLE.compose(
    "expire_by",
    "Acknowledge what is older than a time, or up to a message.",
    SUBSCRIPTION,
    local("seconds", Kind.NUMBER).asked(
        "age, such as 90s or 3h", "-t", "--expireTime", reader=Reader.DURATION_S
    ),
    _AT.asked("ledger:entry", "-p", "--position"),
    _NOT_AT_IT,
    cli=_verbs(
        "expire-messages", "acknowledge what is older than a time, or up to a message", "expire"
    ),
)
TABLE.add(
    "expire",
    "POST",
    f"{_ONE}/expireMessages/{{seconds}}",
    TOPIC_CONSUME,
    "Acknowledge what is older than some seconds.",
    SUBSCRIPTION,
    path("seconds", kind=Kind.NUMBER),
)
TABLE.add(
    "expire_to",
    "POST",
    f"{_ONE}/expireMessages",
    TOPIC_CONSUME,
    "Acknowledge everything up to a message id.\n\nWith `excluded` the message itself stays.",
    SUBSCRIPTION,
    *_TARGET,
)
TABLE.add(
    "expire_all",
    "POST",
    "/all_subscription/expireMessages/{seconds}",
    TOPIC_CONSUME,
    "Acknowledge what is older than some seconds, in every subscription.",
    path("seconds", kind=Kind.NUMBER).asked(
        "age, such as 90s", "-t", "--expireTime", reader=Reader.DURATION_S
    ),
    cli=_verbs(
        "expire-messages-all-subscriptions",
        "acknowledge what is older than a time, on every subscription",
        "expire-all",
    ),
)
TABLE.add(
    "peek",
    "GET",
    f"{_ONE}/position/{{number}}",
    TOPIC_CONSUME,
    "The entry `place` entries ahead, from 1; nothing is acknowledged.",
    SUBSCRIPTION,
    path("place", kind=Kind.NUMBER, wire="number"),
    COUNT,
    result=Result.ENTRY,
    produces=(BYTES,),
    cli=_verbs("peek-messages", "show the next messages without acknowledging them", "peek"),
)
TABLE.add(
    "properties",
    "GET",
    f"{_ONE}/properties",
    TOPIC_CONSUME,
    "A subscription's properties.",
    SUBSCRIPTION,
    result=Result.PROPERTIES,
    cli=_verbs(
        "get-subscription-properties", "show the properties of a subscription", "get-properties"
    ),
)
TABLE.add(
    "set_properties",
    "PUT",
    f"{_ONE}/properties",
    TOPIC_CONSUME,
    "Replace a subscription's properties.",
    SUBSCRIPTION,
    body("properties", Kind.PROPERTIES),
    _PROPERTIES._replace(name="property", place=Place.LOCAL),
    local("clear", Kind.FLAG, False).asked("remove all properties", "-c", "--clear"),
    cli=_verbs(
        "update-subscription-properties",
        "set the properties of a subscription",
        "update-properties",
    ),
)
TABLE.add(
    "analyze_backlog",
    "POST",
    f"{_ONE}/analyzeBacklog",
    TOPIC_CONSUME,
    "Count a subscription's backlog entry by entry.",
    SUBSCRIPTION,
    result=Result.DOCUMENT,
    cli=_verbs("analyze-backlog", "count what waits, entry by entry"),
    status=200,
)
TABLE.add(
    "replicated_status",
    "GET",
    f"{_ONE}/replicatedSubscriptionStatus",
    TOPIC_CONSUME,
    "Whether a subscription's state follows the messages to other clusters.",
    SUBSCRIPTION,
    result=Result.FLAGS,
    cli=_verbs(
        "get-replicated-subscription-status",
        "show whether a subscription is replicated",
        "get-replicated",
    ),
)
TABLE.compose(
    "set_replicated_status",
    "Replicate a subscription, or stop it.",
    SUBSCRIPTION,
    body("enabled", Kind.FLAG),
    local("enable", Kind.FLAG).asked("switch it on", "-e", "--enable"),
    local("disable", Kind.FLAG).asked("switch it off", "-d", "--disable"),
    method="POST",
    path=f"{_ONE}/replicatedSubscriptionStatus",
    cli=_verbs(
        "set-replicated-subscription-status",
        "replicate a subscription, or stop it",
        "set-replicated",
    ),
)
