"""The HTTP connections of a broker, on all its ports: how many there may be, and who goes first."""

from __future__ import annotations

from typing import Protocol

from magnetar.admin.linger import LingeringTransport
from magnetar.errors import ServiceNotReady


class Evictable(Protocol):
    def evict(self) -> None:
        """End the connection at once."""


class Unread(Protocol):
    """What all peers of the broker do not read."""

    def check_total(self, connection: LingeringTransport) -> None: ...

    def forget(self, connection: LingeringTransport) -> None: ...


class HttpSlots:
    """When all are taken, the connection that has been without a request for longest is closed for
    a new one: who only holds connections keeps nobody out.
    """

    def __init__(self, connections_max: int, unread: Unread) -> None:
        self.unread = unread
        self._connections_max = connections_max
        self._waiting: dict[Evictable, None] = {}
        """Without a request under way, in the order in which they came to be so."""
        self._busy: set[Evictable] = set()

    def enter(self, connection: Evictable) -> None:
        """Raise ServiceNotReady when every connection has a request under way."""
        if len(self._waiting) + len(self._busy) >= self._connections_max:
            if not self._waiting:
                raise ServiceNotReady(
                    f"Reached the maximum number of HTTP connections: {self._connections_max}"
                )
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.evict()
        self._waiting[connection] = None

    def on_request(self, connection: Evictable) -> None:
        if connection in self._waiting:
            del self._waiting[connection]
            self._busy.add(connection)

    def on_answer(self, connection: Evictable) -> None:
        if connection in self._busy:
            self._busy.discard(connection)
            self._waiting[connection] = None

    def leave(self, connection: Evictable) -> None:
        self._waiting.pop(connection, None)
        self._busy.discard(connection)
