from __future__ import annotations

import pytest

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import BrokerEntryMetadata, MessageMetadata
from magnetar.wire.entry import (
    count_messages,
    decode_broker_block,
    decode_entry,
    decode_key,
    decode_metadata,
    encode_entry,
    publish_time_of,
    sticky_key,
    strip_checksum,
    verify_checksum,
)
from tests.unit.wire.broker_block import encode_broker_block

METADATA = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
ENTRY = bytes.fromhex("0e017ed8df46000000070a0170100018016869")
BLOCK = bytes.fromhex("0e020000000508e8071029")
BARE = ENTRY[6:]


def test_an_entry_has_its_known_bytes() -> None:
    assert encode_entry(METADATA, b"hi") == ENTRY
    assert encode_broker_block(timestamp_ms=1000, index=41) == BLOCK


@pytest.mark.parametrize("entry", [ENTRY, BARE, BLOCK + ENTRY, BLOCK + BARE])
def test_an_entry_is_read_with_and_without_its_blocks(entry: bytes) -> None:
    for form in (entry, memoryview(entry)):
        assert decode_entry(form) == (METADATA, b"hi")
        assert decode_metadata(form) == METADATA
        assert count_messages(form) == 1
        assert publish_time_of(form) == 1
        assert verify_checksum(form)
    assert strip_checksum(entry) == BARE


def test_a_broker_block_is_read() -> None:
    expected = BrokerEntryMetadata(broker_timestamp=1000, index=41)
    assert decode_broker_block(BLOCK + ENTRY) == expected
    assert decode_broker_block(ENTRY) is None
    only_index = decode_broker_block(encode_broker_block(index=0))
    assert only_index is not None and not only_index.HasField("broker_timestamp")


@pytest.mark.parametrize("at", range(6, len(ENTRY)))
def test_any_changed_byte_breaks_the_checksum(at: int) -> None:
    changed = bytearray(ENTRY)
    changed[at] ^= 1
    assert not verify_checksum(bytes(changed))
    assert not verify_checksum(BLOCK + bytes(changed))


def test_the_checksum_does_not_cover_the_broker_block() -> None:
    assert verify_checksum(encode_broker_block(index=1) + ENTRY)


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        ENTRY[:4],
        ENTRY[:8],
        ENTRY[:-3],
        BLOCK[:-1],
        BLOCK[:4],
        BLOCK,
        bytes.fromhex("00000001ff"),
        bytes.fromhex("000000050a01701000"),
    ],
    ids=bytes.hex,
)
def test_an_entry_cut_short_or_garbled_is_refused(entry: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_entry(entry)
    with pytest.raises(ProtocolViolation):
        decode_metadata(entry)


@pytest.mark.parametrize("entry", [ENTRY[:2], ENTRY[:5], BLOCK[:5]], ids=bytes.hex)
def test_a_checksum_cut_short_is_refused(entry: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        verify_checksum(entry)


def test_a_garbled_broker_block_is_refused() -> None:
    with pytest.raises(ProtocolViolation):
        decode_broker_block(bytes.fromhex("0e0200000001ff") + ENTRY)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"num_messages_in_batch": 7}, 7),
        ({"num_messages_in_batch": 1}, 1),
        ({"num_messages_in_batch": 0}, 1),
        ({"num_messages_in_batch": -3}, 1),
        ({"partition_key": "X marks the tag byte"}, 1),
        ({"partition_key": "X", "num_messages_in_batch": 300}, 300),
    ],
)
def test_messages_are_counted_and_never_less_than_one(
    fields: dict[str, str | int], expected: int
) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    for name, value in fields.items():
        setattr(metadata, name, value)
    assert count_messages(encode_entry(metadata, b"")) == expected


@pytest.mark.parametrize(
    "metadata",
    [
        MessageMetadata(producer_name="#", sequence_id=0, publish_time=1),
        MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, partition_key="#"),
        MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, uuid="#"),
        MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, replicated_from="#"),
        MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, encryption_algo="#"),
        MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, replicate_to=["#"]),
        MessageMetadata(
            producer_name="p",
            sequence_id=0,
            publish_time=1,
            properties=[{"key": "#", "value": ""}],
        ),
        MessageMetadata(
            producer_name="p",
            sequence_id=0,
            publish_time=1,
            encryption_keys=[{"key": "#", "value": b"\xff"}],
        ),
    ],
)
def test_text_that_is_not_utf_8_is_refused(metadata: MessageMetadata) -> None:
    entry = encode_entry(metadata, b"")
    assert decode_metadata(entry) == metadata
    with pytest.raises(ProtocolViolation, match="UTF-8"):
        decode_metadata(entry.replace(b"#", b"\xff"))


def _keyed(**fields: object) -> MessageMetadata:
    metadata = MessageMetadata(producer_name="p", sequence_id=9, publish_time=1)
    for name, value in fields.items():
        setattr(metadata, name, value)
    return metadata


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (_keyed(ordering_key=b"o", partition_key="k"), b"o"),
        (_keyed(ordering_key=b"", partition_key="k"), b""),
        (_keyed(partition_key="héllo"), "héllo".encode()),
        (_keyed(partition_key=""), b""),
        (_keyed(partition_key="AP8=", partition_key_b64_encoded=True), b"\x00\xff"),
        (_keyed(partition_key="AP8", partition_key_b64_encoded=True), b"\x00\xff"),
        (_keyed(partition_key="not base64!", partition_key_b64_encoded=True), b"not base64!"),
        (_keyed(), b"p-9"),
    ],
)
def test_the_sticky_key_is_the_first_there_is(metadata: MessageMetadata, expected: bytes) -> None:
    assert sticky_key(metadata) == expected


def test_a_key_marked_as_base64_that_is_not_text_of_that_kind_counts_as_written() -> None:
    assert decode_key("日本", is_base64=True) == "日本".encode()
    assert decode_key("A", is_base64=True) == b"A"
