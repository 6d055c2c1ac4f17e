"""Several messages in one payload: `{ u32 size, SingleMessageMetadata, payload }` for each."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import SingleMessageMetadata
from magnetar.wire.varint import spell_varint

_SIZE: Final = struct.Struct(">I")


_KEY_TAG: Final = 0x12
_PAYLOAD_SIZE_TAG: Final = 0x18
_SEQUENCE_ID_TAG: Final = 0x40
_MORE: Final = 0x80
"""Marks every byte of a varint but the last."""
_MORE_BYTES: Final = bytes(range(_MORE, 0x100))
_ALONE: Final = [bytes((_SEQUENCE_ID_TAG, n)) for n in range(_MORE)]
_FIRST_OF_MANY: Final = [bytes((_SEQUENCE_ID_TAG, n | _MORE)) for n in range(_MORE)]
"""How a sequence id begins: by its low bits, whether higher ones follow or not."""
_EVEN_HEAD_MAX: Final = 64
"""Longer metadata is dearer to compare, byte by byte, than to read."""


class BatchMessage(NamedTuple):
    metadata: SingleMessageMetadata
    payload: bytes


class BatchParts(NamedTuple):
    """A batch taken apart, but read no further than is needed to know that it can be."""

    parts: list[tuple[SingleMessageMetadata | bytes, bytes | None]]
    """Metadata, unread where it is of the usual form, and payload."""
    compacted: frozenset[int]
    """Which messages are not there any more."""


class EvenBatch(NamedTuple):
    """A batch of messages that are all as long as the first and of the same usual form."""

    stride: int
    head: int
    """How long size and metadata are together; the payload fills the rest of the stride."""
    start: int = 0
    """Where the first begins."""


class SingleHead:
    """Spells what stands in front of messages that say nothing but their data.

    Ids come in a row and sizes are mostly alike: what is the same as before is spelled once.
    """

    __slots__ = ("_head", "_high", "_rest", "_size")

    def __init__(self) -> None:
        self._high = self._size = -1
        self._head = self._rest = b""

    def spell(self, first: int, payloads: Iterable[bytes]) -> list[bytes]:
        """As `encode_batch` does, for ids from `first` on, which is not negative: what stands in
        front of each payload, and the payload.
        """
        pieces: list[bytes] = []
        head, rest, size, high = self._head, self._rest, self._size, self._high
        numbers = _FIRST_OF_MANY if high else _ALONE
        for sequence_id, payload in enumerate(payloads, first):
            if sequence_id >> 7 != high or len(payload) != size:
                high, size = sequence_id >> 7, len(payload)
                rest = spell_varint(high) if high else b""
                encoded = SingleMessageMetadata(payload_size=size).SerializeToString()
                head = _SIZE.pack(len(encoded) + 2 + len(rest)) + encoded
                numbers = _FIRST_OF_MANY if high else _ALONE
            pieces += (head + numbers[sequence_id & 0x7F] + rest, payload)
        self._head, self._rest, self._size, self._high = head, rest, size, high
        return pieces


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
        raise ProtocolViolation("undecodable single message metadata") from None
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


def find_even(payload: bytes, count: int, start: int = 0) -> EvenBatch | None:
    """Check a whole batch as `split_batch` does, but all messages at once, byte by byte of their
    heads; None for one that is to be split, if it can be. It is what follows `start`.
    """
    stride, rest = divmod(len(payload) - start, count) if count > 1 else (0, 1)
    if rest or stride < 6:
        return None
    head = 4 + _SIZE.unpack_from(payload, start)[0]
    if head > min(stride, _EVEN_HEAD_MAX):
        return None
    at = key_end = start + 4
    end = start + head
    if payload[at] == _KEY_TAG and payload[at + 1] < _MORE:
        at = key_end = at + 2 + payload[at + 1]
    if at + 2 > end or payload[at] != _PAYLOAD_SIZE_TAG:
        return None
    size, at = payload[at + 1], at + 2
    if size >= _MORE:
        size, at = size & 0x7F | payload[at] << 7, at + 1
    if size >= _MORE << 7 or head + size != stride:
        return None
    if at != end and not _is_sequence_id(payload, at, end):
        return None
    for place in range(start, end):
        column = payload[place::stride]
        if start + 6 <= place < key_end:
            is_alike = column.isascii()
        elif place <= at:  # where it says how long it is, and what comes next
            is_alike = column.count(payload[place]) == count
        elif place < end - 1:
            is_alike = not column.translate(None, _MORE_BYTES)
        else:
            is_alike = column.isascii()
        if not is_alike:
            return None
    return EvenBatch(stride, head, start)


def _is_sequence_id(payload: bytes, start: int, end: int) -> bool:
    """Whether these bytes are one sequence id and nothing after it."""
    if payload[start] != _SEQUENCE_ID_TAG or payload[end - 1] >= _MORE or not 2 <= end - start < 12:
        return False
    return end - start == 2 or min(payload[start + 1 : end - 1]) >= _MORE
