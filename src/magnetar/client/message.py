"""A message as the application gets it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import NO_SEGMENT, MessageId
from magnetar.client.progress import Progress
from magnetar.client.schema.book import RAW, Values
from magnetar.model.segment import SegmentId
from magnetar.wire.batch import EvenBatch
from magnetar.wire.command import MessageMetadata, SingleMessageMetadata, signed64
from magnetar.wire.entry import decode_key

T = TypeVar("T")

FIRST_SEGMENT: Final = SegmentId(0)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where messages come from, as the application sees it."""

    topic: str
    segment_id: SegmentId = FIRST_SEGMENT
    """The segment; of a regular topic, the partition."""
    in_ids: tuple[SegmentId, str | None] = (NO_SEGMENT, None)
    """What ids tell of it: the segment, and the topic where there are several."""


@dataclass(frozen=True, slots=True)
class DeliveredEntry:
    """What all messages that arrived in one entry have in common."""

    id: MessageId
    origin: Origin
    metadata: MessageMetadata
    redelivery_count: int
    batch_size: int = 0
    """How many messages it came with; 0 for one that is a whole entry."""
    is_encrypted: bool = False
    values: Values[Any] = RAW

    def place(self, index: int) -> MessageId:
        """The id of one of its messages; of the only one for an index below 0."""
        id = self.id
        if index < 0:
            return id
        return MessageId(
            id.ledger_id,
            id.entry_id,
            id.partition,
            index,
            self.batch_size,
            id.segment_id,
            id.topic,
        )


class Message(Generic[T]):
    """`topic` is the scalable topic, the regular one or the partition it came from. A `data` of
    None is a tombstone.

    Most of what it says is read from its entry when it is asked for: an application that wants
    only the data of a million messages pays for nothing else.
    """

    __slots__ = ("_entry", "_index", "_own", "data", "progress")

    def __init__(
        self,
        entry: DeliveredEntry,
        index: int,
        data: bytes | None,
        own: MessageMetadata | SingleMessageMetadata | bytes,
    ) -> None:
        self.data = data
        self.progress: Progress | None = None
        """How far the application had come elsewhere, where its consumer keeps that."""
        self._entry = entry
        self._index = index
        self._own = own

    @property
    def id(self) -> MessageId:
        progress = self.progress
        place = self.place
        return place if progress is None else progress.identify(place, self.segment_id)

    @property
    def place(self) -> MessageId:
        """The id without how far the application had come elsewhere."""
        return self._entry.place(self._index)

    @property
    def topic(self) -> str:
        return self._entry.origin.topic

    @property
    def value(self) -> T:
        """Read with the consumer's schema; raises SchemaError for data that does not fit."""
        value: T = self._entry.values.read(self.data, self.key_bytes, self.schema_version)
        return value

    @property
    def key(self) -> str | None:
        own = self._metadata
        return own.partition_key if own.HasField("partition_key") else None

    @property
    def key_bytes(self) -> bytes | None:
        own = self._metadata
        if not own.HasField("partition_key"):
            return None
        return decode_key(own.partition_key, is_base64=own.partition_key_b64_encoded)

    @property
    def ordering_key(self) -> bytes | None:
        own = self._metadata
        return own.ordering_key if own.HasField("ordering_key") else None

    @property
    def properties(self) -> Mapping[str, str]:
        return {pair.key: pair.value for pair in self._metadata.properties}

    @property
    def publish_time_ms(self) -> int:
        return signed64(self._entry.metadata.publish_time)

    @property
    def publish_time(self) -> datetime:
        return _EPOCH + timedelta(milliseconds=self.publish_time_ms)

    @property
    def event_time_ms(self) -> int | None:
        return signed64(self._metadata.event_time) or None

    @property
    def event_time(self) -> datetime | None:
        time_ms = self.event_time_ms
        return None if time_ms is None else _EPOCH + timedelta(milliseconds=time_ms)

    @property
    def sequence_id(self) -> int:
        own = self._metadata
        if self._index < 0 or own.HasField("sequence_id"):
            return signed64(own.sequence_id)
        return signed64(self._entry.metadata.sequence_id) + self._index

    @property
    def producer_name(self) -> str:
        return self._entry.metadata.producer_name

    @property
    def redelivery_count(self) -> int:
        return self._entry.redelivery_count

    @property
    def schema_version(self) -> bytes | None:
        return self._entry.metadata.schema_version or None

    @property
    def replicated_from(self) -> str | None:
        return self._entry.metadata.replicated_from or None

    @property
    def is_encrypted(self) -> bool:
        """The payload is as it was sent: the key is not known here."""
        return self._entry.is_encrypted

    @property
    def size(self) -> int:
        return len(self.data or b"")

    @property
    def segment_id(self) -> SegmentId:
        """The segment it came from; of a regular topic, the partition, or 0."""
        return self._entry.origin.segment_id

    @property
    def _metadata(self) -> MessageMetadata | SingleMessageMetadata:
        own = self._own
        if isinstance(own, bytes):  # its sender's words, which were found to be in order
            own = self._own = SingleMessageMetadata.FromString(own)
        return own

    @property
    def origin(self) -> Origin:
        return self._entry.origin

    def __repr__(self) -> str:
        return f"Message({self.place}, {self.topic}, key={self.key!r}, {self.size} bytes)"


def group_by_entry(
    messages: Iterable[Message[Any]],
) -> Iterator[tuple[DeliveredEntry, list[int]]]:
    """Which messages these are of each entry, as long as they come one after the other."""
    for entry, group in groupby(messages, key=attrgetter("_entry")):
        yield entry, [message._index for message in group]


class EvenMessages(Sequence[Message[Any]]):
    """The messages of a batch that was found to be even, made when asked for."""

    __slots__ = ("_entry", "_payload", "_places", "_shape")

    def __init__(
        self, entry: DeliveredEntry, payload: bytes, shape: EvenBatch, places: range
    ) -> None:
        self._entry = entry
        self._payload = payload
        self._shape = shape
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Message[Any]]:
        entry, payload, places = self._entry, self._payload, self._places
        stride, head, start = self._shape
        begin = range(start + places.start * stride, start + places.stop * stride, stride)
        return iter(
            [
                Message(entry, index, payload[at + head : at + stride], payload[at + 4 : at + head])
                for index, at in zip(places, begin, strict=True)
            ]
        )

    @overload
    def __getitem__(self, index: int) -> Message[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> EvenMessages: ...

    def __getitem__(self, index: int | slice) -> Message[Any] | EvenMessages:
        if isinstance(index, slice):
            return EvenMessages(self._entry, self._payload, self._shape, self._places[index])
        number, (stride, head, first) = self._places[index], self._shape
        start = first + number * stride
        data = self._payload[start + head : start + stride]
        return Message(self._entry, number, data, self._payload[start + 4 : start + head])


Run: TypeAlias = tuple[Sequence[Message[T]], Progress | None]
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
        messages, progress = self._runs[-1]
        last = messages[-1]
        last.progress = progress
        return last.id

    @property
    def _messages(self) -> tuple[Message[T], ...]:
        if self._made is None:
            made: list[Message[T]] = []
            for run, progress in self._runs:
                start = len(made)
                made += run
                if progress is not None:
                    for message in made[start:]:
                        message.progress = progress
            self._made = tuple(made)
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
            return MessageBatch([((each,), each.progress) for each in chosen])
        return self._messages[index]

    def __repr__(self) -> str:
        return f"MessageBatch({len(self)} messages)"
