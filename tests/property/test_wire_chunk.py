from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import ProtocolViolation
from magnetar.wire.chunk import Chunk, Reassembly, plan_chunks, stamp_chunk
from magnetar.wire.command import MessageMetadata

METADATA = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)


@given(st.integers(0, 5000), st.integers(1, 700))
def test_chunks_tile_the_payload(size: int, chunk_bytes_max: int) -> None:
    chunks = plan_chunks(size, chunk_bytes_max=chunk_bytes_max)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert {chunk.count for chunk in chunks} == {len(chunks)}
    assert [chunk.start for chunk in chunks[1:]] == [chunk.end for chunk in chunks[:-1]]
    assert (chunks[0].start, chunks[-1].end) == (0, size)
    assert all(chunk.end - chunk.start <= chunk_bytes_max for chunk in chunks)
    assert len(chunks) == 1 or all(chunk.end > chunk.start for chunk in chunks)


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.integers(1, 20), st.data())
def test_messages_come_back_however_their_chunks_are_mixed(
    payloads: list[bytes], chunk_bytes_max: int, data: st.DataObject
) -> None:
    reassembly = Reassembly[tuple[int, int]](
        messages_max=len(payloads), message_bytes_max=60, bytes_max=240
    )
    waiting = {
        number: list(plan_chunks(len(payload), chunk_bytes_max=chunk_bytes_max))
        for number, payload in enumerate(payloads)
    }
    whole: dict[int, bytes] = {}
    while waiting:
        number = data.draw(st.sampled_from(sorted(waiting)))
        chunk = waiting[number].pop(0)
        if not waiting[number]:
            del waiting[number]
        payload = payloads[number]
        metadata = stamp_chunk(METADATA, chunk, uuid=f"p-{number}", total_bytes=len(payload))
        piece = payload[chunk.start : chunk.end]
        done = reassembly.add(metadata, piece, (number, chunk.index), now_ms=0)
        assert (done is not None) == (chunk.index == chunk.count - 1)
        if done is not None:
            assert done.ids == tuple((number, index) for index in range(chunk.count))
            whole[number] = done.payload
    assert whole == dict(enumerate(payloads))
    assert reassembly.take_dropped() == ()


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(-1, 4),
            st.integers(-1, 4),
            st.integers(-1, 30),
            st.binary(max_size=12),
        ),
        max_size=40,
    )
)
def test_arbitrary_chunks_are_kept_within_bounds_and_none_is_lost_sight_of(
    arrivals: list[tuple[str, int, int, int, bytes]],
) -> None:
    reassembly = Reassembly[int](messages_max=2, message_bytes_max=25, bytes_max=40)
    open_ids: set[int] = set()
    for number, (uuid, index, count, total, payload) in enumerate(arrivals):
        metadata = stamp_chunk(METADATA, Chunk(index, count, 0, 0), uuid=uuid, total_bytes=total)
        try:
            whole = reassembly.add(metadata, payload, number, now_ms=number)
        except ProtocolViolation:
            whole = None
        else:
            open_ids.add(number)
        done = set(whole.ids) if whole else set()
        dropped = reassembly.take_dropped()
        assert len(set(dropped)) == len(dropped)
        assert done | set(dropped) <= open_ids
        open_ids -= done | set(dropped)
        assert sum(len(arrivals[i][4]) for i in open_ids) <= 40
        assert len({arrivals[i][0] for i in open_ids}) <= 2
    reassembly.expire(before_ms=len(arrivals))
    assert set(reassembly.take_dropped()) == open_ids
