"""Requests that another broker answers, carried to it and back.

Brokers of one machine serve behind one address: a page of the console, or a tool that follows no
redirects, gets what it asks for from whichever of them has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from magnetar.admin.response import Response

Scope: TypeAlias = MutableMapping[str, Any]
IS_RELAYED: Final = "is_relayed"
"""What a scope's extensions call a request that another broker has sent on: once is enough."""


class Forwarded(msgspec.Struct, frozen=True):
    """A request as its first broker got it: the next one asks for credentials itself."""

    method: str
    scheme: str
    path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    client: tuple[str, int] | None
    server: tuple[str, int] | None
    certificate: dict[str, Any]
    """What the TLS handshake verified of the client."""
    body: bytes


class Answered(msgspec.Struct, frozen=True):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


Relay: TypeAlias = Callable[[str, Forwarded], Awaitable[Answered]]
"""Carries a request to a broker, by its id; raise ServiceNotReady when it does not answer."""


class AsgiApplication(Protocol):
    async def __call__(
        self,
        scope: Scope,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None: ...


def forward(scope: Scope, body: bytes) -> Forwarded:
    return Forwarded(
        method=scope["method"],
        scheme=scope.get("scheme", "http"),
        path=scope["raw_path"],
        query=scope["query_string"],
        headers=list(scope["headers"]),
        client=scope.get("client"),
        server=scope.get("server"),
        certificate=scope.get("extensions", {}).get("tls", {}),
        body=body,
    )


def make_response(answered: Answered) -> Response:
    return Response(answered.status, answered.body, headers=tuple(answered.headers))


async def answer(application: AsgiApplication, forwarded: Forwarded) -> Answered:
    """Let the application of this broker answer a request that came to another one."""
    status, body = 0, bytearray()
    headers: list[tuple[bytes, bytes]] = []
    scope = {
        "type": "http",
        "method": forwarded.method,
        "scheme": forwarded.scheme,
        "path": forwarded.path.decode("latin-1"),
        "raw_path": forwarded.path,
        "query_string": forwarded.query,
        "headers": forwarded.headers,
        "client": forwarded.client,
        "server": forwarded.server,
        "extensions": {"tls": forwarded.certificate, IS_RELAYED: True},
    }

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": forwarded.body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], message["headers"]
        else:
            body.extend(message.get("body", b""))

    await application(scope, receive, send)
    decoded = [(key.decode(), value.decode()) for key, value in headers]
    return Answered(status, [each for each in decoded if each[0] not in _OWN_HEADERS], bytes(body))


_OWN_HEADERS: Final = frozenset(
    ("content-length", "x-content-type-options", "x-frame-options", "referrer-policy")
)
"""What the first broker writes itself."""
