"""From a delivered entry to messages: checksum, decompression, batch, chunks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from magnetar.client.dead_letter import Source
from magnetar.client.encryption import ConsumerFailure, Opener
from magnetar.client.error import CryptoError
from magnetar.client.interceptor import intercept_message
from magnetar.client.message import DeliveredEntry, EvenMessages, Message, Origin
from magnetar.client.message_id import MessageId
from magnetar.client.progress import Floor
from magnetar.client.schema.book import RAW, SchemaValues, Unprepared
from magnetar.client.subscription import ConsumerSettings
from magnetar.errors import MagnetarError, ProtocolViolation
from magnetar.runtime.task import TaskScope
from magnetar.wire.ackset import decode_ack_set
from magnetar.wire.batch import find_even, split_batch
from magnetar.wire.chunk import Reassembly, is_chunk
from magnetar.wire.command import (
    CommandAck,
    CommandMessage,
    MessageMetadata,
    position_of,
)
from magnetar.wire.compression import decompress
from magnetar.wire.entry import count_messages, decode_head, decode_metadata, verify_checksum

Accept = Callable[[CommandMessage, bytes], None]


class Intake:
    """An entry that is not ready makes those behind it wait; permits bound how many there are."""

    def __init__(self, scope: TaskScope, name: str, accept: Accept) -> None:
        self._scope = scope
        self._name = name
        self._accept = accept
        self._waiting: list[tuple[CommandMessage, bytes]] = []
        """Nearly always empty; an empty deque takes ten times the room, in every consumer."""
        self._round = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, command: CommandMessage, entry: bytes) -> None:
        """Hand the entry on now, or in its turn."""
        if self._waiting:
            self._waiting.append((command, entry))
            return
        try:
            self._accept(command, entry)
        except Unprepared as need:
            self._waiting.append((command, entry))
            self._scope.start(self._go_on(need.prepare, self._round), f"prepare {self._name}")

    def clear(self) -> list[tuple[CommandMessage, bytes]]:
        """Forget what waits; returns it."""
        dropped, self._waiting = self._waiting, []
        self._round += 1
        return dropped

    async def _go_on(self, prepare: Callable[[], Awaitable[None]], current: int) -> None:
        await prepare()
        while self._round == current and self._waiting:
            command, entry = self._waiting[0]
            try:
                self._accept(command, entry)
            except Unprepared as need:
                await need.prepare()
            else:
                if self._round == current:  # accepting may have started everything over
                    del self._waiting[0]


def select_messages(
    settings: ConsumerSettings, messages: Sequence[Message[Any]], source: Source
) -> Sequence[Message[Any]]:
    """What the application gets of these, as it gets it; dead letters go their own way."""
    dead_letters = settings.dead_letters
    if dead_letters is not None:
        alive = []
        for message in messages:
            if dead_letters.claims(message):
                dead_letters.take(message, source)
            else:
                alive.append(message)
        messages = alive
    if settings.interceptors:
        messages = [intercept_message(settings.interceptors, message) for message in messages]
    return messages


_UNFINISHED_MAX: Final = 100
_CHUNKED_BYTES_MAX: Final = 1024 * 1024 * 1024


class CorruptEntry(MagnetarError):
    """The entry cannot be delivered; `validation_error` tells the broker why it is acknowledged."""

    def __init__(self, sentence: str, validation_error: int) -> None:
        super().__init__(sentence)
        self.validation_error = validation_error


class Delivery(NamedTuple):
    """What one entry gave: messages to hand out, and permits of what is not handed out."""

    messages: Sequence[Message[Any]]
    unused_permits: int = 0
    chunk_ids: tuple[MessageId, ...] = ()
    """All entries of a message that came in chunks."""


class EntryDecoder:
    """Keeps the chunks of unfinished messages; everything else is decided entry by entry."""

    def __init__(
        self,
        origin: Origin,
        *,
        message_bytes_max: int,
        values: SchemaValues[Any] | None = None,
        opener: Opener | None = None,
        on_locked: str = ConsumerFailure.CONSUME,
    ) -> None:
        self._origin = origin
        self._message_bytes_max = message_bytes_max
        self._values = values
        self._opener = opener
        self._on_locked = on_locked
        self._chunks: Reassembly[MessageId] | None = None
        """Made with the first chunk: few topics have any."""

    def decode(
        self,
        command: CommandMessage,
        data: bytes,
        *,
        now_ms: int,
        is_wanted: Callable[[MessageId], bool] | None = None,
    ) -> Delivery:
        """Raise CorruptEntry for one that is to be acknowledged and forgotten.

        Unprepared comes before anything was changed: the same entry may be given again. CryptoError
        is for one that must not be acknowledged.
        """
        if not verify_checksum(data):
            raise CorruptEntry("checksum mismatch", CommandAck.ChecksumMismatch)
        position = position_of(command.message_id)
        entry_id = MessageId(*position, command.message_id.partition, -1, 0, *self._origin.in_ids)
        try:
            metadata, start = decode_head(data)
        except ProtocolViolation as error:
            raise CorruptEntry(error.sentence, CommandAck.BatchDeSerializeError) from None
        if self._values is not None:
            self._values.require(metadata.schema_version)
        count = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 0
        entry = DeliveredEntry(
            entry_id,
            self._origin,
            metadata,
            command.redelivery_count,
            count,
            False,
            self._values or RAW,
        )
        is_plain = not (metadata.compression or metadata.encryption_keys or is_chunk(metadata))
        if is_plain and count and not command.ack_set and is_wanted is None:
            even = find_even(data, count, start)  # as a rule: its payload need not be copied
            if even is not None:
                return Delivery(EvenMessages(entry, data, even, range(count)))
        payload = data[start:]
        if metadata.encryption_keys:
            opened = self._open(metadata, payload)
            if opened is None:
                return Delivery([_whole(replace(entry, is_encrypted=True), payload)])
            payload = opened
        if is_chunk(metadata):
            return self._add_chunk(entry, payload, now_ms=now_ms)
        payload = self._decompress(metadata, payload, self._message_bytes_max)
        if metadata.HasField("num_messages_in_batch"):
            return _split(entry, payload, decode_ack_set(command.ack_set), is_wanted)
        if is_wanted is not None and not is_wanted(entry_id):
            return Delivery([], 1)
        return Delivery([_whole(entry, payload)])

    def forget_chunks(self) -> None:
        """A new delivery starts over: what came of unfinished messages is redelivered."""
        self._chunks = None

    def _open(self, metadata: MessageMetadata, payload: bytes) -> bytes | None:
        """None for what is delivered locked."""
        if self._opener is None:
            return None
        self._opener.require(metadata)
        try:
            return self._opener.open(metadata, payload)
        except CryptoError as error:
            match ConsumerFailure(self._on_locked):
                case ConsumerFailure.CONSUME:
                    return None
                case ConsumerFailure.DISCARD:
                    raise CorruptEntry(error.sentence, CommandAck.DecryptionError) from None
                case ConsumerFailure.FAIL:
                    raise

    def _decompress(self, metadata: MessageMetadata, payload: bytes, bytes_max: int) -> bytes:
        size = metadata.uncompressed_size
        try:
            return decompress(metadata.compression, payload, size, bytes_max=bytes_max)
        except ProtocolViolation as error:
            raise CorruptEntry(error.sentence, CommandAck.DecompressionError) from None

    def _add_chunk(self, entry: DeliveredEntry, payload: bytes, *, now_ms: int) -> Delivery:
        if self._chunks is None:
            self._chunks = Reassembly(
                messages_max=_UNFINISHED_MAX,
                message_bytes_max=_CHUNKED_BYTES_MAX,
                bytes_max=_CHUNKED_BYTES_MAX,
            )
        try:
            whole = self._chunks.add(entry.metadata, payload, entry.id, now_ms=now_ms)
        except ProtocolViolation as error:
            raise CorruptEntry(error.sentence, CommandAck.BatchDeSerializeError) from None
        self._chunks.take_dropped()  # never acknowledged: they are redelivered with their beginning
        if whole is None:
            return Delivery([], 1)
        data = self._decompress(entry.metadata, whole.payload, _CHUNKED_BYTES_MAX)
        return Delivery([_whole(entry, data)], 0, whole.ids)


def _split(
    entry: DeliveredEntry,
    payload: bytes,
    unacknowledged: int,
    is_wanted: Callable[[MessageId], bool] | None,
) -> Delivery:
    if not unacknowledged and is_wanted is None:
        even = find_even(payload, entry.batch_size)
        if even is not None:
            return Delivery(EvenMessages(entry, payload, even, range(entry.batch_size)))
    try:
        batch = split_batch(payload, entry.batch_size)
    except ProtocolViolation as error:
        raise CorruptEntry(error.sentence, CommandAck.BatchDeSerializeError) from None
    messages: list[Message[Any]] = [
        Message(entry, index, data, own) for index, (own, data) in enumerate(batch.parts)
    ]
    if not unacknowledged and is_wanted is None and not batch.compacted:
        return Delivery(messages)
    kept = []
    unused = 0
    for index, message in enumerate(messages):
        if unacknowledged and not unacknowledged >> index & 1:
            continue  # acknowledged before; the broker did not count it
        if index in batch.compacted or (is_wanted is not None and not is_wanted(message.place)):
            unused += 1
        else:
            kept.append(message)
    return Delivery(kept, unused)


def _whole(entry: DeliveredEntry, payload: bytes) -> Message[Any]:
    metadata = entry.metadata
    return Message(entry, -1, None if metadata.null_value else payload, metadata)


def count_permits(command: CommandMessage, entry: bytes) -> int:
    """How many permits the broker took for the entry."""
    if command.ack_set:
        return decode_ack_set(command.ack_set).bit_count()
    try:
        return count_messages(entry)
    except ProtocolViolation:
        return 1


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An entry, and how much of it is wanted."""

    place: MessageId
    """Of its last message."""
    origin: int
    data: bytes
    start: int
    """The first message of a batch that is wanted."""
    permits: int
    """How many messages it has, as the broker counts."""


def make_raw(
    command: CommandMessage, data: bytes, floor: Floor | None, origin: int
) -> RawEntry | int:
    """What to hand out; the permits of an entry of which nothing is wanted.

    An unreadable one is handed out too: the decoder says what is wrong with it.
    """
    position, partition = position_of(command.message_id), command.message_id.partition
    try:
        metadata = decode_metadata(data)
        size = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 0
    except ProtocolViolation:
        size = 0
    batch = (size - 1, size) if size else (-1, 0)
    last = MessageId(*position, partition, *batch)
    start, count = 0, max(1, size)
    if floor is not None and position == floor.id.position:
        if size and floor.id.batch_index >= 0:
            start = floor.id.batch_index + (0 if floor.is_included else 1)
        elif not floor.is_included:
            start = count
        if start >= count:
            return count
    return RawEntry(last, origin, data, start, count)
