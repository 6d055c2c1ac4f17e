"""Brokers: who is there, their health, and their configuration."""

from __future__ import annotations

from typing import Any

from magnetar.client.admin.transport import Document, Names, Transport, format_path

_ROOT = "admin/v2/brokers"


class AsyncBrokerAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, cluster: str | None = None) -> Names:
        path = _ROOT if cluster is None else f"{_ROOT}/{format_path(cluster)}"
        brokers: Names = await self._transport.get(path)
        return brokers

    async def leader(self) -> Document:
        found: Document = await self._transport.get(f"{_ROOT}/leaderBroker")
        return found

    async def namespaces(self, cluster: str, broker: str) -> Document:
        path = f"{_ROOT}/{format_path(cluster, broker, 'ownedNamespaces')}"
        owned: Document = await self._transport.get(path)
        return owned

    async def ledger_files(self) -> Document:
        """Where the broker's ledgers lie; for whoever is on the same machine."""
        found: Document = await self._transport.get(f"{_ROOT}/ledger-files")
        return found

    async def version(self) -> str:
        answer = await self._transport.call("GET", f"{_ROOT}/version")
        return answer.body.decode().strip().strip('"')

    async def health(self) -> str:
        """Ask the broker to publish and read a message; `ok`, or an AdminError."""
        answer = await self._transport.call("GET", f"{_ROOT}/health")
        return answer.body.decode().strip()

    async def is_ready(self) -> str:
        answer = await self._transport.call("GET", f"{_ROOT}/ready")
        return answer.body.decode().strip()

    async def dynamic_keys(self) -> Names:
        keys: Names = await self._transport.get(f"{_ROOT}/configuration")
        return keys

    async def dynamic_values(self) -> dict[str, str]:
        values: dict[str, str] = await self._transport.get(f"{_ROOT}/configuration/values") or {}
        return values

    async def runtime_configuration(self) -> dict[str, str]:
        values: dict[str, str] = await self._transport.get(f"{_ROOT}/configuration/runtime")
        return values

    async def internal_configuration(self) -> Document:
        values: Document = await self._transport.get(f"{_ROOT}/internal-configuration")
        return values

    async def set_dynamic(self, key: str, value: str) -> None:
        await self._transport.post(f"{_ROOT}/configuration/{format_path(key, value)}")

    async def delete_dynamic(self, key: str) -> None:
        await self._transport.delete(f"{_ROOT}/configuration/{format_path(key)}")

    async def check_backlog_quota(self) -> None:
        await self._transport.get(f"{_ROOT}/backlog-quota-check")

    async def shutdown(self, *, unloads_per_s_max: int = 0, forced: bool = True) -> None:
        query = {"maxConcurrentUnloadPerSec": unloads_per_s_max, "forcedTerminateTopic": forced}
        await self._transport.post(f"{_ROOT}/shutdown", query=query)

    async def topic_stats(self) -> Document:
        stats: Document = await self._transport.get("admin/v2/broker-stats/topics")
        return stats

    async def metrics(self) -> Any:
        return await self._transport.get("admin/v2/broker-stats/metrics")

    async def load_report(self) -> Any:
        return await self._transport.get("admin/v2/broker-stats/load-report")
