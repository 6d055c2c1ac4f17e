"""/admin/v2/clusters"""

from __future__ import annotations

from magnetar.admin.request import Call
from magnetar.admin.route import Body, Priority, Table
from magnetar.broker.api import BrokerApi
from magnetar.model.permission import AUTHENTICATED, SUPER_USER
from magnetar.model.policy import ClusterData

TABLE = Table("clusters", "/admin/v2/clusters")
_DATA = Body(ClusterData, required=True, missing="cluster data is required")


async def list_clusters(api: BrokerApi, call: Call) -> object:
    """Names of all clusters."""
    return await api.clusters.list()


async def get_cluster(api: BrokerApi, call: Call) -> object:
    """One cluster's addresses."""
    return await api.clusters.get(call.text("cluster"))


async def create_cluster(api: BrokerApi, call: Call) -> object:
    """Make a cluster known."""
    await api.clusters.create(call.text("cluster"), call.payload)
    return None


async def update_cluster(api: BrokerApi, call: Call) -> object:
    """Change a cluster's addresses."""
    await api.clusters.update(call.text("cluster"), call.payload)
    return None


async def delete_cluster(api: BrokerApi, call: Call) -> object:
    """Forget a cluster that no namespace uses."""
    await api.clusters.delete(call.text("cluster"))
    return None


async def get_peers(api: BrokerApi, call: Call) -> object:
    """The cluster's peers, if they are set."""
    return await api.clusters.peers(call.text("cluster"))


async def set_peers(api: BrokerApi, call: Call) -> object:
    """Set the cluster's peers."""
    await api.clusters.set_peers(call.text("cluster"), call.payload or [])
    return None


TABLE.add("GET", "", list_clusters, AUTHENTICATED, priority=Priority.P0)
TABLE.add("GET", "/{cluster}", get_cluster, SUPER_USER, priority=Priority.P0)
TABLE.add(
    "PUT", "/{cluster}", create_cluster, SUPER_USER, priority=Priority.P0, status=200, body=_DATA
)
TABLE.add("POST", "/{cluster}", update_cluster, SUPER_USER, status=200, body=_DATA)
TABLE.add("DELETE", "/{cluster}", delete_cluster, SUPER_USER)
TABLE.add("GET", "/{cluster}/peers", get_peers, SUPER_USER, priority=Priority.P2)
TABLE.add(
    "POST", "/{cluster}/peers", set_peers, SUPER_USER, priority=Priority.P2, body=Body(list[str])
)
