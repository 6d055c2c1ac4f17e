"""The connections to each broker, opened when first asked for and closed when idle."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from magnetar.client.address import BrokerAddress
from magnetar.client.authentication import Authentication, Tls, load_tls, with_certificate
from magnetar.client.connection import Connection
from magnetar.client.error import AlreadyClosedError, ConfigurationError, ConnectError
from magnetar.client.event import ConnectionOpened, Events
from magnetar.client.policy import ConnectionPolicy
from magnetar.runtime.clock import SYSTEM, Clock, Timer
from magnetar.runtime.worker import run_in_thread

_Place: TypeAlias = tuple[BrokerAddress, str | None, int]


class ConnectionPool:
    def __init__(
        self,
        service: tuple[BrokerAddress, ...],
        *,
        authentication: Authentication,
        policy: ConnectionPolicy,
        tls: Tls | None,
        description: str = "",
        clock: Clock = SYSTEM,
        events: Events | None = None,
    ) -> None:
        self._clock = clock
        self._events = events or Events()
        self._description = description
        self._service = service
        self._authentication = authentication
        self._policy = policy
        self._tls = with_certificate(tls, authentication)
        self._open: dict[_Place, Connection] = {}
        self._opening: dict[_Place, asyncio.Lock] = {}
        self._own: list[Connection] = []
        self._turn = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweep_timer: Timer | None = None
        self._is_closed = False
        self._was_connected = False
        """Whether there was a broker at some time."""
        self._refused_since: float | None = None
        """Since when nothing listens at any host of the service URL."""
        if policy.proxy_url is not None and not all(each.secure for each in service):
            raise ConfigurationError(
                "A proxy finds brokers by their names in the TLS handshake:"
                " the service URL must be pulsar+ssl://"
            )

    async def get(
        self, address: BrokerAddress, proxy_to: str | None = None, turn: int = 0
    ) -> Connection:
        """The open connection to that broker, or a new one; callers at once share one attempt.

        Where there may be several, `turn` chooses: the same one finds the same again.
        """
        self.check_loop()
        place = (address, proxy_to, turn % self._policy.connections_per_broker)
        lock = self._opening.setdefault(place, asyncio.Lock())
        async with lock:
            self._check()
            found = self._open.get(place)
            if found is not None and found.is_open:
                found.touch()
                return found
            connection = await self._connect(address, proxy_to)
            self._open[place] = connection
            if self._sweep_timer is None:
                self._sweep_in(self._policy.max_idle)
            return connection

    async def open_own(self, address: BrokerAddress, proxy_to: str | None = None) -> Connection:
        """A connection that is not shared: its end tells the broker that its holder is gone."""
        self._check()
        connection = await self._connect(address, proxy_to)
        self._own = [each for each in self._own if each.is_open]
        self._own.append(connection)
        return connection

    async def get_service(self) -> Connection:
        """A connection to any host of the service URL; the next host when one does not answer."""
        failures = []
        for _ in self._service:
            address = self._service[self._turn % len(self._service)]
            try:
                return await self.get(address)
            except ConnectError as error:
                failures.append(error)
                self._turn += 1
        failure = failures[-1]
        if self._was_connected or not all(each.is_refused for each in failures):
            self._refused_since = None
        else:
            if self._refused_since is None:
                self._refused_since = self._clock.monotonic()
            failure.retry_until = self._refused_since + self._policy.refused_timeout
        raise failure

    def pass_over(self, address: BrokerAddress) -> None:
        """Ask the next host of the service URL next, if this one would be."""
        if self._service[self._turn % len(self._service)] == address:
            self._turn += 1

    def check_loop(self) -> None:
        """Raise in any loop but the one it was first used in: its sockets belong to that."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise ConfigurationError(
                "This client belongs to another event loop; create one in each, inside"
                " what asyncio.run runs, or use PulsarClient"
            )

    def _check(self) -> None:
        self.check_loop()
        if self._is_closed:
            raise AlreadyClosedError("The client is closed")

    def close(self) -> None:
        self._is_closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for connection in (*self._open.values(), *self._own):
            connection.close(AlreadyClosedError("The client is closed"))

    async def wait_ended(self) -> None:
        """After `close`: until every socket is closed."""
        await asyncio.gather(*(each.wait_ended() for each in (*self._open.values(), *self._own)))

    def _sweep_in(self, delay: float) -> None:
        if self._policy.max_idle > 0:
            self._sweep_timer = self._clock.call_later(delay, self._sweep)

    def _sweep(self) -> None:
        """Close what has been idle for long, and come back when the next may be due."""
        self._sweep_timer = None
        remaining = []
        for connection in self._open.values():
            left = self._policy.max_idle - connection.idle_s
            if connection.is_open and left <= 0:
                reason = ConnectError(f"The connection to {connection.address} was idle")
                connection.close(reason, is_lost=False)
            elif connection.is_open:
                remaining.append(left)
        if remaining:
            self._sweep_in(min(remaining))

    async def _connect(self, address: BrokerAddress, proxy_to: str | None) -> Connection:
        tls = await run_in_thread(load_tls, self._tls) if address.secure else None
        connection = await Connection.open(
            address,
            authentication=self._authentication,
            policy=self._policy,
            tls=tls,
            proxy_to=proxy_to,
            description=self._description,
            clock=self._clock,
            on_lost=self._events.report_lost,
        )
        if self._is_closed:
            connection.close(AlreadyClosedError("The client is closed"))
            raise AlreadyClosedError("The client is closed")
        self._was_connected = True
        self._events.report(ConnectionOpened(str(address), connection.server_version))
        return connection
