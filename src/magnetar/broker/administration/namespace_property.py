"""Properties of a namespace, and what one cluster keeps of it by itself."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from magnetar.broker.administration.record import check_tenant, load_policies, store_policies
from magnetar.broker.administration.registry import Document, carries_out
from magnetar.broker.service import Service
from magnetar.model.limit import merge_properties
from magnetar.model.name import NamespaceName
from magnetar.model.policy import LocalPolicies, Policies


@carries_out("namespaces.properties")
async def get_properties(service: Service, namespace: NamespaceName) -> Mapping[str, str]:
    return (await load_policies(service, namespace)).properties


@carries_out("namespaces.set_properties")
async def set_properties(
    service: Service, namespace: NamespaceName, properties: dict[str, str]
) -> None:
    def change(policies: Policies) -> Policies:
        merged = merge_properties(service.limits, policies.properties, properties)
        return replace(policies, properties=merged)

    await store_policies(service, namespace, change)


@carries_out("namespaces.clear_properties")
async def clear_properties(service: Service, namespace: NamespaceName) -> None:
    await store_policies(service, namespace, lambda policies: replace(policies, properties={}))


@carries_out("namespaces.property")
async def get_property(service: Service, namespace: NamespaceName, key: str) -> str | None:
    return (await get_properties(service, namespace)).get(key)


@carries_out("namespaces.set_property")
async def set_property(service: Service, namespace: NamespaceName, key: str, value: str) -> None:
    await set_properties(service, namespace, {key: value})


@carries_out("namespaces.remove_property")
async def remove_property(service: Service, namespace: NamespaceName, key: str) -> str | None:
    """What it was, if it was set."""
    value = await get_property(service, namespace, key)

    def change(policies: Policies) -> Policies:
        kept = {name: each for name, each in policies.properties.items() if name != key}
        return replace(policies, properties=kept)

    await store_policies(service, namespace, change)
    return value


# What this cluster keeps by itself
@carries_out("namespaces.bookie_affinity")
async def get_bookie_affinity(service: Service, namespace: NamespaceName) -> Document | None:
    return (await _load_local(service, namespace)).bookieAffinityGroup


@carries_out("namespaces.set_bookie_affinity")
async def set_bookie_affinity(
    service: Service, namespace: NamespaceName, group: dict[str, str]
) -> None:
    await _store_local(service, namespace, bookieAffinityGroup=group)


@carries_out("namespaces.remove_bookie_affinity")
async def remove_bookie_affinity(service: Service, namespace: NamespaceName) -> None:
    await _store_local(service, namespace, bookieAffinityGroup=None)


@carries_out("namespaces.anti_affinity")
async def get_anti_affinity(service: Service, namespace: NamespaceName) -> str | None:
    return (await _load_local(service, namespace)).namespaceAntiAffinityGroup


@carries_out("namespaces.set_anti_affinity")
async def set_anti_affinity(service: Service, namespace: NamespaceName, group: str) -> None:
    await _store_local(service, namespace, namespaceAntiAffinityGroup=group)


@carries_out("namespaces.remove_anti_affinity")
async def remove_anti_affinity(service: Service, namespace: NamespaceName) -> None:
    await _store_local(service, namespace, namespaceAntiAffinityGroup=None)


async def _load_local(service: Service, namespace: NamespaceName) -> LocalPolicies:
    await load_policies(service, namespace)
    return await service.resources.namespaces.get_local(namespace) or LocalPolicies()


async def _store_local(service: Service, namespace: NamespaceName, **fields: object) -> None:
    await check_tenant(service, namespace.tenant)
    await load_policies(service, namespace)
    await service.resources.namespaces.get_or_create_local(namespace)
    await service.resources.namespaces.update_local(namespace, lambda each: replace(each, **fields))
