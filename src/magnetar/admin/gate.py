"""What stands between a request and its handler: may this caller do this here?"""

from __future__ import annotations

from typing import assert_never

from magnetar.admin.request import Call
from magnetar.broker.api import BrokerApi
from magnetar.model.permission import Need, Scope, Target


async def check_access(api: BrokerApi, need: Need, call: Call) -> None:
    """Raise Unauthorized or Forbidden unless the caller may."""
    if api.access.is_enabled:
        await api.access.check(call.request.caller, need, target_of(need, call))


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
