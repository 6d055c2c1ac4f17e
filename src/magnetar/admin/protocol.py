"""One HTTP connection: who the client is, and how much and how slowly it may send."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from magnetar.admin.application import CERTIFICATE_NAME
from magnetar.broker.api.web import WebLimit
from magnetar.model.certificate import common_name

_UPGRADE_WISH: Final = re.compile(rb"\r\nconnection:[^\r\n]*upgrade[^\r\n]*\r\n", re.IGNORECASE)
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class HeadTooLarge(Exception):
    """More bytes before the body than are taken."""


class HttpProtocol(HttpToolsProtocol):
    def __init__(self, *arguments: Any, limit: WebLimit, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limit = limit
        self._head_bytes = 0
        self._is_in_head = True
        self._is_too_large = False
        self._too_slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The parser keeps what is not whole: count it."""
        super().data_received(self._without_wish(data))
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limit.header_bytes_max and not self.transport.is_closing():
                self._refuse()

    def _without_wish(self, data: bytes) -> bytes:
        """Pass over a wish to speak HTTP/2: a server may, but the parser would drop the body."""
        if self.cycle is None or self.cycle.response_complete:
            head, end, body = data.partition(b"\r\n\r\n")
            if end:
                return _UPGRADE_WISH.sub(b"\r\n", head + b"\r\n") + b"\r\n" + body
        return data

    def on_message_begin(self) -> None:
        """Say who the client is, as the TLS handshake verified it."""
        super().on_message_begin()
        self._head_bytes = 0
        self._is_in_head = True
        if self._too_slow is None:
            self._watch_head()
        certificate = self.transport.get_extra_info("peercert")
        self.scope["extensions"] = {"tls": {CERTIFICATE_NAME: common_name(certificate)}}

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._unwatch_head()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._limit.header_bytes_max:
            self._is_too_large = True
            raise HeadTooLarge
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """What the parser does not understand; or what it was not allowed to take."""
        if self._is_too_large:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        self.transport.write(_TOO_LARGE)
        self.transport.close()

    def _watch_head(self) -> None:
        """From the connection on, for the first request."""
        self._too_slow = self.loop.call_later(self._limit.idle_s_max, self._on_too_slow)

    def _unwatch_head(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None

    def _on_too_slow(self) -> None:
        self._too_slow = None
        self.transport.close()
