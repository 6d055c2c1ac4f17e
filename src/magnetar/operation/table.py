"""All operations."""

from __future__ import annotations

from collections.abc import Iterator

from magnetar.operation import (
    bookie,
    broker,
    broker_call,
    cluster,
    console,
    lookup,
    namespace,
    policy_operation,
    read,
    scalable,
    scalable_subscription,
    schema,
    segment,
    subscription,
    tenant,
    topic,
    topic_message,
    transaction,
)
from magnetar.operation.row import Operation

_TABLES = (
    cluster.TABLE,
    broker.TABLE,
    broker.STATS_TABLE,
    console.BROKER,
    broker_call.TABLE,
    bookie.TABLE,
    tenant.TABLE,
    namespace.ROOT,
    namespace.TABLE,
    topic.LISTS,
    topic.TABLE,
    console.TABLE,
    lookup.TABLE,
    topic.ACCESS,
    topic_message.TABLE,
    policy_operation.NAMESPACE_TABLE,
    policy_operation.TOPIC_TABLE,
    subscription.TABLE,
    schema.TABLE,
    segment.TABLE,
    scalable.NAMESPACE_TABLE,
    scalable.TABLE,
    scalable_subscription.TABLE,
    scalable.MIGRATION_TABLE,
    transaction.TABLE,
    read.TABLE,
    console.PAGES,
)


def all_operations() -> Iterator[Operation]:
    for table in _TABLES:
        yield from table.rows
