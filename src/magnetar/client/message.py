"""A message as the application gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

from magnetar.client.message_id import MessageId
from magnetar.client.value import RAW, Values

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Message(Generic[T]):
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
    values: Values[T] = field(default=RAW, repr=False, compare=False)
    """How `value` is read from the data."""

    @property
    def value(self) -> T:
        """Read with the consumer's schema; raises SchemaError for data that does not fit."""
        return self.values.read(self.data, self.key_bytes, self.schema_version)

    @property
    def publish_time(self) -> datetime:
        return _EPOCH + timedelta(milliseconds=self.publish_time_ms)

    @property
    def event_time(self) -> datetime | None:
        if self.event_time_ms is None:
            return None
        return _EPOCH + timedelta(milliseconds=self.event_time_ms)

    @property
    def size(self) -> int:
        return len(self.data or b"")
