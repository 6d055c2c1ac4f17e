"""What carries the admin client's bytes, and the blocking one: sockets that need no event loop.

The client is written once, as coroutines. Over blocking sockets these never suspend, so `run` gets
their result in one step, in any thread, and a command starts without loading asyncio.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, Protocol, TypeVar

from magnetar.client.authentication import Tls, load_tls

T = TypeVar("T")

CALLS_MAX: Final = 8
"""How many calls of one client on an event loop are under way at a time, and how many connections
to one address are kept."""
READ_BYTES: Final = 1 << 16


class Stream(Protocol):
    """One connection; an operation that takes too long raises TimeoutError."""

    async def read(self) -> bytes: ...
    async def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Network(Protocol):
    @property
    def turns(self) -> AbstractAsyncContextManager[object]:
        """Held during a call, to bound how many there are at a time."""

    async def dial(self, host: str, port: int, tls: Tls | None, timeout_s: float) -> Stream: ...
    async def wait_for(self, credentials: Awaitable[bytes]) -> bytes: ...


class _SocketStream:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    async def read(self) -> bytes:
        return self._socket.recv(READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()


class SocketNetwork:
    """Each thread waits for its own call: there are never more at a time than threads."""

    turns: Final = nullcontext()

    async def dial(self, host: str, port: int, tls: Tls | None, timeout_s: float) -> Stream:
        connected = socket.create_connection((host, port), timeout_s)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                connected = load_tls(tls).wrap_socket(connected, server_hostname=host)
        except BaseException:
            connected.close()
            raise
        return _SocketStream(connected)

    async def wait_for(self, credentials: Awaitable[bytes]) -> bytes:
        """On a loop and a thread of their own: this thread may have a loop that runs."""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        async def wait() -> bytes:
            return await credentials

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, wait()).result()


def run(body: Awaitable[T]) -> T:
    """The result of a coroutine over blocking sockets."""
    try:
        next(body.__await__())
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a call over blocking sockets waits for an event loop")


def iterate(values: AsyncGenerator[T, None]) -> Iterator[T]:
    """The values of an async generator over blocking sockets; leaving early closes it."""
    try:
        while True:
            try:
                value = run(values.__anext__())
            except StopAsyncIteration:
                return
            yield value
    finally:
        run(values.aclose())
