"""Frames of the binary protocol, cut out of a byte stream."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from magnetar.errors import ProtocolViolation

FRAME_PADDING_BYTES: Final = 10 * 1024
"""How much larger than the largest message a frame may be: room for command and metadata."""
_SIZES: Final = struct.Struct(">II")


class Frame(NamedTuple):
    command: bytes
    body: bytes
    """The payload part of a SEND or MESSAGE; empty for every other command."""


class FrameDecoder:
    """Feed what was read; take frames until None. The caller owns the socket.

    Take all whole frames after each feed: then never more than one unfinished frame is kept.
    """

    def __init__(self, *, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._received: bytes | bytearray = b""
        self._start = 0

    def feed(self, data: bytes) -> None:
        if self._start == len(self._received):  # as a rule a read ends with a frame
            self._received = data
        else:
            if not isinstance(self._received, bytearray):
                self._received = bytearray(memoryview(self._received)[self._start :])
            elif self._start:  # once per read, not per frame: the cost stays linear
                del self._received[: self._start]
            self._received += data
        self._start = 0

    def next_frame(self) -> Frame | None:
        """Return the next whole frame, or None until more is fed."""
        start = self._start
        available = len(self._received) - start
        if available < 8:
            return None
        size, command_size = _SIZES.unpack_from(self._received, start)
        if size + 4 > self._frame_bytes_max:
            raise ProtocolViolation(
                f"a frame of {size + 4} bytes; the limit is {self._frame_bytes_max}"
            )
        if size < 4 or command_size > size - 4:
            raise ProtocolViolation(f"a command of {command_size} bytes in a frame of {size}")
        if available < 4 + size:
            return None
        middle = start + 8 + command_size
        end = start + 4 + size
        self._start = end
        received = self._received
        if isinstance(received, bytes):
            return Frame(received[start + 8 : middle], received[middle:end])
        with memoryview(received) as view:
            return Frame(bytes(view[start + 8 : middle]), bytes(view[middle:end]))
