"""What carries the admin operations out: one function for each row of the table."""

from magnetar.broker.administration import (
    broker,
    bundle,
    cluster,
    lookup,
    namespace,
    partition,
    permission,
    schema,
    segment,
    tenant,
    topic,
    topic_list,
    topic_message,
)

__all__ = [
    "broker",
    "bundle",
    "cluster",
    "lookup",
    "namespace",
    "partition",
    "permission",
    "schema",
    "segment",
    "tenant",
    "topic",
    "topic_list",
    "topic_message",
]
