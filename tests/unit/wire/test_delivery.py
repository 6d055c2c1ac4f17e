from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire.command import MessageMetadata, decode_command
from magnetar.wire.delivery import DELIVER_AT_TAG, encode_message, encode_messages, may_carry
from magnetar.wire.entry import encode_entry
from magnetar.wire.frame import FrameDecoder

FRAME_BYTES_MAX = 5 * 1024 * 1024
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)


def entry(payload: bytes = b"hi", **fields: int) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)
    return encode_entry(metadata, payload)


@given(
    consumer=NUMBERS,
    ledger=NUMBERS,
    first=st.integers(0, 2**40),
    count=st.integers(1, 4),
    partition=st.sampled_from([-1, 0, 7, 5000]),
    epoch=st.sampled_from([None, 0, 300]),
)
def test_messages_decode_to_what_was_given(
    consumer: int, ledger: int, first: int, count: int, partition: int, epoch: int | None
) -> None:
    entries = [entry(b"%d" % number) for number in range(count)]
    decoder = FrameDecoder(frame_bytes_max=FRAME_BYTES_MAX)
    parts = encode_messages(
        consumer,
        ledger,
        range(first, first + len(entries)),
        entries,
        partition=partition,
        epoch=epoch,
    )
    decoder.feed(b"".join(parts))
    for index, expected in enumerate(entries):
        frame = decoder.next_frame()
        assert frame is not None and frame.body == expected
        message = decode_command(frame.command).message
        assert message.consumer_id == consumer
        assert (message.message_id.ledgerId, message.message_id.entryId) == (ledger, first + index)
        assert message.message_id.partition == partition
        assert (message.consumer_epoch if message.HasField("consumer_epoch") else None) == epoch


def test_one_message_carries_redelivery_count_and_ack_set() -> None:
    decoder = FrameDecoder(frame_bytes_max=FRAME_BYTES_MAX)
    decoder.feed(
        encode_message(3, 1, 2, entry(), partition=4, redelivery_count=5, ack_set=[-1, 31], epoch=6)
    )
    frame = decoder.next_frame()
    assert frame is not None
    message = decode_command(frame.command).message
    assert (message.redelivery_count, list(message.ack_set)) == (5, [-1, 31])
    assert (message.message_id.partition, message.consumer_epoch) == (4, 6)


@pytest.mark.parametrize(("fields", "expected"), [({}, False), ({"deliver_at_time": 5}, True)])
def test_a_cheap_look_never_misses_a_field(fields: dict[str, int], expected: bool) -> None:
    assert may_carry(entry(**fields), DELIVER_AT_TAG) or not expected
    assert not may_carry(entry(b"\x98\x01"), DELIVER_AT_TAG)
