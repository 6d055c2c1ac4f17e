"""One HTTP connection: who the client is, and how much and how slowly it may send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from magnetar.admin.application import CERTIFICATE_NAME, IS_BODY_WHOLE, IS_GONE
from magnetar.admin.connection import HttpSlots, LingeringTransport
from magnetar.broker.administration.web import WebLimit
from magnetar.model.certificate import common_name

_WISH_HEADERS: Final = (b"upgrade", b"http2-settings")
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class HeadTooLarge(Exception):
    """More bytes before the body than are taken."""


class HttpProtocol(HttpToolsProtocol):
    def __init__(self, *arguments: Any, limit: WebLimit, slots: HttpSlots, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.give_up: Callable[[], object] = lambda: None
        """Ends a TLS handshake that is under way."""
        self._limit = limit
        self._slots = slots
        self._linger: LingeringTransport
        self._head_bytes = 0
        self._is_in_head = True
        self._too_slow: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the connection was made, be it gone by now."""
        return self.transport is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._linger = LingeringTransport(transport, self.loop, idle_s_max=self._limit.idle_s_max)
        super().connection_made(cast(asyncio.Transport, self._linger))
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch_head()
        super().connection_lost(exc)
        self._linger.on_lost()
        self._slots.unread.forget(self._linger)
        self._slots.leave(self)

    def evict(self) -> None:
        if self.is_connected:
            self._linger.abort()
        else:
            self.give_up()

    def data_received(self, data: bytes) -> None:
        """The parser keeps what is not whole: count it. After the last answer all is dropped."""
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, HeadTooLarge):
                self._refuse()
            else:
                self.send_400_response("Invalid HTTP request received.")
            return
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limit.header_bytes_max and not self.transport.is_closing():
                self._refuse()

    def _feed(self, data: bytes) -> None:
        """Pass over a wish to speak HTTP/2: a server may. The parser ends the request there and
        would drop its body, so another one is given the same head without the wish.
        """
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as wish:
                head = self._head_without_upgrade()
                data = head + data[wish.args[0] :]
                self.parser = httptools.HttpRequestParser(self)

    def _head_without_upgrade(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version.encode())]
        for name, value in self.headers:
            if name == b"connection":
                wishes = [each.strip() for each in value.split(b",")]
                value = b", ".join(each for each in wishes if each.lower() not in _WISH_HEADERS)
            if name not in _WISH_HEADERS:
                lines.append(name + b": " + value)
        if method == b"CONNECT" or any(b"\r" in line or b"\n" in line for line in lines):
            raise httptools.HttpParserError("a request that no head can be made of")
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def on_message_begin(self) -> None:
        """Say who the client is, as the TLS handshake verified it."""
        super().on_message_begin()
        self._head_bytes = 0
        self._is_in_head = True
        if self._too_slow is None:
            self._watch_head()
        self._linger.is_request_whole = False
        certificate = self.transport.get_extra_info("peercert")
        self.scope["extensions"] = {"tls": {CERTIFICATE_NAME: common_name(certificate)}}

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._unwatch_head()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._limit.header_bytes_max:
            raise HeadTooLarge
        if self.parser.should_upgrade():
            return
        self._slots.on_request(self)
        super().on_headers_complete()
        cycle, extensions = self.cycle, cast(dict[str, Any], self.scope["extensions"])
        extensions[IS_BODY_WHOLE] = lambda: not cycle.more_body
        extensions[IS_GONE] = lambda: cycle.disconnected

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            self._linger.is_request_whole = True
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self._slots.on_answer(self)

    def _refuse(self) -> None:
        self.transport.write(_TOO_LARGE)
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._linger.watch_reader()
        self._slots.unread.check_total(self._linger)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._linger.unwatch_reader()
        self._slots.unread.forget(self._linger)

    def _watch_head(self) -> None:
        """From the connection on, for the first request."""
        self._too_slow = self.loop.call_later(self._limit.idle_s_max, self.evict)

    def _unwatch_head(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None
