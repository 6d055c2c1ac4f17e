"""The HTTP connections of a broker: how many there may be, who goes first, and how one ends."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from magnetar.errors import ServiceNotReady

LINGER_S_MAX: Final = 2.0
"""How long a connection that is closed waits for its peer to read, or to stop sending."""


class Evictable(Protocol):
    def evict(self) -> None:
        """End the connection at once."""


class Unread(Protocol):
    """What all peers of the broker do not read."""

    def check_total(self, connection: LingeringTransport) -> None: ...

    def forget(self, connection: LingeringTransport) -> None: ...


class HttpSlots:
    """Those of all ports. When all are taken, the one that has been without a request for longest
    is closed for a new one: idle connections keep no client out.
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


class LingeringTransport:
    """What the HTTP protocol needs of a transport; no peer keeps it longer than the limits allow.

    To close a socket that has unread bytes resets it, and the peer may lose the answer: what a peer
    sends after an early answer is read and dropped until it stops. A peer that does not read its
    answer would keep the connection as well.
    """

    def __init__(
        self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, idle_s_max: float
    ) -> None:
        self.is_request_whole = True
        """Whether nothing more of a request is to come."""
        self.address = "/{}:{}".format(*(inner.get_extra_info("peername") or ("unknown", 0))[:2])
        self._inner = inner
        self._loop = loop
        self._idle_s_max = idle_s_max
        self._is_closing = False
        self._timer: asyncio.TimerHandle | None = None
        """Ends the connection: after the close, or because its peer does not read."""

    def watch_reader(self) -> None:
        """A peer that reads nothing at all for long is not waited for."""
        self._stop_timer()
        self._timer = self._loop.call_later(self._idle_s_max, self._on_idle, self.unread_bytes)

    def unwatch_reader(self) -> None:
        if not self._is_closing:
            self._stop_timer()

    def _on_idle(self, unread_before: int) -> None:
        if self.unread_bytes < unread_before:
            self.watch_reader()
        else:
            self.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self._inner.is_closing():
            return
        self._stop_timer()
        linger_s = min(self._idle_s_max, LINGER_S_MAX)
        self._timer = self._loop.call_later(linger_s, self._inner.abort)
        if self.is_request_whole:
            self._inner.close()
            return
        if self._inner.can_write_eof():
            self._inner.write_eof()
        self._inner.resume_reading()

    def abort(self) -> None:
        self._is_closing = True
        self._inner.abort()

    def on_lost(self) -> None:
        """The connection is gone: nothing is waited for."""
        self._is_closing = True
        self._stop_timer()

    @property
    def unread_bytes(self) -> int:
        return self._inner.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self._is_closing or self._inner.is_closing()

    def write(self, data: bytes) -> None:
        if not self._is_closing:
            self._inner.write(data)

    def pause_reading(self) -> None:
        if not self.is_closing():
            self._inner.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_closing():
            self._inner.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)
