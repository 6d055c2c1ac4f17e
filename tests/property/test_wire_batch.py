from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import ProtocolViolation
from magnetar.wire.ackset import decode_ack_set, encode_ack_set
from magnetar.wire.batch import (
    BatchMessage,
    SingleHead,
    decode_batch,
    encode_batch,
    find_even,
    split_batch,
)
from magnetar.wire.command import SingleMessageMetadata

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=10)
MESSAGES = st.lists(
    st.tuples(
        st.builds(
            SingleMessageMetadata,
            partition_key=st.none() | TEXT,
            sequence_id=st.none() | st.integers(0, 2**64 - 1),
        ),
        st.binary(max_size=30),
    ),
    max_size=10,
)


@given(MESSAGES)
def test_a_batch_comes_back_as_it_was(
    messages: list[tuple[SingleMessageMetadata, bytes]],
) -> None:
    encoded = encode_batch(messages)
    decoded = decode_batch(encoded, len(messages))
    assert decoded == [BatchMessage(*message) for message in messages]
    assert all(single.metadata.payload_size == len(single.payload) for single in decoded)


@given(st.binary(max_size=100), st.integers(-1, 5))
def test_arbitrary_bytes_are_a_batch_or_refused(payload: bytes, count: int) -> None:
    try:
        messages = decode_batch(payload, count)
    except ProtocolViolation:
        return
    assert len(messages) == max(0, count)


@given(MESSAGES.filter(bool), st.data())
def test_a_damaged_batch_is_read_or_refused(
    messages: list[tuple[SingleMessageMetadata, bytes]], data: st.DataObject
) -> None:
    encoded = bytearray(encode_batch(messages))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] = data.draw(st.integers(0, 255))
    try:
        assert len(decode_batch(bytes(encoded), len(messages))) == len(messages)
    except ProtocolViolation:
        pass


def split_slowly(payload: bytes, count: int) -> list[tuple[bytes, bytes | None]] | None:
    """What `split_batch` must find, metadata spelled as its parser spells it; None if refused."""
    try:
        found = decode_batch(payload, count)
    except ProtocolViolation:
        return None
    return [
        (each.metadata.SerializeToString(), None if each.metadata.null_value else each.payload)
        for each in found
    ]


def split_quickly(payload: bytes, count: int) -> list[tuple[bytes, bytes | None]] | None:
    try:
        parts = split_batch(payload, count).parts
    except ProtocolViolation:
        return None
    parsed = [
        (SingleMessageMetadata.FromString(own) if isinstance(own, bytes) else own, data)
        for own, data in parts
    ]
    return [(own.SerializeToString(), data) for own, data in parsed]


@given(MESSAGES)
def test_a_batch_is_split_as_it_is_decoded(
    messages: list[tuple[SingleMessageMetadata, bytes]],
) -> None:
    encoded = encode_batch(messages)
    assert split_quickly(encoded, len(messages)) == split_slowly(encoded, len(messages))


@given(MESSAGES.filter(bool), st.data())
def test_a_damaged_batch_is_split_as_it_is_decoded(
    messages: list[tuple[SingleMessageMetadata, bytes]], data: st.DataObject
) -> None:
    damaged = bytearray(encode_batch(messages))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    count = len(messages)
    assert split_quickly(bytes(damaged), count) == split_slowly(bytes(damaged), count)


@st.composite
def even_messages(draw: st.DrawFn) -> list[tuple[SingleMessageMetadata, bytes]]:
    """As one producer sends them: keys of one length, payloads of one size, ids in a row."""
    size, first = draw(st.integers(0, 300)), draw(st.integers(0, 2**21))
    key_size = draw(st.none() | st.integers(0, 12))
    messages = []
    for number in range(draw(st.integers(2, 12))):
        single = SingleMessageMetadata(payload_size=size)
        if draw(st.booleans()) or number % 2:
            single.sequence_id = first + number
        if key_size is not None:
            single.partition_key = draw(st.text("ab\u00e9", min_size=key_size, max_size=key_size))
        messages.append((single, draw(st.binary(min_size=size, max_size=size))))
    return messages


def split_evenly(payload: bytes, count: int) -> list[tuple[bytes, bytes | None]] | None:
    even = find_even(payload, count)
    behind = find_even(b"head" + payload, count, 4)
    assert behind == (None if even is None else even._replace(start=4))
    if even is None:
        return split_quickly(payload, count)
    pieces = [payload[n * even.stride : (n + 1) * even.stride] for n in range(count)]
    parsed = [SingleMessageMetadata.FromString(piece[4 : even.head]) for piece in pieces]
    return [
        (own.SerializeToString(), piece[even.head :])
        for own, piece in zip(parsed, pieces, strict=True)
    ]


@given(even_messages())
def test_an_even_batch_is_found_as_it_is_decoded(
    messages: list[tuple[SingleMessageMetadata, bytes]],
) -> None:
    encoded = encode_batch(messages)
    assert split_evenly(encoded, len(messages)) == split_slowly(encoded, len(messages))


@given(even_messages(), st.data())
def test_a_damaged_even_batch_is_found_as_it_is_decoded(
    messages: list[tuple[SingleMessageMetadata, bytes]], data: st.DataObject
) -> None:
    damaged = bytearray(encode_batch(messages))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    count = len(messages)
    assert split_evenly(bytes(damaged), count) == split_slowly(bytes(damaged), count)


FIRST = st.integers(0, 2**64 - 300) | st.integers(0, 300)
SIZES = st.lists(st.integers(0, 300), max_size=8) | st.builds(
    lambda size, count: [size] * count, st.integers(0, 300), st.integers(0, 299)
)


@given(st.lists(st.tuples(FIRST, SIZES), max_size=4))
def test_plain_messages_in_a_row_are_spelled_as_any_others(
    runs: list[tuple[int, list[int]]],
) -> None:
    head = SingleHead()
    joined = b"".join(
        piece for first, sizes in runs for piece in head.spell(first, map(bytes, sizes))
    )
    assert joined == encode_batch(
        (SingleMessageMetadata(sequence_id=number), bytes(size))
        for first, sizes in runs
        for number, size in enumerate(sizes, first)
    )


def test_messages_of_one_form_and_size_are_even() -> None:
    messages = [(SingleMessageMetadata(sequence_id=300 + n), b"x" * 200) for n in range(50)]
    even = find_even(encode_batch(messages), len(messages))
    assert even is not None
    assert even.stride - even.head == 200


@given(st.integers(0, 2**200))
def test_an_ack_set_comes_back_as_it_was(remaining: int) -> None:
    words = encode_ack_set(remaining)
    assert decode_ack_set(words) == remaining
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert not words or words[-1] != 0
