"""Clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from magnetar.client.admin.transport import Document, Names, Transport, format_path

_ROOT = "admin/v2/clusters"


class ClusterAdmin:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Names:
        names: Names = self._transport.get(_ROOT)
        return names

    def get(self, cluster: str) -> Document:
        data: Document = self._transport.get(f"{_ROOT}/{format_path(cluster)}")
        return data

    def create(self, cluster: str, data: Mapping[str, Any]) -> None:
        self._transport.put(f"{_ROOT}/{format_path(cluster)}", dict(data))

    def update(self, cluster: str, data: Mapping[str, Any]) -> None:
        self._transport.post(f"{_ROOT}/{format_path(cluster)}", dict(data))

    def delete(self, cluster: str) -> None:
        self._transport.delete(f"{_ROOT}/{format_path(cluster)}")

    def peers(self, cluster: str) -> Names:
        names: Names = self._transport.get(f"{_ROOT}/{format_path(cluster)}/peers") or []
        return names

    def set_peers(self, cluster: str, peers: Names) -> None:
        self._transport.post(f"{_ROOT}/{format_path(cluster)}/peers", peers)

    def failure_domains(self, cluster: str) -> Document:
        path = f"{_ROOT}/{format_path(cluster, 'failureDomains')}"
        domains: Document = self._transport.get(path) or {}
        return domains

    def failure_domain(self, cluster: str, domain: str) -> Document:
        path = f"{_ROOT}/{format_path(cluster, 'failureDomains', domain)}"
        found: Document = self._transport.get(path)
        return found

    def set_failure_domain(self, cluster: str, domain: str, brokers: Iterable[str] = ()) -> None:
        path = f"{_ROOT}/{format_path(cluster, 'failureDomains', domain)}"
        self._transport.post(path, {"brokers": [*brokers]})

    def delete_failure_domain(self, cluster: str, domain: str) -> None:
        self._transport.delete(f"{_ROOT}/{format_path(cluster, 'failureDomains', domain)}")
