"""Clients of regular topics that cannot follow when the topic becomes scalable."""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.broker.consumer import Consumer
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.guard import Guard, is_classic_producer
from magnetar.broker.subscription import Subscription
from magnetar.model.migration import ClassicClient, ClientKind
from magnetar.model.segment import scalable_name


def find_classic_clients(guard: Guard, topic: PersistentTopic) -> Iterable[ClassicClient]:
    """Of a loaded topic: others have no clients."""
    if topic.closed:
        return
    name = topic.name.full
    for each in topic.producers:
        if is_classic_producer(each):
            where = each.connection
            yield ClassicClient(
                ClientKind.PRODUCER, each.name, name, where.address, where.client_version
            )
    for subscription, one in classic_consumers(guard, topic):
        via = one.connection
        kind = ClientKind.CONSUMER if subscription.durable else ClientKind.READER
        yield ClassicClient(
            kind, one.name, name, via.address, via.client_version, subscription.name
        )


def classic_consumers(
    guard: Guard, topic: PersistentTopic
) -> Iterable[tuple[Subscription, Consumer]]:
    """Those that cannot follow."""
    successor = scalable_name(topic.name)
    for subscription in topic.subscriptions.values():
        for consumer in subscription.consumers:
            if guard.is_classic_consumer(
                consumer.connection,
                successor,
                consumer.metadata,
                name=consumer.name,
                subscription=subscription.name,
                durable=subscription.durable,
            ):
                yield subscription, consumer
