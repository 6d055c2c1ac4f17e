"""All routes of the REST interface: those of the operations, and the pages that stand beside."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Final

from magnetar import __version__
from magnetar.admin.application import Application
from magnetar.admin.bind import make_routes
from magnetar.admin.console import page_routes
from magnetar.admin.openapi import describe
from magnetar.admin.request import Call
from magnetar.admin.response import Response, text_response
from magnetar.admin.route import Handler, Route
from magnetar.admin.unsupported import unsupported_routes
from magnetar.broker.administration.web import Administration
from magnetar.errors import ServiceNotReady
from magnetar.model.permission import OPEN
from magnetar.operation.console import CONSOLE
from magnetar.operation.row import JSON, TEXT_PLAIN, Operation
from magnetar.operation.table import all_operations
from magnetar.runtime.metric import CONTENT_TYPE

_HTML: Final = "text/html; charset=utf-8"
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Magnetar</title></head>
<body><h1>Magnetar {version}</h1>
<p>Broker {broker}.</p>
<ul>
<li><a href="/admin/v2/clusters">/admin/v2</a>: administration</li>
<li><a href="/openapi.json">/openapi.json</a>: its description</li>
<li><a href="/metrics">/metrics</a>: numbers for Prometheus</li>
</ul></body></html>
"""


def make_application(api: Administration) -> Application:
    """The whole interface, ready to be served."""
    return Application(api, all_routes(has_console=api.owners.config.webConsoleEnabled))


def all_routes(*, has_console: bool = True) -> list[Route]:
    routes = [
        *unsupported_routes(),
        *make_routes(each for each in all_operations() if has_console or not _is_shown(each)),
        *(page_routes() if has_console else ()),
        _page("/", redirect_to_console if has_console else get_landing_page, _HTML),
        _page("/metrics", get_metrics, TEXT_PLAIN),
        _page("/status.html", get_status, TEXT_PLAIN),
    ]
    document: dict[str, object] = {}

    async def get_description(api: Administration, call: Call) -> object:
        """This interface, as OpenAPI."""
        if not document:
            document.update(describe(routes, version=__version__))
        return document

    routes.append(_page("/openapi.json", get_description, JSON))
    return routes


def _is_shown(operation: Operation) -> bool:
    """Whether the console's pages alone ask for it."""
    return operation.path.startswith(CONSOLE)


def _page(path: str, handler: Handler, produces: str) -> Route:
    name, doc = f"site.{handler.__name__}", handler.__doc__ or ""
    return Route(Operation(name, doc, "GET", path, OPEN, produces=(produces,)), handler)


async def redirect_to_console(api: Administration, call: Call) -> object:
    """To the web console."""
    return Response(HTTPStatus.FOUND, headers=(("location", f"{CONSOLE}/"),))


async def get_landing_page(api: Administration, call: Call) -> object:
    """A page that says what runs here."""
    version, broker = __version__, api.owners.broker_id
    return text_response(_PAGE.format(version=escape(version), broker=escape(broker)), _HTML)


async def get_metrics(api: Administration, call: Call) -> object:
    """Numbers for Prometheus."""
    return text_response(await api.render_metrics(), CONTENT_TYPE)


async def get_status(api: Administration, call: Call) -> object:
    """Whether a load balancer should send anybody here."""
    if api.owners.closing:
        raise ServiceNotReady("The broker is closing")
    return text_response("OK")
