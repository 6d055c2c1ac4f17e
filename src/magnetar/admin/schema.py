"""/admin/v2/schemas"""

from __future__ import annotations

from magnetar.admin.request import Call
from magnetar.admin.route import Body, Priority, Query, Table
from magnetar.broker.api import BrokerApi
from magnetar.broker.api.schema import SchemaPayload
from magnetar.model.permission import TOPIC_ADMIN, TOPIC_PRODUCE, TOPIC_READ

TABLE = Table("schemas", "/admin/v2/schemas/{tenant}/{namespace}/{topic}")
_PAYLOAD = Body(
    SchemaPayload,
    required=True,
    missing="A schema payload is required",
    text_limit="schema_bytes",
)


async def get_schema(api: BrokerApi, call: Call) -> object:
    """The topic's latest schema."""
    return await api.schemas.get(call.topic)


async def get_schema_version(api: BrokerApi, call: Call) -> object:
    """One version of the topic's schema."""
    return await api.schemas.get(call.topic, call.integer("version"))


async def get_schemas(api: BrokerApi, call: Call) -> object:
    """All versions of the topic's schema."""
    return await api.schemas.list(call.topic)


async def get_metadata(api: BrokerApi, call: Call) -> object:
    """Where the versions of the topic's schema are stored."""
    return await api.schemas.metadata(call.topic)


async def post_schema(api: BrokerApi, call: Call) -> object:
    """Add a schema if it is compatible."""
    return await api.schemas.add(call.topic, call.payload)


async def delete_schema(api: BrokerApi, call: Call) -> object:
    """Mark the topic's schema as deleted, or remove it when forced."""
    return await api.schemas.delete(call.topic, force=call.flag("force"))


async def check_compatibility(api: BrokerApi, call: Call) -> object:
    """Whether a schema could be added."""
    return await api.schemas.check(call.topic, call.payload)


async def find_version(api: BrokerApi, call: Call) -> object:
    """The version a schema is stored under, or -1."""
    return await api.schemas.find_version(call.topic, call.payload)


TABLE.add("GET", "/schema", get_schema, TOPIC_READ, priority=Priority.P0)
TABLE.add("GET", "/schema/{version}", get_schema_version, TOPIC_READ, priority=Priority.P0)
TABLE.add("GET", "/schemas", get_schemas, TOPIC_READ)
TABLE.add("GET", "/metadata", get_metadata, TOPIC_READ, priority=Priority.P2)
TABLE.add("POST", "/schema", post_schema, TOPIC_PRODUCE, status=200, body=_PAYLOAD)
TABLE.add(
    "DELETE",
    "/schema",
    delete_schema,
    TOPIC_ADMIN,
    status=200,
    query=(Query("force", default=False),),
)
TABLE.add("POST", "/compatibility", check_compatibility, TOPIC_ADMIN, status=200, body=_PAYLOAD)
TABLE.add("POST", "/version", find_version, TOPIC_READ, status=200, body=_PAYLOAD)
