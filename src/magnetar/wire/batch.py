"""Several messages in one payload: `{ u32 size, SingleMessageMetadata, payload }` for each."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import SingleMessageMetadata

_SIZE: Final = struct.Struct(">I")


_KEY_TAG: Final = 0x12
_PAYLOAD_SIZE_TAG: Final = 0x18
_SEQUENCE_ID_TAG: Final = 0x40
_MORE: Final = 0x80
"""Marks every byte of a varint but the last."""


class BatchMessage(NamedTuple):
    metadata: SingleMessageMetadata
    payload: bytes


class BatchParts(NamedTuple):
    """A batch taken apart, but read no further than is needed to know that it can be."""

    parts: list[tuple[SingleMessageMetadata | bytes, bytes | None]]
    """Metadata, unread where it is of the usual form, and payload."""
    compacted: frozenset[int]
    """Which messages are not there any more."""


def encode_batch(messages: Iterable[tuple[SingleMessageMetadata, bytes]]) -> bytes:
    """Join messages, filling in each one's payload_size."""
    pieces: list[bytes] = []
    for metadata, payload in messages:
        metadata.payload_size = len(payload)
        content = metadata.SerializeToString()
        pieces += (_SIZE.pack(len(content)), content, payload)
    return b"".join(pieces)


def _is_text_valid(metadata: SingleMessageMetadata) -> bool:
    """The parser hands out bytes for text that is not UTF-8."""
    return isinstance(metadata.partition_key, str) and all(
        isinstance(pair.key, str) and isinstance(pair.value, str) for pair in metadata.properties
    )


def decode_single(data: bytes) -> SingleMessageMetadata:
    try:
        metadata = SingleMessageMetadata.FromString(data)
    except DecodeError:
        raise ProtocolViolation("single message metadata that cannot be decoded") from None
    if not metadata.IsInitialized() or metadata.payload_size < 0:
        raise ProtocolViolation("single message metadata without a payload size")
    if not _is_text_valid(metadata):
        raise ProtocolViolation("single message metadata with text that is not UTF-8")
    return metadata


def decode_batch(payload: bytes, count: int) -> list[BatchMessage]:
    """Split a payload (decrypted and decompressed) into `count` messages."""
    messages: list[BatchMessage] = []
    start = 0
    for _ in range(count):
        if start + 4 > len(payload):
            raise ProtocolViolation(f"a batch of {count} ends after {len(messages)} messages")
        metadata_start = start + 4
        metadata_end = metadata_start + _SIZE.unpack_from(payload, start)[0]
        if metadata_end > len(payload):
            raise ProtocolViolation(f"a batch of {count} ends inside message {len(messages)}")
        metadata = decode_single(payload[metadata_start:metadata_end])
        end = metadata_end + metadata.payload_size
        if end > len(payload):
            raise ProtocolViolation(f"a batch of {count} ends inside message {len(messages)}")
        messages.append(BatchMessage(metadata, payload[metadata_end:end]))
        start = end
    return messages


def split_batch(payload: bytes, count: int) -> BatchParts:
    """As `decode_batch`, at a quarter of its cost; a null value has no payload.

    Most metadata says a payload size, perhaps a short key and a sequence id, nothing else. It is
    read here by hand.
    """
    parts: list[tuple[SingleMessageMetadata | bytes, bytes | None]] = []
    compacted: set[int] = set()
    start, total, unpack = 0, len(payload), _SIZE.unpack_from
    try:
        for index in range(count):
            first = start + 4
            last = first + unpack(payload, start)[0]
            at = first
            if payload[at] == _KEY_TAG and payload[at + 1] < _MORE:
                end = at + 2 + payload[at + 1]
                if payload[at + 2 : end].isascii():
                    at = end
            if last <= total and payload[at] == _PAYLOAD_SIZE_TAG:
                size, at = payload[at + 1], at + 2
                if size >= _MORE:
                    size, at = size & 0x7F | payload[at] << 7, at + 1
                if size < _MORE << 7 and (at == last or _is_sequence_id(payload, at, last)):
                    start = last + size
                    parts.append((payload[first:last], payload[last:start]))
                    continue
            if last > total:
                break
            metadata = decode_single(payload[first:last])
            start = last + metadata.payload_size
            if metadata.compacted_out:
                compacted.add(index)
            parts.append((metadata, None if metadata.null_value else payload[last:start]))
    except (struct.error, IndexError):
        start = total + 1
    if start > total or len(parts) < count:
        raise ProtocolViolation(f"a batch of {count} ends after {len(parts)} messages or inside")
    return BatchParts(parts, frozenset(compacted))


def _is_sequence_id(payload: bytes, start: int, end: int) -> bool:
    """Whether these bytes are one sequence id and nothing after it."""
    if payload[start] != _SEQUENCE_ID_TAG or payload[end - 1] >= _MORE or not 2 <= end - start < 12:
        return False
    return end - start == 2 or min(payload[start + 1 : end - 1]) >= _MORE
