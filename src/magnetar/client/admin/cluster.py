"""Clusters."""

from __future__ import annotations

from collections.abc import Iterable

from magnetar.client.admin.operation import ClusterOperations
from magnetar.client.admin.transport import Document, format_path

_ROOT = "admin/v2/clusters"


class AsyncClusterAdmin(ClusterOperations):
    async def failure_domains(self, cluster: str) -> Document:
        path = f"{_ROOT}/{format_path(cluster, 'failureDomains')}"
        domains: Document = await self._transport.get(path) or {}
        return domains

    async def failure_domain(self, cluster: str, domain: str) -> Document:
        path = f"{_ROOT}/{format_path(cluster, 'failureDomains', domain)}"
        found: Document = await self._transport.get(path)
        return found

    async def set_failure_domain(
        self, cluster: str, domain: str, brokers: Iterable[str] = ()
    ) -> None:
        path = f"{_ROOT}/{format_path(cluster, 'failureDomains', domain)}"
        await self._transport.post(path, {"brokers": [*brokers]})

    async def delete_failure_domain(self, cluster: str, domain: str) -> None:
        await self._transport.delete(f"{_ROOT}/{format_path(cluster, 'failureDomains', domain)}")
