"""From messages to SEND frames: single, batched or in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Protocol

from magnetar.client.encryption import Sealer
from magnetar.client.error import InvalidMessageError
from magnetar.client.outgoing import Outgoing, Pack, PendingSend, format_key
from magnetar.client.policy import BatchingPolicy
from magnetar.rules.route import bucket_hash, bucket_index
from magnetar.wire.batch import SingleHead, encode_batch
from magnetar.wire.chunk import plan_chunks, stamp_chunk
from magnetar.wire.command import (
    CommandSend,
    CompressionType,
    KeyValue,
    MessageMetadata,
    SingleMessageMetadata,
    encode_payload_command,
    make_command,
)
from magnetar.wire.compression import compress
from magnetar.wire.entry import encode_entry
from magnetar.wire.send import PlainSend, encode_send

_CHUNK_HEADROOM_BYTES = 512
"""Room that the metadata of a chunk takes from the message size, besides properties and key."""
_TAG_BYTES = 16
_NO_COMPRESSION = CompressionType.NONE
NO_KEY_HASH = bucket_hash(ordering_key=None, key=None)
_SEAL_HEADROOM_BYTES = 4096
"""Room for data keys wrapped for several readers."""


class SendSettings(Protocol):
    """How a producer packs what it sends."""

    @property
    def compression(self) -> CompressionType: ...

    @property
    def batching(self) -> BatchingPolicy | None: ...

    @property
    def chunking(self) -> bool: ...

    @property
    def chunk_bytes_max(self) -> int | None: ...

    @property
    def bucket_splits(self) -> tuple[int, ...]: ...

    @property
    def keeps_sequence(self) -> bool: ...


@dataclass(slots=True)
class SendEncoder:
    """What all frames of one producer have in common."""

    producer_id: Final[int]
    producer_name: Final[str]
    settings: Final[SendSettings]
    schema_version: Final[bytes]
    message_bytes_max: Final[int]
    sealer: Final[Sealer | None] = None
    plain: PlainSend = field(init=False)
    is_open: bool = field(init=False)
    """Whether payloads go out as they are."""
    piece_bytes_max: int = field(init=False)
    """What is larger goes out in chunks, or not at all."""

    def __post_init__(self) -> None:
        self.plain = PlainSend(self.producer_id, self.producer_name, self.schema_version)
        self.piece_bytes_max = self.message_bytes_max
        if self.settings.chunking and self.settings.chunk_bytes_max is not None:
            self.piece_bytes_max = min(self.message_bytes_max, self.settings.chunk_bytes_max)
        self.is_open = self.sealer is None and self.settings.compression == _NO_COMPRESSION

    def encode(self, messages: Sequence[Outgoing], *, now_ms: int) -> list[PendingSend]:
        """One SEND for one message or a batch; several for a message in chunks."""
        if len(messages) > 1 or messages[0].is_run:
            return [self._encode_batch(messages, now_ms)]
        pack = messages[0].pack
        if messages[0].group:
            pack = self._pack(messages[0])
        if pack is not None:
            return [self._encode_pack(pack, messages[0], now_ms)]
        return self._encode_single(messages[0], now_ms)

    def _pack(self, message: Outgoing) -> Pack:
        """Its group, numbered from its sequence id on."""
        first, count = message.sequence_id, message.count
        payload = b"".join(SingleHead().spell(first, message.group))
        hashes = (NO_KEY_HASH, NO_KEY_HASH) if self.settings.bucket_splits else None
        return Pack(count, first, first + count - 1, payload, None, False, hashes, None)

    def _encode_pack(self, pack: Pack, message: Outgoing, now_ms: int) -> PendingSend:
        metadata = self._metadata(pack.first, now_ms, message)
        metadata.num_messages_in_batch = pack.count
        metadata.highest_sequence_id = pack.last
        if pack.key is not None:
            metadata.partition_key = pack.key
            if pack.is_key_encoded:
                metadata.partition_key_b64_encoded = True
        if pack.hashes is not None and self.sealer is None:
            metadata.entry_hash_min, metadata.entry_hash_max = pack.hashes
        payload = self._seal(metadata, self._compress(metadata, pack.payload))
        send = CommandSend(
            producer_id=self.producer_id,
            sequence_id=pack.first,
            highest_sequence_id=pack.last,
            num_messages=pack.count,
        )
        return _pending(send, metadata, payload, (message,))

    def _encode_single(self, message: Outgoing, now_ms: int) -> list[PendingSend]:
        data, number = message.data, message.sequence_id
        bytes_max = self.piece_bytes_max
        if self.is_open and message.is_plain and data is not None and len(data) <= bytes_max:
            frame = self.plain.encode(number, data, now_ms=now_ms)
            return [PendingSend(number, number, frame, (message,))]
        metadata = self._metadata(number, now_ms, message)
        if message.key is not None or message.options:
            _describe(metadata, message)
        if data is None:
            metadata.null_value = True
        if message.options:
            deliver_at_ms = message.options.get("deliver_at_ms")
            if deliver_at_ms is not None:
                metadata.deliver_at_time = deliver_at_ms
            metadata.replicate_to.extend(message.options.get("replicate_to", ()))
        payload = self._compress(metadata, data or b"")
        size = len(payload) + (0 if self.sealer is None else _TAG_BYTES)
        if size <= bytes_max:
            payload = self._seal(metadata, payload)
            if metadata.HasField("txnid_least_bits"):
                send = CommandSend(producer_id=self.producer_id, sequence_id=number)
                return [_pending(send, metadata, payload, (message,))]
            entry = encode_entry(metadata, payload)
            frame = encode_send(self.producer_id, number, entry)
            return [PendingSend(number, number, frame, (message,))]
        if not self.settings.chunking:
            raise InvalidMessageError(
                f"A message of {size} bytes; the broker takes {bytes_max} in one piece,"
                " and more with chunking=True"
            )
        return self._encode_chunks(message, metadata, payload)

    def _encode_chunks(
        self, message: Outgoing, metadata: MessageMetadata, payload: bytes
    ) -> list[PendingSend]:
        headroom = _CHUNK_HEADROOM_BYTES + (0 if self.sealer is None else _SEAL_HEADROOM_BYTES)
        room = self.message_bytes_max - metadata.ByteSize() - headroom
        if room <= 0:
            raise InvalidMessageError("The key and properties leave no room for data in a chunk")
        room = min(room, self.settings.chunk_bytes_max or room)
        uuid = f"{self.producer_name}-{message.sequence_id}"
        sends = []
        for chunk in plan_chunks(len(payload), chunk_bytes_max=room):
            stamped = stamp_chunk(metadata, chunk, uuid=uuid, total_bytes=len(payload))
            send = CommandSend(
                producer_id=self.producer_id, sequence_id=message.sequence_id, is_chunk=True
            )
            is_last = chunk.index == chunk.count - 1
            piece = self._seal(stamped, payload[chunk.start : chunk.end])
            sends.append(_pending(send, stamped, piece, (message,) if is_last else ()))
        return sends

    def _encode_batch(self, messages: Sequence[Outgoing], now_ms: int) -> PendingSend:
        first, highest = messages[0], messages[-1].last_sequence_id
        count = sum(message.count for message in messages)
        batching = self.settings.batching
        # Batches by key or bucket interleave: only their last ids grow from one to the next.
        splits = self.settings.bucket_splits
        is_parted = not self.settings.keeps_sequence and (
            bool(splits) or (batching is not None and batching.by_key)
        )
        sequence_id = highest if is_parted else first.sequence_id
        metadata = self._metadata(sequence_id, now_ms, first)
        metadata.num_messages_in_batch = count
        metadata.highest_sequence_id = highest
        _set_key(metadata, first)
        if splits and self.sealer is None:
            hashes = [_hash_bucket(message) for message in messages]
            metadata.entry_hash_min, metadata.entry_hash_max = min(hashes), max(hashes)
        payload = self._seal(metadata, self._compress(metadata, _join(messages)))
        send = CommandSend(
            producer_id=self.producer_id,
            sequence_id=sequence_id,
            highest_sequence_id=highest,
            num_messages=count,
        )
        return _pending(send, metadata, payload, tuple(messages), count)

    def _metadata(self, sequence_id: int, now_ms: int, message: Outgoing) -> MessageMetadata:
        metadata = MessageMetadata(
            producer_name=self.producer_name, sequence_id=sequence_id, publish_time=now_ms
        )
        if self.schema_version:
            metadata.schema_version = self.schema_version
        if (transaction := message.transaction) is not None:
            metadata.txnid_most_bits, metadata.txnid_least_bits = transaction.id
        return metadata

    def _compress(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        compression = self.settings.compression
        if compression == _NO_COMPRESSION:
            return payload
        metadata.compression = compression
        metadata.uncompressed_size = len(payload)
        return compress(compression, payload)

    def _seal(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        return payload if self.sealer is None else self.sealer.seal(metadata, payload)


def _join(messages: Sequence[Outgoing]) -> bytes:
    """The payload of a batch."""
    pieces: list[bytes] = []
    spell = SingleHead().spell
    for message in messages:
        data, number = message.data, message.sequence_id
        if message.group:
            pieces += spell(number, message.group)
        elif message.is_plain and data is not None:
            pieces += spell(number, (data,))
        else:
            single = SingleMessageMetadata(sequence_id=number)
            _describe(single, message)
            if data is None:
                single.null_value = True
            pieces.append(encode_batch([(single, data or b"")]))
    return b"".join(pieces)


def part_batch(settings: SendSettings, messages: Sequence[Outgoing]) -> list[Sequence[Outgoing]]:
    """What goes into one entry each; what is of one key stays in its order."""
    if settings.batching is not None and settings.batching.by_key:
        return part_by_key(messages)
    if not settings.bucket_splits:
        return [messages]
    if settings.keeps_sequence:
        return _part_runs(settings.bucket_splits, messages)
    groups: dict[int, list[Outgoing]] = {}
    for message in messages:
        bucket = bucket_index(settings.bucket_splits, _hash_bucket(message))
        groups.setdefault(bucket, []).append(message)
    return sorted(groups.values(), key=lambda group: group[-1].last_sequence_id)


def _part_runs(splits: tuple[int, ...], messages: Sequence[Outgoing]) -> list[Sequence[Outgoing]]:
    """As they come, and a new one wherever the bucket changes."""
    runs: list[Sequence[Outgoing]] = []
    for _, run in groupby(messages, key=lambda each: bucket_index(splits, _hash_bucket(each))):
        runs.append(list(run))
    return runs


def _hash_bucket(message: Outgoing) -> int:
    key = message.key.encode() if isinstance(message.key, str) else message.key
    return bucket_hash(ordering_key=message.options.get("ordering_key"), key=key)


def part_by_key(messages: Sequence[Outgoing]) -> list[Sequence[Outgoing]]:
    """One batch for each key, in the order of their last messages."""
    groups: dict[str | bytes | None, list[Outgoing]] = {}
    for message in messages:
        ordering_key = message.options.get("ordering_key")
        key = message.key if ordering_key is None else ordering_key
        groups.setdefault(key, []).append(message)
    return sorted(groups.values(), key=lambda group: group[-1].last_sequence_id)


def _pending(
    send: CommandSend,
    metadata: MessageMetadata,
    payload: bytes,
    messages: Sequence[Outgoing],
    count: int = 0,
) -> PendingSend:
    if metadata.HasField("txnid_least_bits"):
        send.txnid_most_bits = metadata.txnid_most_bits
        send.txnid_least_bits = metadata.txnid_least_bits
    frame = encode_payload_command(make_command(send), encode_entry(metadata, payload))
    highest = max(send.sequence_id, send.highest_sequence_id)
    return PendingSend(send.sequence_id, highest, frame, messages, count)


def _set_key(metadata: MessageMetadata | SingleMessageMetadata, message: Outgoing) -> None:
    if message.key is not None:
        metadata.partition_key = format_key(message.key)
        if isinstance(message.key, bytes):
            metadata.partition_key_b64_encoded = True
    ordering_key = message.options.get("ordering_key")
    if ordering_key is not None:
        metadata.ordering_key = ordering_key


def _describe(metadata: MessageMetadata | SingleMessageMetadata, message: Outgoing) -> None:
    _set_key(metadata, message)
    event_time_ms = message.options.get("event_time_ms")
    if event_time_ms is not None:
        metadata.event_time = event_time_ms
    properties = message.options.get("properties")
    if properties:
        metadata.properties.extend(
            KeyValue(key=key, value=value) for key, value in properties.items()
        )
