"""Clients of regular topics that cannot follow when the topic becomes scalable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.guard import is_classic_consumer, is_classic_producer
from magnetar.model.migration import ClassicClient, ClientKind
from magnetar.model.name import TopicName
from magnetar.model.segment import scalable_name

if TYPE_CHECKING:
    from magnetar.broker.consumer import Consumer
    from magnetar.broker.service import Service
    from magnetar.broker.subscription import Subscription


def find_classic_clients(service: Service, names: Iterable[TopicName]) -> tuple[ClassicClient, ...]:
    """Of the topics of these names, as far as they are loaded: others have no clients."""
    live = (service.topics.get(each.full) for each in names)
    found = (_clients_of(each) for each in live if isinstance(each, PersistentTopic))
    return tuple(client for clients in found for client in clients)


def _clients_of(topic: PersistentTopic) -> Iterable[ClassicClient]:
    if topic.closed:
        return
    name = topic.name.full
    for each in topic.producers:
        if is_classic_producer(each):
            where = each.connection
            yield ClassicClient(
                ClientKind.PRODUCER, each.name, name, where.address, where.client_version
            )
    for subscription, one in classic_consumers(topic):
        where = one.connection
        kind = ClientKind.CONSUMER if subscription.durable else ClientKind.READER
        yield ClassicClient(
            kind, one.name, name, where.address, where.client_version, subscription.name
        )


def classic_consumers(topic: PersistentTopic) -> Iterable[tuple[Subscription, Consumer]]:
    """Those that cannot follow."""
    successor = scalable_name(topic.name)
    for subscription in topic.subscriptions.values():
        for consumer in subscription.consumers:
            if is_classic_consumer(
                consumer.connection,
                successor,
                consumer.metadata,
                name=consumer.name,
                subscription=subscription.name,
                durable=subscription.durable,
            ):
                yield subscription, consumer
