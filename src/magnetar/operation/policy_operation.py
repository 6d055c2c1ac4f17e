"""The operations on policies: each is read, set and removed as its row says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from magnetar.model.name import TopicDomain
from magnetar.model.permission import NAMESPACE_ADMIN, TOPIC_POLICY
from magnetar.operation.policy import ACTIONS, AnyPolicy, At, Level, describe_missing
from magnetar.operation.policy_table import POLICIES
from magnetar.operation.row import (
    DOMAINS,
    NAMESPACE,
    REQUIRED,
    SUBSCRIPTION,
    TOPIC,
    Kind,
    Parameter,
    Place,
    Result,
    Table,
    body,
    flag,
)

_NAMESPACES: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_TOPICS: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_GLOBAL: Final = flag("is_global", "isGlobal")
_APPLIED: Final = flag("applied")


def policy_table(level: Level, policies: Iterable[AnyPolicy] = POLICIES) -> Table:
    """Clients ask for policies by name: no row is a method of theirs."""
    is_topic = level is Level.TOPIC
    table = Table(
        f"{level}_policies",
        _TOPICS if is_topic else _NAMESPACES,
        TOPIC if is_topic else NAMESPACE,
        for_owner=is_topic,
        domains=(*DOMAINS, TopicDomain.TOPIC),
    )
    scope = (_GLOBAL,) if is_topic else ()
    for policy in policies:
        at = policy.at(level)
        if at is None or not policy.routed:
            continue
        key = () if policy.key is None else (_key(policy.key),)
        calls = (
            ("GET", at.read_path, (_APPLIED, *scope) if is_topic else ()),
            (at.write, at.path, (*scope, _value(level, at), *key)),
            (at.remove, at.remove_path, (*scope, *key)),
        )
        for action, (method, path, parameters) in zip(ACTIONS, calls, strict=True):
            if action != "remove" or method == "DELETE":
                table.add(
                    at.operation(action),
                    f"{method} /{path}",
                    TOPIC_POLICY if is_topic else NAMESPACE_ADMIN,
                    ACTIONS[action].format(level=level, path=at.path),
                    *parameters,
                    result=Result.ANY if action == "get" else Result.NOTHING,
                    is_written=True,
                )
    return table


def _value(level: Level, at: At) -> Parameter:
    if level is Level.NAMESPACE:
        return body("value", Kind.DOCUMENT, missing=at.missing)
    if at.in_query:
        return Parameter("value", Kind.NUMBER, Place.QUERY, at.path, REQUIRED, policy=at.path)
    return body("value", Kind.DOCUMENT, missing=describe_missing(at.path), policy=at.path)


def _key(key: Parameter) -> Parameter:
    return Parameter("key", wire=key.name, default=key.preset)


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
for _verb, _method, _doc, _parameters in (
    ("get", "GET", "How fast one subscription is served.", (_APPLIED, _GLOBAL)),
    (
        "set",
        "POST",
        "Set how fast one subscription is served.",
        (
            _GLOBAL,
            body(
                "rate",
                Kind.DOCUMENT,
                missing=describe_missing("dispatchRate"),
                policy="dispatchRate",
            ),
        ),
    ),
    ("remove", "DELETE", "Serve one subscription as fast as the others.", (_GLOBAL,)),
):
    TOPIC_TABLE.add(
        f"{_verb}_subscription_rate",
        f"{_method} /{{subscription}}/dispatchRate",
        TOPIC_POLICY,
        _doc,
        SUBSCRIPTION,
        *_parameters,
        result=Result.MAYBE_DOCUMENT if _verb == "get" else Result.NOTHING,
        is_written=True,
    )
TOPIC_TABLE.add(
    "delete_policies",
    "DELETE /policies",
    TOPIC_POLICY,
    "Remove all policies of the topic, also after it is gone.",
    is_written=True,
)
