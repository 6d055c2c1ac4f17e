"""The admin client's bytes over asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from magnetar.client.admin.network import CALLS_MAX, READ_BYTES, Stream
from magnetar.client.authentication import Tls, load_tls
from magnetar.runtime.clock import SYSTEM, Clock
from magnetar.runtime.worker import run_in_thread


class _LoopStream:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        timeout_s: float,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._writer = writer
        self._timeout_s = timeout_s

    async def read(self) -> bytes:
        async with self._clock.timeout(self._timeout_s):
            return await self._reader.read(READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        async with self._clock.timeout(self._timeout_s):
            await self._writer.drain()

    def close(self) -> None:
        self._writer.transport.abort()


class LoopNetwork:
    """For the tasks of one event loop; those past the bound wait for their turn."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self.turns = asyncio.Semaphore(CALLS_MAX)

    async def dial(self, host: str, port: int, tls: Tls | None, timeout_s: float) -> Stream:
        context = None if tls is None else await run_in_thread(load_tls, tls)
        async with self._clock.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
        return _LoopStream(reader, writer, timeout_s, self._clock)

    async def wait_for(self, credentials: Awaitable[bytes]) -> bytes:
        return await credentials
