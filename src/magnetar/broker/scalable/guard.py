"""What keeps clients of regular topics away from a topic that has become scalable.

They are refused with words that name the scalable topic, and with codes that official clients take
for the end instead of trying again: a producer hears that its topic is terminated, everyone else
that it is not there. Clients that can follow say so when they attach, or watch the topic's layout:
those read on from what was the regular topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from magnetar.errors import TopicMigrated, TopicNotFound, TopicTerminated
from magnetar.model.migration import MANAGED, READER_INFIX, is_reader_name
from magnetar.model.name import TopicDomain, TopicName
from magnetar.wire.command import CommandSubscribe

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection
    from magnetar.broker.consumer import Consumer
    from magnetar.broker.persistent import PersistentTopic
    from magnetar.broker.producer import Producer
    from magnetar.broker.service import Service


async def find_successor(service: Service, name: TopicName) -> TopicName | None:
    """The scalable topic that a regular one, or its partition, has become."""
    if name.domain is not TopicDomain.PERSISTENT:
        return None
    record = await service.scalable.records.get(name)
    origin = None if record is None else record.migrated_from
    if origin is None or origin.topic != name.base.full:
        return None
    return TopicName(TopicDomain.TOPIC, name.namespace, name.base.local)


def is_classic_producer(producer: Producer) -> bool:
    """Whether it cannot follow a topic that becomes scalable."""
    return producer.metadata.get(MANAGED) != "true"


def is_classic_consumer(
    connection: Connection,
    topic: TopicName,
    metadata: Mapping[str, str],
    *,
    name: str,
    subscription: str,
    durable: bool,
) -> bool:
    """Whether it cannot follow a topic that becomes scalable.

    Some that can do not say so. Consumers of a group are known by their names; of readers without
    a place of their own, the connection, or another of the same host, watches the layout.
    """
    if metadata.get(MANAGED) == "true" or _is_sent(connection.service, topic, subscription, name):
        return False
    return durable or not _watches(connection, topic)


def check_writable(topic: PersistentTopic) -> None:
    if topic.successor is not None:
        raise _terminated(topic.name, topic.successor)
    if topic.chain.terminated is not None:
        raise TopicTerminated(f"Topic {topic.name} was terminated")


def check_readable(
    topic: PersistentTopic, consumer: Consumer, *, subscription: str, durable: bool
) -> None:
    successor = topic.successor
    if successor is not None and is_classic_consumer(
        consumer.connection,
        successor,
        consumer.metadata,
        name=consumer.name,
        subscription=subscription,
        durable=durable,
    ):
        raise migrated(topic.name, successor)


async def check_producer(connection: Connection, name: TopicName) -> None:
    """Before anything is loaded or made: the regular topic may be gone for good."""
    successor = await find_successor(connection.service, name)
    if successor is not None:
        raise _terminated(name, successor)


async def check_consumer(
    connection: Connection, name: TopicName, request: CommandSubscribe
) -> None:
    successor = await find_successor(connection.service, name)
    if successor is None:
        return
    scalable = connection.service.scalable
    if is_reader_name(request.consumer_name):
        await scalable.controller(successor)  # which knows the groups
    if is_classic_consumer(
        connection,
        successor,
        {each.key: each.value for each in request.metadata},
        name=request.consumer_name,
        subscription=request.subscription,
        durable=request.durable,
    ):
        connection.scalable.strangers.add(successor)
        raise migrated(name, successor)
    layout = (await scalable.metadata(successor)).layout
    if all(segment.legacy_topic != name.full for segment in layout.segments):
        raise TopicNotFound(f"{name} is not a part of {successor} any more")


async def check_partitions(connection: Connection, name: TopicName) -> None:
    """The first thing that clients of regular topics ask; others watch the layout before."""
    successor = await find_successor(connection.service, name)
    if successor is not None and not _watches(connection, successor):
        connection.scalable.strangers.add(successor)
        raise migrated(name, successor)


async def check_lookup(connection: Connection, name: TopicName) -> None:
    """Anybody may begin with this, so only those are refused who are known to be of no use."""
    successor = await find_successor(connection.service, name)
    if successor is not None and successor in connection.scalable.strangers:
        raise migrated(name, successor)


def migrated(name: TopicName, successor: TopicName) -> TopicMigrated:
    return TopicMigrated(
        f"{name} was migrated and is the scalable topic {successor} now; only V5 clients can use it"
    )


def _terminated(name: TopicName, successor: TopicName) -> TopicTerminated:
    return TopicTerminated(
        f"Topic {name} was terminated: it was migrated and is {successor} now, for V5 clients only"
    )


def _is_sent(service: Service, topic: TopicName, subscription: str, name: str) -> bool:
    """Whether a consumer of that name belongs to one that is registered with a group."""
    hosts = (service.scalable.loaded_controller(topic), service.scalable.regular.find(topic))
    groups = [host.coordinators.get(subscription) for host in hosts if host is not None]
    return any(
        name.startswith(f"{each}{READER_INFIX}")
        for group in groups
        if group is not None
        for each in group.consumers
    )


def _watches(connection: Connection, topic: TopicName) -> bool:
    """Whether the client watches the layout: it may do so over another of its connections."""
    near = [connection, *(c for c in connection.service.connections if c.host == connection.host)]
    return any(
        session.subject == topic for each in near for session in each.scalable.layouts.values()
    )
