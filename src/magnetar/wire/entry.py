"""The bytes of one stored entry.

An entry is `[broker block] [checksum block] metadata_size metadata payload`: what a producer
sent, from the checksum's magic to the end, kept as received. A broker block in front is the
broker's own addition.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from crc32c import crc32c
from google.protobuf.message import DecodeError

from magnetar.errors import ProtocolViolation
from magnetar.model.transaction import TransactionId
from magnetar.wire.ackset import MESSAGES_MAX
from magnetar.wire.command import BrokerEntryMetadata, MessageMetadata, is_text_valid, signed64
from magnetar.wire.varint import encode_varint

CHECKSUM_MAGIC: Final = b"\x0e\x01"
BROKER_MAGIC: Final = b"\x0e\x02"
_BLOCK_HEAD_BYTES: Final = 6
_SIZE: Final = struct.Struct(">I")
# The tag of num_messages_in_batch. Most metadata does not contain this byte at all.
_BATCH_TAG: Final = b"\x58"
_MARKER_TAG: Final = b"\xa0\x01"
_TRANSACTION_TAG: Final = b"\xb0\x01"
_MOST_TAG: Final = b"\xb8\x01"
_METADATA_START: Final = 10
"""Of an entry that begins with its checksum."""
_NAME_TAG: Final = 0x0A
_NUMBERS: Final = re.compile(
    rb"\x10[\x80-\xff]{0,8}[\x00-\x7f]\x18[\x80-\xff]{0,8}[\x00-\x7f]"
    rb"(?:[\x40\x48\x58][\x80-\xff]{0,8}[\x00-\x7f])*"
)
"""Sequence id and publish time; then compression, uncompressed size and messages in the batch."""


def _size_at(entry: bytes | memoryview, start: int) -> int:
    if len(entry) < start + 4:
        raise ProtocolViolation(f"an entry of {len(entry)} bytes ends inside its head")
    size: int = _SIZE.unpack_from(entry, start)[0]
    return size


def _broker_block_end(entry: bytes | memoryview) -> int:
    if entry[:2] != BROKER_MAGIC:
        return 0
    end = _BLOCK_HEAD_BYTES + _size_at(entry, 2)
    if end > len(entry):
        raise ProtocolViolation("an entry ends inside its broker block")
    return end


def _metadata_span(entry: bytes | memoryview) -> tuple[int, int]:
    """Where the metadata starts and ends; the payload follows it."""
    start = _broker_block_end(entry)
    if entry[start : start + 2] == CHECKSUM_MAGIC:
        start += _BLOCK_HEAD_BYTES
    size = _size_at(entry, start)
    start += 4
    if start + size > len(entry):
        raise ProtocolViolation(f"metadata of {size} bytes in an entry of {len(entry)}")
    return start, start + size


def _is_metadata_text_valid(metadata: MessageMetadata) -> bool:
    """The same as the general walk, which costs more than parsing does, for the usual metadata."""
    if metadata.properties or metadata.replicate_to or metadata.encryption_keys:
        return is_text_valid(metadata)
    return (
        isinstance(metadata.producer_name, str)
        and isinstance(metadata.partition_key, str)
        and isinstance(metadata.replicated_from, str)
        and isinstance(metadata.encryption_algo, str)
        and isinstance(metadata.uuid, str)
    )


def _parse_metadata(data: bytes | memoryview) -> MessageMetadata:
    try:
        metadata = MessageMetadata.FromString(bytes(data))
    except DecodeError:
        raise ProtocolViolation("undecodable message metadata") from None
    if not metadata.IsInitialized():
        raise ProtocolViolation("message metadata without its required fields")
    if not _is_metadata_text_valid(metadata):
        raise ProtocolViolation("message metadata with text that is not UTF-8")
    return metadata


def encode_entry(metadata: MessageMetadata, payload: bytes) -> bytes:
    content = metadata.SerializeToString()
    covered = b"".join((_SIZE.pack(len(content)), content, payload))
    return b"".join((CHECKSUM_MAGIC, _SIZE.pack(crc32c(covered)), covered))


def stamp_transaction(entries: Sequence[bytes], id_: TransactionId) -> list[bytes]:
    """The entries with the ids of their transaction in the metadata: some clients name them in the
    command alone, and what is stored must tell by itself where it belongs.
    """
    most, least = id_
    ids = _TRANSACTION_TAG + encode_varint(least) + _MOST_TAG + encode_varint(most)
    opening = _read_opening(entries[0])
    if not opening:
        return [_stamp(entry, id_) for entry in entries]
    name, tail, start = opening[_METADATA_START:], len(ids), len(opening)
    matches, unpack = _NUMBERS.fullmatch, _SIZE.unpack_from
    stamped: list[bytes] = []
    for entry in entries:
        # Metadata with more than the name of the producer, numbers, and the ids is parsed.
        end = _METADATA_START + unpack(entry, 6)[0] if len(entry) > start else 0
        if not (
            start <= end - tail
            and end <= len(entry)
            and entry.endswith(ids, start, end)
            and entry.startswith(name, _METADATA_START)
            and entry.startswith(CHECKSUM_MAGIC)
            and matches(entry, start, end - tail)
        ):
            entry = _stamp(entry, id_)
        stamped.append(entry)
    return stamped


def _read_opening(entry: bytes) -> bytes:
    """Up to the end of the name of its producer, if that is what its metadata begins with."""
    if len(entry) < _METADATA_START + 2 or entry[_METADATA_START] != _NAME_TAG:
        return b""
    name, size = _METADATA_START + 2, entry[_METADATA_START + 1]
    is_plain = size < 128 and name + size <= len(entry) and _is_text(entry[name : name + size])
    return entry[: name + size] if is_plain else b""


@lru_cache(maxsize=1024)
def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _stamp(entry: bytes, id_: TransactionId) -> bytes:
    start, end = _metadata_span(entry)
    metadata = _parse_metadata(entry[start:end])
    has_both = metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits")
    if has_both and (metadata.txnid_most_bits, metadata.txnid_least_bits) == id_:
        return entry
    metadata.txnid_most_bits, metadata.txnid_least_bits = id_
    return encode_entry(metadata, entry[end:])


def transaction_of(entry: bytes) -> TransactionId | None:
    """The transaction that an entry says it belongs to."""
    start, end = _metadata_span(entry)
    data = entry[start:end]
    if _TRANSACTION_TAG not in data:
        return None
    metadata = _parse_metadata(data)
    if not (metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits")):
        return None
    return TransactionId(metadata.txnid_most_bits, metadata.txnid_least_bits)


def decode_entry(entry: bytes | memoryview) -> tuple[MessageMetadata, bytes]:
    """Split an entry into metadata and payload; the payload may still be compressed or a batch."""
    start, end = _metadata_span(entry)
    return _parse_metadata(entry[start:end]), bytes(entry[end:])


def decode_head(entry: bytes) -> tuple[MessageMetadata, int]:
    """The metadata, and where the payload begins."""
    start, end = _metadata_span(entry)
    return _parse_metadata(entry[start:end]), end


def decode_metadata(entry: bytes | memoryview) -> MessageMetadata:
    start, end = _metadata_span(entry)
    return _parse_metadata(entry[start:end])


def count_messages(entry: bytes | memoryview) -> int:
    """How many messages the entry carries: at least 1, so that permits never run backwards, and 0
    for a marker, which brokers write for each other.
    """
    start, end = _metadata_span(entry)
    data = bytes(entry[start:end])
    if _MARKER_TAG in data and _parse_metadata(data).HasField("marker_type"):
        return 0
    if _BATCH_TAG not in data:
        return 1
    return max(1, min(_parse_metadata(data).num_messages_in_batch, MESSAGES_MAX))


def publish_time_of(entry: bytes | memoryview) -> int:
    return signed64(decode_metadata(entry).publish_time)


def verify_checksum(entry: bytes | memoryview) -> bool:
    """Tell whether the checksum matches; an entry without one passes."""
    start = _broker_block_end(entry)
    if entry[start : start + 2] != CHECKSUM_MAGIC:
        return True
    expected = _size_at(entry, start + 2)
    return crc32c(memoryview(entry)[start + _BLOCK_HEAD_BYTES :]) == expected


def decode_broker_block(entry: bytes | memoryview) -> BrokerEntryMetadata | None:
    end = _broker_block_end(entry)
    if end == 0:
        return None
    try:
        return BrokerEntryMetadata.FromString(bytes(entry[_BLOCK_HEAD_BYTES:end]))
    except DecodeError:
        raise ProtocolViolation("an undecodable broker block") from None


def strip_checksum(entry: bytes) -> bytes:
    """The entry without checksum (and broker block), for peers too old to know them."""
    start = _broker_block_end(entry)
    if entry[start : start + 2] == CHECKSUM_MAGIC:
        start += _BLOCK_HEAD_BYTES
    return entry[start:]


def decode_key(text: str, *, is_base64: bool) -> bytes:
    """The bytes of a partition key; one falsely marked as base64 counts as it is written."""
    if is_base64:
        try:
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            return text.encode()
    return text.encode()


def sticky_key(metadata: MessageMetadata) -> bytes:
    """What keeps entries together on a Key_Shared subscription; only the outer metadata counts."""
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        is_base64 = metadata.partition_key_b64_encoded
        return decode_key(metadata.partition_key, is_base64=is_base64)
    return f"{metadata.producer_name}-{metadata.sequence_id}".encode()
