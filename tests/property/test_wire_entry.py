from __future__ import annotations

from collections.abc import Callable

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import ProtocolViolation
from magnetar.model.transaction import TransactionId
from magnetar.wire.ackset import MESSAGES_MAX
from magnetar.wire.command import KeyValue, MessageMetadata, unsigned64
from magnetar.wire.entry import (
    count_messages,
    decode_broker_block,
    decode_entry,
    decode_metadata,
    encode_entry,
    publish_time_of,
    stamp_transaction,
    sticky_key,
    strip_checksum,
    verify_checksum,
)
from tests.unit.wire.broker_block import encode_broker_block

UNSIGNED = st.integers(0, 2**64 - 1)
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
METADATA = st.builds(
    MessageMetadata,
    producer_name=TEXT,
    sequence_id=UNSIGNED,
    publish_time=UNSIGNED,
    properties=st.lists(st.builds(KeyValue, key=TEXT, value=TEXT), max_size=3),
    partition_key=st.none() | TEXT,
    partition_key_b64_encoded=st.none() | st.booleans(),
    ordering_key=st.none() | st.binary(max_size=10),
    num_messages_in_batch=st.none() | st.integers(-(2**31), 2**31 - 1),
)
BLOCKS = st.just(b"") | st.builds(
    encode_broker_block, timestamp_ms=st.none() | UNSIGNED, index=st.none() | UNSIGNED
)
READERS: list[Callable[[bytes], object]] = [
    decode_entry,
    decode_metadata,
    count_messages,
    publish_time_of,
    verify_checksum,
    decode_broker_block,
    strip_checksum,
]


@given(METADATA, st.binary(max_size=100), BLOCKS)
def test_an_entry_comes_back_as_it_was(
    metadata: MessageMetadata, payload: bytes, block: bytes
) -> None:
    entry = block + encode_entry(metadata, payload)
    assert decode_entry(entry) == (metadata, payload)
    assert decode_metadata(memoryview(entry)) == metadata
    claimed = metadata.num_messages_in_batch
    assert count_messages(entry) == min(max(1, claimed), MESSAGES_MAX)
    assert unsigned64(publish_time_of(entry)) == metadata.publish_time
    assert -(2**63) <= publish_time_of(entry) < 2**63
    assert verify_checksum(entry)
    assert decode_entry(strip_checksum(entry)) == (metadata, payload)
    assert isinstance(sticky_key(metadata), bytes)


@given(METADATA, st.binary(max_size=100), st.data())
def test_a_damaged_entry_fails_its_checksum(
    metadata: MessageMetadata, payload: bytes, data: st.DataObject
) -> None:
    entry = bytearray(encode_entry(metadata, payload))
    at = data.draw(st.integers(2, len(entry) - 1))
    entry[at] ^= data.draw(st.integers(1, 255))
    assert not verify_checksum(bytes(entry))


@pytest.mark.parametrize("read", READERS)
@given(st.sampled_from([b"", b"\x0e\x01", b"\x0e\x02", b"\0\0\0"]), st.binary(max_size=80))
def test_arbitrary_bytes_are_an_entry_or_refused(
    read: Callable[[bytes], object], head: bytes, rest: bytes
) -> None:
    try:
        read(head + rest)
    except ProtocolViolation:
        pass


@pytest.mark.parametrize("read", READERS)
@given(METADATA, BLOCKS, st.data())
def test_a_damaged_entry_is_read_or_refused(
    read: Callable[[bytes], object], metadata: MessageMetadata, block: bytes, data: st.DataObject
) -> None:
    entry = bytearray(block + encode_entry(metadata, b"payload"))
    at = data.draw(st.integers(0, len(entry) - 1))
    entry[at] = data.draw(st.integers(0, 255))
    try:
        read(bytes(entry[: data.draw(st.integers(0, len(entry)))]))
    except ProtocolViolation:
        pass


IDS = st.builds(TransactionId, UNSIGNED, UNSIGNED) | st.sampled_from(
    [TransactionId(0, 0), TransactionId(0, 1), TransactionId(3, 300)]
)


@st.composite
def transacted_metadata(draw: st.DrawFn, id_: TransactionId) -> bytes:
    """As clients write it, or changed a little: another id, more fields, bytes that are wrong."""
    metadata = MessageMetadata(
        producer_name=draw(TEXT | st.just("p" * 130)),
        sequence_id=draw(UNSIGNED),
        publish_time=draw(UNSIGNED),
    )
    if draw(st.booleans()):
        metadata.uncompressed_size = draw(st.integers(0, 2**31 - 1))
    if draw(st.booleans()):
        metadata.num_messages_in_batch = draw(st.integers(-1, 300))
    if draw(st.booleans()):
        metadata.partition_key = draw(TEXT)
    if draw(st.integers(0, 3)):
        metadata.txnid_least_bits = draw(st.just(id_.least) | UNSIGNED)
    if draw(st.integers(0, 3)):
        metadata.txnid_most_bits = draw(st.just(id_.most) | UNSIGNED)
    content = bytearray(metadata.SerializeToString())
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(content) - 1))
        content[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
        content = content or bytearray(1)
    return bytes(content)


@given(IDS, st.data())
def test_an_entry_is_stamped_with_its_transaction_as_its_parsed_metadata_tells(
    id_: TransactionId, data: st.DataObject
) -> None:
    content = data.draw(transacted_metadata(id_) | st.binary(max_size=40))
    size = len(content) + data.draw(st.sampled_from([0, 0, 0, 0, -1, 1, 200]))
    covered = max(0, size).to_bytes(4, "big") + content + data.draw(st.binary(max_size=20))
    head = b"\x0e\x01" + crc32c(covered).to_bytes(4, "big")
    entry = data.draw(BLOCKS) + data.draw(st.sampled_from([head, head, head, b""])) + covered
    try:
        metadata, payload = decode_entry(entry)
    except ProtocolViolation:
        with pytest.raises(ProtocolViolation):
            stamp_transaction([entry], id_)
        return
    has_ids = metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits")
    if has_ids and (metadata.txnid_most_bits, metadata.txnid_least_bits) == id_:
        assert stamp_transaction([entry], id_) == [entry]
    else:
        metadata.txnid_most_bits, metadata.txnid_least_bits = id_
        assert stamp_transaction([entry], id_) == [encode_entry(metadata, payload)]


def test_metadata_that_clients_write_is_stamped_without_a_change() -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=300, publish_time=1 << 40)
    metadata.uncompressed_size, metadata.num_messages_in_batch = 100, 10
    metadata.txnid_least_bits, metadata.txnid_most_bits = 300, 3
    entry = encode_entry(metadata, b"payload")
    (stamped,) = stamp_transaction([entry], TransactionId(3, 300))
    assert stamped is entry
