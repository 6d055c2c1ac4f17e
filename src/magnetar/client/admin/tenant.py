"""Tenants."""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.client.admin.operation import TenantOperations
from magnetar.client.admin.transport import format_path

_ROOT = "admin/v2/tenants"


class AsyncTenantAdmin(TenantOperations):
    async def create(
        self, tenant: str, *, admin_roles: Iterable[str] = (), allowed_clusters: Iterable[str] = ()
    ) -> None:
        """Without `allowed_clusters` the tenant may use every cluster there is."""
        clusters = [*allowed_clusters] or await self._transport.get("admin/v2/clusters")
        body = {"adminRoles": [*admin_roles], "allowedClusters": clusters}
        await self._transport.put(f"{_ROOT}/{format_path(tenant)}", body)

    async def update(
        self,
        tenant: str,
        *,
        admin_roles: Iterable[str] | None = None,
        allowed_clusters: Iterable[str] | None = None,
    ) -> None:
        """Change what is given and keep the rest."""
        info = await self.get(tenant)
        if admin_roles is not None:
            info["adminRoles"] = [*admin_roles]
        if allowed_clusters is not None:
            info["allowedClusters"] = [*allowed_clusters]
        await self._transport.post(f"{_ROOT}/{format_path(tenant)}", info)
