"""Whether the peer of a connection is still there: asked at intervals, and when it matters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from magnetar.runtime.clock import Timer
from magnetar.runtime.log import Log
from magnetar.wire.command import encode_command, ping

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection

_log = Log(__name__)

_PING: Final = encode_command(ping())


class Liveness:
    def __init__(self, connection: Connection) -> None:
        self.is_heard = False
        """Whether anything came since the peer was asked last."""
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._is_asked = False
        self._timer: Timer | None = None
        self._waiters: list[asyncio.Future[bool]] = []

    def start(self) -> None:
        service = self._connection.service
        interval = service.config.keepAliveIntervalSeconds
        self._timer = service.clock.call_later(interval, self._on_interval)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._tell(is_alive=False)

    def _on_interval(self) -> None:
        connection = self._connection
        if connection.closed:
            return
        if not connection.handshake.is_done or (self._is_asked and not self.is_heard):
            _log.info("connection closed", address=connection.address, reason="the peer is silent")
            connection.abort()
            return
        self.is_heard = False
        self._is_asked = True
        connection.send(_PING)
        self.start()

    def on_pong(self) -> None:
        self._tell(is_alive=True)

    def _tell(self, *, is_alive: bool) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(is_alive)

    async def ask(self) -> bool:
        """Ask the peer for a sign of life; a dead connection is closed."""
        connection = self._connection
        if connection.closed:
            return False
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiters.append(waiter)
        connection.send(_PING)
        timeout = connection.service.config.connectionLivenessCheckTimeoutMillis / 1000
        try:
            async with connection.service.clock.timeout(timeout):
                return await waiter
        except TimeoutError:
            connection.abort()
            return False
