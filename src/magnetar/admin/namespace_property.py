"""/admin/v2/namespaces/{tenant}/{namespace}: properties, and what one cluster keeps by itself."""

from __future__ import annotations

from magnetar.admin.request import Call
from magnetar.admin.response import TEXT, text_response
from magnetar.admin.route import Body, Priority, Table
from magnetar.broker.api import BrokerApi
from magnetar.model.permission import NAMESPACE_ADMIN, SUPER_USER, TENANT_ADMIN

TABLE = Table("namespace_policies", "/admin/v2/namespaces/{tenant}/{namespace}")
_PROPERTIES = Body(dict[str, str], required=True)


async def get_properties(api: BrokerApi, call: Call) -> object:
    """The namespace's properties."""
    return await api.namespace_properties.properties(call.namespace)


async def set_properties(api: BrokerApi, call: Call) -> object:
    """Add properties, or replace those of the same name."""
    await api.namespace_properties.update_properties(call.namespace, call.payload)
    return None


async def clear_properties(api: BrokerApi, call: Call) -> object:
    """Remove all properties."""
    await api.namespace_properties.clear_properties(call.namespace)
    return None


async def get_property(api: BrokerApi, call: Call) -> object:
    """One property."""
    value = (await api.namespace_properties.properties(call.namespace)).get(call.text("key"))
    return None if value is None else text_response(value)


async def set_property(api: BrokerApi, call: Call) -> object:
    """Set one property."""
    change = {call.text("key"): call.text("value")}
    await api.namespace_properties.update_properties(call.namespace, change)
    return None


async def remove_property(api: BrokerApi, call: Call) -> object:
    """Remove one property; the answer is what it was."""
    value = await api.namespace_properties.remove_property(call.namespace, call.text("key"))
    return None if value is None else text_response(value)


# Local policies
async def get_bookie_affinity(api: BrokerApi, call: Call) -> object:
    """The groups of storage nodes the namespace prefers."""
    return await api.namespace_properties.bookie_affinity(call.namespace)


async def set_bookie_affinity(api: BrokerApi, call: Call) -> object:
    """Set the groups of storage nodes the namespace prefers."""
    await api.namespace_properties.set_bookie_affinity(call.namespace, call.payload)
    return None


async def remove_bookie_affinity(api: BrokerApi, call: Call) -> object:
    """Prefer no storage nodes."""
    await api.namespace_properties.set_bookie_affinity(call.namespace, None)
    return None


async def get_anti_affinity(api: BrokerApi, call: Call) -> object:
    """The group of namespaces that are kept apart."""
    group = await api.namespace_properties.anti_affinity(call.namespace)
    return None if group is None else text_response(group)


async def set_anti_affinity(api: BrokerApi, call: Call) -> object:
    """Put the namespace into a group of namespaces that are kept apart."""
    await api.namespace_properties.set_anti_affinity(call.namespace, call.payload)
    return None


async def remove_anti_affinity(api: BrokerApi, call: Call) -> object:
    """Take the namespace out of its group."""
    await api.namespace_properties.set_anti_affinity(call.namespace, None)
    return None


P2 = Priority.P2
TABLE.add("GET", "/properties", get_properties, TENANT_ADMIN, priority=P2)
TABLE.add("PUT", "/properties", set_properties, TENANT_ADMIN, priority=P2, body=_PROPERTIES)
TABLE.add("DELETE", "/properties", clear_properties, TENANT_ADMIN, priority=P2)
TABLE.add("GET", "/property/{key}", get_property, TENANT_ADMIN, priority=P2, produces=TEXT)
TABLE.add("PUT", "/property/{key}/{value}", set_property, TENANT_ADMIN, priority=P2)
TABLE.add(
    "DELETE",
    "/property/{key}",
    remove_property,
    TENANT_ADMIN,
    priority=P2,
    status=200,
    produces=TEXT,
)
AFFINITY = "/persistence/bookieAffinity"
TABLE.add("GET", AFFINITY, get_bookie_affinity, SUPER_USER, priority=P2)
TABLE.add(
    "POST",
    AFFINITY,
    set_bookie_affinity,
    SUPER_USER,
    priority=P2,
    body=Body(dict[str, str], required=True),
)
TABLE.add("DELETE", AFFINITY, remove_bookie_affinity, SUPER_USER, priority=P2)
TABLE.add("GET", "/antiAffinity", get_anti_affinity, NAMESPACE_ADMIN, priority=P2, produces=TEXT)
TABLE.add(
    "POST",
    "/antiAffinity",
    set_anti_affinity,
    NAMESPACE_ADMIN,
    priority=P2,
    body=Body(str, required=True),
)
TABLE.add("DELETE", "/antiAffinity", remove_anti_affinity, NAMESPACE_ADMIN, priority=P2)
