from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import ProtocolViolation
from magnetar.wire.chunk import (
    Chunk,
    Reassembly,
    Whole,
    find_abandoned,
    is_chunk,
    plan_chunks,
    stamp_chunk,
)
from magnetar.wire.command import MessageMetadata

METADATA = MessageMetadata(producer_name="p", sequence_id=4, publish_time=1)


def _reassembly(*, messages_max: int = 4, bytes_max: int = 1000) -> Reassembly[str]:
    return Reassembly(messages_max=messages_max, message_bytes_max=100, bytes_max=bytes_max)


def _chunk(uuid: str, index: int, count: int, total: int) -> MessageMetadata:
    return stamp_chunk(METADATA, Chunk(index, count, 0, 0), uuid=uuid, total_bytes=total)


def test_a_payload_is_cut_into_equal_pieces_and_a_rest() -> None:
    assert plan_chunks(25, chunk_bytes_max=10) == (
        Chunk(0, 3, 0, 10),
        Chunk(1, 3, 10, 20),
        Chunk(2, 3, 20, 25),
    )
    assert plan_chunks(20, chunk_bytes_max=10)[-1] == Chunk(1, 2, 10, 20)
    assert plan_chunks(0, chunk_bytes_max=10) == (Chunk(0, 1, 0, 0),)


def test_a_chunk_carries_the_metadata_of_its_message() -> None:
    batch = MessageMetadata(num_messages_in_batch=1)
    batch.MergeFrom(METADATA)
    stamped = stamp_chunk(batch, Chunk(1, 3, 10, 20), uuid="p-4", total_bytes=25)
    assert (stamped.uuid, stamped.chunk_id, stamped.num_chunks_from_msg) == ("p-4", 1, 3)
    assert (stamped.total_chunk_msg_size, stamped.sequence_id) == (25, 4)
    assert not stamped.HasField("num_messages_in_batch")
    assert batch.HasField("num_messages_in_batch") and not batch.HasField("uuid")
    assert is_chunk(stamped) and not is_chunk(METADATA)


def test_a_message_is_whole_with_its_last_chunk() -> None:
    reassembly = _reassembly()
    assert reassembly.add(_chunk("u", 0, 3, 5), b"ab", "1", now_ms=0) is None
    assert reassembly.add(_chunk("v", 0, 2, 2), b"x", "2", now_ms=0) is None
    assert reassembly.add(_chunk("u", 1, 3, 5), b"cd", "3", now_ms=0) is None
    assert reassembly.add(_chunk("v", 1, 2, 2), b"y", "4", now_ms=0) == Whole(b"xy", ("2", "4"))
    expected = Whole(b"abcde", ("1", "3", "5"))
    assert reassembly.add(_chunk("u", 2, 3, 5), b"e", "5", now_ms=0) == expected
    assert reassembly.take_dropped() == ()


def test_a_repeated_chunk_is_dropped_and_the_message_goes_on() -> None:
    reassembly = _reassembly()
    reassembly.add(_chunk("u", 0, 3, 3), b"a", "1", now_ms=0)
    reassembly.add(_chunk("u", 1, 3, 3), b"b", "2", now_ms=0)
    assert reassembly.add(_chunk("u", 1, 3, 3), b"b", "2 again", now_ms=0) is None
    assert reassembly.take_dropped() == ("2 again",)
    assert reassembly.add(_chunk("u", 2, 3, 3), b"c", "3", now_ms=0) is not None


def test_a_first_chunk_starts_over() -> None:
    reassembly = _reassembly()
    reassembly.add(_chunk("u", 0, 2, 2), b"a", "1", now_ms=0)
    reassembly.add(_chunk("u", 0, 2, 2), b"a", "1 again", now_ms=0)
    assert reassembly.take_dropped() == ("1",)
    whole = reassembly.add(_chunk("u", 1, 2, 2), b"b", "2", now_ms=0)
    assert whole == Whole(b"ab", ("1 again", "2"))


def test_a_gap_gives_the_message_up() -> None:
    reassembly = _reassembly()
    reassembly.add(_chunk("u", 0, 3, 3), b"a", "1", now_ms=0)
    assert reassembly.add(_chunk("u", 2, 3, 3), b"c", "3", now_ms=0) is None
    assert reassembly.take_dropped() == ("1", "3")
    assert reassembly.add(_chunk("u", 1, 3, 3), b"b", "2", now_ms=0) is None
    assert reassembly.take_dropped() == ("2",)


def test_the_oldest_message_is_given_up_when_there_are_too_many() -> None:
    reassembly = _reassembly(messages_max=2)
    for uuid in "abc":
        reassembly.add(_chunk(uuid, 0, 2, 2), b"x", uuid, now_ms=0)
    assert reassembly.take_dropped() == ("a",)
    assert reassembly.add(_chunk("b", 1, 2, 2), b"y", "b2", now_ms=0) is not None


def test_the_oldest_message_is_given_up_when_there_are_too_many_bytes() -> None:
    reassembly = _reassembly(bytes_max=15)
    reassembly.add(_chunk("a", 0, 2, 20), b"x" * 10, "a", now_ms=0)
    reassembly.add(_chunk("b", 0, 2, 20), b"x" * 5, "b", now_ms=0)
    assert reassembly.take_dropped() == ()
    reassembly.add(_chunk("c", 0, 2, 20), b"x", "c", now_ms=0)
    assert reassembly.take_dropped() == ("a",)
    reassembly.add(_chunk("d", 0, 2, 20), b"x" * 10, "d", now_ms=0)
    assert reassembly.take_dropped() == ("b",)  # what a was counted for is free again


def test_messages_that_stay_unfinished_expire() -> None:
    reassembly = _reassembly()
    reassembly.add(_chunk("a", 0, 2, 2), b"x", "a", now_ms=10)
    reassembly.add(_chunk("b", 0, 2, 2), b"x", "b", now_ms=20)
    reassembly.expire(before_ms=20)
    assert reassembly.take_dropped() == ("a",)


@pytest.mark.parametrize(
    ("index", "count", "total"), [(-1, 2, 2), (2, 2, 2), (0, 0, 2), (0, 2, -1), (0, 2, 101)]
)
def test_a_chunk_that_cannot_be_is_refused(index: int, count: int, total: int) -> None:
    with pytest.raises(ProtocolViolation):
        _reassembly().add(_chunk("u", index, count, total), b"x", "1", now_ms=0)


def test_a_chunk_without_a_uuid_is_refused() -> None:
    with pytest.raises(ProtocolViolation):
        _reassembly().add(_chunk("", 0, 2, 2), b"x", "1", now_ms=0)


@pytest.mark.parametrize(
    ("count", "total", "payload"), [(3, 3, b"b"), (2, 9, b"b"), (2, 2, b"bc"), (2, 2, b"")]
)
def test_a_chunk_that_does_not_fit_its_message_is_refused(
    count: int, total: int, payload: bytes
) -> None:
    reassembly = _reassembly()
    reassembly.add(_chunk("u", 0, 2, 2), b"a", "1", now_ms=0)
    with pytest.raises(ProtocolViolation):
        reassembly.add(_chunk("u", 1, count, total), payload, "2", now_ms=0)
    assert reassembly.take_dropped() == ("1",)


@given(st.lists(st.tuples(st.sampled_from("uv"), st.integers(0, 2)), max_size=20))
def test_abandoned_are_the_chunks_that_no_message_is_made_of(order: list[tuple[str, int]]) -> None:
    reassembly = Reassembly[int](messages_max=10, message_bytes_max=10, bytes_max=100)
    chunks = [(id, _chunk(uuid, index, 3, 3)) for id, (uuid, index) in enumerate(order)]
    used: set[int] = set()
    for id, metadata in chunks:
        whole = reassembly.add(metadata, b"x", id, now_ms=0)
        if whole is not None:
            used.update(whole.ids)
    assert sorted(find_abandoned(chunks)) == [id for id, _ in chunks if id not in used]
