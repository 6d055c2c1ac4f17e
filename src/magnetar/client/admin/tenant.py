"""Tenants."""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.client.admin.transport import Document, Names, Transport, format_path

_ROOT = "admin/v2/tenants"


class TenantAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Names:
        names: Names = self._transport.get(_ROOT)
        return names

    def get(self, tenant: str) -> Document:
        info: Document = self._transport.get(f"{_ROOT}/{format_path(tenant)}")
        return info

    def create(
        self, tenant: str, *, admin_roles: Iterable[str] = (), allowed_clusters: Iterable[str] = ()
    ) -> None:
        """Without `allowed_clusters` the tenant may use every cluster there is."""
        clusters = [*allowed_clusters] or self._transport.get("admin/v2/clusters")
        body = {"adminRoles": [*admin_roles], "allowedClusters": clusters}
        self._transport.put(f"{_ROOT}/{format_path(tenant)}", body)

    def update(
        self,
        tenant: str,
        *,
        admin_roles: Iterable[str] | None = None,
        allowed_clusters: Iterable[str] | None = None,
    ) -> None:
        """Change what is given and keep the rest."""
        info = self.get(tenant)
        if admin_roles is not None:
            info["adminRoles"] = [*admin_roles]
        if allowed_clusters is not None:
            info["allowedClusters"] = [*allowed_clusters]
        self._transport.post(f"{_ROOT}/{format_path(tenant)}", info)

    def delete(self, tenant: str, *, force: bool = False) -> None:
        self._transport.delete(f"{_ROOT}/{format_path(tenant)}", {"force": force})
