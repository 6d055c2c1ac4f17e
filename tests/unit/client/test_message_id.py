from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import (
    EARLIEST_ID,
    LATEST_ID,
    MessageId,
    choose_start,
    choose_target,
)
from magnetar.model.segment import SegmentId

NUMBERS = st.integers(-1, 2**62)


@given(NUMBERS, NUMBERS, st.integers(-1, 2**31 - 1), st.integers(-1, 10**6))
def test_an_id_reads_back_as_it_is_written(
    ledger: int, entry: int, partition: int, batch: int
) -> None:
    id = MessageId(ledger, entry, partition, batch)
    assert MessageId.parse(str(id)) == id


@given(
    NUMBERS,
    NUMBERS,
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 10**6),
    st.integers(0, 10**6),
)
def test_an_id_comes_back_from_its_bytes(
    ledger: int, entry: int, partition: int, batch: int, size: int
) -> None:
    id = MessageId(ledger, entry, partition, batch, size)
    again = MessageId.from_bytes(bytes(id))
    assert again == id and again.batch_size == size


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x08\x01"])
def test_bytes_that_are_no_id_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match="Not the bytes of a message id"):
        MessageId.from_bytes(data)


def test_a_place_is_an_id_a_word_or_a_time() -> None:
    assert choose_start("earliest") is EARLIEST_ID
    assert choose_target(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1000
    assert choose_target(5) == 5 and choose_target("latest") is LATEST_ID
    with pytest.raises(ConfigurationError, match="earliest or latest"):
        choose_start("first")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="time zone"):
        choose_target(datetime(1970, 1, 1))


def test_words_and_short_forms_are_understood() -> None:
    assert MessageId.parse("earliest") is EARLIEST_ID
    assert MessageId.parse("latest") is LATEST_ID
    assert MessageId.parse("3:4") == MessageId(3, 4)
    assert MessageId.parse("3:4:1") == MessageId(3, 4, 1)


@pytest.mark.parametrize("text", ["", "3", "3:x", "1:2:3:4:5", "first"])
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ConfigurationError, match="ledger:entry"):
        MessageId.parse(text)


def test_ids_are_ordered_and_the_batch_size_does_not_count() -> None:
    assert EARLIEST_ID < MessageId(0, 0) < MessageId(0, 0, -1, 1) < MessageId(0, 1) < LATEST_ID
    assert MessageId(1, 1, -1, 0, 5) == MessageId(1, 1, -1, 0)


def of_segment(segment: int, ledger: int, entry: int, *batch: int) -> MessageId:
    return MessageId(ledger, entry, -1, *batch, segment_id=SegmentId(segment))


SPELLED = [
    (
        of_segment(7, 42, 99),
        "0000000000000007 00000006 082a10633000 00000000 ffffffff ffffffff",
    ),
    (
        of_segment(7, 42, 99, 2, 10),
        "0000000000000007 00000008 082a10632002300a 00000000 ffffffff ffffffff",
    ),
    (
        MessageId(
            10,
            20,
            segment_id=SegmentId(1),
            vectors={None: {SegmentId(0): MessageId(1, 2), SegmentId(1): MessageId(10, 20)}},
        ),
        "0000000000000001 00000006 080a10143000 00000002"
        " 0000000000000000 00000006 080110023000 0000000000000001 00000006 080a10143000"
        " ffffffff ffffffff",
    ),
]

places = st.builds(
    MessageId,
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.integers(-1, 100),
    st.integers(-1, 50),
    st.integers(0, 100),
)
segments = st.integers(0, 2**40).map(SegmentId)
vectors = st.dictionaries(segments, places, min_size=1, max_size=4)


@pytest.mark.parametrize(("id", "text"), SPELLED)
def test_the_bytes_of_an_id_with_a_segment_are_those_of_other_clients(
    id: MessageId, text: str
) -> None:
    assert bytes(id) == bytes.fromhex(text)
    read = MessageId.from_bytes(bytes.fromhex(text))
    assert (read, read.segment_id, read.vectors) == (id, id.segment_id, id.vectors)


@pytest.mark.parametrize("parts", [2, 3])
def test_later_parts_may_be_missing(parts: int) -> None:
    whole = bytes(of_segment(7, 42, 99))
    assert MessageId.from_bytes(whole[: 18 if parts == 2 else 22]) == MessageId(42, 99)


@given(places, segments, st.none() | vectors, st.none() | st.text(max_size=5), vectors)
def test_an_id_with_a_segment_survives_its_bytes(
    place: MessageId,
    segment: SegmentId,
    vector: dict[SegmentId, MessageId] | None,
    topic: str | None,
    other: dict[SegmentId, MessageId],
) -> None:
    known = None if vector is None else {topic: vector}
    if known is not None and topic is not None:
        known = {topic + " and another": other, **known}
    id = replace(place, segment_id=segment, topic=topic, vectors=known)
    read = MessageId.from_bytes(bytes(id))
    assert (read, read.segment_id, read.topic) == (id, segment, topic)
    assert read.vectors == known and read.batch_size == id.batch_size


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_understood(data: bytes) -> None:
    try:
        read = MessageId.from_bytes(data)
    except ConfigurationError:
        return
    assert MessageId.from_bytes(bytes(read)) == read


def test_ids_are_ordered_inside_one_segment_only() -> None:
    first, second = (of_segment(1, 1, entry) for entry in (1, 2))
    assert first < second and second >= first
    with pytest.raises(TypeError, match="different segments"):
        _ = first < of_segment(2, 1, 1)
    assert len({first, second, of_segment(1, 1, 1)}) == 2


def test_what_was_sent_equals_what_a_regular_consumer_received() -> None:
    assert of_segment(3, 1, 2) == MessageId(1, 2)
    assert str(of_segment(3, 1, 2)) == "3/1:2:-1:-1"
    assert MessageId.parse("3/1:2:-1:-1").segment_id == 3


def test_the_ends_are_of_no_segment() -> None:
    assert EARLIEST_ID.segment_id == LATEST_ID.segment_id == -1
    assert MessageId.from_bytes(bytes(LATEST_ID)) == LATEST_ID
    assert MessageId.from_bytes(bytes(EARLIEST_ID)) == EARLIEST_ID
