"""Calls that only the broker that holds a namespace can answer, sent on to it."""

from __future__ import annotations

from http import HTTPStatus

from magnetar.admin.request import Call
from magnetar.admin.response import Response
from magnetar.admin.route import Route
from magnetar.broker.administration import lookup
from magnetar.broker.administration.web import Administration


async def find_elsewhere(
    api: Administration, route: Route, call: Call, query: str
) -> Response | None:
    """A redirect to the broker that owns the namespace, unless it is this one."""
    if not api.service.ownership.is_shared or not route.for_owner:
        return None
    web_url = await lookup.find_elsewhere(api.service, call.namespace, tls=call.request.is_tls)
    if web_url is None:
        return None
    place = f"{web_url}{call.request.path}" + (f"?{query}" if query else "")
    return Response(HTTPStatus.TEMPORARY_REDIRECT, headers=(("location", place),))
