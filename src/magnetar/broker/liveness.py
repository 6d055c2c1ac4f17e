"""Whether the peer of a connection is still there: asked at intervals, and when it matters."""

from __future__ import annotations

import asyncio
from typing import Final

from magnetar.broker.client_socket import ClientSocket
from magnetar.broker.handshake import Handshake
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.wire.command import encode_command, ping

_log = Logger(__name__)

_PING: Final = encode_command(ping())


class Liveness:
    def __init__(
        self, socket: ClientSocket, handshake: Handshake, *, config: Configuration, clock: Clock
    ) -> None:
        self.is_heard = False
        """Whether anything came since the peer was asked last."""
        self._socket = socket
        self._handshake = handshake
        self._config = config
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._is_asked = False
        self._timer: Timer | None = None
        self._waiters: list[asyncio.Future[bool]] = []

    def start(self) -> None:
        interval = self._config.keepAliveIntervalSeconds
        self._timer = self._clock.call_later(interval, self._on_interval)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._tell(is_alive=False)

    def _on_interval(self) -> None:
        socket = self._socket
        if socket.closed:
            return
        if not self._handshake.is_done or (self._is_asked and not self.is_heard):
            _log.info("connection closed", address=socket.address, reason="the peer is silent")
            socket.abort()
            return
        self.is_heard = False
        self._is_asked = True
        socket.send(_PING)
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
        socket = self._socket
        if socket.closed:
            return False
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiters.append(waiter)
        socket.send(_PING)
        timeout = self._config.connectionLivenessCheckTimeoutMillis / 1000
        try:
            async with self._clock.timeout(timeout):
                return await waiter
        except TimeoutError:
            socket.abort()
            return False
