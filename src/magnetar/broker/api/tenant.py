"""Tenants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from magnetar.broker.api.namespace import NamespaceApi
from magnetar.errors import (
    Conflict,
    InvalidName,
    MethodNotAllowed,
    PreconditionFailed,
    TenantNotFound,
)
from magnetar.model.name import is_valid_part
from magnetar.model.policy import TenantInfo

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class TenantApi:
    def __init__(self, service: Service, namespaces: NamespaceApi) -> None:
        self._service = service
        self._tenants = service.resources.tenants
        self._namespaces = namespaces

    async def list(self) -> Sequence[str]:
        return sorted(await self._tenants.list())

    async def get(self, name: str) -> TenantInfo:
        info = await self._tenants.get(name) if is_valid_part(name) else None
        if info is None:
            raise TenantNotFound(f"Tenant does not exist: {name}")
        return info

    async def create(self, name: str, info: TenantInfo | None) -> None:
        if not is_valid_part(name):
            raise InvalidName("Tenant name is not valid")
        checked = await self._check_info(info)
        if await self._tenants.get(name) is not None:
            raise Conflict("Tenant already exist")
        limit = self._service.config.maxTenants
        if limit > 0 and len(await self._tenants.list()) >= limit:
            raise PreconditionFailed("Exceed the maximum number of tenants")
        await self._tenants.create(name, checked)

    async def update(self, name: str, info: TenantInfo | None) -> None:
        checked = await self._check_info(info)
        current = await self.get(name)
        for cluster in sorted(set(current.allowedClusters) - set(checked.allowedClusters)):
            await self._check_removable(name, cluster)
        await self._tenants.update(name, lambda _: checked)

    async def delete(self, name: str, *, force: bool) -> None:
        if force and not self._service.config.forceDeleteTenantAllowed:
            raise MethodNotAllowed("Broker doesn't allow forced deletion of tenants")
        await self.get(name)
        namespaces = await self._service.resources.namespaces.list(name)
        if namespaces and not force:
            raise Conflict("The tenant still has active namespaces")
        for namespace in namespaces:
            await self._namespaces.remove(namespace, force=True)
        await self._tenants.delete(name)

    async def _check_info(self, info: TenantInfo | None) -> TenantInfo:
        if info is None:
            raise PreconditionFailed("TenantInfo is null")
        if not info.allowedClusters or not all(each.strip() for each in info.allowedClusters):
            raise PreconditionFailed("Clusters cannot be empty or blank")
        if any(role != role.strip() for role in info.adminRoles):
            raise PreconditionFailed("AdminRoles contains whitespace in the beginning or end.")
        known = set(await self._service.resources.clusters.list())
        missing = set(info.allowedClusters) - known - {"global"}
        if missing:
            raise PreconditionFailed(f"Clusters do not exist: {', '.join(sorted(missing))}")
        return info

    async def _check_removable(self, tenant: str, cluster: str) -> None:
        for namespace in await self._service.resources.namespaces.list(tenant):
            policies = await self._service.resources.namespaces.get(namespace)
            if policies is not None and cluster in policies.replication_clusters:
                raise PreconditionFailed(
                    f"Cannot remove cluster {cluster} from tenant {tenant}: namespace {namespace}"
                    " still has it as a replication cluster"
                )
