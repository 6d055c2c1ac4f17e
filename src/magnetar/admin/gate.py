"""What stands between a request and its handler: may this caller do this, and is it done here?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import assert_never

from magnetar.admin.request import Call
from magnetar.admin.response import Response
from magnetar.broker.administration import lookup
from magnetar.broker.administration.web import Administration
from magnetar.errors import Forbidden, InvalidName, ServiceNotReady, Unauthorized
from magnetar.model.name import TopicName
from magnetar.model.permission import Need, Scope, Target
from magnetar.model.segment import SegmentName, parse_descriptor


async def check_permission(api: Administration, need: Need, call: Call) -> None:
    """Raise Unauthorized or Forbidden unless the caller may, TenantNotFound without its tenant."""
    if not api.authorization.is_enabled:
        return
    target = target_of(need, call)
    try:
        await api.authorization.check(call.caller, need, target)
    except (Forbidden, Unauthorized):
        if target.tenant_name is not None and need.scope is not Scope.SUPER_USER:
            await api.authorization.require_tenant(target.tenant_name)
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
    """A segment has an owner of its own; an invalid name is refused by that of its topic."""
    if "descriptor" in call.parts:
        with suppress(InvalidName):
            return SegmentName(call.topic, *parse_descriptor(call.text("descriptor"))).name
    return call.topic


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another broker; `place` is where the same request is answered there, if it serves HTTP."""

    broker_id: str
    place: str | None

    def redirect(self) -> Response:
        if self.place is None:
            raise ServiceNotReady(f"Broker {self.broker_id} cannot be reached over HTTP")
        return Response(HTTPStatus.TEMPORARY_REDIRECT, headers=(("location", self.place),))


async def find_elsewhere(api: Administration, call: Call) -> Elsewhere | None:
    """The broker that owns what the path names, unless it is this one."""
    if "topic" in call.parts:
        owner = await api.owners.ownership.owner_of(_owned_topic(call))
    else:
        bundle = call.text("bundle") if "bundle" in call.parts else None
        owner = await lookup.find_namespace_owner(api.owners, call.namespace, bundle)
    if owner.is_self:
        return None
    web_url = lookup.web_url_of(owner, tls=call.is_tls)
    query = f"?{call.query_text}" if call.query_text else ""
    return Elsewhere(owner.broker_id, None if web_url is None else f"{web_url}{call.path}{query}")
