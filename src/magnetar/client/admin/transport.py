"""Calls of the admin REST API over HTTP/1.1: sends, follows redirects, types refusals."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import SplitResult, quote, urlencode, urljoin, urlsplit

import h11

from magnetar.client.admin.network import CALLS_MAX, Network, Stream
from magnetar.client.authentication import Authentication, Tls, http_headers, with_certificate
from magnetar.client.error import (
    AdminUnreachable,
    AlreadyClosedError,
    ConfigurationError,
    decode_status,
    tell_cause,
)

_REDIRECTS_MAX: Final = 5
_REDIRECT_STATUSES: Final = (301, 302, 307, 308)
_NO_BODY: Final = object()
_NOTE: Final = "x-magnetar-note"
_SUBJECT: Final = "x-magnetar-subject"
_LINES: Final = "application/x-ndjson"
_LINES_OR_ARRAY: Final = f"{_LINES}, application/json;q=0.5"
_HEAD_BYTES_MAX: Final = 1 << 17
_PORTS: Final = {"http": 80, "https": 443}

Query: TypeAlias = Mapping[str, str | int | bool | list[str] | None]
Names: TypeAlias = list[str]
Ids: TypeAlias = list[int]
Document: TypeAlias = dict[str, Any]
Documents: TypeAlias = list[Document]
Grants: TypeAlias = dict[str, list[str]]


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


def format_path(*parts: str | int) -> str:
    """Join path components, each percent-encoded as a whole: a slash inside one stays inside it."""
    return "/".join(quote(str(part), safe="") for part in parts)


def format_optional(part: str | int | None) -> str:
    """A component of a path that only some calls have."""
    return "" if part is None else f"/{format_path(part)}"


def format_query(query: Query | None) -> str:
    """Spell a query string; None values are left out, lists are repeated."""
    given = {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in (query or {}).items()
        if value is not None
    }
    text = urlencode(given, doseq=True)
    return f"?{text}" if text else ""


class _Connection:
    """Carries one exchange at a time; h11 knows the rules of HTTP."""

    def __init__(self, origin: str, stream: Stream) -> None:
        self.origin = origin
        self.process = os.getpid()
        self.has_answered = False
        """Whether anything was read since the last request."""
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES_MAX)

    async def ask(self, request: h11.Request, content: bytes) -> None:
        """Send a request and read the head of its answer."""
        self.has_answered = False
        sent = (request, h11.Data(data=content), h11.EndOfMessage())
        await self._stream.write(b"".join(self._http.send(each) or b"" for each in sent))
        while not isinstance(event := await self._receive(), h11.Response):
            pass  # there may be 1xx answers before the final one
        self.status = event.status_code
        self.headers = {key.decode(): value.decode("latin-1") for key, value in event.headers}

    async def read_some(self) -> bytes:
        """The next bytes of the body; empty at its end."""
        event = await self._receive()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    def renew(self) -> bool:
        """Whether another request can be sent."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        self._stream.close()

    async def _receive(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = await self._stream.read()
            if not data and not self.has_answered:
                raise ConnectionResetError(
                    "remote end closed connection without response; if it is a broker's port"
                    " for clients, give its web port instead"
                )
            self.has_answered = True
            self._http.receive_data(data)
        return event


class Transport:
    """Sends each call on an idle connection, or on a new one when none is left.

    Several tasks of one event loop may call at a time, over `LoopNetwork`, which bounds how many;
    or several threads, over `SocketNetwork`. A connection that the server dropped while it was idle
    is opened again. In a forked process every call opens its own.
    """

    def __init__(
        self,
        url: str,
        *,
        network: Network,
        authentication: Authentication | None = None,
        tls: Tls | None = None,
        timeout_s: float,
    ) -> None:
        parts = _split(url)
        if parts is None:
            raise ConfigurationError(f"Not an admin URL: {url!r}; expected http://host:port")
        self.url = url.rstrip("/")
        self._network = network
        self._timeout_s = timeout_s
        self._authentication = authentication
        self._host = parts.hostname or ""
        self._tls = with_certificate(tls, authentication)
        self._idle: dict[str, list[_Connection]] = {}
        self._is_closed = False

    async def close(self) -> None:
        """Calls under way finish; later ones raise AlreadyClosedError."""
        self._is_closed = True
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    async def get(self, path: str, query: Query | None = None) -> Any:
        return _decode(await self.call("GET", path, query=query))

    async def put(self, path: str, body: Any = _NO_BODY, query: Query | None = None) -> Any:
        return _decode(await self.call("PUT", path, body=body, query=query))

    async def post(self, path: str, body: Any = _NO_BODY, query: Query | None = None) -> Any:
        return _decode(await self.call("POST", path, body=body, query=query))

    async def delete(self, path: str, query: Query | None = None) -> Any:
        return _decode(await self.call("DELETE", path, query=query))

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = _NO_BODY,
        query: Query | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Send one request to `path`, already encoded, and return a 2xx answer."""
        content = b"" if body is _NO_BODY else json.dumps(body).encode()
        headers = {"Accept": "application/json"}
        if method in ("PUT", "POST"):
            headers |= {"Content-Type": content_type, "Content-Length": str(len(content))}
        async with self._network.turns:
            connection = await self._send(method, path, query, headers, content)
            return _accept(await self._read(connection))

    async def stream(self, path: str, query: Query | None = None) -> AsyncGenerator[Any, None]:
        """The values of a list as they come, on a connection that no call shares meanwhile.

        A server that does not know how to send them one by one sends an array.
        """
        connection = await self._send("GET", path, query, {"Accept": _LINES_OR_ARRAY})
        is_listing = connection.headers.get("content-type", "").startswith(_LINES)
        if not is_listing or not 200 <= connection.status < 300:
            for value in _decode(_accept(await self._read(connection))) or ():
                yield value
            return
        rest = b""
        with self._closing_on_failure(connection):
            while data := await connection.read_some():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    yield json.loads(line)
            if rest:
                raise h11.RemoteProtocolError("the last line of the list is cut short")
        self._release(connection)

    async def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        headers: Mapping[str, str],
        content: bytes = b"",
    ) -> _Connection:
        """Follow redirects; the connection has the head of the answer, and its body unread."""
        credentials = await http_headers(self._authentication, self._host, self._network.wait_for)
        headers = {**credentials, **headers}
        url = f"{self.url}/{path}{format_query(query)}"
        connection = await self._ask(method, url, headers, content)
        for _ in range(_REDIRECTS_MAX):
            location = connection.headers.get("location")
            if connection.status not in _REDIRECT_STATUSES or location is None:
                break
            await self._read(connection)
            url = _follow(url, location)
            connection = await self._ask(method, url, headers, content)
        return connection

    async def _ask(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes
    ) -> _Connection:
        if self._is_closed:
            raise AlreadyClosedError("The admin client is closed")
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        request = _format_request(method, parts, headers)
        if (kept := self._take(origin)) is not None:
            try:
                with self._closing_on_failure(kept):
                    await kept.ask(request, content)
                    return kept
            except AdminUnreachable as failure:
                dropped = (BrokenPipeError, ConnectionResetError)
                if kept.has_answered or not isinstance(failure.__cause__, dropped):
                    raise
        try:
            stream = await self._network.dial(
                parts.hostname or "",
                parts.port or _PORTS[parts.scheme],
                self._tls if parts.scheme == "https" else None,
                self._timeout_s,
            )
        except OSError as error:
            raise self._unreachable(origin, error) from error
        connection = _Connection(origin, stream)
        with self._closing_on_failure(connection):
            await connection.ask(request, content)
        return connection

    async def _read(self, connection: _Connection) -> Answer:
        """The whole answer; the connection is idle again."""
        pieces = []
        with self._closing_on_failure(connection):
            while data := await connection.read_some():
                pieces.append(data)
        answer = Answer(connection.status, connection.headers, b"".join(pieces))
        self._release(connection)
        return answer

    def _take(self, origin: str) -> _Connection | None:
        idle = self._idle.get(origin, [])
        while idle:
            with suppress(IndexError):  # another thread took the last one
                connection = idle.pop()
                if connection.process == os.getpid():
                    return connection
                connection.close()
        return None

    def _release(self, connection: _Connection) -> None:
        idle = self._idle.setdefault(connection.origin, [])
        if not self._is_closed and len(idle) < CALLS_MAX and connection.renew():
            idle.append(connection)
        else:
            connection.close()

    @contextmanager
    def _closing_on_failure(self, connection: _Connection) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError | h11.RemoteProtocolError):
                raise self._unreachable(connection.origin, error) from error
            raise

    def _unreachable(self, origin: str, error: Exception) -> AdminUnreachable:
        """Names the address that was asked: a redirect may have led away from the service's own."""
        is_slow = isinstance(error, TimeoutError)
        cause = "no answer in time" if is_slow else tell_cause(error).lower()
        if self.url == origin or self.url.startswith(f"{origin}/"):
            return AdminUnreachable(self.url, cause)
        return AdminUnreachable(origin, f"{cause}; {self.url} redirected to it")


def _split(url: str) -> SplitResult | None:
    """The parts of an HTTP URL; None for anything else."""
    try:
        parts = urlsplit(url)
        return parts if parts.scheme in _PORTS and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def _follow(url: str, location: str) -> str:
    """Where a redirect leads; from HTTPS never to HTTP, where all could read the credentials."""
    target = urljoin(url, location)
    if url.startswith("https:") and not target.startswith("https:"):
        raise AdminUnreachable(url, "it redirects to a place without TLS")
    if _split(target) is None:
        raise AdminUnreachable(url, "it redirects to what is not an HTTP URL")
    return target


def _format_request(method: str, parts: SplitResult, headers: Mapping[str, str]) -> h11.Request:
    host = parts.netloc.rpartition("@")[2]
    lines = {"Host": host, "Accept-Encoding": "identity", **headers}
    try:
        return h11.Request(
            method=method,
            target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
            headers=[(name.encode(), value.encode("latin-1")) for name, value in lines.items()],
        )
    except (h11.LocalProtocolError, UnicodeEncodeError):  # whose text would show the credentials
        raise ConfigurationError(
            "The admin URL or the credentials have characters that HTTP does not allow"
        ) from None


def _accept(answer: Answer) -> Answer:
    """What a broker notes about an answer is a warning, or stands with the refusal."""
    note = answer.headers.get(_NOTE)
    if not 200 <= answer.status < 300:
        reason = ": ".join(filter(None, (_reason(answer), answer.headers.get(_SUBJECT))))
        refusal = decode_status(answer.status, reason)
        if note:
            refusal.add_note(note)
        raise refusal
    if note:
        warnings.warn(note, stacklevel=2)
    return answer


def _decode(answer: Answer) -> Any:
    if not answer.body.strip():
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        return answer.body.decode("utf-8", errors="replace")


def _reason(answer: Answer) -> str:
    try:
        document = json.loads(answer.body)
    except ValueError:
        document = None
    reason = document.get("reason") if isinstance(document, dict) else None
    if isinstance(reason, str):
        return reason.strip()
    text = answer.body.decode("utf-8", errors="replace").strip()
    if not text or text.startswith("<"):
        phrases = {each.value: each.phrase for each in HTTPStatus}
        phrase = phrases.get(answer.status, "without a reason")
        return f"The admin service answered {answer.status} {phrase}"
    return text
