"""One HTTP connection to the admin REST API: encodes, sends, follows redirects, types refusals."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, Final, NamedTuple, Self, TypeAlias
from urllib.parse import quote, urlencode, urljoin, urlsplit

from magnetar.client.authentication import Authentication, http_headers
from magnetar.client.error import AdminUnreachable, ConfigurationError, decode_status
from magnetar.client.tls import Tls, load_tls, with_certificate

_REDIRECTS_MAX: Final = 5
_REDIRECT_STATUSES: Final = (301, 302, 307, 308)
_NO_BODY: Final = object()
_LINES: Final = "application/x-ndjson"
_LINES_OR_ARRAY: Final = f"{_LINES}, application/json;q=0.5"
_READ_BYTES: Final = 1 << 16

Query: TypeAlias = Mapping[str, str | int | bool | list[str] | None]
Names: TypeAlias = list[str]
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


def format_query(query: Query | None) -> str:
    """Spell a query string; None values are left out, lists are repeated."""
    pairs: list[tuple[str, str]] = []
    for key, value in (query or {}).items():
        if value is None:
            continue
        if isinstance(value, bool):
            pairs.append((key, "true" if value else "false"))
        elif isinstance(value, list):
            pairs.extend((key, item) for item in value)
        else:
            pairs.append((key, str(value)))
    return "?" + urlencode(pairs) if pairs else ""


class Transport:
    """Keeps one connection open and opens it again when the server has let it go."""

    def __init__(
        self,
        url: str,
        *,
        authentication: Authentication | None = None,
        tls: Tls | None = None,
        timeout_s: float,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"Not an admin URL: {url!r}; expected http://host:port")
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json"}
        self._authentication = authentication
        self._host = parts.hostname
        self._tls = with_certificate(tls, authentication)
        self._connection: http.client.HTTPConnection | None = None
        self._origin = ("", "")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, path: str, query: Query | None = None) -> Any:
        return self._decode(self.call("GET", path, query=query))

    def put(self, path: str, body: Any = _NO_BODY, query: Query | None = None) -> Any:
        return self._decode(self.call("PUT", path, body=body, query=query))

    def post(self, path: str, body: Any = _NO_BODY, query: Query | None = None) -> Any:
        return self._decode(self.call("POST", path, body=body, query=query))

    def delete(self, path: str, query: Query | None = None) -> Any:
        return self._decode(self.call("DELETE", path, query=query))

    def call(
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
        headers = {**self._headers, **http_headers(self._authentication, self._host)}
        if method in ("PUT", "POST"):
            headers["Content-Type"] = content_type
        url = f"{self.url}/{path}{format_query(query)}"
        for _ in range(_REDIRECTS_MAX + 1):
            answer = self._exchange(method, url, content, headers)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECT_STATUSES or location is None:
                break
            url = _follow(url, location)
        if not 200 <= answer.status < 300:
            raise decode_status(answer.status, _reason(answer))
        return answer

    def stream(self, path: str, query: Query | None = None) -> Iterator[Any]:
        """The values of a list as they come, on a connection of its own.

        A server that does not know how to send them one by one sends an array.
        """
        alone = copy(self)
        alone._connection = None
        try:
            yield from alone._stream(f"{self.url}/{path}{format_query(query)}")
        except (OSError, http.client.HTTPException) as error:
            raise alone._unreachable(error) from error
        finally:
            alone.close()

    def _stream(self, url: str) -> Iterator[Any]:
        headers = {**http_headers(self._authentication, self._host), "Accept": _LINES_OR_ARRAY}
        for _ in range(_REDIRECTS_MAX + 1):
            parts = urlsplit(url)
            self.close()
            self._open(parts.scheme, parts.netloc)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            response = self._ask("GET", target, b"", headers)
            location = response.getheader("location")
            if response.status not in _REDIRECT_STATUSES or location is None:
                break
            url = _follow(url, location)
        if not 200 <= response.status < 300:
            raise decode_status(response.status, _reason(_read(response)))
        if (response.getheader("content-type") or "").startswith(_LINES):
            yield from _read_lines(response)
        else:
            yield from self._decode(_read(response)) or ()

    def _exchange(
        self, method: str, url: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kept = self._connection is not None and self._origin == (parts.scheme, parts.netloc)
        if kept:
            try:
                return self._round_trip(method, target, content, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                pass  # the server dropped an idle connection: nothing was read, ask on a new one
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(error) from error
        self.close()
        self._open(parts.scheme, parts.netloc)
        try:
            return self._round_trip(method, target, content, headers)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> AdminUnreachable:
        """Names the address that was asked: a redirect may have led away from the service's own."""
        self.close()
        asked = "{}://{}".format(*self._origin)
        if self.url == asked or self.url.startswith(f"{asked}/"):
            return AdminUnreachable(self.url, _cause(error))
        return AdminUnreachable(asked, f"{_cause(error)}; {self.url} redirected to it")

    def _open(self, scheme: str, netloc: str) -> None:
        host = netloc.rpartition("@")[2]
        if scheme == "https":
            context = load_tls(self._tls)
            self._connection = http.client.HTTPSConnection(
                host, timeout=self._timeout_s, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(host, timeout=self._timeout_s)
        self._origin = (scheme, netloc)

    def _round_trip(
        self, method: str, target: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        return _read(self._ask(method, target, content, headers))

    def _ask(
        self, method: str, target: str, content: bytes, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        connection = self._connection
        assert connection is not None
        connection.request(method, target, body=content or None, headers=dict(headers))
        return connection.getresponse()

    def _decode(self, answer: Answer) -> Any:
        if not answer.body.strip():
            return None
        try:
            return json.loads(answer.body)
        except ValueError:
            return answer.body.decode("utf-8", errors="replace")


def _follow(url: str, location: str) -> str:
    """Where a redirect leads; from HTTPS never to HTTP, where all could read the credentials."""
    target = urljoin(url, location)
    if url.startswith("https:") and not target.startswith("https:"):
        raise AdminUnreachable(url, "it redirects to a place without TLS")
    return target


def _read(response: http.client.HTTPResponse) -> Answer:
    headers = {key.lower(): value for key, value in response.getheaders()}
    return Answer(response.status, headers, response.read())


def _read_lines(response: http.client.HTTPResponse) -> Iterator[Any]:
    """Each line as a value. `readline` would take a list that was cut short for a whole one."""
    rest = b""
    while data := response.read1(_READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        yield from map(json.loads, lines)
    if rest:
        raise http.client.IncompleteRead(rest)


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
        return f"The admin service answered {answer.status} {_phrase(answer.status)}"
    return text


def _phrase(status: int) -> str:
    return http.client.responses.get(status, "without a reason")


def _cause(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
