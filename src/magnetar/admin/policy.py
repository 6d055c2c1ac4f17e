"""The routes of policies, made from their rows.

`isGlobal` chooses the scope of a topic's policy, `applied` asks for what is in force.
"""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.admin.request import Call, describe_missing
from magnetar.admin.route import Body, Handler, Query, Table
from magnetar.broker.api import BrokerApi
from magnetar.model.name import TopicDomain
from magnetar.model.permission import NAMESPACE_ADMIN, TOPIC_POLICY
from magnetar.model.policy import DispatchRate
from magnetar.operation.policy import ROOTS, AnyPolicy, At, Level
from magnetar.operation.policy_table import POLICIES
from magnetar.operation.policy_type import value_type

_GLOBAL = Query("isGlobal", default=False)
_APPLIED = Query("applied", default=False)
_DOMAINS = (TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT, TopicDomain.TOPIC)
_SENTENCES = {"get": "The {level}'s {name}.", "set": "Set the {level}'s {name}."}
_SENTENCES["remove"] = "Remove the {level}'s {name}."


def _key(policy: AnyPolicy, call: Call) -> str:
    return "" if policy.key is None else call.query(policy.key.field) or ""


def _namespace_handlers(policy: AnyPolicy) -> tuple[Handler, Handler, Handler]:
    async def read(api: BrokerApi, call: Call) -> object:
        return await api.namespace_policies.get(call.namespace, policy)

    async def write(api: BrokerApi, call: Call) -> object:
        key = _key(policy, call)
        await api.namespace_policies.set(call.namespace, policy, call.payload, key=key)
        return None

    async def remove(api: BrokerApi, call: Call) -> object:
        key = _key(policy, call)
        await api.namespace_policies.remove(call.namespace, policy, key=key)
        return None

    return read, write, remove


def _topic_handlers(policy: AnyPolicy, at: At, kind: object) -> tuple[Handler, Handler, Handler]:
    async def read(api: BrokerApi, call: Call) -> object:
        applied, is_global = call.flag("applied"), call.flag("isGlobal")
        return await api.topic_policies.get(
            call.topic, policy, applied=applied, is_global=is_global
        )

    async def write(api: BrokerApi, call: Call) -> object:
        value = call.policy_value(at.path, kind) if at.in_query else call.payload
        is_global, key = call.flag("isGlobal"), _key(policy, call)
        await api.topic_policies.set(call.topic, policy, value, is_global=is_global, key=key)
        return None

    async def remove(api: BrokerApi, call: Call) -> object:
        is_global, key = call.flag("isGlobal"), _key(policy, call)
        await api.topic_policies.remove(call.topic, policy, is_global=is_global, key=key)
        return None

    return read, write, remove


async def get_topic_policies_backend(api: BrokerApi, call: Call) -> object:
    """What keeps the policies of the namespace's topics, and why."""
    return await api.topic_policies.backend(call.namespace)


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


def _topic_body(name: str, schema: object, *, required: bool = True) -> Body:
    return Body(schema, required=required, missing=describe_missing(name), policy=name)


def _add(table: Table, level: Level, policy: AnyPolicy, at: At) -> None:
    kind = value_type(policy, level)
    scope: tuple[Query, ...] = ()
    reads: tuple[Query, ...] = ()
    value: tuple[Query, ...] = ()
    key = () if policy.key is None else (Query(policy.key.field, str, str(policy.key.default)),)
    if level is Level.TOPIC:
        need, scope, reads = TOPIC_POLICY, (_GLOBAL,), (_APPLIED, _GLOBAL)
        handlers = _topic_handlers(policy, at, kind)
        value = (Query(at.path, int),) if at.in_query else ()
        required = at.bodyless is None
        body = None if at.in_query else _topic_body(at.path, kind, required=required)
    else:
        need, handlers = NAMESPACE_ADMIN, _namespace_handlers(policy)
        body = Body(kind, required=bool(at.missing), missing=at.missing)
    methods = ("GET", at.write, at.remove)
    paths = (at.read_path, at.path, at.remove_path)
    queries = (reads, (*scope, *value, *key), (*scope, *key))
    for index, action in enumerate(_SENTENCES):
        if action == "remove" and methods[index] != "DELETE":
            continue
        handlers[index].__doc__ = _SENTENCES[action].format(level=level, name=at.path)
        table.add(
            methods[index],
            f"/{paths[index]}",
            handlers[index],
            need,
            operation=at.operations[index] or f"{action}_{at.path}",
            body=body if action == "set" else None,
            query=queries[index],
        )


def policy_table(level: Level, policies: Iterable[AnyPolicy] = POLICIES) -> Table:
    table = Table(f"{level}_policies", ROOTS[level], domains=_DOMAINS)
    for policy in policies:
        at = policy.at(level)
        if at is not None and policy.routed:
            _add(table, level, policy, at)
    return table


NAMESPACE_TABLE = policy_table(Level.NAMESPACE)
NAMESPACE_TABLE.add("GET", "/topicPoliciesBackend", get_topic_policies_backend, NAMESPACE_ADMIN)
TOPIC_TABLE = policy_table(Level.TOPIC)
_RATE = "/{subscription}/dispatchRate"
TOPIC_TABLE.add("GET", _RATE, get_subscription_rate, TOPIC_POLICY, query=(_APPLIED, _GLOBAL))
TOPIC_TABLE.add(
    "POST",
    _RATE,
    set_subscription_rate,
    TOPIC_POLICY,
    query=(_GLOBAL,),
    body=_topic_body("dispatchRate", DispatchRate),
)
TOPIC_TABLE.add("DELETE", _RATE, remove_subscription_rate, TOPIC_POLICY, query=(_GLOBAL,))
TOPIC_TABLE.add("DELETE", "/policies", delete_policies, TOPIC_POLICY)
