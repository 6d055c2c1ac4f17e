"""/lookup/v2: which broker serves a topic."""

from __future__ import annotations

from magnetar.admin.request import Call
from magnetar.admin.response import TEXT, text_response
from magnetar.admin.route import Priority, Query, Table
from magnetar.broker.api import BrokerApi
from magnetar.model.name import TopicDomain
from magnetar.model.permission import NAMESPACE_READ, TOPIC_READ

TABLE = Table(
    "lookup",
    "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}",
    domains=tuple(TopicDomain),
)


async def find_broker(api: BrokerApi, call: Call) -> object:
    """The addresses of the broker that serves a topic."""
    listener = call.query("listenerName") or call.request.headers.get("x-pulsar-listenername")
    return await api.lookup.find_broker(call.topic, listener)


async def find_bundle(api: BrokerApi, call: Call) -> object:
    """The hash range of its namespace that holds a topic."""
    return text_response(await api.lookup.find_bundle(call.topic))


TABLE.add(
    "GET",
    "",
    find_broker,
    TOPIC_READ,
    priority=Priority.P0,
    query=(Query("authoritative", default=False), Query("listenerName", str)),
)
TABLE.add("GET", "/bundle", find_bundle, NAMESPACE_READ, produces=TEXT)
