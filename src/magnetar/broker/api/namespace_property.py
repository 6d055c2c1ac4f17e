"""Properties of a namespace, and what one cluster keeps of it by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from magnetar.broker.administration.record import check_tenant, load_policies, store_policies
from magnetar.model.limit import merge_properties
from magnetar.model.name import NamespaceName
from magnetar.model.policy import LocalPolicies, Policies

if TYPE_CHECKING:
    from magnetar.broker.service import Service

LocalChange: TypeAlias = Callable[[LocalPolicies], LocalPolicies]


class NamespacePropertyApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def properties(self, namespace: NamespaceName) -> Mapping[str, str]:
        return (await load_policies(self._service, namespace)).properties

    async def update_properties(
        self, namespace: NamespaceName, properties: Mapping[str, str]
    ) -> None:
        def change(policies: Policies) -> Policies:
            merged = merge_properties(self._service.limits, policies.properties, properties)
            return replace(policies, properties=merged)

        await store_policies(self._service, namespace, change)

    async def clear_properties(self, namespace: NamespaceName) -> None:
        await store_policies(
            self._service, namespace, lambda policies: replace(policies, properties={})
        )

    async def remove_property(self, namespace: NamespaceName, key: str) -> str | None:
        """What it was, if it was set."""
        value = (await self.properties(namespace)).get(key)

        def change(policies: Policies) -> Policies:
            kept = {name: each for name, each in policies.properties.items() if name != key}
            return replace(policies, properties=kept)

        await store_policies(self._service, namespace, change)
        return value

    # What this cluster keeps by itself
    async def bookie_affinity(self, namespace: NamespaceName) -> Mapping[str, Any] | None:
        await load_policies(self._service, namespace)
        local = await self._service.resources.namespaces.get_local(namespace)
        return None if local is None else local.bookieAffinityGroup

    async def set_bookie_affinity(
        self, namespace: NamespaceName, group: Mapping[str, Any] | None
    ) -> None:
        value = None if group is None else dict(group)
        await self._store_local(namespace, lambda each: replace(each, bookieAffinityGroup=value))

    async def anti_affinity(self, namespace: NamespaceName) -> str | None:
        await load_policies(self._service, namespace)
        local = await self._service.resources.namespaces.get_local(namespace)
        return None if local is None else local.namespaceAntiAffinityGroup

    async def set_anti_affinity(self, namespace: NamespaceName, group: str | None) -> None:
        await self._store_local(
            namespace, lambda each: replace(each, namespaceAntiAffinityGroup=group)
        )

    async def _store_local(self, namespace: NamespaceName, change: LocalChange) -> None:
        await check_tenant(self._service, namespace.tenant)
        await load_policies(self._service, namespace)
        await self._service.resources.namespaces.get_or_create_local(namespace)
        await self._service.resources.namespaces.update_local(namespace, change)
