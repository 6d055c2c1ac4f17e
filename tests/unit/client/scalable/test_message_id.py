from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import MessageId as EntryId
from magnetar.client.scalable.message_id import EARLIEST_ID, LATEST_ID, MessageId
from magnetar.model.segment import SegmentId

VECTORS = [
    (
        MessageId(SegmentId(7), EntryId(42, 99)),
        "0000000000000007 00000006 082a10633000 00000000 ffffffff ffffffff",
    ),
    (
        MessageId(SegmentId(7), EntryId(42, 99, -1, 2, 10)),
        "0000000000000007 00000008 082a10632002300a 00000000 ffffffff ffffffff",
    ),
    (
        MessageId(
            SegmentId(1),
            EntryId(10, 20),
            {SegmentId(0): EntryId(1, 2), SegmentId(1): EntryId(10, 20)},
        ),
        "0000000000000001 00000006 080a10143000 00000002"
        " 0000000000000000 00000006 080110023000 0000000000000001 00000006 080a10143000"
        " ffffffff ffffffff",
    ),
]

entries = st.builds(
    EntryId,
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.integers(-1, 100),
    st.integers(-1, 50),
    st.integers(0, 100),
)
segments = st.integers(0, 2**40).map(SegmentId)
vectors = st.dictionaries(segments, entries, max_size=4)


@pytest.mark.parametrize(("id", "text"), VECTORS)
def test_the_bytes_are_those_of_other_clients(id: MessageId, text: str) -> None:
    assert bytes(id) == bytes.fromhex(text)
    read = MessageId.from_bytes(bytes.fromhex(text))
    assert (read, read.vector) == (id, id.vector)


@pytest.mark.parametrize("parts", [2, 3])
def test_later_parts_may_be_missing(parts: int) -> None:
    whole = bytes(MessageId(SegmentId(7), EntryId(42, 99)))
    assert MessageId.from_bytes(whole[: 18 if parts == 2 else 22]).entry == EntryId(42, 99)


@given(
    st.builds(
        MessageId,
        segments,
        entries,
        vectors,
        st.none() | st.text(max_size=20),
        st.none() | st.dictionaries(st.text(max_size=5), vectors, max_size=3),
    )
)
def test_an_id_survives_its_bytes(id: MessageId) -> None:
    read = MessageId.from_bytes(bytes(id))
    assert read == id
    assert (read.vector, read.topic, read.vectors) == (id.vector, id.topic, id.vectors)
    assert read.entry.batch_size == id.entry.batch_size


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_understood(data: bytes) -> None:
    try:
        read = MessageId.from_bytes(data)
    except ConfigurationError:
        return
    assert MessageId.from_bytes(bytes(read)) == read


def test_ids_are_ordered_inside_one_segment_only() -> None:
    first, second = (MessageId(SegmentId(1), EntryId(1, entry)) for entry in (1, 2))
    assert first < second and second >= first
    with pytest.raises(TypeError, match="different segments"):
        _ = first < MessageId(SegmentId(2), EntryId(1, 1))
    assert len({first, second, MessageId(SegmentId(1), EntryId(1, 1), {})}) == 2


def test_the_ends_are_of_no_segment() -> None:
    assert EARLIEST_ID.segment_id == LATEST_ID.segment_id == -1
    assert MessageId.from_bytes(bytes(LATEST_ID)) == LATEST_ID
    assert MessageId.from_bytes(bytes(EARLIEST_ID)) == EARLIEST_ID
