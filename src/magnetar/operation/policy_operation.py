"""The operations on policies: each is read, set and removed as its row says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from magnetar.model.name import TopicDomain
from magnetar.model.permission import NAMESPACE_ADMIN, TOPIC_POLICY
from magnetar.operation.policy import ACTIONS, AnyPolicy, At, Level, describe_missing, policies_at
from magnetar.operation.policy_table import OWN_RATE, POLICIES
from magnetar.operation.row import (
    DOMAINS,
    NAMESPACE,
    REQUIRED,
    TOPIC,
    Kind,
    Parameter,
    Place,
    Result,
    Table,
    body,
    flag,
)

_ROOTS: Final = {
    Level.NAMESPACE: "/admin/v2/namespaces/{tenant}/{namespace}",
    Level.TOPIC: "/admin/v2/{domain}/{tenant}/{namespace}/{topic}",
}
_NEEDS: Final = {Level.NAMESPACE: NAMESPACE_ADMIN, Level.TOPIC: TOPIC_POLICY}
_SCOPE: Final = {Level.NAMESPACE: (), Level.TOPIC: (flag("is_global", "isGlobal"),)}


def policy_table(level: Level, policies: Iterable[AnyPolicy] = (*POLICIES, OWN_RATE)) -> Table:
    """Clients ask for policies by name: no row is a method of theirs."""
    is_topic = level is Level.TOPIC
    table = Table(
        f"{level}_policies",
        _ROOTS[level],
        TOPIC if is_topic else NAMESPACE,
        for_owner=is_topic,
        domains=(*DOMAINS, TopicDomain.TOPIC),
    )
    for policy, at in policies_at(level, policies):
        if policy.routed:
            for action, method, path, parameters in _calls(policy, level, at):
                table.add(
                    at.operation(action),
                    f"{method} /{path}",
                    _NEEDS[level],
                    ACTIONS[action].format(level=level, path=at.path),
                    *parameters,
                    result=Result.ANY if action == "get" else Result.NOTHING,
                    is_written=True,
                )
    return table


def _calls(
    policy: AnyPolicy, level: Level, at: At
) -> Iterator[tuple[str, str, str, tuple[Parameter, ...]]]:
    scope, key = _SCOPE[level], policy.key
    keys = () if key is None else (_key(key),)
    applied = (flag("applied"), *scope) if scope else ()
    is_one = key is not None and key.place is Place.PATH
    yield "get", "GET", at.read_path, (*applied, *keys) if is_one else applied
    yield "set", at.write, at.path, (*scope, _value(level, at), *keys)
    if at.remove == "DELETE":
        yield "remove", "DELETE", at.remove_path, (*scope, *keys)


def _key(key: Parameter) -> Parameter:
    return key._replace(name="key", wire=key.wire_name, default=key.preset or REQUIRED)


def _value(level: Level, at: At) -> Parameter:
    if level is Level.NAMESPACE:
        return body("value", Kind.DOCUMENT, missing=at.missing)
    name = at.path.rpartition("/")[2]
    if at.in_query:
        return Parameter("value", Kind.NUMBER, Place.QUERY, name, REQUIRED, policy=name)
    return body("value", Kind.DOCUMENT, missing=describe_missing(name), policy=name)


NAMESPACE_TABLE: Final = policy_table(Level.NAMESPACE)
NAMESPACE_TABLE.add(
    "get_topic_policies_backend",
    "GET /topicPoliciesBackend",
    NAMESPACE_ADMIN,
    "What keeps the policies of the namespace's topics, and why.",
    result=Result.PROPERTIES,
    is_written=True,
)
TOPIC_TABLE: Final = policy_table(Level.TOPIC)
TOPIC_TABLE.add(
    "delete_policies",
    "DELETE /policies",
    TOPIC_POLICY,
    "Remove all policies of the topic, also after it is gone.",
    is_written=True,
)
