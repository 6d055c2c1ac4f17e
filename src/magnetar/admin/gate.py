"""What stands between a request and its handler: may this caller do this, and is it done here?"""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import assert_never

from magnetar.admin.request import Call
from magnetar.admin.response import Response
from magnetar.broker.administration import lookup
from magnetar.broker.administration.web import Administration
from magnetar.errors import Forbidden, InvalidName, Unauthorized
from magnetar.model.name import TopicName
from magnetar.model.permission import Need, Scope, Target
from magnetar.model.segment import SegmentName, parse_descriptor


async def check_access(api: Administration, need: Need, call: Call) -> None:
    """Raise Unauthorized or Forbidden unless the caller may, TenantNotFound where nobody could."""
    if not api.access.is_enabled:
        return
    target = target_of(need, call)
    try:
        await api.access.check(call.caller, need, target)
    except (Forbidden, Unauthorized):
        if target.tenant_name is not None and need.scope is not Scope.SUPER_USER:
            await api.access.require_tenant(target.tenant_name)
        raise


def target_of(need: Need, call: Call) -> Target:
    """What the path names, as far as the need asks."""
    match need.scope:
        case Scope.OPEN | Scope.AUTHENTICATED | Scope.ATTACHED | Scope.SUPER_USER:
            return Target()
        case Scope.TENANT:
            return Target(tenant=call.tenant)
        case Scope.NAMESPACE:
            return Target(namespace=call.namespace, subscription=_subscription(call))
        case Scope.TOPIC | Scope.TOPIC_POLICY:
            return Target(topic=call.topic, subscription=_subscription(call))
        case _:
            assert_never(need.scope)


def _subscription(call: Call) -> str | None:
    return call.subscription if "subscription" in call.parts else None


def _owned_topic(call: Call) -> TopicName:
    """A segment has an owner of its own; one that cannot be is refused by that of its topic."""
    if "descriptor" in call.parts:
        with suppress(InvalidName):
            return SegmentName(call.topic, *parse_descriptor(call.text("descriptor"))).name
    return call.topic


async def find_elsewhere(api: Administration, call: Call) -> Response | None:
    """A redirect to the broker that owns what the path names, unless it is this one."""
    if "topic" in call.parts:
        owner = await lookup.find_topic_owner(api.service, _owned_topic(call))
    else:
        bundle = call.text("bundle") if "bundle" in call.parts else None
        owner = await lookup.find_namespace_owner(api.service, call.namespace, bundle)
    web_url = lookup.web_url_of(owner, tls=call.is_tls)
    if web_url is None:
        return None
    place = f"{web_url}{call.path}" + (f"?{call.query_text}" if call.query_text else "")
    return Response(HTTPStatus.TEMPORARY_REDIRECT, headers=(("location", place),))
