"""Clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from magnetar.client.admin.transport import Document, Names, Transport, format_path

_ROOT = "admin/v2/clusters"


class AsyncClusterAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> Names:
        names: Names = await self._transport.get(_ROOT)
        return names

    async def get(self, cluster: str) -> Document:
        data: Document = await self._transport.get(f"{_ROOT}/{format_path(cluster)}")
        return data

    async def create(self, cluster: str, data: Mapping[str, Any]) -> None:
        await self._transport.put(f"{_ROOT}/{format_path(cluster)}", dict(data))

    async def update(self, cluster: str, data: Mapping[str, Any]) -> None:
        await self._transport.post(f"{_ROOT}/{format_path(cluster)}", dict(data))

    async def delete(self, cluster: str) -> None:
        await self._transport.delete(f"{_ROOT}/{format_path(cluster)}")

    async def peers(self, cluster: str) -> Names:
        names: Names = await self._transport.get(f"{_ROOT}/{format_path(cluster)}/peers") or []
        return names

    async def set_peers(self, cluster: str, peers: Names) -> None:
        await self._transport.post(f"{_ROOT}/{format_path(cluster)}/peers", peers)

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
