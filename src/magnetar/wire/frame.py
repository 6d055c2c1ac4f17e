"""Frames of the binary protocol, cut out of a byte stream: for the broker and for clients."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from magnetar.errors import ProtocolViolation

FRAME_PADDING_BYTES: Final = 10 * 1024
"""How much larger than the largest message a frame may be: room for command and metadata."""
_SIZES: Final = struct.Struct(">II")
_HEAD_BYTES: Final = _SIZES.size
_LARGE_BYTES: Final = 16 * 1024
_STREAK_MIN: Final = 12
_STREAK_GROWTH: Final = 4

_make: Final = tuple.__new__
"""Of a named tuple too, without a detour: one is made for each frame."""

Stretch: TypeAlias = tuple[int, int, int, int]
"""Frames of the same sizes, one after the other: where the first begins, the bytes of a frame, the
bytes of its command, and how many there are.
"""


class Frame(NamedTuple):
    command: bytes
    body: bytes
    """The payload part of a SEND or MESSAGE; empty for every other command."""


def count_alike(data: bytes, start: int, end: int, *, period: int, count: int) -> int:
    """How many of `count` blocks, `period` bytes each, have the bytes from `start` to `end` in
    common with the first, which begins at or before `start`; those after it must follow without a
    gap.
    """
    for place in range(start, end):
        column = data[place : place + (count - 1) * period + 1 : period]
        count -= len(column.lstrip(column[:1]))
    return count


def cut_frames(
    data: bytes, start: int, *, frame_bytes_max: int, command_bytes_max: int
) -> tuple[list[Stretch], int, int]:
    """Cut what follows `start` into frames.

    Return them with the place where they end, and the size of the frame that is still incomplete (0
    when unknown). Frames that are whole are returned even when a bad one follows: the refusal then
    comes with the next call.
    """
    stretches: list[Stretch] = []
    unpack = _SIZES.unpack_from
    size = len(data)
    position = start
    before = streak = 0
    while size - position >= _HEAD_BYTES:
        total, command_bytes = unpack(data, position)
        length = total + 4
        if (
            length > frame_bytes_max
            or command_bytes > total - 4
            or command_bytes > command_bytes_max
        ):
            if stretches:
                break
            raise ProtocolViolation(
                f"a frame of {total} bytes with a command of {command_bytes} is refused; at most"
                f" {frame_bytes_max} bytes are allowed, {command_bytes_max} of them for the command"
            )
        if length > size - position:
            return stretches, position, length
        if length != before:
            before, streak = length, 1
        elif streak < _STREAK_MIN:
            streak += 1
        else:  # what came several times is likely to come again
            whole = min((size - position) // length, streak * _STREAK_GROWTH)
            count = count_alike(data, position, position + _HEAD_BYTES, period=length, count=whole)
            stretches.append((position, length, command_bytes, count))
            position += length * count
            streak += count
            continue
        stretches.append((position, length, command_bytes, 1))
        position += length
    return stretches, position, 0


class FrameDecoder:
    """Feed what was read; take frames until there is none. The caller owns the socket.

    Take all whole frames after each feed: then never more than one unfinished frame is kept.
    """

    def __init__(self, *, frame_bytes_max: int, command_bytes_max: int | None = None) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._command_bytes_max = command_bytes_max
        self._data = b""
        self._start = 0
        self._rest = bytearray()  # what stands before that, and is not whole or not cut
        self._needed = 0
        self._taken: Iterator[Frame] = iter(())

    def feed(self, data: bytes) -> None:
        if self._start < len(self._data):  # as a rule a read ends with a frame
            self._rest += memoryview(self._data)[self._start :]
            self._data, self._start = b"", 0
        missing = self._needed - len(self._rest)
        if not self._rest:
            self._data, self._start = data, 0
        elif self._needed > _LARGE_BYTES and 0 < missing <= len(data):
            # What follows a large frame is not copied with it.
            self._rest += memoryview(data)[:missing]
            self._data, self._start = (data, missing) if missing < len(data) else (b"", 0)
        else:
            self._rest += data

    def cut(self) -> tuple[bytes, list[Stretch]]:
        """Take frames that are whole: where they stand in which data. There may be more until none
        is returned. Raise ProtocolViolation when the next one is not to be taken.
        """
        if not self._rest:
            data = self._data
            stretches, self._start, self._needed = self._cut(data, self._start)
            if self._start == len(data):
                self._data, self._start = b"", 0
            return data, stretches
        if len(self._rest) < self._needed:
            return b"", []
        data = bytes(self._rest)
        stretches, used, self._needed = self._cut(data, 0)
        self._rest.clear()
        if self._data:  # then exactly one frame was missing its end
            return data, stretches
        self._data, self._start = (data, used) if used < len(data) else (b"", 0)
        return data, stretches

    def _cut(self, data: bytes, start: int) -> tuple[list[Stretch], int, int]:
        frame_bytes_max, command_bytes_max = self.frame_bytes_max, self._command_bytes_max
        return cut_frames(
            data,
            start,
            frame_bytes_max=frame_bytes_max,
            command_bytes_max=frame_bytes_max if command_bytes_max is None else command_bytes_max,
        )

    def next_frame(self) -> Frame | None:
        """Take the next whole frame; None until more is fed."""
        frame = next(self._taken, None)
        if frame is None:
            self._taken = _each_frame(*self.cut())
            frame = next(self._taken, None)
        return frame


def _each_frame(data: bytes, stretches: list[Stretch]) -> Iterator[Frame]:
    for place, length, command_bytes, count in stretches:
        while count:
            middle, end = place + _HEAD_BYTES + command_bytes, place + length
            yield _make(Frame, (data[place + _HEAD_BYTES : middle], data[middle:end]))
            place = end
            count -= 1
