"""Where connections of the binary protocol come in: one port, with TLS or without."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping

from magnetar.broker.connection import Connection, ConnectionHost, Handler
from magnetar.errors import NotAllowed
from magnetar.runtime.accept import attach


class BinaryServer:
    def __init__(
        self, host: ConnectionHost, handlers: Mapping[int, Handler], tls: ssl.SSLContext | None
    ) -> None:
        self._host = host
        self._handlers = handlers
        self._tls = tls

    async def serve(self, accepted: socket.socket, host: str) -> None:
        """A TLS handshake counts as a connection from the beginning; there are no words yet to
        refuse it with. Others are refused by the protocol.
        """
        limit, is_counted = self._host.connection_limit, self._tls is not None
        if is_counted:
            try:
                limit.enter(host)
            except NotAllowed as refusal:
                accepted.close()
                limit.on_refused(host, refusal)
                return
        connection = Connection(self._host, self._handlers, is_counted=is_counted)
        try:
            await attach(
                accepted,
                connection,
                self._tls,
                handshake_s_max=self._host.limits.handshake_s,
            )
        finally:
            if is_counted and not connection.is_made:
                limit.leave(host)
