"""The records behind tenants and namespaces, with the refusals of those that do not exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

from magnetar.broker.administration.registry import finds
from magnetar.broker.resource import Resources
from magnetar.errors import TenantNotFound
from magnetar.model.name import NamespaceName
from magnetar.model.policy import Policies

T = TypeVar("T")
Change: TypeAlias = Callable[[Policies], Policies]
Store: TypeAlias = Callable[[Change], Awaitable[None]]
"""What changes the record of one namespace."""


@finds(Policies)
async def load_policies(resources: Resources, namespace: NamespaceName) -> Policies:
    return await resources.namespaces.require(namespace)


@finds(Store)
async def find_store(resources: Resources, namespace: NamespaceName) -> Store:
    return partial(store_policies, resources, namespace)


async def store_policies(resources: Resources, namespace: NamespaceName, change: Change) -> None:
    """Read, change and write; `change` runs again when the record changed meanwhile."""
    await check_tenant(resources, namespace.tenant)
    await load_policies(resources, namespace)
    await resources.namespaces.update(namespace, change)


async def find_replicated(resources: Resources, tenant: str, cluster: str) -> NamespaceName | None:
    """A namespace of the tenant that is replicated to the cluster."""
    for namespace in await resources.namespaces.list(tenant):
        policies = await resources.namespaces.get(namespace)
        if policies is not None and cluster in policies.replication_clusters:
            return namespace
    return None


async def check_tenant(resources: Resources, tenant: str) -> None:
    if await resources.tenants.get(tenant) is None:
        raise TenantNotFound("Tenant does not exist", tenant)


def without(present: Mapping[str, T], name: str | None) -> dict[str, T]:
    return {key: value for key, value in present.items() if key != name}
