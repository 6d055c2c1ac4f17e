"""Subscriptions of a scalable topic: each acts on every segment of the layout."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.log import BacklogAnalysis
from magnetar.model.answer.scalable import GroupAnswer
from magnetar.model.permission import TOPIC_CONSUME
from magnetar.operation.row import (
    BYTES,
    COUNT,
    FORCE,
    ISOLATION,
    SUBSCRIPTION,
    Answer,
    Form,
    Kind,
    Parameter,
    Reader,
    Result,
    Verb,
    path,
    query,
)
from magnetar.operation.scalable import SEGMENT, TOPIC, make_table
from magnetar.operation.segment import TIMESTAMP

TABLE: Final = make_table(TOPIC)
_ONE: Final = TABLE.below("/subscriptions/{subscription}", SUBSCRIPTION)
_OF_SEGMENT: Final = "/segments/{segment}/subscriptions/{subscription}"

TABLE.add(
    "subscriptions",
    "GET /subscriptions",
    TOPIC_CONSUME,
    "Subscriptions with kind and backlog, by name.",
    result=Answer(GroupAnswer, Form.BY_NAME),
    cli=Verb("subscriptions", "list the subscriptions of a topic"),
)
_ONE.add(
    "subscription",
    "GET",
    TOPIC_CONSUME,
    "One subscription: kind, backlog of each segment, what its consumers read and wait for.",
    result=Answer(GroupAnswer),
    cli=Verb(
        "get-subscription", "show a subscription: its backlog by segment, its consumers, what waits"
    ),
)
_ONE.add(
    "create_subscription",
    "PUT",
    TOPIC_CONSUME,
    "Make a subscription that gets all messages from now on; one that exists stays as it is.\n\n"
    "`kind` is STREAM or QUEUE.",
    Parameter("kind", wire="type", default="STREAM").asked(
        "how its consumers share messages (STREAM)", "-t", "--type", choices=("STREAM", "QUEUE")
    ),
    cli=Verb("create-subscription", "add a subscription"),
)
_ONE.add(
    "delete_subscription",
    "DELETE",
    TOPIC_CONSUME,
    "Delete a subscription from every segment; one with consumers only when forced.",
    FORCE.asked("even while consumers are connected", "-f", "--force"),
    cli=Verb("delete-subscription", "delete a subscription from every segment"),
)
_ONE.add(
    "seek",
    "POST /seek",
    TOPIC_CONSUME,
    "Move a subscription to what was published at or after a time.",
    TIMESTAMP.asked(
        "how far back from now, such as 90s or 1h", "-t", "--time", reader=Reader.AGO_MS
    ),
    cli=Verb("seek", "move a subscription back in time, in every segment"),
)
_ONE.add(
    "clear_backlog",
    "POST /skip-all",
    TOPIC_CONSUME,
    "Acknowledge everything in every segment.",
    cli=Verb("clear-backlog", "acknowledge everything that waits"),
)
_ONE.add(
    "expire",
    "POST /expireMessages/{seconds}",
    TOPIC_CONSUME,
    "Acknowledge what is older than some seconds, in every segment.",
    path("seconds", kind=Kind.NUMBER).asked(
        "age, such as 90s", "-t", "--expireTime", reader=Reader.DURATION_S
    ),
    cli=Verb("expire-messages", "acknowledge what is older than a time"),
)
TABLE.add(
    "peek",
    f"GET {_OF_SEGMENT}/position/{{number}}",
    TOPIC_CONSUME,
    "The nth unacknowledged entry of one segment, counted from 1; nothing is acknowledged.",
    SEGMENT.asked("id of the segment", "-i", "--segment-id"),
    SUBSCRIPTION,
    path("place", kind=Kind.NUMBER, wire="number"),
    COUNT,
    ISOLATION,
    result=Result.ENTRY,
    produces=(BYTES,),
    cli=Verb("peek-messages", "show the next messages of one segment without acknowledging them"),
)
TABLE.add(
    "analyze_backlog",
    f"POST {_OF_SEGMENT}/analyzeBacklog",
    TOPIC_CONSUME,
    "Count the entries and messages that a subscription has not acknowledged of one segment.\n\n"
    "Up to so many entries are read; `aborted` tells that there are more.",
    SEGMENT,
    SUBSCRIPTION,
    query("entries_max", Kind.NUMBER),
    result=Answer(BacklogAnalysis),
    status=200,
)
