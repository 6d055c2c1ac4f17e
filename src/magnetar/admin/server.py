"""Serves an ASGI application over HTTP inside the running loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final, cast

import uvicorn

from magnetar.admin.application import Application
from magnetar.admin.protocol import HttpProtocol
from magnetar.broker.api.web import WebLimit
from magnetar.errors import ServiceNotReady
from magnetar.runtime.task import TaskScope

_BACKLOG: Final = 1024
_SHUTDOWN_S_MAX: Final = 5
_POLL_S: Final = 0.005


def open_socket(host: str, port: int) -> socket.socket:
    """Bind and listen; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none: signals belong to whoever runs the process."""
        yield


@asynccontextmanager
async def serving(
    app: Application,
    host: str,
    port: int,
    *,
    limit: WebLimit,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Answer requests until the end of the block; the value is the bound port.

    With `tls`, over HTTPS; what the handshake verified of a client is told to the application.
    Leaving stops to accept, gives requests under way a few seconds, and closes idle connections.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_config=None,
        http=cast(type[asyncio.Protocol], partial(HttpProtocol, limit=limit)),
        limit_concurrency=limit.requests_max,
        ws="none",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, round(limit.idle_s_max)),
        timeout_graceful_shutdown=_SHUTDOWN_S_MAX,
    )
    config.load()
    config.ssl = tls
    server = _Server(config)
    with open_socket(host, port) as listener:
        bound_port: int = listener.getsockname()[1]
        async with TaskScope("admin server") as tasks:
            running = tasks.start(server.serve(sockets=[listener]), "serve")
            while not server.started:
                if running.done():
                    raise ServiceNotReady(f"the web port {bound_port} could not be served")
                await asyncio.sleep(_POLL_S)
            try:
                yield bound_port
            finally:
                server.should_exit = True
                await running
