"""The end of an HTTP connection: the answer arrives, and nothing keeps the connection for long."""

from __future__ import annotations

import asyncio
from typing import Any, Final

LINGER_S_MAX: Final = 2.0
"""How long a connection that is closed waits for its peer to read, or to stop sending."""


class LingeringTransport:
    """What the HTTP protocol needs of a transport, with an end that is bounded in time.

    To close a socket that has unread bytes resets it, and the peer may lose the answer: what a peer
    sends after an early answer is read and dropped until it stops. A peer that does not read its
    answer would keep the connection as well.
    """

    def __init__(
        self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, linger_s: float
    ) -> None:
        self.is_request_whole = True
        """Whether nothing more of a request is to come."""
        self.address = "/{}:{}".format(*(inner.get_extra_info("peername") or ("unknown", 0))[:2])
        self._inner = inner
        self._loop = loop
        self._linger_s = min(linger_s, LINGER_S_MAX)
        self._is_closing = False
        self._end: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self._inner.is_closing():
            return
        self._end = self._loop.call_later(self._linger_s, self._inner.abort)
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
        if self._end is not None:
            self._end.cancel()

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
