"""The segments' own interface, which brokers call: what controllers ask of those that own segments.

The admin client leaves it out.
"""

from __future__ import annotations

from typing import Final

from magnetar.model.name import TopicDomain
from magnetar.model.permission import SUPER_USER
from magnetar.operation.row import (
    FORCE,
    REQUIRED,
    SUBSCRIPTION,
    Kind,
    Parameter,
    Place,
    Result,
    Table,
    body,
)

TIMESTAMP: Final = Parameter(
    "timestamp_ms",
    Kind.NUMBER,
    Place.QUERY,
    "timestamp",
    REQUIRED,
    missing="timestamp is needed: milliseconds since 1970",
)
TABLE: Final = Table(
    "segments",
    "/admin/v2/segments/{tenant}/{namespace}/{topic}/{descriptor}",
    Parameter("segment", Kind.TEXT, Place.PATH, "descriptor", REQUIRED),
    for_owner=True,
    domain=TopicDomain.TOPIC,
    is_internal=True,
)
ONE: Final = TABLE.below("/subscription/{subscription}", SUBSCRIPTION)

TABLE.add(
    "create",
    "PUT",
    SUPER_USER,
    "Make a segment of the layout, with subscriptions that begin at its first message.",
    body("subscriptions", Kind.NAMES, None),
)
TABLE.add(
    "terminate",
    "POST /terminate",
    SUPER_USER,
    "Let a segment take no more messages; one that serves hashes is split.",
)
TABLE.add(
    "delete",
    "DELETE",
    SUPER_USER,
    "Delete a segment that no layout names any more; by force, the data of one that stays.",
    FORCE,
)
ONE.add(
    "create_subscription",
    "PUT",
    SUPER_USER,
    "Make a subscription of one segment, at its first message.",
)
ONE.add(
    "delete_subscription",
    "DELETE",
    SUPER_USER,
    "Delete a subscription of one segment; also one that is gone.",
)
ONE.add(
    "backlog",
    "GET /backlog",
    SUPER_USER,
    "How many entries of a segment a subscription has left.",
    result=Result.NUMBER,
)
ONE.add(
    "seek",
    "POST /seek",
    SUPER_USER,
    "Move a subscription of one segment to a time.",
    TIMESTAMP,
)
ONE.add(
    "clear_backlog",
    "POST /skip-all",
    SUPER_USER,
    "Acknowledge everything in one segment.",
)
