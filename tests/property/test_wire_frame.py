from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import ProtocolViolation
from magnetar.wire.frame import Frame, FrameDecoder

FRAMES = st.lists(st.builds(Frame, st.binary(max_size=40), st.binary(max_size=200)), max_size=12)
CUTS = st.lists(st.integers(1, 64), min_size=1, max_size=20)


def _encode(frame: Frame) -> bytes:
    command, body = frame
    return struct.pack(">II", 4 + len(command) + len(body), len(command)) + command + body


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Cut the stream, using the sizes again and again."""
    pieces: list[bytes] = []
    start = 0
    while start < len(data):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(data[start : start + size])
        start += size
    return pieces


def _drain(decoder: FrameDecoder) -> list[Frame]:
    frames = []
    while (frame := decoder.next_frame()) is not None:
        frames.append(frame)
    return frames


@given(FRAMES, CUTS)
def test_any_chunking_of_the_stream_yields_the_same_frames(
    frames: list[Frame], cuts: list[int]
) -> None:
    decoder = FrameDecoder(frame_bytes_max=1000)
    received: list[Frame] = []
    for piece in _pieces(b"".join(map(_encode, frames)), cuts):
        decoder.feed(piece)
        received += _drain(decoder)
    assert received == frames


@given(FRAMES, st.binary(max_size=64), CUTS)
def test_whole_frames_come_before_whatever_follows_them(
    frames: list[Frame], rest: bytes, cuts: list[int]
) -> None:
    decoder = FrameDecoder(frame_bytes_max=1000)
    received: list[Frame] = []
    try:
        for piece in _pieces(b"".join(map(_encode, frames)) + rest, cuts):
            decoder.feed(piece)
            while (frame := decoder.next_frame()) is not None:
                received.append(frame)
    except ProtocolViolation:
        pass
    assert received[: len(frames)] == frames


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 200))
def test_arbitrary_bytes_are_frames_or_refused(pieces: list[bytes], frame_bytes_max: int) -> None:
    decoder = FrameDecoder(frame_bytes_max=frame_bytes_max)
    try:
        for piece in pieces:
            decoder.feed(piece)
            for frame in _drain(decoder):
                assert 8 + len(frame.command) + len(frame.body) <= frame_bytes_max
    except ProtocolViolation:
        pass


LARGE = st.sampled_from([0, 1, 100, 16_000, 16_384, 20_000, 70_000])
READS = st.lists(
    st.tuples(st.sampled_from([1, 7, 5_000, 16_400, 65_536, 262_144]), st.booleans()),
    min_size=1,
    max_size=9,
)


@given(st.lists(LARGE, max_size=9), READS)
def test_large_frames_come_out_of_reads_that_are_taken_late(
    sizes: list[int], reads: list[tuple[int, bool]]
) -> None:
    frames = [Frame(b"%d" % index, bytes(size)) for index, size in enumerate(sizes)]
    data = b"".join(map(_encode, frames))
    decoder = FrameDecoder(frame_bytes_max=100_000)
    received: list[Frame] = []
    start = count = 0
    while start < len(data):
        size, is_taken = reads[count % len(reads)]
        size = max(size, len(data) // 500)
        decoder.feed(data[start : start + size])
        start += size
        count += 1
        if is_taken:
            received += _drain(decoder)
    assert received + _drain(decoder) == frames
