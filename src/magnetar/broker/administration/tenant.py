"""Tenants."""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.broker.administration.namespace import remove_namespace
from magnetar.broker.administration.port import NamespaceContents
from magnetar.broker.administration.record import find_replicated
from magnetar.broker.administration.registry import carries_out
from magnetar.broker.resource import Resources
from magnetar.errors import (
    Conflict,
    InvalidName,
    MethodNotAllowed,
    PreconditionFailed,
    TenantNotFound,
)
from magnetar.model.name import is_valid_part
from magnetar.model.tenancy import TenantInfo
from magnetar.runtime.configuration import Configuration


@carries_out("tenants.list")
async def list_tenants(resources: Resources) -> Sequence[str]:
    return sorted(await resources.tenants.list())


@carries_out("tenants.get")
async def get_tenant(resources: Resources, tenant: str) -> TenantInfo:
    info = await resources.tenants.get(tenant) if is_valid_part(tenant) else None
    if info is None:
        raise TenantNotFound("Tenant does not exist", tenant)
    return info


@carries_out("tenants.create")
async def create_tenant(
    resources: Resources, config: Configuration, tenant: str, info: TenantInfo | None
) -> None:
    if not is_valid_part(tenant):
        raise InvalidName("Tenant name is not valid")
    checked = await _check_info(resources, info)
    tenants = resources.tenants
    if await tenants.get(tenant) is not None:
        raise Conflict("Tenant already exist")
    limit = config.maxTenants
    if limit > 0 and len(await tenants.list()) >= limit:
        raise PreconditionFailed("Exceed the maximum number of tenants")
    await tenants.create(tenant, checked)


@carries_out("tenants.update")
async def update_tenant(resources: Resources, tenant: str, info: TenantInfo | None) -> None:
    checked = await _check_info(resources, info)
    current = await get_tenant(resources, tenant)
    for cluster in sorted(set(current.allowedClusters) - set(checked.allowedClusters)):
        namespace = await find_replicated(resources, tenant, cluster)
        if namespace is not None:
            raise PreconditionFailed(
                f"Cannot remove cluster {cluster} from tenant {tenant}: namespace {namespace}"
                " still has it as a replication cluster"
            )
    await resources.tenants.update(tenant, lambda _: checked)


@carries_out("tenants.delete")
async def delete_tenant(owners: NamespaceContents, tenant: str, force: bool) -> None:
    if force and not owners.config.forceDeleteTenantAllowed:
        raise MethodNotAllowed("Broker doesn't allow forced deletion of tenants")
    await get_tenant(owners.resources, tenant)
    namespaces = await owners.resources.namespaces.list(tenant)
    if namespaces and not force:
        raise Conflict("The tenant still has active namespaces")
    for namespace in namespaces:
        await remove_namespace(owners, namespace, force=True)
    await owners.resources.tenants.delete(tenant)


async def _check_info(resources: Resources, info: TenantInfo | None) -> TenantInfo:
    if info is None:
        raise PreconditionFailed("TenantInfo is null")
    if not info.allowedClusters or not all(each.strip() for each in info.allowedClusters):
        raise PreconditionFailed("Clusters cannot be empty or blank")
    if any(role != role.strip() for role in info.adminRoles):
        raise PreconditionFailed("AdminRoles contains whitespace in the beginning or end.")
    known = set(await resources.clusters.list())
    missing = set(info.allowedClusters) - known - {"global"}
    if missing:
        raise PreconditionFailed(f"Clusters do not exist: {', '.join(sorted(missing))}")
    return info
