from __future__ import annotations

import pytest

from magnetar.errors import ProtocolViolation
from magnetar.wire.batch import BatchMessage, decode_batch, encode_batch
from magnetar.wire.command import SingleMessageMetadata

BATCH = bytes.fromhex("0000000418024005616200000007" + "12016b18014006" + "63")


def _single(sequence_id: int, **fields: str) -> SingleMessageMetadata:
    metadata = SingleMessageMetadata(sequence_id=sequence_id)
    for name, value in fields.items():
        setattr(metadata, name, value)
    return metadata


def test_a_batch_has_its_known_bytes() -> None:
    assert encode_batch([(_single(5), b"ab"), (_single(6, partition_key="k"), b"c")]) == BATCH


def test_a_batch_is_split_again() -> None:
    first, second = decode_batch(BATCH, 2)
    assert (first.metadata.sequence_id, first.payload) == (5, b"ab")
    assert (second.metadata.partition_key, second.payload) == ("k", b"c")
    assert decode_batch(BATCH, 1) == [first]
    assert isinstance(first, BatchMessage)


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (BATCH, 3),  # fewer messages than announced
        (BATCH[:-1], 2),  # ends inside a payload
        (BATCH[:12], 2),  # ends inside a size
        (BATCH[:18], 2),  # ends inside metadata
        (b"\xff\xff\xff\xff", 1),
        (bytes.fromhex("00000001ff"), 1),  # metadata that is none
        (bytes.fromhex("00000002") + b"\x40\x05", 1),  # no payload size
        (bytes.fromhex("0000000b18ffffffffffffffffff01"), 1),  # a negative payload size
        (bytes.fromhex("000000051800" + "1201ff"), 1),  # a key that is not text
        (b"", 2**31 - 1),
    ],
    ids=str,
)
def test_a_batch_that_cannot_be_is_refused(payload: bytes, count: int) -> None:
    with pytest.raises(ProtocolViolation):
        decode_batch(payload, count)
