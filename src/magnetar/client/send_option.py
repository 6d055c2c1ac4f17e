"""The keywords of `send`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict

from magnetar.client.quantity import Duration


class SendOptions(TypedDict, total=False):
    """What may be said about a message besides its value."""

    key: str | bytes | None
    ordering_key: bytes | None
    properties: Mapping[str, str] | None
    event_time: datetime | None
    sequence_id: int | None
    deliver_after: Duration | None
    deliver_at: datetime | None
    replication_clusters: Sequence[str]
    transaction: None
