"""A message as the application gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from magnetar.client.message_id import MessageId


@dataclass(frozen=True, slots=True)
class Message:
    """`topic` is the topic or partition it came from. A `data` of None is a tombstone."""

    id: MessageId
    topic: str
    data: bytes | None
    key: str | None
    key_bytes: bytes | None
    ordering_key: bytes | None
    properties: Mapping[str, str]
    publish_time_ms: int
    event_time_ms: int | None
    sequence_id: int
    producer_name: str
    redelivery_count: int
    schema_version: bytes | None = None
    replicated_from: str | None = None
    is_encrypted: bool = False
    """The payload is as it was sent: nobody here holds the key."""
    origin: int = field(default=0, repr=False, compare=False)
    """Which part of a consumer it came through, so that its acknowledgement finds the way back."""
