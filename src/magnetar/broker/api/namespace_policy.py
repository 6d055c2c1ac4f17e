"""Policies of a namespace, one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from magnetar.broker.administration.record import check_tenant, load_policies, store_policies
from magnetar.broker.api.namespace_setting import NamespaceSetting
from magnetar.broker.api.offload import (
    OffloadThreshold,
    apply_threshold,
    check_threshold,
    read_threshold,
)
from magnetar.errors import Forbidden
from magnetar.model.limit import merge_properties
from magnetar.model.name import NamespaceName
from magnetar.model.policy import BacklogQuota, BacklogQuotaType, LocalPolicies, Policies
from magnetar.model.validation import (
    check_backlog_quota,
    check_quota_within_retention,
    parse_quota_type,
)

if TYPE_CHECKING:
    from magnetar.broker.service import Service

LocalChange: TypeAlias = Callable[[LocalPolicies], LocalPolicies]


class NamespacePolicyApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def get(self, namespace: NamespaceName, setting: NamespaceSetting) -> Any:
        return setting.read(await load_policies(self._service, namespace), self._service)

    async def set(self, namespace: NamespaceName, setting: NamespaceSetting, value: Any) -> None:
        if value is None:
            value = setting.bodyless
        if setting.name == "replication":
            await self._check_clusters(namespace, value)

        def change(policies: Policies) -> Policies:
            if value is not None:
                setting.check(value, policies, self._service)
            return setting.apply(policies, self._service, value)

        await store_policies(self._service, namespace, change)

    async def remove(self, namespace: NamespaceName, setting: NamespaceSetting) -> None:
        await store_policies(
            self._service,
            namespace,
            lambda policies: setting.apply(policies, self._service, None),
        )

    async def _check_clusters(self, namespace: NamespaceName, clusters: tuple[str, ...]) -> None:
        await check_tenant(self._service, namespace.tenant)
        tenant = await self._service.resources.tenants.get(namespace.tenant)
        known = await self._service.resources.clusters.list()
        for cluster in clusters:
            if cluster not in known:
                raise Forbidden(f"Invalid cluster id: {cluster}")
            if tenant is not None and cluster not in tenant.allowedClusters:
                raise Forbidden(
                    f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant"
                    f" [{namespace.tenant}]"
                )

    # Backlog quotas
    async def backlog_quotas(
        self, namespace: NamespaceName
    ) -> Mapping[BacklogQuotaType, BacklogQuota]:
        return (await load_policies(self._service, namespace)).backlog_quota_map

    async def set_backlog_quota(
        self, namespace: NamespaceName, kind: str | None, quota: BacklogQuota
    ) -> None:
        quota_type = parse_quota_type(kind)
        check_backlog_quota(quota)
        stored = replace(quota, limit=quota.size, limitSize=quota.size)

        def change(policies: Policies) -> Policies:
            check_quota_within_retention(stored, policies.retention_policies, level="namespace")
            quotas = {**policies.backlog_quota_map, quota_type: stored}
            return replace(policies, backlog_quota_map=quotas)

        await store_policies(self._service, namespace, change)

    async def remove_backlog_quota(self, namespace: NamespaceName, kind: str | None) -> None:
        quota_type = parse_quota_type(kind)

        def change(policies: Policies) -> Policies:
            quotas = dict(policies.backlog_quota_map)
            quotas.pop(quota_type, None)
            return replace(policies, backlog_quota_map=quotas)

        await store_policies(self._service, namespace, change)

    # Properties
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

    # Offloading
    async def offload_threshold(
        self, namespace: NamespaceName, threshold: OffloadThreshold
    ) -> int | None:
        return read_threshold(await load_policies(self._service, namespace), threshold)

    async def set_offload_threshold(
        self, namespace: NamespaceName, threshold: OffloadThreshold, value: int | None
    ) -> None:
        check_threshold(threshold, value)
        await store_policies(
            self._service,
            namespace,
            lambda policies: apply_threshold(policies, threshold, value),
        )

    async def remove_offload_policies(self, namespace: NamespaceName) -> None:
        await store_policies(
            self._service, namespace, lambda policies: replace(policies, offload_policies=None)
        )

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
