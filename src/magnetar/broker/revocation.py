"""Takes back what clients hold when the grants that gave it to them are gone.

A client is told to reconnect, and then hears why it cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.permission import (
    NAMESPACE_READ,
    TOPIC_CONSUME,
    TOPIC_PRODUCE,
    TOPIC_READ,
    Need,
    Target,
)

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection
    from magnetar.broker.service import Service


async def close_unauthorized(service: Service, namespace: NamespaceName) -> None:
    for connection in list(service.connections):
        if not connection.closed:
            await _check_clients(connection, namespace)
            await _check_watches(connection, namespace)


async def _check_clients(connection: Connection, namespace: NamespaceName) -> None:
    for producer in list(connection.producers.values()):
        topic = producer.topic.name
        if topic.namespace == namespace and not await _may(connection, TOPIC_PRODUCE, topic):
            producer.disconnect()
    for consumer in list(connection.consumers.values()):
        subscription = consumer.subscription
        if subscription is None or subscription.topic.name.namespace != namespace:
            continue
        topic = subscription.topic.name
        if not await _may(connection, TOPIC_CONSUME, topic, subscription.name):
            consumer.disconnect()


async def _check_watches(connection: Connection, namespace: NamespaceName) -> None:
    """There are no words for the end of these: the connection ends."""
    held = connection.scalable
    checks: list[tuple[Need, TopicName, str | None]] = [
        *((TOPIC_READ, session.subject, None) for session in held.layouts.values()),
        *((TOPIC_CONSUME, group.topic, group.subscription) for group in held.groups.values()),
    ]
    for need, topic, subscription in checks:
        if topic.namespace == namespace and not await _may(connection, need, topic, subscription):
            connection.close()
            return
    watched = {
        *(watcher.namespace for watcher in held.namespaces.values()),
        *(watcher.namespace for watcher in connection.watchers.values()),
    }
    if namespace in watched:
        target = Target(namespace=namespace)
        access = connection.service.authorization
        if await access.decide(connection.caller, NAMESPACE_READ, target) is not None:
            connection.close()


async def _may(
    connection: Connection, need: Need, topic: TopicName, subscription: str | None = None
) -> bool:
    target = Target(topic=topic, subscription=subscription)
    access = connection.service.authorization
    return await access.decide(connection.caller, need, target) is None
