"""Frames and entries against bytes that a real bookie took and sent."""

from __future__ import annotations

import pytest

from magnetar.errors import LedgerCorrupt, ProtocolViolation
from magnetar.ledger.backends.bookkeeper.entry import EntryCodec
from magnetar.ledger.backends.bookkeeper.frame import (
    ADD,
    Flag,
    ReplyDecoder,
    encode_batch,
    encode_header,
    encode_read,
    split_batch,
)
from magnetar.wire.bookkeeper import DigestType

LEDGER = 777001
KEY = bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")
ENTRY = bytes.fromhex(
    "00000000000bdb29 0000000000000000 ffffffffffffffff 0000000000000002 09fb042d 6869"
)


def codec(digest: DigestType = DigestType.CRC32C, password: bytes = b"") -> EntryCodec:
    return EntryCodec(LEDGER, digest, password)


def test_an_entry_is_sent_in_the_bytes_of_the_java_client() -> None:
    head = encode_header(ADD) + codec().key
    frame = b"".join(codec().encode(head, 0, [b"hi"], -1, 0))
    body = bytes.fromhex("02010000") + KEY + ENTRY
    assert frame == len(body).to_bytes(4) + body


def test_entries_of_a_run_count_on() -> None:
    pieces = codec().encode(b"", 5, [b"a", b"bc"], 3, 10)
    frames = [b"".join(pieces[:5])[4:], b"".join(pieces[5:])[4:]]
    first, second = (codec().decode(each) for each in frames)
    assert (first.id, first.last_confirmed, first.length, first.payload) == (5, 3, 11, b"a")
    assert (second.id, second.last_confirmed, second.length, second.payload) == (6, 3, 13, b"bc")


@pytest.mark.parametrize(
    ("digest", "password", "value"),
    [
        (DigestType.CRC32C, b"", "09fb042d"),
        (DigestType.CRC32, b"", "00000000d583f4ed"),
        (DigestType.HMAC, b"secret", "db6ad72769b8f5136931ce3f39f765a6a6390cb4"),
        (DigestType.DUMMY, b"", ""),
    ],
)
def test_every_digest_of_the_java_client_is_known(
    digest: DigestType, password: bytes, value: str
) -> None:
    entry = ENTRY[:32] + bytes.fromhex(value) + b"hi"
    coding = codec(digest, password)
    assert coding.decode(entry, 0).payload == b"hi"
    assert b"".join(coding.encode(b"", 0, [b"hi"], -1, 0))[4:] == entry


def test_the_master_key_is_made_of_the_password() -> None:
    assert codec().key == KEY
    secret = codec(password=b"secret").key
    assert secret.hex() == "e793cbc379107648537183605cd361d3bb789a39"


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (ENTRY[:-1] + b"o", 0),
        (ENTRY[:20], 0),
        (ENTRY, 1),
        (b"\1" + ENTRY[1:], 0),
        (ENTRY[:33], 0),
    ],
    ids=["payload", "short", "another entry", "another ledger", "no digest"],
)
def test_what_is_not_the_entry_is_refused(data: bytes, number: int) -> None:
    with pytest.raises(LedgerCorrupt):
        codec().decode(data, number)


def test_requests_have_the_bytes_of_the_protocol() -> None:
    assert encode_read(1, 2).hex() == "0000001402020000" + "00" * 7 + "01" + "00" * 7 + "02"
    fence = encode_read(1, -1, flags=Flag.FENCE, key=KEY)
    assert fence[:8].hex() == "0000002802020001" and fence.endswith(b"\xff" * 8 + KEY)
    assert encode_header(ADD, Flag.RECOVERY | Flag.HIGH_PRIORITY).hex() == "02010006"
    batch = encode_batch(1, 2, 3, entries_max=4, bytes_max=5)
    assert (len(batch), batch[:8].hex()) == (44, "0000002802070000")


def test_a_batch_is_cut_into_its_entries() -> None:
    body = bytes(7) + b"\x09" + b"\0\0\0\2hi" + b"\0\0\0\0" + b"\0\0\0\1x"
    number, entries = split_batch(memoryview(body))
    assert (number, [bytes(each) for each in entries]) == (9, [b"hi", b"", b"x"])
    for wrong in (b"", body[:-1], body[:-4], body[:-6] + b"\xff"):
        with pytest.raises(ProtocolViolation):
            split_batch(memoryview(wrong))


@pytest.mark.parametrize(
    "data",
    [b"\0\0\0\x17" + bytes(30), b"\xff" * 40, b"\0\0\0\x18\3" + bytes(30)],
    ids=["short", "huge", "version"],
)
def test_what_no_bookie_sends_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        list(ReplyDecoder().feed(data))
