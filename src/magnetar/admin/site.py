"""What stands beside the admin paths: a landing page, metrics, the description of it all."""

from __future__ import annotations

from html import escape
from typing import Final

from magnetar.admin.openapi import describe
from magnetar.admin.request import Call
from magnetar.admin.response import HTML, JSON, TEXT, text_response
from magnetar.admin.route import Handler, Route
from magnetar.broker.administration.web import Administration
from magnetar.errors import ServiceNotReady
from magnetar.model.permission import OPEN
from magnetar.runtime.metric import CONTENT_TYPE

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


async def get_landing_page(api: Administration, call: Call) -> object:
    """A page that says what runs here."""
    version, broker = api.service.version, api.service.broker_id
    return text_response(_PAGE.format(version=escape(version), broker=escape(broker)), HTML)


async def get_metrics(api: Administration, call: Call) -> object:
    """Numbers for Prometheus."""
    return text_response(await api.render_metrics(), CONTENT_TYPE)


async def get_status(api: Administration, call: Call) -> object:
    """Whether a load balancer should send anybody here."""
    if api.service.closing:
        raise ServiceNotReady("The broker is closing")
    return text_response("OK")


def site_routes(described: list[Route]) -> list[Route]:
    """The routes of this file; the description covers them too."""
    routes = [
        _page("/", get_landing_page, HTML),
        _page("/metrics", get_metrics, TEXT),
        _page("/status.html", get_status, TEXT),
    ]
    whole = [*described, *routes]
    routes.append(_page("/openapi.json", _describer(whole), JSON))
    whole.append(routes[-1])
    return routes


def _page(path: str, handler: Handler, produces: str) -> Route:
    return Route(
        method="GET",
        path=path,
        operation=f"site.{handler.__name__}",
        handler=handler,
        need=OPEN,
        summary=handler.__doc__ or "",
        produces=produces,
    )


def _describer(routes: list[Route]) -> Handler:
    document: dict[str, object] = {}

    async def get_description(api: Administration, call: Call) -> object:
        """This interface, as OpenAPI."""
        if not document:
            document.update(describe(routes, version=api.service.version))
        return document

    return get_description
