"""Serves an ASGI application over HTTP inside the running loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import uvicorn

from magnetar.admin.application import Application
from magnetar.admin.connection import HttpSlots
from magnetar.admin.protocol import HttpProtocol
from magnetar.broker.administration.web import WebLimit
from magnetar.errors import ServiceNotReady
from magnetar.runtime.accept import BACKLOG, accepting, attach
from magnetar.runtime.log import Logger, PacedLog

_log = Logger(__name__)

_SHUTDOWN_S_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class HttpServer:
    """Makes a protocol of each connection that comes to one port."""

    server: uvicorn.Server
    slots: HttpSlots
    limit: WebLimit
    tls: ssl.SSLContext | None
    refused: PacedLog = field(default_factory=lambda: PacedLog(_log))

    async def serve(self, accepted: socket.socket, host: str) -> None:
        """A TLS handshake takes a place, and may lose it, like any connection without a request."""
        config, state = self.server.config, self.server.server_state
        protocol = HttpProtocol(config, state, {}, limit=self.limit, slots=self.slots)
        try:
            self.slots.enter(protocol)
        except ServiceNotReady as refusal:
            accepted.close()
            self.refused.warning("connection refused", address=host, reason=refusal.sentence)
            return
        task = asyncio.current_task()
        assert task is not None
        protocol.give_up = task.cancel
        try:
            await attach(accepted, protocol, self.tls, handshake_s_max=self.limit.handshake_s_max)
        finally:
            if not protocol.is_connected:
                self.slots.leave(protocol)


@asynccontextmanager
async def serving(
    app: Application,
    listener: socket.socket,
    *,
    limit: WebLimit,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Answer requests until the end of the block, which closes the socket; the value is its port.

    With `tls`, over HTTPS; what the handshake verified of a client is passed to the application.
    Leaving stops to accept, gives requests under way a few seconds, and closes idle connections.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_config=None,
        ws="none",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, round(limit.idle_s_max)),
        timeout_graceful_shutdown=_SHUTDOWN_S_MAX,
    )
    config.load()
    # Of the server, only what ends connections is used: sockets and signals belong to the process.
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with listener:
        listener.listen(BACKLOG)
        await server.startup(sockets=[])
        try:
            async with accepting(listener, HttpServer(server, app.slots, limit, tls).serve):
                yield int(listener.getsockname()[1])
        finally:
            await server.shutdown()
