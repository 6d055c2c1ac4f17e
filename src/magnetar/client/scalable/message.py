"""Messages of scalable topics as the application gets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeAlias, TypeVar, overload

from magnetar.client.error import ConfigurationError
from magnetar.client.message import Message as Delivered
from magnetar.client.scalable.message_id import MessageId
from magnetar.client.scalable.trail import Mark
from magnetar.model.segment import SegmentId

T = TypeVar("T")


class Message(Generic[T]):
    """`topic` is the scalable topic, whatever segment it came from. A tombstone has no `data`."""

    __slots__ = ("_delivered", "_mark")

    def __init__(self, delivered: Delivered[T], mark: Mark) -> None:
        self._delivered = delivered
        self._mark = mark

    @property
    def id(self) -> MessageId:
        return self._mark.identify(self._delivered)

    @property
    def topic(self) -> str:
        return self._mark.title

    @property
    def value(self) -> T:
        """Read with the consumer's schema; raises SchemaError for data that does not fit."""
        return self._delivered.value

    @property
    def data(self) -> bytes | None:
        return self._delivered.data

    @property
    def key(self) -> str | None:
        return self._delivered.key

    @property
    def key_bytes(self) -> bytes | None:
        return self._delivered.key_bytes

    @property
    def ordering_key(self) -> bytes | None:
        return self._delivered.ordering_key

    @property
    def properties(self) -> Mapping[str, str]:
        return self._delivered.properties

    @property
    def publish_time(self) -> datetime:
        return self._delivered.publish_time

    @property
    def event_time(self) -> datetime | None:
        return self._delivered.event_time

    @property
    def sequence_id(self) -> int:
        return self._delivered.sequence_id

    @property
    def producer_name(self) -> str:
        return self._delivered.producer_name

    @property
    def redelivery_count(self) -> int:
        return self._delivered.redelivery_count

    @property
    def schema_version(self) -> bytes | None:
        return self._delivered.schema_version

    @property
    def replicated_from(self) -> str | None:
        return self._delivered.replicated_from

    @property
    def is_encrypted(self) -> bool:
        """The payload is as it was sent: the key is not known here."""
        return self._delivered.is_encrypted

    @property
    def size(self) -> int:
        return self._delivered.size

    @property
    def delivered(self) -> Delivered[T]:
        """As its segment's consumer delivered it."""
        return self._delivered

    @property
    def mark(self) -> Mark:
        """What it shares with those taken before and after it from the same segment."""
        return self._mark

    @property
    def segment_id(self) -> SegmentId:
        return self._mark.number

    def __repr__(self) -> str:
        return f"Message({self.id}, {self.topic}, key={self.key!r}, {self.size} bytes)"


Run: TypeAlias = tuple[Sequence[Delivered[T]], Mark]
"""Messages that were taken together from one segment."""


class MessageBatch(Sequence[Message[T]]):
    """What `receive_many` gives: a sequence, perhaps empty, of messages made when asked for."""

    __slots__ = ("_made", "_runs")

    def __init__(self, runs: Sequence[Run[T]]) -> None:
        self._runs = runs
        self._made: tuple[Message[T], ...] | None = None

    @property
    def last_id(self) -> MessageId:
        """The id of the last message; acknowledging it cumulatively acknowledges all."""
        if not self._runs:
            raise ConfigurationError("An empty batch has no last id; ask whether it is empty first")
        delivered, mark = self._runs[-1]
        return mark.identify(delivered[-1])

    @property
    def _messages(self) -> tuple[Message[T], ...]:
        if self._made is None:
            self._made = tuple(Message(each, mark) for run, mark in self._runs for each in run)
        return self._made

    def __len__(self) -> int:
        return sum(len(run) for run, _ in self._runs)

    def __iter__(self) -> Iterator[Message[T]]:
        return iter(self._messages)

    @overload
    def __getitem__(self, index: int) -> Message[T]: ...

    @overload
    def __getitem__(self, index: slice) -> MessageBatch[T]: ...

    def __getitem__(self, index: int | slice) -> Message[T] | MessageBatch[T]:
        if isinstance(index, slice):
            chosen = self._messages[index]
            return MessageBatch([((each.delivered,), each.mark) for each in chosen])
        return self._messages[index]

    def __repr__(self) -> str:
        return f"MessageBatch({len(self)} messages)"
