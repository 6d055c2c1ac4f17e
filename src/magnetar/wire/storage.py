"""What a topic's log and its cursors keep, as the bytes of their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from magnetar.errors import RecordUnreadable
from magnetar.model.position import Position
from magnetar.wire.pb import storage_pb2


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """`timestamp_ms` is when it was sealed; 0 while it may grow, and then it has no size either."""

    ledger_id: int
    entries: int
    size: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class StoredLog:
    ledgers: tuple[StoredLedger, ...] = ()
    terminated: Position | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredCursor:
    """`ledger_id` is -1 when this very record holds the position. `ranges` are closed, each inside
    one ledger; the words of `batches` have a bit for each message that is not acknowledged.
    """

    ledger_id: int
    mark_delete: Position
    ranges: tuple[tuple[Position, Position], ...] = ()
    batches: Mapping[Position, tuple[int, ...]] = field(default_factory=dict)
    properties: Mapping[str, int] = field(default_factory=dict)
    cursor_properties: Mapping[str, str] = field(default_factory=dict)


def encode_log(log: StoredLog) -> bytes:
    message = storage_pb2.ManagedLedgerInfo()
    for ledger in log.ledgers:
        stored = message.ledgerInfo.add(ledgerId=ledger.ledger_id)
        if ledger.timestamp_ms:
            stored.entries = ledger.entries
            stored.size = ledger.size
            stored.timestamp = ledger.timestamp_ms
    if log.terminated is not None:
        message.terminatedPosition.ledgerId, message.terminatedPosition.entryId = log.terminated
    for key, value in sorted(log.properties.items()):
        message.properties.add(key=key, value=value)
    return message.SerializeToString()


def decode_log(data: bytes) -> StoredLog:
    """No bytes at all is a log that was just created."""
    try:
        message = storage_pb2.ManagedLedgerInfo.FromString(data)
    except DecodeError:
        raise RecordUnreadable("the record of a topic's log cannot be decoded") from None
    terminated = None
    if message.HasField("terminatedPosition"):
        terminated = _decode_position(message.terminatedPosition)
    return StoredLog(
        tuple(
            StoredLedger(ledger.ledgerId, ledger.entries, ledger.size, ledger.timestamp)
            for ledger in message.ledgerInfo
        ),
        terminated,
        {pair.key: pair.value for pair in message.properties},
    )


def encode_cursor(cursor: StoredCursor) -> bytes:
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
    return message.SerializeToString()


def decode_cursor(data: bytes) -> StoredCursor:
    try:
        message = storage_pb2.ManagedCursorInfo.FromString(data)
    except DecodeError:
        raise RecordUnreadable("the record of a cursor cannot be decoded") from None
    return StoredCursor(
        message.cursorsLedgerId,
        Position(message.markDeleteLedgerId, message.markDeleteEntryId),
        _decode_ranges(message.individualDeletedMessages),
        _decode_batches(message.batchedEntryDeletionIndexInfo),
        {pair.name: pair.value for pair in message.properties},
        {pair.name: pair.value for pair in message.cursorProperties},
    )


def encode_cursor_entry(cursor: StoredCursor) -> bytes:
    """The entry of a cursor's own ledger; it leaves out what only the record holds."""
    message = storage_pb2.PositionInfo(
        ledgerId=cursor.mark_delete.ledger_id, entryId=cursor.mark_delete.entry_id
    )
    message.individualDeletedMessages.extend(_encode_ranges(cursor.ranges))
    message.properties.extend(_encode_numbers(cursor.properties))
    message.batchedEntryDeletionIndexInfo.extend(_encode_batches(cursor.batches))
    return message.SerializeToString()


def decode_cursor_entry(data: bytes) -> StoredCursor:
    try:
        message = storage_pb2.PositionInfo.FromString(data)
    except DecodeError:
        raise RecordUnreadable("an entry of a cursor's ledger cannot be decoded") from None
    return StoredCursor(
        -1,
        Position(message.ledgerId, message.entryId),
        _decode_ranges(message.individualDeletedMessages),
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
        # Of a range over several ledgers only the last one's part can be told without their sizes.
        start = lower.entryId + 1 if lower.ledgerId == last.ledger_id else 0
        if start <= last.entry_id:
            ranges.append((Position(last.ledger_id, start), last))
    return tuple(ranges)


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
