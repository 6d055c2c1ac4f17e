"""The metadata of ledgers against bytes that Apache BookKeeper wrote or read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.errors import RecordUnreadable
from magnetar.wire.bookkeeper import (
    DigestType,
    LedgerMetadata,
    LedgerState,
    Segment,
    decode_address,
    decode_ledger,
    decode_response,
    encode_ledger,
    encode_start_tls,
    encode_write_lac,
)

OPEN = LedgerMetadata(
    write_quorum=2, ack_quorum=2, segments=(Segment(0, ("b1:3181", "b2:3181", "b3:3181")),)
)
GOLDEN = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a"
    "38 0802 1003 1800 20ffffffffffffffffff01 2801 321d 0a07 62313a33313831 0a07 62323a33313831"
    " 0a07 62333a33313831 1000 3803 4200 4802"
)


def test_an_open_ledger_is_written_in_the_bytes_of_the_java_client() -> None:
    assert encode_ledger(OPEN) == GOLDEN
    assert decode_ledger("/ledgers/00/0000/L0001", GOLDEN) == OPEN


def test_all_that_is_known_of_a_ledger_is_read_back() -> None:
    whole = replace(
        OPEN,
        state=LedgerState.CLOSED,
        last=99,
        length=1234,
        segments=(*OPEN.segments, Segment(40, ("b1:3181", "b4:3181", "b3:3181"))),
        digest=DigestType.CRC32,
        password=b"secret",
        properties=(("pulsar/managed-ledger", "täg".encode()), ("raw", b"\xff\x00")),
        token=77,
    )
    assert decode_ledger("/x", encode_ledger(whole)) == whole


def test_fields_that_are_not_known_survive_a_rewrite() -> None:
    unknown = bytes.fromhex("f80605")  # field 111, varint 5
    head, body = GOLDEN[:30], GOLDEN[31:] + unknown
    found = decode_ledger("/x", head + bytes((len(body),)) + body)
    assert unknown in encode_ledger(replace(found, state=LedgerState.CLOSED, last=0))


def test_a_record_in_text_is_read_and_stays_text() -> None:
    text = (
        b"BookieMetadataFormatVersion\t2\nquorumSize: 1\nensembleSize: 1\nlength: 0\n"
        b'lastEntryId: -1\nstate: OPEN\nsegment {\n  ensembleMember: "b1:3181"\n'
        b'  firstEntryId: 0\n}\ndigestType: CRC32C\npassword: ""\nackQuorumSize: 1\n'
    )
    found = decode_ledger("/x", text)
    assert found.segments == (Segment(0, ("b1:3181",)),)
    assert encode_ledger(found).startswith(b"BookieMetadataFormatVersion\t2\nquorumSize: 1\n")
    assert decode_ledger("/x", encode_ledger(found)) == found


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "does not hold"),
        (b"BookieMetadataFormatVersion\t1\n1\n1\n0", "format"),
        (b"BookieMetadataFormatVersion\t3\n", "/x"),
        (GOLDEN[:-1], "bytes"),
        (GOLDEN.replace(b"\x08\x02\x10\x03", b"\x08\x04\x10\x03"), "write quorum of 4"),
        (GOLDEN.replace(b"\x10\x03\x18", b"\x10\x04\x18"), "4 bookies"),
        (GOLDEN.replace(b"\x10\x00\x38", b"\x10\x05\x38"), "begin at entries"),
        (b"BookieMetadataFormatVersion\t2\nquorumSize: two", "/x"),
    ],
)
def test_what_is_no_record_of_a_ledger_is_refused_by_name(data: bytes, named: str) -> None:
    with pytest.raises(RecordUnreadable, match=named):
        decode_ledger("/x", data)


def test_a_bookie_is_where_it_says_else_where_its_name_says() -> None:
    said = bytes.fromhex("3223 0a06 626f6f6b6965 10a19903 1a09 3132372e302e302e31 220a") + (
        b"bookie-rpc"
    )
    assert decode_address("b-0", said) == ("127.0.0.1", 52385)
    assert decode_address("b-0", b"") is None
    assert decode_address("10.0.0.1:3181", b"") == ("10.0.0.1", 3181)
    assert decode_address("10.0.0.1:99999", b"\xff") is None


def test_the_requests_of_the_third_protocol() -> None:
    assert encode_start_tls(1) == bytes.fromhex("0a06 0803 1009 1801 d20600")
    assert encode_write_lac(2, 3, 4, b"k", b"b").startswith(bytes.fromhex("0a06 0803 1006 1802"))
    assert decode_response(bytes.fromhex("0a06 0803 1009 1801 1000")) == (1, True)
    assert decode_response(bytes.fromhex("0a06 0803 1009 1801 109403")) == (1, False)
    assert decode_response(b"\xff") is None
