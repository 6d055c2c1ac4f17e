"""The web console: its page, one file of script and one of style, built from `console/` and kept in
the package. What the page asks beyond the operations of everybody is in `operation/console.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from magnetar.admin.request import Call
from magnetar.admin.response import Response
from magnetar.admin.route import Route
from magnetar.broker.administration.web import Administration
from magnetar.errors import NotFound
from magnetar.model.permission import OPEN
from magnetar.operation.console import CONSOLE
from magnetar.operation.row import Operation

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


def page_routes() -> Iterator[Route]:
    for path, handler in ((CONSOLE, get_page), (f"{CONSOLE}/{{file}}", get_file)):
        name, doc = f"console.{handler.__name__}", handler.__doc__ or ""
        yield Route(Operation(name, doc, "GET", path, OPEN), handler)


@cache
def _load_file(name: str) -> tuple[bytes, str]:
    data = (Path(__file__).parent / "static" / name).read_bytes()
    return data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'


async def get_page(api: Administration, call: Call) -> object:
    """The console."""
    return _file_response("index.html", call)


async def get_file(api: Administration, call: Call) -> object:
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
