"""What the pages of the web console ask, as far as commands ask it too; the console serves it."""

from __future__ import annotations

from typing import Final

from magnetar.operation.row import TOPIC, Kind, Result, Table, Verb, flag, query

_ROOT: Final = "/console/api"
BROKER: Final = Table("brokers", _ROOT)
TABLE: Final = Table("topics", _ROOT)

BROKER.compose(
    "overview",
    "The brokers at a glance: what topics carry, and what each process costs.",
    call="GET /overview",
    result=Result.DOCUMENT,
)
TABLE.compose(
    "table",
    "Some of the topics as rows with numbers, in the order of one of them.",
    query("text"),
    query("namespace"),
    query("sort"),
    flag("descending"),
    query("limit", Kind.NUMBER),
    call="GET /topics",
    result=Result.DOCUMENT,
)
_TOPIC: Final = TABLE.below("/{domain}/{tenant}/{namespace}/{topic}", TOPIC)
_TOPIC.compose(
    "policy_origins",
    "Every policy of a topic, with the level that its value comes from.",
    call="GET /policies",
    result=Result.DOCUMENTS,
)
_TOPIC.compose(
    "describe",
    "A topic of any kind on one screen.",
    result=Result.ANY,
    cli=Verb("describe", "show a topic of any kind on one screen"),
)
