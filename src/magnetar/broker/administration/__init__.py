"""What carries the admin operations out: one function for each row of the table."""

from magnetar.broker.administration import (
    broker,
    cluster,
    permission,
    schema,
    segment,
    tenant,
)

__all__ = [
    "broker",
    "cluster",
    "permission",
    "schema",
    "segment",
    "tenant",
]
