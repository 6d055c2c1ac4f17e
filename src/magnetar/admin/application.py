"""The ASGI application: finds the route, decodes the body, and tells the outcome."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from magnetar.admin.body import check_payload, decode_body
from magnetar.admin.connection import HttpSlots
from magnetar.admin.gate import check_permission, find_elsewhere
from magnetar.admin.origin import check_host, check_origin
from magnetar.admin.relay import IS_RELAYED, Relay, Scope, forward, make_response
from magnetar.admin.request import Call, check_parts, parse_query
from magnetar.admin.response import SUBJECT, Response, json_response, refusal
from magnetar.admin.route import Found, Route, Router, WrongMethod
from magnetar.broker.administration.scalable import on_refused
from magnetar.broker.administration.web import Administration
from magnetar.errors import (
    BadRequest,
    BrokerError,
    PreconditionFailed,
    ServiceNotReady,
    TopicMigrated,
    Unauthenticated,
    fault_of,
    shorten,
)
from magnetar.model.caller import ANONYMOUS, Caller
from magnetar.model.permission import OPEN
from magnetar.runtime.log import Logger
from magnetar.runtime.watchdog import names_work

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

CERTIFICATE_NAME: Final = "client_common_name"
"""What a scope's extension `tls` calls the common name of a verified client certificate."""
IS_BODY_WHOLE: Final = "is_body_whole"
"""What a scope's extensions call the question whether all of a request's body has arrived."""
IS_GONE: Final = "is_gone"
"""What a scope's extensions call the question whether the client closed the connection."""
_FOR_BROWSERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
"""No guessing of content types, no framing by other sites, no referrer sent to them."""
_NO_BODY: Final = "The request body cannot be empty"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CHALLENGE: Final = (("www-authenticate", 'Bearer realm="magnetar"'),)

_log = Logger(__name__)


class BodyRefused(Exception):
    """A body of more bytes than any call needs, or one that is sent drop by drop."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Application:
    def __init__(self, api: Administration, routes: Iterable[Route]) -> None:
        self._api = api
        self.slots = HttpSlots(api.web.connections_max, api.unread)
        self._router = Router(routes)
        self._under_way = 0
        self.relay: Relay | None = None
        """Carries requests to the brokers that own what they name; None: callers are sent there."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        self._under_way += 1
        try:
            response = await self._answer(scope, receive)
            await _send(scope, send, response, idle_s_max=self._api.web.idle_s_max)
        finally:
            self._under_way -= 1

    @names_work(lambda local: f"{local['method']} {shorten(local['path'])}")
    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        path = bytes(scope["raw_path"]).decode("latin-1")
        method = str(scope["method"])
        try:
            requests_max = self._api.web.requests_max
            if requests_max is not None and self._under_way > requests_max:
                raise ServiceNotReady(
                    f"Reached the maximum number of HTTP requests: {requests_max}"
                )
            headers = {
                key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
            }
            self._check_site(scope, method, headers)
            found = self._router.find(method, path)
            caller = await self._authenticate(found, scope, headers)
            match found:
                case None:
                    return refusal(HTTPStatus.NOT_FOUND, f"There is nothing at {path}")
                case WrongMethod(allowed):
                    names = ", ".join(allowed)
                    reason = f"{method} is not allowed at {path}, only {names}"
                    return refusal(HTTPStatus.METHOD_NOT_ALLOWED, reason, (("allow", names),))
                case Found():
                    query = bytes(scope["query_string"]).decode("latin-1")
                    call = Call(
                        path=path,
                        query_text=query,
                        parts=found.parts,
                        queries=parse_query(query),
                        headers=headers,
                        caller=caller,
                        is_tls=scope.get("scheme") == "https",
                        address="/{}:{}".format(*scope.get("client") or ("unknown", 0)),
                        has_relay=self.relay is not None,
                        is_gone=scope.get("extensions", {}).get(IS_GONE, _is_never_gone),
                    )
                    return await self._call(found.route, call, receive, scope)
        except Unauthenticated as error:
            _log.warning("authentication failed", path=path, reason=error.sentence)
            return refusal(HTTPStatus.UNAUTHORIZED, error.sentence, _CHALLENGE)
        except BrokerError as error:
            subject = ((SUBJECT, error.subject),) if error.subject else ()
            return refusal(fault_of(error).status, error.reason, subject)
        except BodyRefused as error:
            return refusal(error.status, str(error))
        # The edge: whatever else went wrong is a defect, logged whole and shown to the client
        # by its name, and never the end of the connection.
        except Exception as error:
            _log.error("request failed", error=error, method=method, path=path)
            reason = f"Unexpected failure: {type(error).__name__}"
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, reason)

    def _check_site(self, scope: Scope, method: str, headers: Mapping[str, str]) -> None:
        names = self._api.web.names
        check_origin(method, headers)
        if names is not None and scope.get("server"):
            check_host(headers, str(scope["server"][0]), names)

    async def _authenticate(
        self, found: Found | WrongMethod | None, scope: Scope, headers: Mapping[str, str]
    ) -> Caller:
        """Authenticate before any answer, be it that the path is unknown; some pages are open."""
        row = found.route.row if isinstance(found, Found) else None
        if row is not None and row.need == OPEN and not self._api.guards(row.path):
            return ANONYMOUS
        certificate_name = scope.get("extensions", {}).get("tls", {}).get(CERTIFICATE_NAME)
        host = str((scope.get("client") or ("",))[0])
        return await self._api.authenticate(headers, certificate_name, host)

    async def _read_body(self, receive: Receive) -> bytes:
        bytes_max, idle_s_max = self._api.web.body_bytes_max, self._api.web.idle_s_max
        body = bytearray()
        more = True
        try:
            async with asyncio.timeout(idle_s_max):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise BadRequest("the client went away")
                    body += message.get("body", b"")
                    if len(body) > bytes_max:
                        reason = f"The body is larger than {bytes_max} bytes"
                        raise BodyRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
                    more = message.get("more_body", False)
        except TimeoutError:
            reason = f"The body did not come within {idle_s_max:g} seconds"
            raise BodyRefused(HTTPStatus.REQUEST_TIMEOUT, reason) from None
        return bytes(body)

    async def _call(self, route: Route, call: Call, receive: Receive, scope: Scope) -> Response:
        """Refuse a caller without permission, and redirect to the owner, before the body."""
        row, body, limits = route.row, route.body, self._api.web.limits
        check_parts(limits, call.parts)
        assert row.need is not None, f"{row.name} has no permission"
        await check_permission(self._api, row.need, call)
        if row.for_owner and self._api.owners.ownership.is_shared:
            elsewhere = await find_elsewhere(self._api, call)
            if elsewhere is not None:
                if self.relay is None or _is_relayed(scope):
                    return elsewhere.redirect()
                forwarded = forward(scope, await self._read_body(receive))
                return make_response(await self.relay(elsewhere.broker_id, forwarded))
        content = await self._read_body(receive)
        if body is not None:
            policy = body.row.policy
            strict = self._api.web.fails_on_unknown_field()
            payload = decode_body(content, body.schema, policy=policy, strict=strict)
            check_payload(limits, payload, body.row.text_limit)
            if payload is None and body.is_required:
                raise (PreconditionFailed if policy else BadRequest)(body.row.missing or _NO_BODY)
            call = replace(call, payload=payload)
        try:
            answer = await route.handler(self._api, call)
        except TopicMigrated as refused:
            on_refused(
                self._api.owners.scalable,
                refused,
                path=call.path,
                address=call.address,
                version=call.headers.get("user-agent", ""),
                caller=call.caller,
            )
            raise
        if isinstance(answer, Response):
            return answer
        if answer is None:
            is_read = row.method == "GET"
            return Response(HTTPStatus.NO_CONTENT if is_read else row.answer_status)
        return json_response(answer, row.answer_status)


def _is_relayed(scope: Scope) -> bool:
    return bool(scope.get("extensions", {}).get(IS_RELAYED))


def _is_never_gone() -> bool:
    return False


def _common_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    """An answer that comes before the end of its request is the last one of the connection: how
    long the rest of the body takes, and where the next request begins, is the client's word only.
    """
    is_body_whole = scope.get("extensions", {}).get(IS_BODY_WHOLE)
    if is_body_whole is None or is_body_whole():
        return list(_FOR_BROWSERS)
    return [*_FOR_BROWSERS, (b"connection", b"close")]


async def _send(scope: Scope, send: Send, response: Response, *, idle_s_max: float) -> None:
    """A failure on the way leaves the answer without its end: the reader sees that it is not whole.

    So does a reader that takes nothing for a long time.
    """
    headers = [(name.encode("latin-1"), _header(value)) for name, value in response.headers]
    headers += _common_headers(scope)
    if response.content_type is not None:
        headers.append((b"content-type", response.content_type.encode("latin-1")))
    body = response.body
    if isinstance(body, bytes) and response.status != HTTPStatus.NO_CONTENT:
        headers.append((b"content-length", str(len(body)).encode("latin-1")))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if not isinstance(body, bytes):
        try:
            async for chunk in body:
                async with asyncio.timeout(idle_s_max):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except (BrokerError, TimeoutError) as failure:
            _log.warning("answer cut short", path=str(scope["path"]), reason=str(failure))
            return
        body = b""
    await send({"type": "http.response.body", "body": body})


def _header(value: str) -> bytes:
    """A header has no control characters; properties of a message and names may have them."""
    return _CONTROL.sub(" ", value).encode("utf-8")
