"""One connection per broker, opened when first asked for."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from magnetar.client.address import BrokerAddress
from magnetar.client.authentication import Authentication
from magnetar.client.connection import Connection
from magnetar.client.error import AlreadyClosedError, ConnectError
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.tls import Tls, load_tls, with_certificate

_Place: TypeAlias = tuple[BrokerAddress, str | None]


class ConnectionPool:
    def __init__(
        self,
        service: tuple[BrokerAddress, ...],
        *,
        authentication: Authentication,
        policy: ConnectionPolicy,
        tls: Tls | None,
        description: str = "",
    ) -> None:
        self._description = description
        self._service = service
        self._authentication = authentication
        self._policy = policy
        self._tls = with_certificate(tls, authentication)
        self._open: dict[_Place, Connection] = {}
        self._opening: dict[_Place, asyncio.Lock] = {}
        self._own: list[Connection] = []
        self._turn = 0
        self._is_closed = False

    async def get(self, address: BrokerAddress, proxy_to: str | None = None) -> Connection:
        """The open connection to that broker, or a new one; callers at once share one attempt."""
        place = (address, proxy_to)
        lock = self._opening.setdefault(place, asyncio.Lock())
        async with lock:
            if self._is_closed:
                raise AlreadyClosedError("The client is closed")
            found = self._open.get(place)
            if found is not None and found.is_open:
                return found
            connection = await self._connect(address, proxy_to)
            self._open[place] = connection
            return connection

    async def open_own(self, address: BrokerAddress, proxy_to: str | None = None) -> Connection:
        """A connection that is not shared: its end tells the broker that its holder is gone."""
        if self._is_closed:
            raise AlreadyClosedError("The client is closed")
        connection = await self._connect(address, proxy_to)
        self._own = [each for each in self._own if each.is_open]
        self._own.append(connection)
        return connection

    async def get_service(self) -> Connection:
        """A connection to any host of the service URL; the next host when one does not answer."""
        for _ in self._service:
            address = self._service[self._turn % len(self._service)]
            try:
                return await self.get(address)
            except ConnectError as error:
                refusal = error
                self._turn += 1
        raise refusal

    def close(self) -> None:
        self._is_closed = True
        for connection in (*self._open.values(), *self._own):
            connection.close(AlreadyClosedError("The client is closed"))

    async def wait_ended(self) -> None:
        """After `close`: until every socket is closed."""
        await asyncio.gather(*(each.wait_ended() for each in (*self._open.values(), *self._own)))

    async def _connect(self, address: BrokerAddress, proxy_to: str | None) -> Connection:
        tls = await asyncio.to_thread(load_tls, self._tls) if address.secure else None
        connection = await Connection.open(
            address,
            authentication=self._authentication,
            policy=self._policy,
            tls=tls,
            proxy_to=proxy_to,
            description=self._description,
        )
        if self._is_closed:
            connection.close()
            raise AlreadyClosedError("The client is closed")
        return connection
