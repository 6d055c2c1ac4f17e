"""What is done by columns is the same as what is done frame by frame."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire.command import (
    CommandFlow,
    CommandSend,
    MessageMetadata,
    encode_command,
    encode_payload_command,
    make_command,
)
from magnetar.wire.delivery import encode_message, encode_messages
from magnetar.wire.entry import encode_entry
from magnetar.wire.frame import FrameDecoder, Stretch, cut_frames
from magnetar.wire.receipt import ReceiptWriter
from magnetar.wire.run import Item, SendRun, gather_runs
from magnetar.wire.varint import encode_varint, varint_bytes, varint_columns

LIMIT = 1 << 20
FLOW = encode_command(make_command(CommandFlow(consumer_id=1, messagePermits=10)))


def send(producer_id: int, sequence_id: int, size: int, *, damage: int) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    entry = bytearray(encode_entry(metadata, bytes(size)))
    if damage:
        entry[-min(damage, len(entry))] ^= 1
    command = make_command(CommandSend(producer_id=producer_id, sequence_id=sequence_id))
    return encode_payload_command(command, bytes(entry))


@st.composite
def stretches(draw: st.DrawFn) -> list[bytes]:
    """Frames of a producer whose sequence ids ascend, most of them by one."""
    producer_id = draw(st.sampled_from([1, 2, 127, 128, 20_000]))
    sequence = draw(st.sampled_from([0, 100, 120, 16_370, 2_097_140, 1 << 40]))
    size = draw(st.integers(0, 3))
    frames = []
    for _ in range(draw(st.integers(1, 60))):
        rare = draw(st.integers(0, 99))
        if rare == 0:
            frames.append(FLOW)
        frames.append(send(producer_id, sequence, size + (rare == 1), damage=3 if rare == 2 else 0))
        sequence += 2 if rare == 3 else 1
    return frames


def show(items: list[Item]) -> list[object]:
    return [
        (each.producer_id, each.sequences, each.highests, each.counts, each.entries, each.corrupt)
        if isinstance(each, SendRun)
        else each
        for each in items
    ]


@given(st.lists(stretches(), max_size=4))
def test_stretches_are_read_as_their_frames_are(parts: list[list[bytes]]) -> None:
    frames = [frame for part in parts for frame in part]
    data = b"".join(frames)
    cut, used, needed = cut_frames(data, 0, frame_bytes_max=LIMIT, command_bytes_max=LIMIT)
    assert (used, needed, sum(count for *_, count in cut)) == (len(data), 0, len(frames))
    single: list[Stretch] = [
        (start + index * length, length, command_bytes, 1)
        for start, length, command_bytes, count in cut
        for index in range(count)
    ]
    assert [data[start : start + length] for start, length, _, _ in single] == frames
    assert show(gather_runs(data, cut)) == show(gather_runs(data, single))


IDS = st.sampled_from([(0, 0), (0, 1), (3, 300), (1 << 40, (1 << 64) - 1)])
SENDS = st.tuples(
    st.sampled_from([1, 2, 127, 128, 16_383, 20_000]),
    st.none() | IDS,
    st.sampled_from([1, 1, 3, 200]),
    st.booleans(),
)


@given(st.lists(SENDS, max_size=40), st.sampled_from([0, 100, 16_370]))
def test_runs_hold_what_each_producer_sent_in_order_and_of_one_transaction_each(
    sends: list[tuple[int, tuple[int, int] | None, int, bool]], first: int
) -> None:
    frames, sent = [], []
    for number, (producer_id, id_, messages, is_chunk) in enumerate(sends, first):
        command = CommandSend(producer_id=producer_id, sequence_id=number)
        if messages > 1:
            command.num_messages, command.highest_sequence_id = messages, number + messages
        if id_ is not None:
            command.txnid_most_bits, command.txnid_least_bits = id_
        if is_chunk:
            command.is_chunk = True
        metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
        frames.append(encode_payload_command(make_command(command), encode_entry(metadata, b"")))
        highest = command.highest_sequence_id
        sent.append((producer_id, id_, number, highest, messages, is_chunk))
    data = b"".join(frames)
    cut, _, _ = cut_frames(data, 0, frame_bytes_max=LIMIT, command_bytes_max=LIMIT)
    found = []
    for run in gather_runs(data, cut):
        assert isinstance(run, SendRun)
        assert run.most == max(run.counts)
        is_chunk = run.command is not None and run.command.is_chunk
        for number, highest, messages in zip(run.sequences, run.highests, run.counts, strict=True):
            found.append((run.producer_id, run.transaction, number, highest, messages, is_chunk))
    for producer_id in {each[0] for each in sent}:
        assert [each for each in found if each[0] == producer_id] == [
            each for each in sent if each[0] == producer_id
        ]
    assert len(found) == len(sent)


@given(st.lists(stretches(), max_size=4), st.integers(1, 500))
def test_a_decoder_yields_the_frames_whatever_is_read_at_once(
    parts: list[list[bytes]], piece: int
) -> None:
    frames = [frame for part in parts for frame in part]
    data = b"".join(frames)
    decoder = FrameDecoder(frame_bytes_max=LIMIT)
    taken = []
    for start in range(0, len(data), piece):
        decoder.feed(data[start : start + piece])
        while (frame := decoder.next_frame()) is not None:
            taken.append(frame.command + frame.body)
    assert taken == [frame[8:] for frame in frames]


EDGE = st.sampled_from([0, 1, 100, 127, 128, 16_300, 16_384, 2_097_100, 268_435_400, (1 << 63) - 9])


@given(st.lists(EDGE, min_size=2, max_size=2), st.integers(1, 400), st.integers(1, 3000))
def test_receipts_of_a_range_are_those_of_each(
    edges: list[int], count: int, ledger_id: int
) -> None:
    sequence, entry_id = edges
    sequences = list(range(sequence, sequence + count))
    together = ReceiptWriter(7).encode(sequences, [0] * count, ledger_id, entry_id)
    each = ReceiptWriter(7)
    assert together == b"".join(
        each.encode([number], [0], ledger_id, entry_id + index)
        for index, number in enumerate(sequences)
    )


@given(
    EDGE,
    st.lists(st.binary(max_size=9), max_size=300),
    st.sampled_from([-1, 3, 200]),
    st.sampled_from([None, 0, 300]),
)
def test_messages_together_are_those_of_each(
    first: int, entries: list[bytes], partition: int, epoch: int | None
) -> None:
    entry_ids = range(first, first + len(entries))
    together = encode_messages(7, 300, entry_ids, entries, partition=partition, epoch=epoch)
    assert together[1::2] == entries
    assert b"".join(together) == b"".join(
        encode_message(7, 300, first + index, entry, partition=partition, epoch=epoch)
        for index, entry in enumerate(entries)
    )


@given(EDGE, st.integers(1, 400))
def test_columns_are_the_bytes_of_consecutive_numbers(first: int, count: int) -> None:
    count = min(count, (1 << 7 * varint_bytes(first)) - first)
    numbers = [encode_varint(number) for number in range(first, first + count)]
    assert varint_columns(first, count) == [bytes(column) for column in zip(*numbers, strict=True)]
