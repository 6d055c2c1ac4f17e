"""Records of logs and cursors: bytes that other readers know, and round trips."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import RecordUnreadable
from magnetar.model.position import Position
from magnetar.wire.pb import storage_pb2
from magnetar.wire.storage import (
    StoredCursor,
    StoredLedger,
    StoredLog,
    decode_cursor,
    decode_cursor_entry,
    decode_log,
    encode_cursor,
    encode_cursor_entry,
    encode_log,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**62)
POSITIONS = st.builds(Position, COUNT, st.integers(-1, 2**62))
NAMES = st.text(max_size=8)
RANGES = st.builds(
    lambda ledger, first, length: (Position(ledger, first), Position(ledger, first + length)),
    COUNT,
    COUNT,
    st.integers(0, 1000),
)
CURSORS = st.builds(
    StoredCursor,
    st.integers(-1, 2**62),
    POSITIONS,
    st.lists(RANGES, max_size=4).map(tuple),
    st.dictionaries(POSITIONS, st.lists(INT64, max_size=3).map(tuple), max_size=3),
    st.dictionaries(NAMES, INT64, max_size=3),
    st.dictionaries(NAMES, NAMES, max_size=3),
)
LEDGERS = st.builds(StoredLedger, COUNT, COUNT, COUNT, st.integers(1, 2**62)) | st.builds(
    lambda ledger: StoredLedger(ledger, 0, 0, 0), COUNT
)
LOGS = st.builds(
    StoredLog,
    st.lists(LEDGERS, max_size=4).map(tuple),
    st.none() | POSITIONS,
    st.dictionaries(NAMES, NAMES, max_size=3),
)


@given(LOGS)
def test_a_log_survives_storage(log: StoredLog) -> None:
    assert decode_log(encode_log(log)) == log


@given(CURSORS)
def test_a_cursor_survives_storage(cursor: StoredCursor) -> None:
    assert decode_cursor(encode_cursor(cursor)) == cursor


@given(CURSORS)
def test_an_entry_keeps_all_but_what_the_record_holds(cursor: StoredCursor) -> None:
    kept = StoredCursor(-1, cursor.mark_delete, cursor.ranges, cursor.batches, cursor.properties)
    assert decode_cursor_entry(encode_cursor_entry(cursor)) == kept


@given(st.binary(max_size=100))
@pytest.mark.parametrize("decode", [decode_log, decode_cursor, decode_cursor_entry])
def test_arbitrary_bytes_are_read_or_refused(
    decode: Callable[[bytes], object], data: bytes
) -> None:
    try:
        decode(data)
    except RecordUnreadable:
        pass


def test_no_bytes_are_a_log_just_created() -> None:
    assert decode_log(b"") == StoredLog()


def test_a_ledger_that_may_grow_is_stored_by_its_id_alone() -> None:
    log = StoredLog((StoredLedger(7, 5, 100, 1_000), StoredLedger(9, 3, 30, 0)), Position(7, 4))
    message = storage_pb2.ManagedLedgerInfo.FromString(encode_log(log))
    assert [ledger.ledgerId for ledger in message.ledgerInfo] == [7, 9]
    assert message.ledgerInfo[0].timestamp == 1_000
    assert not message.ledgerInfo[1].HasField("entries")
    assert (message.terminatedPosition.ledgerId, message.terminatedPosition.entryId) == (7, 4)


def test_stored_ranges_leave_out_their_lower_end() -> None:
    cursor = StoredCursor(-1, Position(3, 1), ((Position(3, 0), Position(3, 4)),))
    (stored,) = storage_pb2.ManagedCursorInfo.FromString(
        encode_cursor(cursor)
    ).individualDeletedMessages
    assert (stored.lowerEndpoint.ledgerId, stored.lowerEndpoint.entryId) == (3, -1)
    assert (stored.upperEndpoint.ledgerId, stored.upperEndpoint.entryId) == (3, 4)


def test_of_a_range_over_two_ledgers_only_the_last_part_is_taken() -> None:
    message = storage_pb2.PositionInfo(ledgerId=3, entryId=0)
    spanning = message.individualDeletedMessages.add()
    spanning.lowerEndpoint.ledgerId, spanning.lowerEndpoint.entryId = 3, 5
    spanning.upperEndpoint.ledgerId, spanning.upperEndpoint.entryId = 4, 2
    decoded = decode_cursor_entry(message.SerializeToString())
    assert decoded.ranges == ((Position(4, 0), Position(4, 2)),)
