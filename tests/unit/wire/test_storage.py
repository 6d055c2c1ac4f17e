"""Records of logs and cursors: bytes that other readers know, and round trips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import RecordUnreadable
from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo, LedgerPart, LogInfo, Offload
from magnetar.wire.pb import storage_pb2
from magnetar.wire.storage import (
    Packing,
    decode_cursor,
    decode_cursor_entry,
    decode_log,
    encode_cursor,
    encode_cursor_entry,
    encode_log,
)

GOLDEN = (Path(__file__).parents[2] / "golden/apache/record.txt").read_text()
APACHE = {
    name: bytes.fromhex(data)
    for name, data in (line.rsplit(" ", 1) for line in GOLDEN.splitlines()[1:])
}
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
    CursorInfo,
    st.integers(-1, 2**62),
    POSITIONS,
    st.lists(RANGES, max_size=4).map(tuple),
    st.dictionaries(POSITIONS, st.lists(INT64, max_size=3).map(tuple), max_size=3),
    st.dictionaries(NAMES, INT64, max_size=3),
    st.dictionaries(NAMES, NAMES, max_size=3),
)
LEDGERS = st.builds(LedgerPart, COUNT, COUNT, COUNT, st.integers(1, 2**62)) | st.builds(
    lambda ledger: LedgerPart(ledger, 0, 0, 0), COUNT
)
LOGS = st.builds(
    LogInfo,
    st.lists(LEDGERS, max_size=4).map(tuple),
    st.none() | POSITIONS,
    st.dictionaries(NAMES, NAMES, max_size=3),
    owner=st.sampled_from(["", "0f"]),
)


@given(LOGS)
def test_a_log_survives_storage(log: LogInfo) -> None:
    assert decode_log(encode_log(log)) == log


@given(CURSORS)
def test_a_cursor_survives_storage(cursor: CursorInfo) -> None:
    assert decode_cursor(encode_cursor(cursor)) == cursor


@given(CURSORS)
def test_an_entry_keeps_all_but_what_the_record_holds(cursor: CursorInfo) -> None:
    kept = replace(cursor, ledger_id=-1, cursor_properties={})
    assert decode_cursor_entry(encode_cursor_entry(cursor)) == kept


@given(st.dictionaries(COUNT, st.integers(1, 2**200), max_size=3))
def test_bits_are_words_in_an_entry_and_ranges_in_a_record(bits: dict[int, int]) -> None:
    cursor = CursorInfo(-1, Position(6, 0), bits=bits)
    assert decode_cursor_entry(encode_cursor_entry(cursor)) == cursor
    recorded = decode_cursor(encode_cursor(cursor))
    assert not recorded.bits and len(recorded.ranges) == cursor.range_count
    found = dict.fromkeys(bits, 0)
    for first, last in recorded.ranges:
        found[first.ledger_id] += (2 << last.entry_id) - (1 << first.entry_id)
    assert found == bits


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
    assert decode_log(b"") == LogInfo()


def test_a_ledger_that_may_grow_is_stored_by_its_id_alone() -> None:
    log = LogInfo((LedgerPart(7, 5, 100, 1_000), LedgerPart(9, 3, 30, 0)), Position(7, 4))
    message = storage_pb2.ManagedLedgerInfo.FromString(encode_log(log))
    assert [ledger.ledgerId for ledger in message.ledgerInfo] == [7, 9]
    assert message.ledgerInfo[0].timestamp == 1_000
    assert not message.ledgerInfo[1].HasField("entries")
    assert (message.terminatedPosition.ledgerId, message.terminatedPosition.entryId) == (7, 4)


def test_stored_ranges_leave_out_their_lower_end() -> None:
    cursor = CursorInfo(-1, Position(3, 1), ((Position(3, 0), Position(3, 4)),))
    (stored,) = storage_pb2.ManagedCursorInfo.FromString(
        encode_cursor(cursor)
    ).individualDeletedMessages
    assert (stored.lowerEndpoint.ledgerId, stored.lowerEndpoint.entryId) == (3, -1)
    assert (stored.upperEndpoint.ledgerId, stored.upperEndpoint.entryId) == (3, 4)


def test_a_range_over_two_ledgers_is_kept_as_one() -> None:
    message = storage_pb2.PositionInfo(ledgerId=3, entryId=0)
    spanning = message.individualDeletedMessages.add()
    spanning.lowerEndpoint.ledgerId, spanning.lowerEndpoint.entryId = 3, 5
    spanning.upperEndpoint.ledgerId, spanning.upperEndpoint.entryId = 4, 2
    decoded = decode_cursor_entry(message.SerializeToString())
    assert decoded.ranges == ((Position(3, 6), Position(4, 2)),)


@given(LOGS, CURSORS)
@pytest.mark.parametrize("codec", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_records_above_the_threshold_are_compressed(
    codec: str, log: LogInfo, cursor: CursorInfo
) -> None:
    packing = Packing(codec, 0)
    packed = encode_log(log, packing)
    assert packed == b"" or packed.startswith(b"\x47\x78")
    assert decode_log(packed) == log
    assert decode_cursor(encode_cursor(cursor, packing)) == cursor


def test_a_record_that_is_not_above_the_threshold_stays_plain() -> None:
    log = LogInfo((LedgerPart(7, 5, 100, 1_000),))
    plain = encode_log(log)
    assert encode_log(log, Packing("LZ4", len(plain))) == plain
    assert encode_log(log, Packing("LZ4", len(plain) - 1)) != plain


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x47\x78",
        b"\x47\x78\x00\x00\x00\x02\x08\x01",
        b"\x47\x78\xff\xff\xff\xff",
        b"\x47\x78\x00\x00\x00\x04\x08\x01\x10\x05abc",
        b"\x47\x78\x00\x00\x00\x07\x08\x01\x10\xff\xff\xff\x7fabc",
    ],
)
def test_a_compressed_record_that_is_damaged_is_refused(damaged: bytes) -> None:
    with pytest.raises(RecordUnreadable):
        decode_log(damaged)


def test_what_a_record_says_beyond_our_values_is_written_back() -> None:
    message = storage_pb2.ManagedLedgerInfo()
    ledger = message.ledgerInfo.add(ledgerId=3, entries=5, size=50, timestamp=9)
    ledger.offloadContext.uidMsb = 7
    ledger.offloadContext.driverMetadata.name = "s3"
    ledger.properties.add(key="colour", value="red")
    unknown = b"\xa2\x06\x03new"  # field 100
    data = message.SerializeToString() + unknown
    log = decode_log(data)
    assert log.ledgers[0].offload is Offload.COPIED
    assert encode_log(log) == data
    cursor = storage_pb2.ManagedCursorInfo(cursorsLedgerId=-1, lastActive=12)
    cursor.markDeleteLedgerId, cursor.markDeleteEntryId = 3, 4
    data = cursor.SerializeToString() + unknown
    assert encode_cursor(decode_cursor(data)) == data


def test_a_ledger_that_is_only_in_long_term_storage_says_so() -> None:
    message = storage_pb2.ManagedLedgerInfo()
    context = message.ledgerInfo.add(ledgerId=3, entries=5, timestamp=9).offloadContext
    context.complete = context.bookkeeperDeleted = True
    (part,) = decode_log(message.SerializeToString()).ledgers
    assert part.offload is Offload.MOVED


# What follows was written by Apache Pulsar 5.0.0-M1: a small cluster, and one with the thresholds
# of compression lowered to 64 bytes.


@pytest.mark.parametrize("name", ["d1", "__change_events", "k1", "ended", "ended0", "z3"])
def test_the_record_of_a_log_of_apache_is_read_and_written_back_as_it_was(name: str) -> None:
    data = APACHE[f"log {name}"]
    log = decode_log(data)
    assert log.ledgers and log.ledgers[-1].created_ms == 0
    assert all(part.entries and part.size and part.created_ms for part in log.ledgers[:-1])
    is_packed = data.startswith(b"\x47\x78")
    assert is_packed == (name == "z3")
    assert decode_log(encode_log(log)) == log
    if not is_packed:
        assert encode_log(log) == data


def test_a_compressed_record_of_apache_names_its_ledgers() -> None:
    log = decode_log(APACHE["log z3"])
    assert [part.ledger_id for part in log.ledgers] == [81, 82, 83, 84]
    assert [part.entries for part in log.ledgers] == [20, 20, 20, 0]
    assert log.properties == {"index": "60"}
    cursor = decode_cursor(APACHE["cursor z3/s"])
    assert cursor.mark_delete == (81, 0)
    assert cursor.ranges[0] == ((81, 2), (81, 2))
    assert len(cursor.ranges) > 30


@pytest.mark.parametrize("name", ["k1/s", "batched/bidx", "a b~ü/sub one/2"])
def test_the_record_of_a_cursor_of_apache_is_read_and_written_back_as_it_was(name: str) -> None:
    data = APACHE[f"cursor {name}"]
    assert encode_cursor(decode_cursor(data)) == data


def test_a_cursor_entry_of_apache_has_its_acknowledgements_as_bits() -> None:
    state = decode_cursor_entry(APACHE["entry billing"])
    assert state.mark_delete == (7, 3)
    assert not state.ranges
    assert state.bits == {7: 1 << 7 | 0b1111 << 9, 9: 1 << 5, 10: 1 << 4}
    partly = decode_cursor_entry(APACHE["entry bidx"])
    assert partly.batches == {(12, 1): (1002,), (12, 2): (1021,)}
    compaction = decode_cursor_entry(APACHE["entry __compaction"])
    assert compaction.properties == {"CompactedTopicLedger": 30}
    assert encode_cursor_entry(partly) == APACHE["entry bidx"]
