"""The policies of a topic or a namespace, each with the level that its value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from magnetar.broker.administration.port import PolicyOwners
from magnetar.broker.administration.registry import carries_out
from magnetar.model.answer.namespace import PolicyOrigin
from magnetar.model.document import format_document
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import Policies, TopicPolicies
from magnetar.operation.policy import AnyPolicy, At, Level, policies_at
from magnetar.operation.policy_table import POLICIES
from magnetar.rules.policy_field import find_slot, read_value


@carries_out("console.policies")
async def load_origins(owners: PolicyOwners, topic: TopicName) -> Sequence[PolicyOrigin]:
    """In the order of the table. Every level that sets a value is listed, the nearest first."""
    own = await owners.policies.get(topic) or TopicPolicies()
    of_all = await owners.policies.get(topic, is_global=True) or TopicPolicies()
    namespace = await owners.resources.namespaces.get(topic.namespace) or Policies()
    broker = owners.policies.in_force.defaults.policies
    applied = await owners.policies.get_applied(topic)
    found = []
    for policy, at in policies_at(Level.TOPIC, POLICIES):
        if not policy.routed:
            continue
        levels: dict[str, Any] = {
            "topic": _read(policy, Level.TOPIC, own, owners.cluster),
            "topic, all clusters": _read(policy, Level.TOPIC, of_all, owners.cluster),
            "namespace": _read(policy, Level.NAMESPACE, namespace, owners.cluster),
            "broker": _read(policy, Level.TOPIC, broker, owners.cluster),
        }
        levels = _drop_silent(levels)
        value = _read(policy, Level.TOPIC, applied, owners.cluster)
        found.append(_describe(policy, at, value, levels))
    return found


@carries_out("console.namespace_policies")
async def load_namespace_origins(
    owners: PolicyOwners, namespace: NamespaceName
) -> Sequence[PolicyOrigin]:
    """What the namespace says, and else the broker; a topic's own value comes before both."""
    policies = await owners.resources.namespaces.require(namespace)
    broker = owners.policies.in_force.defaults.policies
    found = []
    for policy, at in policies_at(Level.NAMESPACE, POLICIES):
        if not policy.routed:
            continue
        levels: dict[str, Any] = {
            "namespace": _read(policy, Level.NAMESPACE, policies, owners.cluster),
            "broker": _read(policy, Level.TOPIC, broker, owners.cluster),
        }
        levels = _drop_silent(levels)
        found.append(_describe(policy, at, next(iter(levels.values()), None), levels))
    return found


def _describe(policy: AnyPolicy, at: At, value: object, levels: dict[str, Any]) -> PolicyOrigin:
    return {
        "name": at.name,
        "what": at.what,
        "path": at.path,
        "inQuery": at.in_query,
        "write": at.write,
        "remove": at.remove,
        "removePath": at.remove_path,
        "key": "" if policy.key is None else policy.key.wire_name,
        "value": format_document(value),
        "source": _source(levels),
        "levels": {name: format_document(each) for name, each in levels.items()},
        "isEditable": _is_editable(policy, at),
    }


def _drop_silent(levels: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in levels.items() if value not in (None, {}, ())}


def _read(
    policy: AnyPolicy, level: Level, record: Policies | TopicPolicies, cluster: str
) -> object:
    if policy.at(level) is None:
        return None
    return read_value(policy, level, record, find_slot(policy, level, cluster))


def _source(levels: dict[str, Any]) -> str:
    """The nearest level that says something; the rules may pass over one that says "no limit"."""
    return next(iter(levels), "broker")


def _is_editable(policy: AnyPolicy, at: At) -> bool:
    """Whether one value is written to one path."""
    return policy.key is None and bool(at.remove)
