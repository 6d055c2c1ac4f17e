"""Which broker serves a topic."""

from __future__ import annotations

from typing import Final

from magnetar.model.name import TopicDomain
from magnetar.model.permission import NAMESPACE_READ, TOPIC_READ
from magnetar.operation.row import TEXT_PLAIN, TOPIC, Result, Table, Verb, flag, query

TABLE: Final = Table(
    "topics",
    "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}",
    TOPIC,
    domains=tuple(TopicDomain),
)

TABLE.add(
    "lookup",
    "GET",
    TOPIC_READ,
    "The addresses of the broker that serves a topic.",
    flag("authoritative")._replace(is_ignored=True),
    query("listener_name")._replace(header="x-pulsar-listenername"),
    result=Result.PROPERTIES,
    cli=Verb("lookup", "show which broker serves a topic"),
)
TABLE.compose(
    "partitioned_lookup",
    "The broker's URL of each partition; of the topic itself when it has none.",
    result=Result.PROPERTIES,
    cli=Verb("partitioned-lookup", "show which broker serves each partition"),
)
TABLE.add(
    "bundle_range",
    "GET /bundle",
    NAMESPACE_READ,
    "The hash range of its namespace that holds a topic.",
    result=Result.TEXT,
    cli=Verb("bundle-range", "show the bundle of a topic"),
    produces=(TEXT_PLAIN,),
)
