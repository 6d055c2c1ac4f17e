"""Brokers: who is there, their health, and their configuration."""

from __future__ import annotations

from typing import Any

from magnetar.client.admin.transport import Document, Names, Transport, format_path

_ROOT = "admin/v2/brokers"


class BrokerAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, cluster: str | None = None) -> Names:
        path = _ROOT if cluster is None else f"{_ROOT}/{format_path(cluster)}"
        brokers: Names = self._transport.get(path)
        return brokers

    def leader(self) -> Document:
        found: Document = self._transport.get(f"{_ROOT}/leaderBroker")
        return found

    def namespaces(self, cluster: str, broker: str) -> Document:
        path = f"{_ROOT}/{format_path(cluster, broker, 'ownedNamespaces')}"
        owned: Document = self._transport.get(path)
        return owned

    def ledger_files(self) -> Document:
        """Where the broker's ledgers lie; for whoever is on the same machine."""
        found: Document = self._transport.get(f"{_ROOT}/ledger-files")
        return found

    def version(self) -> str:
        answer = self._transport.call("GET", f"{_ROOT}/version")
        return answer.body.decode().strip().strip('"')

    def health(self) -> str:
        """Ask the broker to publish and read a message; `ok`, or an AdminError."""
        answer = self._transport.call("GET", f"{_ROOT}/health")
        return answer.body.decode().strip()

    def is_ready(self) -> str:
        answer = self._transport.call("GET", f"{_ROOT}/ready")
        return answer.body.decode().strip()

    def dynamic_keys(self) -> Names:
        keys: Names = self._transport.get(f"{_ROOT}/configuration")
        return keys

    def dynamic_values(self) -> dict[str, str]:
        values: dict[str, str] = self._transport.get(f"{_ROOT}/configuration/values") or {}
        return values

    def runtime_configuration(self) -> dict[str, str]:
        values: dict[str, str] = self._transport.get(f"{_ROOT}/configuration/runtime")
        return values

    def internal_configuration(self) -> Document:
        values: Document = self._transport.get(f"{_ROOT}/internal-configuration")
        return values

    def set_dynamic(self, key: str, value: str) -> None:
        self._transport.post(f"{_ROOT}/configuration/{format_path(key, value)}")

    def delete_dynamic(self, key: str) -> None:
        self._transport.delete(f"{_ROOT}/configuration/{format_path(key)}")

    def check_backlog_quota(self) -> None:
        self._transport.get(f"{_ROOT}/backlog-quota-check")

    def shutdown(self, *, unloads_per_s_max: int = 0, forced: bool = True) -> None:
        query = {"maxConcurrentUnloadPerSec": unloads_per_s_max, "forcedTerminateTopic": forced}
        self._transport.post(f"{_ROOT}/shutdown", query=query)

    def topic_stats(self) -> Document:
        stats: Document = self._transport.get("admin/v2/broker-stats/topics")
        return stats

    def metrics(self) -> Any:
        return self._transport.get("admin/v2/broker-stats/metrics")

    def load_report(self) -> Any:
        return self._transport.get("admin/v2/broker-stats/load-report")
