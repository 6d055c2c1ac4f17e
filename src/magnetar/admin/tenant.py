"""/admin/v2/tenants"""

from __future__ import annotations

from magnetar.admin.request import Call
from magnetar.admin.route import Body, Priority, Query, Table
from magnetar.broker.api import BrokerApi
from magnetar.model.permission import SUPER_USER, TENANT_ADMIN
from magnetar.model.policy import TenantInfo

TABLE = Table("tenants", "/admin/v2/tenants")
_INFO = Body(TenantInfo)


async def list_tenants(api: BrokerApi, call: Call) -> object:
    """Names of all tenants, sorted."""
    return await api.tenants.list()


async def get_tenant(api: BrokerApi, call: Call) -> object:
    """A tenant's admin roles and clusters."""
    return await api.tenants.get(call.tenant)


async def create_tenant(api: BrokerApi, call: Call) -> object:
    """Create a tenant."""
    await api.tenants.create(call.tenant, call.payload)
    return None


async def update_tenant(api: BrokerApi, call: Call) -> object:
    """Change a tenant's admin roles and clusters."""
    await api.tenants.update(call.tenant, call.payload)
    return None


async def delete_tenant(api: BrokerApi, call: Call) -> object:
    """Delete a tenant without namespaces, or with them when forced."""
    await api.tenants.delete(call.tenant, force=call.flag("force"))
    return None


TABLE.add("GET", "", list_tenants, SUPER_USER, priority=Priority.P0)
TABLE.add("GET", "/{tenant}", get_tenant, TENANT_ADMIN, priority=Priority.P0)
TABLE.add("PUT", "/{tenant}", create_tenant, SUPER_USER, priority=Priority.P0, body=_INFO)
TABLE.add("POST", "/{tenant}", update_tenant, TENANT_ADMIN, body=_INFO)
TABLE.add(
    "DELETE", "/{tenant}", delete_tenant, TENANT_ADMIN, query=(Query("force", default=False),)
)
