from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import ProtocolViolation
from magnetar.wire.ackset import MESSAGES_MAX
from magnetar.wire.command import KeyValue, MessageMetadata, unsigned64
from magnetar.wire.entry import (
    count_messages,
    decode_broker_block,
    decode_entry,
    decode_metadata,
    encode_broker_block,
    encode_entry,
    publish_time_of,
    sticky_key,
    strip_broker_block,
    strip_checksum,
    verify_checksum,
)

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
    strip_broker_block,
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
    assert block + strip_broker_block(entry) == entry
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
