"""Subscriptions of a topic, or of all partitions of one."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.log import BacklogAnalysis
from magnetar.model.permission import TOPIC_CONSUME
from magnetar.operation.row import (
    BYTES,
    COUNT,
    FORCE,
    ISOLATION,
    REQUIRED,
    SUBSCRIPTION,
    TOPIC,
    Answer,
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
ONE: Final = TABLE.below("/subscription/{subscription}", SUBSCRIPTION)
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
    "GET /subscriptions",
    TOPIC_CONSUME,
    "Names of a topic's subscriptions; of all partitions together.",
    result=Result.NAMES,
    cli=_verbs("subscriptions", "list the subscriptions of a topic", "list"),
)
ONE.add(
    "create",
    "PUT",
    TOPIC_CONSUME,
    "Create a subscription at a position, at the end unless told.",
    body("start", Kind.DOCUMENT, None),
    field("position", Kind.MESSAGE_ID).asked(
        "where it starts: earliest, latest or ledger:entry (latest)", "-m", "--messageId"
    ),
    flag("replicated").asked("also in the other clusters", "-r", "--replicated"),
    _PROPERTIES,
    cli=_verbs("create-subscription", "add a subscription", "create"),
)
ONE.add(
    "delete",
    "DELETE",
    TOPIC_CONSUME,
    "Delete a subscription without consumers, or with them when forced.",
    FORCE.asked("even while consumers are connected", "-f", "--force"),
    cli=_verbs("unsubscribe", "delete a subscription", "delete"),
)
ONE.compose(
    "reset",
    "Move a subscription to a message or a time.",
    local("time", Kind.NUMBER).asked(
        "how far back from now, such as 90s or 3h", "-t", "--time", reader=Reader.AGO_MS
    ),
    _AT.asked("earliest, latest or ledger:entry", "-m", "--messageId"),
    _NOT_AT_IT,
    cli=_verbs("reset-cursor", "move a subscription to a message or a time", "reset"),
)
ONE.add(
    "reset_to_time",
    "POST /resetcursor/{timestamp}",
    TOPIC_CONSUME,
    "Move a subscription to what was published at or after a time.",
    path("timestamp_ms", kind=Kind.NUMBER, wire="timestamp"),
)
ONE.add(
    "reset_to_id",
    "POST /resetcursor",
    TOPIC_CONSUME,
    "Move a subscription to a message id.\n\nWith `excluded` it is moved behind the message.",
    *_TARGET,
)
ONE.add(
    "skip",
    "POST /skip/{count}",
    TOPIC_CONSUME,
    "Acknowledge the next entries of the backlog.",
    path("count", "how many", "-n", "--count", kind=Kind.NUMBER),
    cli=_verbs("skip", "acknowledge the next messages"),
)
ONE.add(
    "skip_all",
    "POST /skip_all",
    TOPIC_CONSUME,
    "Acknowledge the whole backlog.",
    cli=_verbs("clear-backlog", "acknowledge everything that waits"),
)
ONE.compose(
    "expire_by",
    "Acknowledge what is older than a time, or up to a message.",
    local("seconds", Kind.NUMBER).asked(
        "age, such as 90s or 3h", "-t", "--expireTime", reader=Reader.DURATION_S
    ),
    _AT.asked("ledger:entry", "-p", "--position"),
    _NOT_AT_IT,
    cli=_verbs(
        "expire-messages", "acknowledge what is older than a time, or up to a message", "expire"
    ),
)
ONE.add(
    "expire",
    "POST /expireMessages/{seconds}",
    TOPIC_CONSUME,
    "Acknowledge what is older than some seconds.",
    path("seconds", kind=Kind.NUMBER),
)
ONE.add(
    "expire_to",
    "POST /expireMessages",
    TOPIC_CONSUME,
    "Acknowledge everything up to a message id.\n\nWith `excluded` the message itself stays.",
    *_TARGET,
)
TABLE.add(
    "expire_all",
    "POST /all_subscription/expireMessages/{seconds}",
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
ONE.add(
    "peek",
    "GET /position/{number}",
    TOPIC_CONSUME,
    "The entry `place` entries ahead, from 1; nothing is acknowledged.",
    path("place", kind=Kind.NUMBER, wire="number"),
    COUNT,
    ISOLATION,
    result=Result.ENTRY,
    produces=(BYTES,),
    cli=_verbs("peek-messages", "show the next messages without acknowledging them", "peek"),
)
ONE.add(
    "properties",
    "GET /properties",
    TOPIC_CONSUME,
    "A subscription's properties.",
    result=Result.PROPERTIES,
    cli=_verbs(
        "get-subscription-properties", "show the properties of a subscription", "get-properties"
    ),
)
ONE.add(
    "set_properties",
    "PUT /properties",
    TOPIC_CONSUME,
    "Replace a subscription's properties.",
    body("properties", Kind.PROPERTIES),
    _PROPERTIES._replace(name="property", place=Place.LOCAL),
    local("clear", Kind.FLAG, False).asked("remove all properties", "-c", "--clear"),
    cli=_verbs(
        "update-subscription-properties",
        "set the properties of a subscription",
        "update-properties",
    ),
)
ONE.add(
    "analyze_backlog",
    "POST /analyzeBacklog",
    TOPIC_CONSUME,
    "Count a subscription's backlog entry by entry.",
    result=Answer(BacklogAnalysis),
    cli=_verbs("analyze-backlog", "count what waits, entry by entry"),
    status=200,
)
ONE.add(
    "replicated_status",
    "GET /replicatedSubscriptionStatus",
    TOPIC_CONSUME,
    "Whether a subscription's state follows the messages to other clusters.",
    result=Result.FLAGS,
    cli=_verbs(
        "get-replicated-subscription-status",
        "show whether a subscription is replicated",
        "get-replicated",
    ),
)
ONE.compose(
    "set_replicated_status",
    "Replicate a subscription, or stop it.",
    body("enabled", Kind.FLAG),
    local("enable", Kind.FLAG).asked("switch it on", "-e", "--enable"),
    local("disable", Kind.FLAG).asked("switch it off", "-d", "--disable"),
    call="POST /replicatedSubscriptionStatus",
    cli=_verbs(
        "set-replicated-subscription-status",
        "replicate a subscription, or stop it",
        "set-replicated",
    ),
)
