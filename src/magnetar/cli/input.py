"""Lines of standard input, without keeping the event loop from its other work."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from typing import Final

_READ_BYTES: Final = 64 * 1024


async def read_lines(descriptor: int) -> AsyncIterator[bytes]:
    """Each line without its end, as soon as it is there; the last may have no end."""
    rest = b""
    async for piece in _read(descriptor):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


async def _read(descriptor: int) -> AsyncIterator[bytes]:
    if not _can_wait(descriptor):
        while piece := os.read(descriptor, _READ_BYTES):
            yield piece
        return
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        while True:
            await readable.wait()
            readable.clear()
            piece = os.read(descriptor, _READ_BYTES)
            if not piece:
                return
            yield piece
    finally:
        loop.remove_reader(descriptor)


def _can_wait(descriptor: int) -> bool:
    """Files are always readable and cannot be waited for; pipes, sockets and terminals can."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
