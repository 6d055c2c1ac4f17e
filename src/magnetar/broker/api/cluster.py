"""Clusters: who they are and where they are reached."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from magnetar.errors import BadRequest, Conflict, InvalidName, NotFound, PreconditionFailed
from magnetar.model.name import is_valid_part
from magnetar.model.policy import ClusterData

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_SCHEMES: Final = {
    "serviceUrl": ("http", "Illegal service url, example: http://pulsar.example.com:8080"),
    "serviceUrlTls": ("https", "Illegal service tls url, example: https://pulsar.example.com:8443"),
    "brokerServiceUrl": (
        "pulsar",
        "Illegal broker service url, example: pulsar://pulsar.example.com:6650",
    ),
    "brokerServiceUrlTls": (
        "pulsar+ssl",
        "Illegal broker service tls url, example: pulsar+ssl://pulsar.example.com:6651",
    ),
}
_URL: Final = re.compile(r"([a-z+]+)://[^\s/]+/?")


class ClusterApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._clusters = service.resources.clusters

    async def list(self) -> Sequence[str]:
        return sorted(await self._clusters.list())

    async def get(self, name: str) -> ClusterData:
        data = await self._clusters.get(name) if is_valid_part(name) else None
        if data is None:
            raise NotFound(f"Cluster does not exist: {name}")
        return data

    async def create(self, name: str, data: ClusterData) -> None:
        _check_name(name)
        _check_urls(data)
        if await self._clusters.get(name) is not None:
            raise Conflict("Cluster already exists")
        await self._clusters.create(name, data)

    async def update(self, name: str, data: ClusterData) -> None:
        _check_urls(data)
        await self.get(name)
        await self._clusters.update(name, lambda _: data)

    async def delete(self, name: str) -> None:
        await self.get(name)
        if await self._is_used(name):
            raise PreconditionFailed("Cluster not empty")
        await self._clusters.delete(name)

    async def _is_used(self, name: str) -> bool:
        """Whether a namespace names it: every tenant's namespaces are looked at."""
        for tenant in await self._service.resources.tenants.list():
            for namespace in await self._service.resources.namespaces.list(tenant):
                policies = await self._service.resources.namespaces.get(namespace)
                if policies is not None and name in policies.replication_clusters:
                    return True
        return False

    async def peers(self, name: str) -> Sequence[str] | None:
        return (await self.get(name)).peerClusterNames

    async def set_peers(self, name: str, peers: Sequence[str]) -> None:
        await self.get(name)
        known = set(await self._clusters.list())
        for peer in peers:
            if peer == name:
                raise PreconditionFailed(f"{name} itself can't be part of peer-list")
            if peer not in known:
                raise PreconditionFailed(f"Peer cluster {peer} does not exist")

        def change(data: ClusterData) -> ClusterData:
            return msgspec.structs.replace(data, peerClusterNames=tuple(peers))

        await self._clusters.update(name, change)


def _check_name(name: str) -> None:
    if not is_valid_part(name):
        raise InvalidName("Cluster name is not valid")


def _check_urls(data: ClusterData) -> None:
    for field, (scheme, sentence) in _SCHEMES.items():
        value = getattr(data, field)
        if not value:
            continue
        addresses = value.split(",")
        found = _URL.fullmatch(addresses[0])
        if found is None or found.group(1) != scheme:
            raise BadRequest(sentence)
