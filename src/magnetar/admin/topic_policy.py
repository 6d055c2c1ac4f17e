"""Policies of one topic: `isGlobal` chooses the scope, `applied` asks for what is in force."""

from __future__ import annotations

from magnetar.admin.request import Call, describe_missing
from magnetar.admin.route import Body, Handler, Priority, Query, Table
from magnetar.broker.api import BrokerApi
from magnetar.broker.api.topic_setting import SETTINGS, TopicSetting
from magnetar.model.name import TopicDomain
from magnetar.model.permission import TOPIC_POLICY
from magnetar.model.policy import BacklogQuota, DispatchRate

TABLE = Table(
    "topic_policies",
    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}",
    domains=(TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT, TopicDomain.TOPIC),
)

_SCOPE = (Query("isGlobal", default=False),)
_APPLIED = (Query("applied", default=False), *_SCOPE)
_KIND = Query("backlogQuotaType", str, "destination_storage")


def _reader(setting: TopicSetting) -> Handler:
    async def read(api: BrokerApi, call: Call) -> object:
        return await api.topic_policies.get(
            call.topic, setting, applied=call.flag("applied"), is_global=call.flag("isGlobal")
        )

    read.__doc__ = f"The topic's {setting.name}."
    return read


def _writer(setting: TopicSetting) -> Handler:
    async def write(api: BrokerApi, call: Call) -> object:
        value = call.payload
        if setting.in_query:
            value = call.policy_value(setting.name, setting.body)
        is_global = call.flag("isGlobal")
        await api.topic_policies.set(call.topic, setting, value, is_global=is_global)
        return None

    write.__doc__ = f"Set the topic's {setting.name}."
    return write


def _remover(setting: TopicSetting) -> Handler:
    async def remove(api: BrokerApi, call: Call) -> object:
        is_global = call.flag("isGlobal")
        await api.topic_policies.remove(call.topic, setting, is_global=is_global)
        return None

    remove.__doc__ = f"Remove the topic's {setting.name}."
    return remove


async def get_backlog_quotas(api: BrokerApi, call: Call) -> object:
    """The topic's backlog quotas by kind."""
    return await api.topic_policies.backlog_quotas(
        call.topic, applied=call.flag("applied"), is_global=call.flag("isGlobal")
    )


async def set_backlog_quota(api: BrokerApi, call: Call) -> object:
    """Set a backlog quota of the topic."""
    await api.topic_policies.set_backlog_quota(
        call.topic, call.query("backlogQuotaType"), call.payload, is_global=call.flag("isGlobal")
    )
    return None


async def remove_backlog_quota(api: BrokerApi, call: Call) -> object:
    """Remove a backlog quota of the topic."""
    await api.topic_policies.set_backlog_quota(
        call.topic, call.query("backlogQuotaType"), None, is_global=call.flag("isGlobal")
    )
    return None


async def get_subscription_rate(api: BrokerApi, call: Call) -> object:
    """How fast one subscription is served."""
    return await api.topic_policies.subscription_rate(
        call.topic,
        call.subscription,
        applied=call.flag("applied"),
        is_global=call.flag("isGlobal"),
    )


async def set_subscription_rate(api: BrokerApi, call: Call) -> object:
    """Set how fast one subscription is served."""
    await api.topic_policies.set_subscription_rate(
        call.topic, call.subscription, call.payload, is_global=call.flag("isGlobal")
    )
    return None


async def remove_subscription_rate(api: BrokerApi, call: Call) -> object:
    """Serve one subscription as fast as the others."""
    await api.topic_policies.set_subscription_rate(
        call.topic, call.subscription, None, is_global=call.flag("isGlobal")
    )
    return None


async def delete_policies(api: BrokerApi, call: Call) -> object:
    """Remove all policies of the topic, also after it is gone."""
    await api.topic_policies.delete(call.topic)
    return None


def _body(name: str, schema: object, *, required: bool = True) -> Body:
    return Body(schema, required=required, missing=describe_missing(name), policy=name)


def _add_setting(setting: TopicSetting) -> None:
    path, priority, name = f"/{setting.name}", Priority(setting.priority), setting.name
    TABLE.add(
        "GET",
        path,
        _reader(setting),
        TOPIC_POLICY,
        operation=f"get_{name}",
        priority=priority,
        query=_APPLIED,
    )
    TABLE.add(
        setting.verb,
        path,
        _writer(setting),
        TOPIC_POLICY,
        operation=f"set_{name}",
        priority=priority,
        body=None
        if setting.in_query
        else _body(name, setting.body, required=setting.bodyless is None),
        query=(*_SCOPE, Query(name, int)) if setting.in_query else _SCOPE,
    )
    TABLE.add(
        "DELETE",
        path,
        _remover(setting),
        TOPIC_POLICY,
        operation=f"remove_{name}",
        priority=priority,
        query=_SCOPE,
    )


for each in SETTINGS:
    _add_setting(each)
TABLE.add("GET", "/backlogQuotaMap", get_backlog_quotas, TOPIC_POLICY, query=_APPLIED)
TABLE.add(
    "POST",
    "/backlogQuota",
    set_backlog_quota,
    TOPIC_POLICY,
    body=_body("backlogQuota", BacklogQuota),
    query=(*_SCOPE, _KIND),
)
TABLE.add("DELETE", "/backlogQuota", remove_backlog_quota, TOPIC_POLICY, query=(*_SCOPE, _KIND))
RATE, P2 = "/{subscription}/dispatchRate", Priority.P2
TABLE.add("GET", RATE, get_subscription_rate, TOPIC_POLICY, priority=P2, query=_APPLIED)
TABLE.add(
    "POST",
    RATE,
    set_subscription_rate,
    TOPIC_POLICY,
    priority=P2,
    query=_SCOPE,
    body=_body("dispatchRate", DispatchRate),
)
TABLE.add("DELETE", RATE, remove_subscription_rate, TOPIC_POLICY, priority=P2, query=_SCOPE)
TABLE.add("DELETE", "/policies", delete_policies, TOPIC_POLICY)
