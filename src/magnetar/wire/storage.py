"""What a topic's log and its cursors keep, as the bytes of their records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError, Message

from magnetar.errors import ProtocolViolation, RecordUnreadable
from magnetar.model.bitset import join_words, split_words
from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo, LedgerPart, LogInfo, Offload
from magnetar.wire.compression import compress, decompress
from magnetar.wire.pb import storage_pb2

_PACKED: Final = b"\x47\x78"
"""In front of a compressed record; the first byte is none that a plain one can begin with."""
_SIZE: Final = Struct(">I")
_RECORD_BYTES_MAX: Final = 64 << 20
_ONES: Final = re.compile("1+")
_ONE: Final = ord("1")
_BITMAP_RANGES_MIN: Final = 1000
_WORD_BYTES: Final = 11
"""Of one word of a bitmap, at most."""
_RANGE_BYTES: Final = 22
"""Of one range, at least where ledgers have numbers of some size."""
_OWNER: Final = "pulsar.magnetar.owner"
"""A property, for other kinds of brokers carry those along."""
_ADVICE: Final = (
    ": it is damaged, or of a newer version, whose broker should serve it. It stays as it is"
)


@dataclass(frozen=True, slots=True)
class Packing:
    """How records are compressed: with a codec by its name, when they have more bytes."""

    compression: str = "NONE"
    threshold_bytes: int = 0


PLAIN: Final = Packing()


def _pack(record: bytes, packing: Packing) -> bytes:
    if packing.compression == "NONE" or len(record) <= packing.threshold_bytes:
        return record
    number = storage_pb2.CompressionType.Value(packing.compression)
    head = storage_pb2.ManagedLedgerInfoMetadata(
        compressionType=packing.compression, uncompressedSize=len(record)
    ).SerializeToString()
    return b"".join((_PACKED, _SIZE.pack(len(head)), head, compress(number, record)))


def _unpack(data: bytes) -> bytes:
    """Raise ProtocolViolation for what is not compressed as it says."""
    if data[:2] != _PACKED:
        return data
    if len(data) < 6:
        raise ProtocolViolation("a compressed record ends inside its head")
    end = 6 + _SIZE.unpack_from(data, 2)[0]
    head = storage_pb2.ManagedLedgerInfoMetadata.FromString(data[6:end])
    if not head.IsInitialized() or head.uncompressedSize <= 0:
        raise ProtocolViolation("a compressed record without its size")
    return decompress(
        head.compressionType, data[end:], head.uncompressedSize, bytes_max=_RECORD_BYTES_MAX
    )


def encode_log(log: LogInfo, packing: Packing = PLAIN) -> bytes:
    """A ledger that may grow has a timestamp of 0 and no size."""
    message = storage_pb2.ManagedLedgerInfo()
    for part in log.ledgers:
        stored = message.ledgerInfo.add(ledgerId=part.ledger_id, timestamp=part.created_ms)
        if part.created_ms:
            stored.entries = part.entries
            stored.size = part.size
        if part.rest:
            stored.MergeFromString(part.rest)
    if log.terminated is not None:
        message.terminatedPosition.ledgerId, message.terminatedPosition.entryId = log.terminated
    properties = {**log.properties, _OWNER: log.owner} if log.owner else log.properties
    for key, value in sorted(properties.items()):
        message.properties.add(key=key, value=value)
    message.MergeFromString(log.rest)
    return _pack(message.SerializeToString(), packing)


def decode_log(data: bytes) -> LogInfo:
    """No bytes at all is a log that was just created."""
    try:
        message = storage_pb2.ManagedLedgerInfo.FromString(_unpack(data))
    except (DecodeError, ProtocolViolation):
        raise RecordUnreadable(f"the record of a topic's log cannot be decoded{_ADVICE}") from None
    terminated = None
    if message.HasField("terminatedPosition"):
        terminated = _decode_position(message.terminatedPosition)
    properties = {pair.key: pair.value for pair in message.properties}
    owner = properties.pop(_OWNER, "")
    return LogInfo(
        tuple(map(_decode_part, message.ledgerInfo)),
        terminated,
        properties,
        _rest_of(message, "ledgerInfo", "terminatedPosition", "properties"),
        owner,
    )


def _decode_part(stored: storage_pb2.ManagedLedgerInfo.LedgerInfo) -> LedgerPart:
    offload = Offload.NONE
    if stored.HasField("offloadContext"):
        is_moved = stored.offloadContext.complete and stored.offloadContext.bookkeeperDeleted
        offload = Offload.MOVED if is_moved else Offload.COPIED
    return LedgerPart(
        stored.ledgerId,
        stored.entries,
        stored.size,
        stored.timestamp,
        offload,
        _rest_of(stored, "ledgerId", "entries", "size", "timestamp"),
    )


def _rest_of(message: Message, *taken: str) -> bytes:
    """The message without the fields that were taken from it, those unknown included."""
    for name in taken:
        message.ClearField(name)
    return message.SerializePartialToString()


def encode_cursor(cursor: CursorInfo, packing: Packing = PLAIN) -> bytes:
    """The record of a cursor."""
    message = storage_pb2.ManagedCursorInfo(
        cursorsLedgerId=cursor.ledger_id,
        markDeleteLedgerId=cursor.mark_delete.ledger_id,
        markDeleteEntryId=cursor.mark_delete.entry_id,
    )
    message.individualDeletedMessages.extend(_encode_ranges(cursor.ranges))
    message.properties.extend(_encode_numbers(cursor.properties))
    message.batchedEntryDeletionIndexInfo.extend(_encode_batches(cursor.batches))
    for name, value in sorted(cursor.cursor_properties.items()):
        message.cursorProperties.add(name=name, value=value)
    message.MergeFromString(cursor.rest)
    return _pack(message.SerializeToString(), packing)


def decode_cursor(data: bytes) -> CursorInfo:
    try:
        message = storage_pb2.ManagedCursorInfo.FromString(_unpack(data))
    except (DecodeError, ProtocolViolation):
        raise RecordUnreadable(f"the record of a cursor cannot be decoded{_ADVICE}") from None
    return CursorInfo(
        message.cursorsLedgerId,
        Position(message.markDeleteLedgerId, message.markDeleteEntryId),
        _decode_ranges(message.individualDeletedMessages),
        _decode_batches(message.batchedEntryDeletionIndexInfo),
        {pair.name: pair.value for pair in message.properties},
        {pair.name: pair.value for pair in message.cursorProperties},
        _rest_of(
            message,
            "cursorsLedgerId",
            "markDeleteLedgerId",
            "markDeleteEntryId",
            "individualDeletedMessages",
            "properties",
            "batchedEntryDeletionIndexInfo",
            "cursorProperties",
        ),
    )


def encode_cursor_entry(cursor: CursorInfo) -> bytes:
    """The entry of a cursor's own ledger; it leaves out what only the record holds."""
    message = storage_pb2.PositionInfo(
        ledgerId=cursor.mark_delete.ledger_id, entryId=cursor.mark_delete.entry_id
    )
    if _is_dense(cursor.ranges):
        message.individualDeletedMessageRanges.extend(_encode_bitmaps(cursor.ranges))
    else:
        message.individualDeletedMessages.extend(_encode_ranges(cursor.ranges))
    message.properties.extend(_encode_numbers(cursor.properties))
    message.batchedEntryDeletionIndexInfo.extend(_encode_batches(cursor.batches))
    return message.SerializeToString()


def decode_cursor_entry(data: bytes) -> CursorInfo:
    """Acknowledged entries are stored as ranges or, as Apache's brokers usually do, as bits."""
    try:
        message = storage_pb2.PositionInfo.FromString(data)
    except DecodeError:
        raise RecordUnreadable("an entry of a cursor's ledger cannot be decoded") from None
    ranges = _decode_ranges(message.individualDeletedMessages)
    if not ranges:
        ranges = tuple(_decode_bitmaps(message.individualDeletedMessageRanges))
    return CursorInfo(
        -1,
        Position(message.ledgerId, message.entryId),
        ranges,
        _decode_batches(message.batchedEntryDeletionIndexInfo),
        {pair.name: pair.value for pair in message.properties},
    )


def _encode_ranges(
    ranges: Iterable[tuple[Position, Position]],
) -> list[storage_pb2.MessageRange]:
    # Stored ranges leave out their lower end.
    return [
        storage_pb2.MessageRange(
            lowerEndpoint=storage_pb2.NestedPositionInfo(
                ledgerId=first.ledger_id, entryId=first.entry_id - 1
            ),
            upperEndpoint=_encode_position(last),
        )
        for first, last in ranges
    ]


def _decode_ranges(
    stored: Iterable[storage_pb2.MessageRange],
) -> tuple[tuple[Position, Position], ...]:
    ranges = []
    for each in stored:
        lower, last = each.lowerEndpoint, _decode_position(each.upperEndpoint)
        first = Position(lower.ledgerId, lower.entryId + 1)
        if first <= last:
            ranges.append((first, last))
    return tuple(ranges)


def _is_dense(ranges: Sequence[tuple[Position, Position]]) -> bool:
    """Whether bits take less room than ranges. A million holes do not fit an entry as ranges, and
    take twenty times as long to encode.
    """
    if len(ranges) < _BITMAP_RANGES_MIN:
        return False
    ends = {last.ledger_id: last.entry_id for _, last in ranges}
    words = sum(end // 64 + 1 for end in ends.values())
    is_parted = all(first.ledger_id == last.ledger_id for first, last in ranges)
    return is_parted and words * _WORD_BYTES < len(ranges) * _RANGE_BYTES


def _encode_bitmaps(
    ranges: Iterable[tuple[Position, Position]],
) -> list[storage_pb2.LongListMap]:
    """Ascending ranges, none over several ledgers."""
    maps = []
    for ledger_id, group in groupby(ranges, key=lambda each: each[0].ledger_id):
        pairs = [(first.entry_id, last.entry_id) for first, last in group]
        row = bytearray(b"0") * (pairs[-1][1] + 1)
        for start, last in pairs:
            if start == last:
                row[start] = _ONE
            else:
                row[start : last + 1] = b"1" * (last - start + 1)
        row.reverse()
        maps.append(storage_pb2.LongListMap(key=ledger_id, values=split_words(int(row, 2))))
    return maps


def _decode_bitmaps(
    stored: Iterable[storage_pb2.LongListMap],
) -> Iterator[tuple[Position, Position]]:
    """Bit N of the words of a ledger is set when its entry N is acknowledged."""
    for each in sorted(stored, key=lambda each: each.key):
        for ones in _ONES.finditer(f"{join_words(each.values):b}"[::-1]):
            yield Position(each.key, ones.start()), Position(each.key, ones.end() - 1)


def _encode_batches(
    batches: Mapping[Position, tuple[int, ...]],
) -> list[storage_pb2.BatchedEntryDeletionIndexInfo]:
    return [
        storage_pb2.BatchedEntryDeletionIndexInfo(
            position=_encode_position(position), deleteSet=words
        )
        for position, words in batches.items()
    ]


def _decode_batches(
    stored: Iterable[storage_pb2.BatchedEntryDeletionIndexInfo],
) -> dict[Position, tuple[int, ...]]:
    return {_decode_position(each.position): tuple(each.deleteSet) for each in stored}


def _encode_numbers(properties: Mapping[str, int]) -> list[storage_pb2.LongProperty]:
    return [
        storage_pb2.LongProperty(name=name, value=value)
        for name, value in sorted(properties.items())
    ]


def _encode_position(position: Position) -> storage_pb2.NestedPositionInfo:
    return storage_pb2.NestedPositionInfo(ledgerId=position.ledger_id, entryId=position.entry_id)


def _decode_position(stored: storage_pb2.NestedPositionInfo) -> Position:
    return Position(stored.ledgerId, stored.entryId)
