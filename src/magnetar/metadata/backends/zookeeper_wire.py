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
import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, ConnectionDropped, NoNodeError, SystemZookeeperError
from kazoo.protocol.connection import CLOSE_RESPONSE, PING_XID, WATCH_XID, ConnectionHandler
from kazoo.protocol.serialization import Close
from kazoo.retry import KazooRetry

from magnetar.metadata.backends.zookeeper_request import read_event
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
        on_event: Callable[[int, str], None],
        on_batch: Callable[[], None],
    ) -> None:
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0, ignore_expire=True)
        security = {} if tls is None else tls.options()
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_s,
            connection_retry=retry,
            logger=_quiet,
            **security,
        )
        self._connection = _Connection(self, retry.copy(), on_event, on_batch)

    def post(self, waiting: list[tuple[Any, Any]]) -> None:
        """Send these requests; what comes of each is told to the object beside it."""
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
    ) -> None:
        super().__init__(client, retry, logger=_quiet)
        self._on_event = on_event
        self._on_batch = on_batch
        self._received = bytearray()
        self._number = 0

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """Greet a server; kazoo would wait for as long as a session lives, and try no other."""
        self._received.clear()
        return super()._invoke(min(timeout, _GREETING_S), request, xid)

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Write what waits, up to a bound, so that answers are read in between."""
        client = self.client
        self._read_sock.recv(_READ_BYTES)
        data = bytearray()
        while client._queue and len(data) < _WRITE_BYTES:
            request, reply = client._queue.popleft()
            if reply is not None and reply.is_given_up:
                continue  # it waited out a lost connection; nobody would know that it happened
            self._number = self._number % 0x7FFFFFFF + 1
            # Before it is written: what is neither waiting nor pending would be answered by nobody.
            client._pending.append((request, reply, self._number))
            body = request.serialize()
            data += _FRAME.pack(len(body) + 8, self._number, request.type)
            data += body
        if client._queue:
            client.wake()
        if data:
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
