"""The web console: its files, and what its pages ask beyond the operations of the REST interface.

The page is one file of script and one of style, built from `console/` and kept in the package. It
calls the same REST operations as everybody; what stands here shows much at once, follows it live,
or says what a change would do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from magnetar import __version__
from magnetar.admin.live import LiveStreams, wants_events
from magnetar.admin.request import Call
from magnetar.admin.response import Response, json_response
from magnetar.admin.route import Body, Route, spread
from magnetar.broker.administration import (
    message_browser,
    overview,
    policy_origin,
    preview,
    topic_state,
    visibility,
)
from magnetar.broker.administration.message_browser import Published, Start
from magnetar.broker.administration.topic_table import Choice, Names, check_choice, load_table
from magnetar.broker.administration.web import Administration
from magnetar.errors import BadRequest, Forbidden, NotFound
from magnetar.model.name import TopicDomain, parse_namespace, parse_topic
from magnetar.model.permission import (
    AUTHENTICATED,
    NAMESPACE_ADMIN,
    OPEN,
    SUPER_USER,
    TOPIC_CONSUME,
    TOPIC_POLICY,
    TOPIC_PRODUCE,
    TOPIC_READ,
    Need,
    Target,
)
from magnetar.model.position import Position
from magnetar.model.segment import SegmentId
from magnetar.operation.row import JSON, Kind, Operation, Parameter, body, flag, query
from magnetar.operation.table import all_operations

PAGE: Final = "/console"
_API: Final = f"{PAGE}/api"
_TOPIC: Final = f"{_API}/{{domain}}/{{tenant}}/{{namespace}}/{{topic}}"
_STORED: Final = (TopicDomain.PERSISTENT, TopicDomain.TOPIC)
_FILES: Final[Mapping[str, str]] = {
    "index.html": "text/html; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "app.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing is loaded from, or sent to, any other host; no script or style stands in a page."""
_ROWS_MAX: Final = 500
_MESSAGES_MAX: Final = 200

_Handler = Callable[[Administration, Call], Awaitable[object]]


def console_routes() -> Iterator[Route]:
    yield _route("/console", OPEN, _get_page)
    yield _route("/console/{file}", OPEN, _get_file)
    yield _route(f"{_API}/session", AUTHENTICATED, get_session)
    target = (query("tenant"), query("namespace"), query("topic"))
    yield _route(f"{_API}/rights", AUTHENTICATED, get_rights, *target)
    yield _route(f"{_API}/tenants", AUTHENTICATED, get_tenants)
    yield _route(f"{_API}/clients", SUPER_USER, get_clients)
    yield _route(f"{_API}/configuration", SUPER_USER, get_configuration)
    namespace = f"{_API}/namespace/{{tenant}}/{{namespace}}/policies"
    yield _route(namespace, NAMESPACE_ADMIN, get_namespace_policies)
    streams = _Streams()
    yield _route(f"{_API}/overview", AUTHENTICATED, streams.get_overview)
    yield _route(f"{_API}/topics", AUTHENTICATED, streams.get_topics, *_CHOICE)
    yield from _topic_routes(streams)


def _topic_routes(streams: _Streams) -> Iterator[Route]:
    yield from _spread(_TOPIC, TOPIC_READ, streams.get_topic)
    yield from _spread(f"{_TOPIC}/policies", TOPIC_POLICY, get_policies)
    start = (query("part"), query("from"), query("key"), query("count", Kind.NUMBER))
    yield from _spread(f"{_TOPIC}/messages", TOPIC_CONSUME, get_messages, *start)
    yield from _spread(
        f"{_TOPIC}/messages",
        TOPIC_PRODUCE,
        publish_message,
        body("message", Kind.DOCUMENT),
        method="POST",
        taken=Body(body("message", Kind.DOCUMENT), Published, is_required=True),
    )
    layout = tuple(query(name, Kind.NUMBER) for name in ("segment", "at", "left", "right", "count"))
    yield from _spread(f"{_TOPIC}/preview", TOPIC_READ, get_preview, *layout)
    cursor = (query("subscription"), query("time", Kind.NUMBER), query("position"))
    skip = query("skip", Kind.NUMBER)
    yield from _spread(f"{_TOPIC}/preview/cursor", TOPIC_CONSUME, get_cursor_preview, *cursor, skip)


_CHOICE: Final = (
    query("text"),
    query("namespace"),
    query("kind"),
    query("sort"),
    flag("descending"),
    query("offset", Kind.NUMBER),
    query("limit", Kind.NUMBER),
    flag("system"),
)


def _route(
    path: str,
    need: Need,
    handler: _Handler,
    *parameters: Parameter,
    method: str = "GET",
    taken: Body | None = None,
) -> Route:
    name = f"console.{handler.__name__.lstrip('_')}"
    status = 200 if method == "POST" else 0
    doc = handler.__doc__ or ""
    row = Operation(name, doc, method, path, need, parameters, status=status, produces=(JSON,))
    return Route(row, handler, body=taken)


def _spread(
    path: str,
    need: Need,
    handler: _Handler,
    *parameters: Parameter,
    method: str = "GET",
    taken: Body | None = None,
) -> Iterator[Route]:
    route = _route(path, need, handler, *parameters, method=method, taken=taken)
    for row in spread(route.row._replace(domains=_STORED)):
        yield Route(row, handler, body=taken)


# The page
@cache
def _load_file(name: str) -> tuple[bytes, str]:
    data = (Path(__file__).parent / "static" / name).read_bytes()
    return data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'


async def _get_page(api: Administration, call: Call) -> object:
    """The console."""
    return _file_response("index.html", call)


async def _get_file(api: Administration, call: Call) -> object:
    """One of the console's files."""
    name = call.text("file")
    if name not in _FILES:
        raise NotFound(f"The console has no file {name}")
    return _file_response(name, call)


def _file_response(name: str, call: Call) -> Response:
    data, tag = _load_file(name)
    headers = (
        ("content-security-policy", _POLICY),
        ("cache-control", "no-cache"),
        ("etag", tag),
    )
    if call.headers.get("if-none-match") == tag:
        return Response(HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(HTTPStatus.OK, data, _FILES[name], headers)


# The caller
async def get_session(api: Administration, call: Call) -> object:
    """Who asks, and what answers."""
    owners = api.owners
    return {
        "role": call.caller.original_role or call.caller.role,
        "isAnonymous": call.caller.is_anonymous,
        "isSuper": await owners.authorization.may(call.caller, SUPER_USER, Target()),
        "isAuthenticationEnabled": owners.authentication.is_enabled,
        "version": __version__,
        "cluster": owners.cluster,
        "brokerId": owners.broker_id,
    }


async def get_rights(api: Administration, call: Call) -> object:
    """The names of the operations that the caller may call on a tenant, namespace or topic."""
    target = Target()
    if text := call.query("topic"):
        target = Target(topic=parse_topic(text))
    elif text := call.query("namespace"):
        target = Target(namespace=parse_namespace(text))
    elif text := call.query("tenant"):
        target = Target(tenant=text)
    return await visibility.find_rights(
        api.owners.authorization, call.caller, all_operations(), target
    )


async def get_tenants(api: Administration, call: Call) -> object:
    """Tenants and namespaces that the caller sees."""
    found = await visibility.list_tenants(api.owners, call.caller)
    return {tenant: [str(name) for name in names] for tenant, names in found.items()}


# The broker
async def get_clients(api: Administration, call: Call) -> object:
    """Who is connected."""
    return await overview.BrokerViews(api.owners).clients()


async def get_configuration(api: Administration, call: Call) -> object:
    """The keys of the configuration that act."""
    return overview.list_configuration(api.owners.config)


async def get_namespace_policies(api: Administration, call: Call) -> object:
    """Every policy of the namespace, with where its value comes from."""
    return await policy_origin.load_namespace_origins(api.owners, call.namespace)


class _Streams:
    """What is followed live. One for each application; made with its first call."""

    def __init__(self) -> None:
        self._streams: LiveStreams | None = None

    async def get_overview(self, api: Administration, call: Call) -> object:
        """The brokers at a glance."""
        views = overview.BrokerViews(api.owners)

        async def load() -> object:
            seen = await visibility.find_visibility(api.owners, call.caller)
            return await views.overview(seen, cluster=api.owners.cluster)

        return await self._answer(api, call, load)

    async def get_topics(self, api: Administration, call: Call) -> object:
        """Some of the topics, with numbers."""
        choice = check_choice(
            Choice(
                text=call.query("text") or "",
                namespace=call.query("namespace") or "",
                kind=call.query("kind") or "",
                sort=call.query("sort") or "name",
                descending=call.flag("descending"),
                offset=call.number("offset") or 0,
                limit=call.number("limit") or 100,
                include_system=call.flag("system"),
            ),
            limit_max=_ROWS_MAX,
        )
        names, views = Names(api.owners), overview.BrokerViews(api.owners)

        async def load() -> object:
            seen = await visibility.find_visibility(api.owners, call.caller)
            return (await load_table(await views.topics(seen), names, seen, choice))._asdict()

        return await self._answer(api, call, load)

    async def get_topic(self, api: Administration, call: Call) -> object:
        """One topic as it is now, and where it can be changed, if not here."""
        owners, topic = api.owners, call.topic
        states = topic_state.TopicViews(owners)

        async def load() -> object:
            if not await owners.authorization.may(call.caller, TOPIC_READ, Target(topic=topic)):
                raise Forbidden("The permission was taken away")
            state = await states.load(topic)
            if state["kind"] != "partitioned" and not call.has_relay:
                owner = await topic_state.find_owner_url(owners.ownership, topic, tls=call.is_tls)
                state["ownerUrl"] = owner
            return state

        return await self._answer(
            api, call, load, lambda: topic_state.mark_of(owners.scalable, topic)
        )

    async def _answer(
        self,
        api: Administration,
        call: Call,
        load: Callable[[], Awaitable[object]],
        mark: Callable[[], object] = lambda: None,
    ) -> Response:
        if not wants_events(call.headers.get("accept", "")):
            return json_response(await load())
        if self._streams is None:
            owners = api.owners
            self._streams = LiveStreams(lambda: owners.closing)
        return await self._streams.open(load, mark, call.is_gone)


# One topic
async def get_policies(api: Administration, call: Call) -> object:
    """Every policy of the topic, with where its value comes from."""
    return await policy_origin.load_origins(api.owners, call.topic)


async def get_messages(api: Administration, call: Call) -> object:
    """Messages of one part of the topic, decoded."""
    owners, topic = api.owners, call.topic
    count = min(_MESSAGES_MAX, call.number("count") or 50)
    if count < 1:
        raise BadRequest(f"count is from 1 to {_MESSAGES_MAX}")
    found = await message_browser.browse(
        owners,
        message_browser.find_logs(owners),
        topic,
        call.query("part") or "",
        _parse_start(call.query("from") or ""),
        key=call.query("key") or "",
        count=count,
    )
    return {**found, "parts": await message_browser.list_parts(owners, topic)}


async def publish_message(api: Administration, call: Call) -> object:
    """Publish one message, written by hand."""
    message: Published = call.payload
    logs = message_browser.find_logs(api.owners)
    return await message_browser.publish(api.owners, logs, call.topic, message)


async def get_preview(api: Administration, call: Call) -> object:
    """What a split, a merge or a new number of segments would do to the layout."""
    owners, topic = api.owners, call.topic
    if topic.domain is not TopicDomain.TOPIC:
        raise BadRequest("Only a scalable topic has a layout")
    segment, left, right = (call.number(name) for name in ("segment", "left", "right"))
    count = call.number("count")
    if segment is not None:
        return await preview.preview_split(
            owners.scalable, owners.clock, topic, SegmentId(segment), call.number("at")
        )
    if left is not None and right is not None:
        return await preview.preview_merge(
            owners.scalable, owners.clock, topic, SegmentId(left), SegmentId(right)
        )
    if count is not None:
        return await preview.preview_scale(owners.scalable, owners.clock, topic, count)
    raise BadRequest("segment, left and right, or count is needed")


async def get_cursor_preview(api: Administration, call: Call) -> object:
    """How many messages would be redelivered or skipped if a cursor were moved."""
    position = call.query("position")
    return await preview.preview_cursor(
        api.owners,
        preview.find_moves(api.owners),
        call.topic,
        call.query("subscription") or "",
        preview.CursorTarget(
            time_ms=call.number("time"),
            position=None if not position else _parse_position(position),
            skip=call.number("skip"),
        ),
    )


def _parse_start(text: str) -> Start:
    """`earliest`, nothing for the last messages, a position, or a time in milliseconds."""
    if not text or text == "latest":
        return Start()
    if text == "earliest":
        return Start(is_earliest=True)
    if ":" in text:
        return Start(position=_parse_position(text))
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return Start(time_ms=int(text))
    raise BadRequest(f"from is earliest, latest, a position or a time in ms, not {text!r}")


def _parse_position(text: str) -> Position:
    ledger, _, entry = text.partition(":")
    numbers = (ledger, entry)
    if not all(each.isascii() and each.isdigit() and len(each) <= 18 for each in numbers):
        raise BadRequest(f"A position is a ledger and an entry, as 12:0, not {text!r}")
    return Position(int(ledger), int(entry))
