"""How tenants, namespaces, topics and subscriptions are spelled in admin paths."""

from __future__ import annotations

from magnetar.client.admin.transport import format_path
from magnetar.client.error import ConfigurationError
from magnetar.errors import InvalidName
from magnetar.model.name import TopicName, parse_namespace, parse_topic


def check_topic(topic: str) -> TopicName:
    try:
        return parse_topic(topic)
    except InvalidName as error:
        raise ConfigurationError(error.sentence) from None


def format_namespace(namespace: str, *rest: str | int) -> str:
    try:
        name = parse_namespace(namespace)
    except InvalidName as error:
        raise ConfigurationError(error.sentence) from None
    return format_path(name.tenant, name.local, *rest)


def format_topic(topic: str, *rest: str | int) -> str:
    """`domain/tenant/namespace/local/rest…`, the local name as one component."""
    name = check_topic(topic)
    return format_path(name.domain.value, *_parts(name), *rest)


def format_bare(topic: str, *rest: str | int) -> str:
    """Without the domain, as in the paths of schemas and scalable topics."""
    return format_path(*_parts(check_topic(topic)), *rest)


def _parts(name: TopicName) -> tuple[str, str, str]:
    return (name.namespace.tenant, name.namespace.local, name.local)
