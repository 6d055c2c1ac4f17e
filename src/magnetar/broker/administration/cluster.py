"""Clusters: who they are and where they are reached."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from magnetar.broker.administration.record import find_replicated
from magnetar.broker.administration.registry import carries_out
from magnetar.broker.resource import Resources
from magnetar.errors import Conflict, InvalidName, NotFound, PreconditionFailed
from magnetar.model.name import is_valid_part
from magnetar.model.tenancy import ClusterData
from magnetar.model.validation import check_cluster_urls


@carries_out("clusters.list")
async def list_clusters(resources: Resources) -> Sequence[str]:
    return sorted(await resources.clusters.list())


@carries_out("clusters.get")
async def get_cluster(resources: Resources, cluster: str) -> ClusterData:
    data = await resources.clusters.get(cluster) if is_valid_part(cluster) else None
    if data is None:
        raise NotFound(f"Cluster does not exist: {cluster}")
    return data


@carries_out("clusters.create")
async def create_cluster(resources: Resources, cluster: str, data: ClusterData) -> None:
    if not is_valid_part(cluster):
        raise InvalidName("Cluster name is not valid")
    check_cluster_urls(data)
    if await resources.clusters.get(cluster) is not None:
        raise Conflict("Cluster already exists")
    await resources.clusters.create(cluster, data)


@carries_out("clusters.update")
async def update_cluster(resources: Resources, cluster: str, data: ClusterData) -> None:
    check_cluster_urls(data)
    await get_cluster(resources, cluster)
    await resources.clusters.update(cluster, lambda _: data)


@carries_out("clusters.delete")
async def delete_cluster(resources: Resources, cluster: str) -> None:
    await get_cluster(resources, cluster)
    for tenant in await resources.tenants.list():
        if await find_replicated(resources, tenant, cluster) is not None:
            raise PreconditionFailed("Cluster not empty")
    if await resources.isolation.get(cluster):
        raise PreconditionFailed("Cluster not empty")
    await resources.clusters.delete(cluster)


@carries_out("clusters.peers")
async def get_peers(resources: Resources, cluster: str) -> Sequence[str] | None:
    return (await get_cluster(resources, cluster)).peerClusterNames


@carries_out("clusters.set_peers")
async def set_peers(resources: Resources, cluster: str, peers: list[str] | None) -> None:
    await get_cluster(resources, cluster)
    named = tuple(peers or ())
    known = set(await resources.clusters.list())
    for peer in named:
        if peer == cluster:
            raise PreconditionFailed(f"{cluster} itself can't be part of peer-list")
        if peer not in known:
            raise PreconditionFailed(f"Peer cluster {peer} does not exist")
    await resources.clusters.update(cluster, lambda data: replace(data, peerClusterNames=named))
