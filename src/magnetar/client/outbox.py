"""Frames on their way to the socket: those of one turn of the loop leave together."""

from __future__ import annotations

import asyncio
from typing import Final

_WRITE_BYTES: Final = 64 * 1024
"""So many are written at once, without waiting for the end of the turn."""


class Outbox:
    """A system call costs more than a frame; the transport bounds and buffers what follows."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []
        self._bytes = 0

    def put(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._bytes += len(frame)
        if self._bytes >= _WRITE_BYTES:
            self.write()
        elif len(self._frames) == 1:
            self._loop.call_soon(self.write)

    def write(self) -> None:
        """Hand everything to the transport."""
        if self._frames:
            frames, self._frames, self._bytes = self._frames, [], 0
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))
