"""Calls that only the broker that holds a namespace can answer, sent on to it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from magnetar.admin.request import Call
from magnetar.admin.response import Response
from magnetar.admin.route import Route
from magnetar.broker.administration import lookup
from magnetar.broker.administration.web import Administration

_NAMESPACES: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_ACTS: Final = ("unload", "clearBacklog", "unsubscribe", "{bundle}")


def needs_owner(route: Route) -> bool:
    """Whether a call reads or changes topics, not only what is administered about them."""
    if route.for_owner is not None:
        return route.for_owner
    if route.path.startswith("/lookup/") or "{namespace}" not in route.path:
        return False
    if "{topic}" in route.path:
        return True
    if not route.path.startswith(_NAMESPACES):
        return False
    rest = route.path[len(_NAMESPACES) :]
    return any(act in rest for act in _ACTS) or (not rest and route.method == "DELETE")


async def find_elsewhere(
    api: Administration, route: Route, call: Call, query: str
) -> Response | None:
    """A redirect to the broker that owns the namespace, unless it is this one."""
    if not api.service.ownership.is_shared or not needs_owner(route):
        return None
    web_url = await lookup.find_elsewhere(api.service, call.namespace, tls=call.request.is_tls)
    if web_url is None:
        return None
    place = f"{web_url}{call.request.path}" + (f"?{query}" if query else "")
    return Response(HTTPStatus.TEMPORARY_REDIRECT, headers=(("location", place),))
