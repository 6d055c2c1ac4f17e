from __future__ import annotations

import pytest

from magnetar.errors import ProtocolViolation
from magnetar.wire.frame import Frame, FrameDecoder

PING = bytes.fromhex("00000009000000050812920100")
SEND = bytes.fromhex("0000001f0000000808063204080110000e017ed8df46000000070a0170100018016869")


def test_frames_are_cut_into_command_and_payload_part() -> None:
    decoder = FrameDecoder(frame_bytes_max=100)
    decoder.feed(PING + SEND)
    assert decoder.next_frame() == Frame(PING[8:], b"")
    assert decoder.next_frame() == Frame(SEND[8:16], SEND[16:])
    assert decoder.next_frame() is None


def test_an_unfinished_frame_waits() -> None:
    decoder = FrameDecoder(frame_bytes_max=100)
    for byte in PING[:-1]:
        decoder.feed(bytes([byte]))
        assert decoder.next_frame() is None
    decoder.feed(PING[-1:] + PING[:3])
    assert decoder.next_frame() == Frame(PING[8:], b"")
    assert decoder.next_frame() is None


def test_whole_frames_are_delivered_before_a_bad_one_is_refused() -> None:
    decoder = FrameDecoder(frame_bytes_max=100)
    decoder.feed(PING + bytes.fromhex("0000000900000006"))
    assert decoder.next_frame() == Frame(PING[8:], b"")
    for _ in range(2):
        with pytest.raises(ProtocolViolation):
            decoder.next_frame()


def test_a_frame_beyond_the_limit_is_refused_from_its_head() -> None:
    decoder = FrameDecoder(frame_bytes_max=len(PING))
    decoder.feed(PING)
    assert decoder.next_frame() == Frame(PING[8:], b"")
    decoder.feed(bytes.fromhex("0000000a00000005"))
    with pytest.raises(ProtocolViolation):
        decoder.next_frame()


@pytest.mark.parametrize("head", ["0000000000000000", "0000000300000000", "ffffffffffffffff"])
def test_a_frame_without_room_for_its_command_is_refused(head: str) -> None:
    decoder = FrameDecoder(frame_bytes_max=2**33)
    decoder.feed(bytes.fromhex(head))
    with pytest.raises(ProtocolViolation):
        decoder.next_frame()


def test_an_empty_command_is_a_frame() -> None:
    decoder = FrameDecoder(frame_bytes_max=100)
    decoder.feed(bytes(3) + b"\x04" + bytes(4))
    assert decoder.next_frame() == Frame(b"", b"")
