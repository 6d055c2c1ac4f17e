"""The hot path: frames in runs, receipts and deliveries out of templates."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import (
    CommandFlow,
    CommandSend,
    MessageMetadata,
    decode_command,
    encode_command,
    encode_payload_command,
    make_command,
    ping,
)
from magnetar.wire.entry import encode_entry
from magnetar.wire.frame import FrameDecoder, cut_frames
from magnetar.wire.receipt import ReceiptWriter
from magnetar.wire.run import Item, SendRun, gather_runs
from magnetar.wire.varint import encode_varint

FRAME_BYTES_MAX = 5 * 1024 * 1024
COMMAND_BYTES_MAX = 100_000
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)


def entry(payload: bytes = b"hi", **fields: int) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)
    return encode_entry(metadata, payload)


def send(producer_id: int, sequence_id: int, data: bytes, **fields: object) -> bytes:
    command = CommandSend(producer_id=producer_id, sequence_id=sequence_id, **fields)  # type: ignore[arg-type]
    return encode_payload_command(make_command(command), data)


def split_read(
    data: bytes, frame_bytes_max: int, command_bytes_max: int
) -> tuple[list[Item], int, int]:
    """The items of what was read, how many bytes that was, and how many the next frame needs."""
    stretches, used, needed = cut_frames(
        data, 0, frame_bytes_max=frame_bytes_max, command_bytes_max=command_bytes_max
    )
    return gather_runs(data, stretches), used, needed


def test_consecutive_sends_of_one_producer_are_one_run() -> None:
    data = b"".join(send(7, number, entry(b"%d" % number)) for number in range(5))
    (run,), used, needed = split_read(data, FRAME_BYTES_MAX, COMMAND_BYTES_MAX)
    assert isinstance(run, SendRun)
    assert (run.producer_id, run.sequences, run.counts) == (7, [0, 1, 2, 3, 4], [1] * 5)
    assert run.entries == [entry(b"%d" % number) for number in range(5)]
    assert (used, needed) == (len(data), 0)


def test_interleaved_producers_have_one_run_each_up_to_the_next_command() -> None:
    flow = encode_command(make_command(CommandFlow(consumer_id=1, messagePermits=10)))
    before = [send(1, 0, entry()), send(2, 0, entry()), send(1, 1, entry())]
    data = b"".join([*before, flow, send(2, 1, entry())])
    items, _, _ = split_read(data, FRAME_BYTES_MAX, COMMAND_BYTES_MAX)
    kinds = [(i.producer_id, i.sequences) if isinstance(i, SendRun) else "command" for i in items]
    assert kinds == [(1, [0, 1]), (2, [0]), "command", (2, [1])]


BORDERS = st.sampled_from([0, 1, 127, 128, 255, 300, 16383, 16384, 2**21 - 1, 2**21, 2**28])
FRAMES = st.one_of(
    st.tuples(NUMBERS, NUMBERS, st.integers(1, 9000), NUMBERS),
    # Few producers, so that frames follow others of the same producer; most are no batches.
    st.tuples(BORDERS, BORDERS, st.sampled_from([1, 1, 1, 5]), st.sampled_from([0, 0, 0, 9])),
)


@given(
    frames=st.lists(FRAMES, max_size=30),
    cuts=st.lists(st.integers(1, 200), max_size=40),
)
def test_any_numbers_and_any_cutting_of_the_stream_give_the_same_sends(
    frames: list[tuple[int, int, int, int]], cuts: list[int]
) -> None:
    stream = b"".join(
        send(producer, sequence, entry(), num_messages=count, highest_sequence_id=highest)
        for producer, sequence, count, highest in frames
    )
    seen: list[tuple[int, int, int, int]] = []
    rest = b""
    for size in [*cuts, len(stream)]:
        rest, stream = rest + stream[:size], stream[size:]
        items, used, _ = split_read(rest, FRAME_BYTES_MAX, COMMAND_BYTES_MAX)
        rest = rest[used:]
        for run in items:
            assert isinstance(run, SendRun)
            columns = zip(run.sequences, run.counts, run.highests, strict=True)
            seen += [(run.producer_id, *columns_of) for columns_of in columns]
    # One producer's frames keep their order; those of different producers may be told apart.
    for producer in {each[0] for each in frames}:
        assert [s for s in seen if s[0] == producer] == [f for f in frames if f[0] == producer]
    assert len(seen) == len(frames)


@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_yield_items_or_a_protocol_violation(data: bytes) -> None:
    try:
        items, used, _ = split_read(data, FRAME_BYTES_MAX, COMMAND_BYTES_MAX)
    except ProtocolViolation:
        return
    assert 0 <= used <= len(data) and isinstance(items, list)


@given(damage=st.binary(min_size=1, max_size=30), at=st.integers(0, 60))
def test_a_damaged_send_never_raises_anything_else(damage: bytes, at: int) -> None:
    frame = bytearray(send(300, 70_000, entry()))
    frame[at : at + len(damage)] = damage
    try:
        split_read(bytes(frame), FRAME_BYTES_MAX, COMMAND_BYTES_MAX)
    except ProtocolViolation:
        pass


def test_a_wrong_checksum_is_a_corrupt_run_of_its_own() -> None:
    bad = bytearray(entry(b"payload"))
    bad[-1] ^= 1
    items, _, _ = split_read(
        send(1, 0, entry()) + send(1, 1, bytes(bad)), FRAME_BYTES_MAX, COMMAND_BYTES_MAX
    )
    assert [item.corrupt for item in items if isinstance(item, SendRun)] == [False, True]


def test_a_send_with_rare_fields_is_a_run_of_its_own_and_keeps_its_command() -> None:
    items, _, _ = split_read(
        send(1, 5, entry(), is_chunk=True) + send(1, 6, entry()), FRAME_BYTES_MAX, COMMAND_BYTES_MAX
    )
    first, second = items
    assert isinstance(first, SendRun) and isinstance(second, SendRun)
    assert first.command is not None and first.command.is_chunk
    assert second.command is None


def test_messages_that_one_transaction_sends_in_a_row_are_one_run() -> None:
    first = {"txnid_most_bits": 0, "txnid_least_bits": 1}
    other = {"txnid_most_bits": 0, "txnid_least_bits": 2}
    frames = [send(number % 2, number, entry(), **first) for number in range(6)]
    frames += [send(0, 6, entry(), **other), send(0, 7, entry()), send(0, 8, entry(), **other)]
    items, _, _ = split_read(b"".join(frames), FRAME_BYTES_MAX, COMMAND_BYTES_MAX)
    runs = [(i.transaction, i.sequences) for i in items if isinstance(i, SendRun)]
    assert runs == [
        ((0, 1), [0, 2, 4]),
        ((0, 1), [1, 3, 5]),
        ((0, 2), [6]),
        (None, [7]),
        ((0, 2), [8]),
    ]


def test_a_send_like_the_last_of_its_transaction_is_checked_as_that_one_was() -> None:
    ids = {"txnid_most_bits": 0, "txnid_least_bits": 1}
    bad = bytearray(entry(b"payload"))
    bad[-1] ^= 1
    numbers = [5, 6, 7, 130, 140, 17_000, 17_001, 1 << 22, (1 << 22) + 1]
    frames = [send(1, number, entry(b"payload"), **ids) for number in numbers]
    frames[2:2] = [send(1, 99, bytes(bad), **ids)]
    frames += [send(1, (1 << 22) + 2, entry(b"payload"), num_messages=3, **ids)]
    items, _, _ = split_read(b"".join(frames), FRAME_BYTES_MAX, COMMAND_BYTES_MAX)
    runs = [(i.corrupt, i.sequences, i.counts) for i in items if isinstance(i, SendRun)]
    assert runs == [
        (False, numbers[:2], [1, 1]),
        (True, [99], [1]),
        (False, [*numbers[2:], (1 << 22) + 2], [1] * 7 + [3]),
    ]


def test_what_stands_between_the_frames_of_a_producer_parts_them_and_nothing_is_mixed_up() -> None:
    bad = bytearray(entry(b"payload"))
    bad[-1] ^= 1
    frames = [
        send(1, 0, entry(), num_messages=3, highest_sequence_id=2),
        send(1, 3, entry()),
        send(1, 4, bytes(bad), num_messages=7, highest_sequence_id=10),
        send(1, 11, entry()),
        send(1, 12, entry(), num_messages=2, highest_sequence_id=13),
        send(1, 14, entry(), is_chunk=True),
        send(1, 15, entry()),
    ]
    items, _, _ = split_read(b"".join(frames), FRAME_BYTES_MAX, COMMAND_BYTES_MAX)
    runs = [item for item in items if isinstance(item, SendRun)]
    assert len(runs) == len(items)
    assert [(run.sequences, run.counts, run.highests, run.corrupt) for run in runs] == [
        ([0, 3], [3, 1], [2, 0], False),
        ([4], [7], [10], True),
        ([11, 12], [1, 2], [0, 13], False),
        ([14], [1], [0], False),
        ([15], [1], [0], False),
    ]


def test_a_frame_without_a_message_is_refused_whatever_it_follows() -> None:
    empty = send(1, 1, b"")
    for before in (b"", send(1, 0, entry())):
        with pytest.raises(ProtocolViolation, match="without a message"):
            split_read(before + empty, FRAME_BYTES_MAX, COMMAND_BYTES_MAX)


def test_whole_frames_are_delivered_before_a_bad_one_is_refused() -> None:
    data = encode_command(ping()) + struct.pack(">II", FRAME_BYTES_MAX, 4)
    items, used, _ = split_read(data, FRAME_BYTES_MAX, COMMAND_BYTES_MAX)
    assert len(items) == 1
    with pytest.raises(ProtocolViolation):
        split_read(data[used:], FRAME_BYTES_MAX, COMMAND_BYTES_MAX)


def test_the_size_of_an_incomplete_frame_is_told() -> None:
    frame = send(1, 0, entry(b"x" * 1000))
    assert split_read(frame[:100], FRAME_BYTES_MAX, COMMAND_BYTES_MAX) == ([], 0, len(frame))


@given(value=NUMBERS)
def test_numbers_are_spelled_as_protobuf_spells_them(value: int) -> None:
    expected = CommandSend(producer_id=0, sequence_id=value).SerializeToString()[3:]
    assert encode_varint(value) == expected


@given(
    producer=NUMBERS,
    sequences=st.lists(NUMBERS, min_size=1, max_size=5),
    highest=st.sampled_from([0, 5, 2**40]),
    ledger=NUMBERS,
    first=st.integers(0, 2**40),
)
def test_receipts_decode_to_what_was_given(
    producer: int, sequences: list[int], highest: int, ledger: int, first: int
) -> None:
    decoder = FrameDecoder(frame_bytes_max=FRAME_BYTES_MAX)
    receipts = ReceiptWriter(producer)
    receipts.encode([1], [0], ledger // 2, first)  # of another ledger
    decoder.feed(receipts.encode(sequences, [highest] * len(sequences), ledger, first))
    for index, sequence in enumerate(sequences):
        frame = decoder.next_frame()
        assert frame is not None
        receipt = decode_command(frame.command).send_receipt
        assert (receipt.producer_id, receipt.sequence_id) == (producer, sequence)
        assert (receipt.message_id.ledgerId, receipt.message_id.entryId) == (ledger, first + index)
        assert receipt.highest_sequence_id == highest
    assert decoder.next_frame() is None
