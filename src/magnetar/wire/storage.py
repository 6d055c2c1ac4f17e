"""What a topic's log and its cursors keep, as the bytes of their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError, Message

from magnetar.errors import ProtocolViolation, RecordUnreadable
from magnetar.model.bitset import join_words, split_words
from magnetar.model.entry_set import EntrySet
from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo, LedgerPart, LogInfo, Offload
from magnetar.wire.compression import compress, decompress
from magnetar.wire.pb import storage_pb2

_PACKED: Final = b"\x47\x78"
"""In front of a compressed record; the first byte is none that a plain one can begin with."""
_SIZE: Final = Struct(">I")
_RECORD_BYTES_MAX: Final = 64 << 20
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
    message.individualDeletedMessages.extend(_encode_ranges(_ranges_of(cursor.bits)))
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
    message.individualDeletedMessages.extend(_encode_ranges(cursor.ranges))
    for ledger_id, bits in cursor.bits.items():
        message.individualDeletedMessageRanges.add(key=ledger_id, values=split_words(bits))
    message.properties.extend(_encode_numbers(cursor.properties))
    message.batchedEntryDeletionIndexInfo.extend(_encode_batches(cursor.batches))
    return message.SerializeToString()


def decode_cursor_entry(data: bytes) -> CursorInfo:
    """Acknowledged entries are stored as ranges or, as Apache's brokers usually do, as bits."""
    try:
        message = storage_pb2.PositionInfo.FromString(data)
    except DecodeError:
        raise RecordUnreadable("an entry of a cursor's ledger cannot be decoded") from None
    return CursorInfo(
        -1,
        Position(message.ledgerId, message.entryId),
        _decode_ranges(message.individualDeletedMessages),
        _decode_batches(message.batchedEntryDeletionIndexInfo),
        {pair.name: pair.value for pair in message.properties},
        bits={each.key: join_words(each.values) for each in message.individualDeletedMessageRanges},
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


def _ranges_of(bits: Mapping[int, int]) -> Iterator[tuple[Position, Position]]:
    for ledger_id, some in bits.items():
        entries = EntrySet()
        entries.add_bits(some)
        for first, last in entries.runs():
            yield Position(ledger_id, first), Position(ledger_id, last)


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
