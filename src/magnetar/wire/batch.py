"""Several messages in one payload: `{ u32 size, SingleMessageMetadata, payload }` for each."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import SingleMessageMetadata, is_text_valid

_SIZE: Final = struct.Struct(">I")


class BatchMessage(NamedTuple):
    metadata: SingleMessageMetadata
    payload: bytes


def encode_batch(messages: Iterable[tuple[SingleMessageMetadata, bytes]]) -> bytes:
    """Join messages, filling in each one's payload_size."""
    pieces: list[bytes] = []
    for metadata, payload in messages:
        metadata.payload_size = len(payload)
        content = metadata.SerializeToString()
        pieces += (_SIZE.pack(len(content)), content, payload)
    return b"".join(pieces)


def _parse_single(data: bytes) -> SingleMessageMetadata:
    try:
        metadata = SingleMessageMetadata.FromString(data)
    except DecodeError:
        raise ProtocolViolation("single message metadata that cannot be decoded") from None
    if not metadata.IsInitialized() or metadata.payload_size < 0:
        raise ProtocolViolation("single message metadata without a payload size")
    if not is_text_valid(metadata):
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
        metadata = _parse_single(payload[metadata_start:metadata_end])
        end = metadata_end + metadata.payload_size
        if end > len(payload):
            raise ProtocolViolation(f"a batch of {count} ends inside message {len(messages)}")
        messages.append(BatchMessage(metadata, payload[metadata_end:end]))
        start = end
    return messages
