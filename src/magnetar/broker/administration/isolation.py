"""Isolation policies of a cluster: which brokers are kept for which namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from magnetar.broker.administration.broker import list_brokers
from magnetar.broker.administration.bundle import find_bundles
from magnetar.broker.administration.port import IsolationOwners
from magnetar.broker.administration.registry import carries_out
from magnetar.broker.ownership import Owner
from magnetar.broker.resource import Resources
from magnetar.errors import NotFound, PreconditionFailed
from magnetar.metadata.store import MetadataStore
from magnetar.model.name import is_valid_part
from magnetar.rules.isolation import (
    IsolatedBroker,
    IsolationPolicy,
    check_isolation,
    describe_broker,
    plan_unload,
)


@carries_out("clusters.isolation_policies")
async def list_policies(resources: Resources, cluster: str) -> Mapping[str, IsolationPolicy]:
    if not await _is_known(resources, cluster):
        raise NotFound(f"Cluster {cluster} does not exist.")
    return await _load(resources, cluster)


@carries_out("clusters.isolation_policy")
async def get_policy(resources: Resources, cluster: str, policy: str) -> IsolationPolicy:
    found = (await _load(resources, cluster)).get(policy)
    if found is None:
        raise NotFound(f"Cannot find NamespaceIsolationPolicy {policy} for cluster {cluster}")
    return found


@carries_out("clusters.set_isolation_policy")
async def set_policy(
    owners: IsolationOwners, cluster: str, policy: str, data: IsolationPolicy
) -> None:
    await _require(owners.resources, cluster)
    check_isolation(data)
    before = await owners.resources.isolation.update(cluster, policy, data)
    if cluster != owners.cluster or owners.bundles is None:
        return
    for tenant in await owners.resources.tenants.list():
        namespaces = await owners.resources.namespaces.list(tenant)
        for namespace in plan_unload(before, data, namespaces):
            for bundle in await find_bundles(owners, namespace, None):
                # Chosen here, where the policy is known; their owners learn of it a little later.
                target = await owners.bundles.ownership.choose(bundle)
                await owners.bundles.unload(bundle, target)


@carries_out("clusters.delete_isolation_policy")
async def delete_policy(resources: Resources, cluster: str, policy: str) -> None:
    await _require(resources, cluster)
    await resources.isolation.update(cluster, policy, None)


@carries_out("clusters.isolated_brokers")
async def list_isolated_brokers(
    resources: Resources, owner: Owner, store: MetadataStore, cluster: str
) -> Sequence[IsolatedBroker]:
    policies = await _load(resources, cluster)
    return [describe_broker(broker, policies) for broker in await list_brokers(owner, store)]


@carries_out("clusters.isolated_broker")
async def get_isolated_broker(resources: Resources, cluster: str, broker: str) -> IsolatedBroker:
    return describe_broker(broker, await _load(resources, cluster))


async def _load(resources: Resources, cluster: str) -> Mapping[str, IsolationPolicy]:
    await _require(resources, cluster)
    policies = await resources.isolation.get(cluster)
    if policies is None:
        raise NotFound(f"NamespaceIsolationPolicies for cluster {cluster} does not exist")
    return policies


async def _require(resources: Resources, cluster: str) -> None:
    if not await _is_known(resources, cluster):
        raise PreconditionFailed(f"Cluster {cluster} does not exist.")


async def _is_known(resources: Resources, cluster: str) -> bool:
    clusters = resources.clusters
    return is_valid_part(cluster) and await clusters.get(cluster) is not None
