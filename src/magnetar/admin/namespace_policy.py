"""/admin/v2/namespaces/{tenant}/{namespace}: one path for each policy of a namespace."""

from __future__ import annotations

from magnetar.admin.request import Call
from magnetar.admin.response import TEXT, text_response
from magnetar.admin.route import Body, Handler, Priority, Query, Table
from magnetar.broker.api import BrokerApi
from magnetar.broker.api.namespace_setting import SETTINGS, NamespaceSetting
from magnetar.broker.api.offload import OffloadThreshold
from magnetar.model.permission import NAMESPACE_ADMIN, SUPER_USER, TENANT_ADMIN
from magnetar.model.policy import BacklogQuota, Int64

TABLE = Table("namespace_policies", "/admin/v2/namespaces/{tenant}/{namespace}")
_PROPERTIES = Body(dict[str, str], required=True)
_LONG = Body(Int64)


def _reader(setting: NamespaceSetting) -> Handler:
    async def read(api: BrokerApi, call: Call) -> object:
        return await api.namespace_policies.get(call.namespace, setting)

    read.__doc__ = f"The namespace's {setting.name}."
    return read


def _writer(setting: NamespaceSetting) -> Handler:
    async def write(api: BrokerApi, call: Call) -> object:
        await api.namespace_policies.set(call.namespace, setting, call.payload)
        return None

    write.__doc__ = f"Set the namespace's {setting.name}."
    return write


def _remover(setting: NamespaceSetting) -> Handler:
    async def remove(api: BrokerApi, call: Call) -> object:
        await api.namespace_policies.remove(call.namespace, setting)
        return None

    remove.__doc__ = f"Remove the namespace's {setting.name}."
    return remove


# Backlog quotas: a map with one writer for each kind
async def get_backlog_quotas(api: BrokerApi, call: Call) -> object:
    """The namespace's backlog quotas by kind."""
    return await api.namespace_policies.backlog_quotas(call.namespace)


async def set_backlog_quota(api: BrokerApi, call: Call) -> object:
    """Set a backlog quota."""
    kind = call.query("backlogQuotaType")
    await api.namespace_policies.set_backlog_quota(call.namespace, kind, call.payload)
    return None


async def remove_backlog_quota(api: BrokerApi, call: Call) -> object:
    """Remove a backlog quota."""
    kind = call.query("backlogQuotaType")
    await api.namespace_policies.remove_backlog_quota(call.namespace, kind)
    return None


# Properties
async def get_topic_policies_backend(api: BrokerApi, call: Call) -> object:
    """What keeps the policies of the namespace's topics, and why."""
    return await api.topic_policies.backend(call.namespace)


async def get_properties(api: BrokerApi, call: Call) -> object:
    """The namespace's properties."""
    return await api.namespace_policies.properties(call.namespace)


async def set_properties(api: BrokerApi, call: Call) -> object:
    """Add properties, or replace those of the same name."""
    await api.namespace_policies.update_properties(call.namespace, call.payload)
    return None


async def clear_properties(api: BrokerApi, call: Call) -> object:
    """Remove all properties."""
    await api.namespace_policies.clear_properties(call.namespace)
    return None


async def get_property(api: BrokerApi, call: Call) -> object:
    """One property."""
    value = (await api.namespace_policies.properties(call.namespace)).get(call.text("key"))
    return None if value is None else text_response(value)


async def set_property(api: BrokerApi, call: Call) -> object:
    """Set one property."""
    change = {call.text("key"): call.text("value")}
    await api.namespace_policies.update_properties(call.namespace, change)
    return None


async def remove_property(api: BrokerApi, call: Call) -> object:
    """Remove one property; the answer is what it was."""
    value = await api.namespace_policies.remove_property(call.namespace, call.text("key"))
    return None if value is None else text_response(value)


# Local policies
async def get_bookie_affinity(api: BrokerApi, call: Call) -> object:
    """The groups of storage nodes the namespace prefers."""
    return await api.namespace_policies.bookie_affinity(call.namespace)


async def set_bookie_affinity(api: BrokerApi, call: Call) -> object:
    """Set the groups of storage nodes the namespace prefers."""
    await api.namespace_policies.set_bookie_affinity(call.namespace, call.payload)
    return None


async def remove_bookie_affinity(api: BrokerApi, call: Call) -> object:
    """Prefer no storage nodes."""
    await api.namespace_policies.set_bookie_affinity(call.namespace, None)
    return None


async def get_anti_affinity(api: BrokerApi, call: Call) -> object:
    """The group of namespaces that are kept apart."""
    group = await api.namespace_policies.anti_affinity(call.namespace)
    return None if group is None else text_response(group)


async def set_anti_affinity(api: BrokerApi, call: Call) -> object:
    """Put the namespace into a group of namespaces that are kept apart."""
    await api.namespace_policies.set_anti_affinity(call.namespace, call.payload)
    return None


async def remove_anti_affinity(api: BrokerApi, call: Call) -> object:
    """Take the namespace out of its group."""
    await api.namespace_policies.set_anti_affinity(call.namespace, None)
    return None


# Offload thresholds live inside the offload policies
def _threshold_reader(threshold: OffloadThreshold) -> Handler:
    async def read(api: BrokerApi, call: Call) -> object:
        return await api.namespace_policies.offload_threshold(call.namespace, threshold)

    read.__doc__ = f"The namespace's {threshold.path}."
    return read


def _threshold_writer(threshold: OffloadThreshold) -> Handler:
    async def write(api: BrokerApi, call: Call) -> object:
        value = call.payload
        await api.namespace_policies.set_offload_threshold(call.namespace, threshold, value)
        return None

    write.__doc__ = f"Set the namespace's {threshold.path}."
    return write


async def remove_offload_deletion_lag(api: BrokerApi, call: Call) -> object:
    """Remove the namespace's offloadDeletionLagMs."""
    lag = OffloadThreshold.DELETION_LAG
    await api.namespace_policies.set_offload_threshold(call.namespace, lag, None)
    return None


async def remove_offload_policies(api: BrokerApi, call: Call) -> object:
    """Remove the namespace's offload policies."""
    await api.namespace_policies.remove_offload_policies(call.namespace)
    return None


def _add_setting(setting: NamespaceSetting) -> None:
    path, priority = f"/{setting.name}", Priority(setting.priority)
    TABLE.add(
        "GET",
        path,
        _reader(setting),
        NAMESPACE_ADMIN,
        operation=f"get_{setting.name}",
        priority=priority,
    )
    body = Body(setting.body, required=bool(setting.missing), missing=setting.missing)
    TABLE.add(
        setting.verb,
        path,
        _writer(setting),
        NAMESPACE_ADMIN,
        operation=f"set_{setting.name}",
        priority=priority,
        body=body,
    )
    if setting.removable:
        operation = f"remove_{setting.name}"
        TABLE.add(
            "DELETE",
            path,
            _remover(setting),
            NAMESPACE_ADMIN,
            operation=operation,
            priority=priority,
        )


def _add_threshold(threshold: OffloadThreshold) -> None:
    path, name = f"/{threshold.path}", threshold.path
    TABLE.add("GET", path, _threshold_reader(threshold), NAMESPACE_ADMIN, operation=f"get_{name}")
    TABLE.add(
        "PUT",
        path,
        _threshold_writer(threshold),
        NAMESPACE_ADMIN,
        operation=f"set_{name}",
        body=_LONG,
    )


P0, P2 = Priority.P0, Priority.P2
_KIND = (Query("backlogQuotaType", str, "destination_storage"),)

for each in SETTINGS:
    _add_setting(each)
for each_threshold in OffloadThreshold:
    _add_threshold(each_threshold)
TABLE.add("DELETE", "/offloadDeletionLagMs", remove_offload_deletion_lag, NAMESPACE_ADMIN)
TABLE.add("DELETE", "/removeOffloadPolicies", remove_offload_policies, NAMESPACE_ADMIN)
TABLE.add("GET", "/backlogQuotaMap", get_backlog_quotas, NAMESPACE_ADMIN, priority=P0)
TABLE.add(
    "POST",
    "/backlogQuota",
    set_backlog_quota,
    NAMESPACE_ADMIN,
    priority=P0,
    body=Body(BacklogQuota, required=True, missing="A backlog quota is required"),
    query=_KIND,
)
TABLE.add(
    "DELETE", "/backlogQuota", remove_backlog_quota, NAMESPACE_ADMIN, priority=P0, query=_KIND
)
TABLE.add("GET", "/topicPoliciesBackend", get_topic_policies_backend, NAMESPACE_ADMIN, priority=P2)
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
