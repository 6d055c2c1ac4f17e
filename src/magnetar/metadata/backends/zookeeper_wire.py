"""Kazoo's connection to a ZooKeeper server, with whole batches where kazoo goes one by one.

Kazoo keeps the session: it connects, pings, tries the next server, takes up the session again or
begins a new one. It writes one request and reads one answer at a time, each with several system
calls, and knows one-time watches only. This connection writes all that waits at once, reads all
that has come at once, and hands over answers and events in the order they came.

Kazoo has no public names for that, so its version is pinned; docs/dependencies.md lists the private
ones used here, and a test compares.
"""

from __future__ import annotations

import logging
import secrets
import ssl
import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConnectionDropped,
    NoNodeError,
    SystemZookeeperError,
)
from kazoo.protocol.connection import CLOSE_RESPONSE, PING_XID, WATCH_XID, ConnectionHandler
from kazoo.protocol.serialization import SASL, Close
from kazoo.retry import KazooRetry

from magnetar.metadata.backends.zookeeper_request import read_event
from magnetar.metadata.backends.zookeeper_sasl import (
    DigestLogin,
    LoginRefused,
    ZookeeperLogin,
)
from magnetar.runtime.log import Logger

_log = Logger(__name__)

_LENGTH: Final = struct.Struct("!i")
_REPLY: Final = struct.Struct("!iqi")
_FRAME: Final = struct.Struct("!iii")
_READ_BYTES: Final = 1 << 18
_WRITE_BYTES: Final = 1 << 16
_ANSWER_BYTES_WARN: Final = 1 << 20
_EXISTS: Final = 3
_GREETING_S: Final = 2.0

_quiet = logging.getLogger("kazoo.magnetar")
_quiet.setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class ZookeeperTls:
    """PEM files: the certificates that servers are trusted by, empty for the system's, and one
    with our own certificate and its key, empty for none.
    """

    trust: str
    certificate: str
    verifies_host: bool

    def options(self) -> Mapping[str, Any]:
        return {
            "use_ssl": True,
            "ca": self.trust or None,
            "certfile": self.certificate or None,
            "keyfile": self.certificate or None,
            "check_hostname": self.verifies_host,
        }


class Client(KazooClient):  # type: ignore[misc]
    """A session. `on_event` and `on_batch` are called on kazoo's thread."""

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_s: float,
        tls: ZookeeperTls | None,
        login: ZookeeperLogin | None,
        on_event: Callable[[int, str], None],
        on_batch: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self.proved_s = monotonic()
        """When the last thing was sent that a server answered; the session's time runs from it."""
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0, ignore_expire=True)
        security = {} if tls is None else tls.options()
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_s,
            connection_retry=retry,
            logger=_quiet,
            **security,
        )
        self.refusal = ""
        """Why servers take no login from us; nothing else is tried after that."""
        self._connection = _Connection(self, retry.copy(), on_event, on_batch, monotonic)
        self._connection.sasl_options = login  # without one kazoo does not log in

    def post(self, waiting: list[tuple[Any, Any]]) -> None:
        """Send these requests; what comes of each is reported to the object beside it."""
        self._queue.extend(waiting)
        self.wake()

    def wake(self) -> None:
        write_sock = self._connection._write_sock
        if write_sock is not None:
            try:
                write_sock.send(b"\0")
            except OSError:
                pass  # the connection is being closed, which fails what waits


class _Connection(ConnectionHandler):  # type: ignore[misc]
    def __init__(
        self,
        client: Client,
        retry: KazooRetry,
        on_event: Callable[[int, str], None],
        on_batch: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(client, retry, logger=_quiet)
        self._monotonic = monotonic
        self._pinged_s = 0.0
        self._written: deque[tuple[int, float]] = deque()
        """The last number of each write that was not answered, and when it was written."""
        self._on_event = on_event
        self._on_batch = on_batch
        self._received = bytearray()
        self._number = 0

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """Greet a server; kazoo would wait for as long as a session lives, and try no other."""
        self._received.clear()
        self._written.clear()
        begun_s = self._monotonic()
        answer = super()._invoke(min(timeout, _GREETING_S), request, xid)
        self.client.proved_s = begun_s
        return answer

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """Kazoo would need a library for it."""
        login = DigestLogin(self.sasl_options, secrets.token_hex(16))
        try:
            challenge = self._exchange_token(1, b"", timeout)
            login.verify(self._exchange_token(2, login.respond(challenge), timeout))
        except (LoginRefused, ConnectionDropped) as error:
            self.client.refusal = str(error) or "the server closed the connection"
            raise AuthFailedError(self.client.refusal) from error

    def _exchange_token(self, number: int, token: bytes, timeout: float) -> bytes:
        self._submit(SASL(token), timeout, number)
        header, buffer, offset = self._read_header(timeout)
        if header.err or header.xid != number:
            raise LoginRefused("the server refuses the user or the password")
        return SASL.deserialize(buffer, offset)[0] or b""

    def _send_ping(self, connect_timeout: float) -> None:
        self._pinged_s = self._monotonic()
        super()._send_ping(connect_timeout)

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Write what waits, up to a bound, so that answers are read in between."""
        client = self.client
        self._read_sock.recv(_READ_BYTES)
        data = bytearray()
        while client._queue and len(data) < _WRITE_BYTES:
            request, reply = client._queue.popleft()
            if reply is not None and reply.is_given_up:
                continue  # its caller waited out a lost connection and would not learn of it
            self._number = self._number % 0x7FFFFFFF + 1
            # Before it is written: what is neither waiting nor pending would get no answer.
            client._pending.append((request, reply, self._number))
            body = request.serialize()
            data += _FRAME.pack(len(body) + 8, self._number, request.type)
            data += body
        if client._queue:
            client.wake()
        if data:
            self._written.append((self._number, self._monotonic()))
            self._write(data, connect_timeout)

    def _read_socket(self, read_timeout: float) -> Any:
        try:
            chunk = self._socket.recv(_READ_BYTES)
            while isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
                chunk += self._socket.recv(_READ_BYTES)  # no select tells of what TLS holds
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        if not chunk:
            raise ConnectionDropped("the server closed the connection")
        received = self._received
        received += chunk
        start, end, outcome = 0, len(received), None
        while end - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, start)
            if end - start - _LENGTH.size < length:
                break
            first = start + _LENGTH.size
            start = first + length
            outcome = self._on_frame(bytes(received[first:start])) or outcome
        del received[:start]
        self._on_batch()
        return outcome

    def _on_frame(self, data: bytes) -> Any:
        xid, zxid, code = _REPLY.unpack_from(data)
        if xid == PING_XID:
            self.ping_outstanding.clear()
            self.client.proved_s = max(self.client.proved_s, self._pinged_s)
            return None
        if xid == WATCH_XID:
            self._on_event(*read_event(data, _REPLY.size))
            return None
        return self._on_answer(xid, zxid, code, data)

    def _on_answer(self, xid: int, zxid: int, code: int, data: bytes) -> Any:
        client = self.client
        request, reply, expected = client._pending.popleft()
        if zxid > 0:
            client.last_zxid = zxid
        if self._written and self._written[0][0] == xid:
            client.proved_s = max(client.proved_s, self._written.popleft()[1])
        if isinstance(request, Close):
            return CLOSE_RESPONSE
        if xid != expected:
            reply.fail(ConnectionDropped("an answer out of turn"))
            raise ConnectionDropped(f"answer {xid} came where {expected} was due")
        if len(data) > _ANSWER_BYTES_WARN:
            _log.warning("answer over 1 MiB; use topic buckets", bytes=len(data))
        if code == 0:
            reply.arrive(request.deserialize(data, _REPLY.size))
        elif code == NoNodeError.code and request.type == _EXISTS:
            reply.arrive(None)
        else:
            kind = EXCEPTIONS.get(code, SystemZookeeperError)
            reply.fail(kind(f"code {code}"))
        return None
