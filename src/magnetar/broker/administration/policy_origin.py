"""The policies of a topic, each with the level that its value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from magnetar.broker.administration.registry import Document
from magnetar.broker.service import Service
from magnetar.model.document import format_document
from magnetar.model.name import TopicName
from magnetar.model.policy import Policies, TopicPolicies
from magnetar.operation.policy import AnyPolicy, At, Level, policies_at
from magnetar.operation.policy_table import POLICIES
from magnetar.rules.policy_field import find_slot, read_value


async def load_origins(service: Service, topic: TopicName) -> Sequence[Document]:
    """In the order of the table. Every level that says something is told, the nearest first."""
    own = await service.policies.get(topic) or TopicPolicies()
    of_all = await service.policies.get(topic, is_global=True) or TopicPolicies()
    namespace = await service.resources.namespaces.get(topic.namespace) or Policies()
    broker = service.policies.in_force.defaults.policies
    applied = await service.policies.get_applied(topic)
    found = []
    for policy, at in policies_at(Level.TOPIC, POLICIES):
        if not policy.routed:
            continue
        levels: dict[str, Any] = {
            "topic": _read(policy, Level.TOPIC, own, service.cluster),
            "topic, all clusters": _read(policy, Level.TOPIC, of_all, service.cluster),
            "namespace": _read(policy, Level.NAMESPACE, namespace, service.cluster),
            "broker": _read(policy, Level.TOPIC, broker, service.cluster),
        }
        levels = {name: value for name, value in levels.items() if value not in (None, {}, ())}
        value = _read(policy, Level.TOPIC, applied, service.cluster)
        found.append(
            {
                "name": at.name,
                "what": at.what,
                "path": at.path,
                "inQuery": at.in_query,
                "write": at.write,
                "key": "" if policy.key is None else policy.key.wire_name,
                "value": format_document(value),
                "source": _source(levels),
                "levels": {name: format_document(each) for name, each in levels.items()},
                "isEditable": _is_editable(policy, at),
            }
        )
    return found


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
