"""What a new cluster starts with: itself, two tenants, and the namespace where short names live."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from magnetar.broker.ownership import Owner
from magnetar.broker.resource import Resources
from magnetar.errors import Conflict
from magnetar.model.name import parse_namespace
from magnetar.model.policy import Policies
from magnetar.model.tenancy import ClusterData, TenantInfo

_TENANTS: Final = ("public", "pulsar")
_NAMESPACES: Final = ("public/default", "pulsar/system")


async def seed_cluster(resources: Resources, cluster: str, owner: Owner) -> None:
    """Make what is missing; what is there stays as it is."""
    if await resources.clusters.get(cluster) is None:
        data = ClusterData(
            serviceUrl=owner.web_url or None,
            serviceUrlTls=owner.web_url_tls or None,
            brokerServiceUrl=owner.service_url or None,
            brokerServiceUrlTls=owner.service_url_tls or None,
        )
        await _unless_there(resources.clusters.create(cluster, data))
    for tenant in _TENANTS:
        if await resources.tenants.get(tenant) is None:
            info = TenantInfo(allowedClusters=(cluster,))
            await _unless_there(resources.tenants.create(tenant, info))
    for text in _NAMESPACES:
        namespace = parse_namespace(text)
        if await resources.namespaces.get(namespace) is None:
            policies = Policies(replication_clusters=(cluster,))
            await _unless_there(resources.namespaces.create(namespace, policies))


async def _unless_there(creation: Awaitable[None]) -> None:
    """Another broker of the cluster may start at the same moment."""
    try:
        await creation
    except Conflict:
        pass
