"""How tenants, namespaces, topics and subscriptions are spelled in admin paths."""

from __future__ import annotations

from magnetar.client.admin.transport import format_path
from magnetar.model.name import TopicName, parse_namespace, parse_topic


def format_namespace(namespace: str, *rest: str | int) -> str:
    name = parse_namespace(namespace)
    return format_path(name.tenant, name.local, *rest)


def format_topic(topic: str, *rest: str | int) -> str:
    """`domain/tenant/namespace/local/rest…`, the local name as one component."""
    name = parse_topic(topic)
    return format_path(name.domain.value, *_parts(name), *rest)


def format_schema(topic: str, *rest: str | int) -> str:
    """Schemas belong to the base topic and have no domain in their path."""
    return format_path(*_parts(parse_topic(topic)), *rest)


def format_scalable(topic: str, *rest: str | int) -> str:
    """A scalable topic has no domain in its path either: whichever is given is ignored."""
    return format_path(*_parts(parse_topic(topic)), *rest)


def _parts(name: TopicName) -> tuple[str, str, str]:
    return (name.namespace.tenant, name.namespace.local, name.local)
