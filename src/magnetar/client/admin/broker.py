"""Brokers: who is there, their health, and their configuration."""

from __future__ import annotations

from magnetar.client.admin.operation import BrokerOperations
from magnetar.client.admin.transport import Names, format_path

_ROOT = "admin/v2/brokers"


class AsyncBrokerAdmin(BrokerOperations):
    async def list(self, cluster: str | None = None) -> Names:
        path = _ROOT if cluster is None else f"{_ROOT}/{format_path(cluster)}"
        brokers: Names = await self._transport.get(path)
        return brokers

    async def shutdown(self, *, unloads_per_s_max: int = 0, forced: bool = True) -> None:
        query = {"maxConcurrentUnloadPerSec": unloads_per_s_max, "forcedTerminateTopic": forced}
        await self._transport.post(f"{_ROOT}/shutdown", query=query)
