"""Takes connections from a listening socket, one after the other."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from magnetar.runtime.log import Logger, PacedLog
from magnetar.runtime.task import TaskScope

Serve: TypeAlias = Callable[[socket.socket, str], Coroutine[Any, Any, None]]
"""Takes over a socket and the address of its peer."""

BACKLOG: Final = 1024
_RETRY_S: Final = 0.5

_log = Logger(__name__)


def bind_socket(host: str, port: int) -> socket.socket:
    """Port 0 takes a free one. Until it listens, connections are refused."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def open_socket(host: str, port: int) -> socket.socket:
    listener = bind_socket(host, port)
    listener.listen(BACKLOG)
    return listener


@asynccontextmanager
async def accepting(listener: socket.socket, serve: Serve) -> AsyncIterator[None]:
    """Hand every connection to `serve` until the end of the block; handshakes end with it."""
    async with TaskScope("accept") as tasks:
        tasks.start(_accept(listener, serve, tasks), "connections")
        yield


async def _accept(listener: socket.socket, serve: Serve, tasks: TaskScope) -> None:
    loop, failures = asyncio.get_running_loop(), PacedLog(_log)
    while True:
        try:
            accepted, address = await loop.sock_accept(listener)
        except OSError as error:  # out of file descriptors or memory: the peer waits
            failures.warning("connection not accepted", reason=error.strerror or str(error))
            await asyncio.sleep(_RETRY_S)
            continue
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tasks.start(serve(accepted, str(address[0]) if address else ""), "connection")


async def attach(
    accepted: socket.socket,
    protocol: asyncio.Protocol,
    tls: ssl.SSLContext | None,
    *,
    handshake_s_max: float,
) -> None:
    """Let a protocol own the socket, after the TLS handshake if there is one. A peer that fails it,
    or takes too long, is gone without a word.
    """
    loop = asyncio.get_running_loop()
    timeout_s = None if tls is None else handshake_s_max
    try:
        await loop.connect_accepted_socket(
            lambda: protocol, accepted, ssl=tls, ssl_handshake_timeout=timeout_s
        )
    except OSError as error:
        _log.debug("connection not made", reason=str(error))
