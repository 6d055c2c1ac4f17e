"""Asks the rules who may do what, with the grants that the policies hold.

Policies and tenants come from their caches: a check reads the store once for each namespace, and
again after a change. It is made when a client attaches or asks, never for a message.
"""

from __future__ import annotations

from typing import Final

from magnetar.broker.resource import Resources
from magnetar.errors import BrokerError, InvalidConfiguration, TenantNotFound
from magnetar.model.caller import Caller
from magnetar.model.permission import Need, Scope, Target
from magnetar.model.policy import Policies
from magnetar.rules.permission import Grants, decide_permission
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger

_log = Logger(__name__)

_NO_POLICIES: Final = Policies()
_UNGRANTED: Final = (Scope.OPEN, Scope.AUTHENTICATED, Scope.ATTACHED, Scope.SUPER_USER)
"""Needs that no tenant and no namespace has a say in."""


class Authorization:
    def __init__(self, config: Configuration, resources: Resources) -> None:
        if config.authorizationEnabled and not config.authenticationEnabled:
            raise InvalidConfiguration(
                "authorizationEnabled needs authenticationEnabled:"
                " without it no caller has a role that could be allowed anything"
            )
        self.is_enabled = config.authorizationEnabled
        self._config = config
        self._resources = resources

    async def check(self, caller: Caller, need: Need, target: Target) -> None:
        """Raise Unauthorized or Forbidden, with a sentence that names what is missing."""
        refusal = await self.decide(caller, need, target)
        if refusal is not None:
            _log.info("refused", role=caller.role, need=str(need), target=str(target))
            raise refusal

    async def may(self, caller: Caller, need: Need, target: Target) -> bool:
        return await self.decide(caller, need, target) is None

    async def decide(self, caller: Caller, need: Need, target: Target) -> BrokerError | None:
        if not self.is_enabled:
            return None
        return decide_permission(caller, need, target, await self._grants(need, target))

    async def require_tenant(self, tenant: str) -> None:
        """Raise TenantNotFound; official clients expect that first."""
        if await self._resources.tenants.get(tenant) is None:
            raise TenantNotFound("Tenant does not exist", tenant)

    async def _grants(self, need: Need, target: Target) -> Grants:
        super_users = frozenset(self._config.superUserRoles)
        if need.scope in _UNGRANTED:
            return Grants(super_users)
        tenant, namespace = target.tenant_name, target.namespace_name
        assert tenant is not None, f"{need} is about a tenant"
        info = await self._resources.tenants.get(tenant)
        policies: Policies | None = None
        if namespace is not None:
            policies = await self._resources.namespaces.get(namespace)
        policies = policies or _NO_POLICIES
        return Grants(
            super_users=super_users,
            tenant_admins=() if info is None else info.adminRoles,
            auth=policies.auth_policies,
            subscription_mode=policies.subscription_auth_mode,
            wildcards=self._config.authorizationAllowWildcardsMatching,
        )
