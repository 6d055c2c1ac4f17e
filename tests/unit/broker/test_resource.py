"""Clusters, tenants, namespaces and partitioned topics in the stores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from msgspec import structs

from magnetar.broker.resource import Resources
from magnetar.errors import (
    Conflict,
    NamespaceNotFound,
    NotFound,
    PreconditionFailed,
    RecordNotEmpty,
    TenantNotFound,
    TopicNotFound,
)
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import MetadataStore
from magnetar.model.name import NamespaceName, TopicDomain, parse_topic
from magnetar.model.policy import BundlesData, LocalPolicies, Policies
from magnetar.model.tenancy import ClusterData, PartitionedTopicMetadata, TenantInfo
from magnetar.runtime.clock import SystemClock

NAMESPACE = NamespaceName("t", "n")


def run(body: Callable[[Resources, MetadataStore, MetadataStore], Awaitable[None]]) -> None:
    async def scoped() -> None:
        local = MemoryStore(MemoryTree(SystemClock()))
        configuration = MemoryStore(MemoryTree(SystemClock()))
        resources = Resources(local, configuration, clock=SystemClock())
        await body(resources, local, configuration)
        resources.close()

    asyncio.run(scoped())


async def json_at(store: MetadataStore, path: str) -> object:
    record = await store.get(path)
    assert record is not None, path
    return json.loads(record.value)


def test_a_cluster_is_created_changed_listed_and_deleted() -> None:
    async def body(
        resources: Resources, local: MetadataStore, configuration: MetadataStore
    ) -> None:
        clusters = resources.clusters
        assert await clusters.get("c") is None
        await clusters.create("c", ClusterData(serviceUrl="http://a:1"))
        with pytest.raises(Conflict, match="Cluster already exists"):
            await clusters.create("c", ClusterData())
        await clusters.update("c", lambda data: structs.replace(data, listenerName="l"))
        assert await clusters.get("c") == ClusterData(serviceUrl="http://a:1", listenerName="l")
        stored = await json_at(configuration, "/admin/clusters/c")
        assert isinstance(stored, dict)
        assert stored["serviceUrl"] == "http://a:1"
        assert await clusters.list() == ("c",)
        await clusters.delete("c")
        assert await clusters.list() == ()
        for call in (clusters.delete("c"), clusters.update("c", lambda data: data)):
            with pytest.raises(NotFound, match="Cluster does not exist"):
                await call

    run(body)


def test_a_tenant_stays_while_it_has_namespaces() -> None:
    async def body(
        resources: Resources, local: MetadataStore, configuration: MetadataStore
    ) -> None:
        tenants = resources.tenants
        await tenants.create("t", TenantInfo(adminRoles=("a",), allowedClusters=("c",)))
        with pytest.raises(Conflict, match="Tenant already exist"):
            await tenants.create("t", TenantInfo())
        await resources.namespaces.create(NAMESPACE, Policies())
        with pytest.raises(RecordNotEmpty):
            await tenants.delete("t")
        await tenants.update("t", lambda info: structs.replace(info, adminRoles=("b",)))
        assert await json_at(configuration, "/admin/policies/t") == {
            "adminRoles": ["b"],
            "allowedClusters": ["c"],
        }
        assert await tenants.list() == ("t",)
        await resources.namespaces.delete(NAMESPACE)
        await tenants.delete("t")
        assert not await tenants.exists("t")
        for call in (tenants.delete("t"), tenants.update("t", lambda info: info)):
            with pytest.raises(TenantNotFound):
                await call

    run(body)


def test_a_namespace_is_created_changed_listed_and_deleted() -> None:
    async def body(
        resources: Resources, local: MetadataStore, configuration: MetadataStore
    ) -> None:
        namespaces = resources.namespaces
        with pytest.raises(NamespaceNotFound):
            await namespaces.require(NAMESPACE)
        await namespaces.create(NAMESPACE, Policies(replication_clusters=("c",)))
        with pytest.raises(Conflict, match="Namespace already exists"):
            await namespaces.create(NAMESPACE, Policies())
        changed = await namespaces.update(
            NAMESPACE, lambda policies: structs.replace(policies, message_ttl_in_seconds=5)
        )
        assert changed == await namespaces.require(NAMESPACE)
        assert namespaces.get_if_cached(NAMESPACE) == changed
        stored = await json_at(configuration, "/admin/policies/t/n")
        assert isinstance(stored, dict)
        assert stored["message_ttl_in_seconds"] == 5
        assert await namespaces.list("t") == (NAMESPACE,)
        await namespaces.delete(NAMESPACE)
        assert not await namespaces.exists(NAMESPACE)
        for call in (
            namespaces.delete(NAMESPACE),
            namespaces.update(NAMESPACE, lambda policies: policies),
        ):
            with pytest.raises(NamespaceNotFound):
                await call

    run(body)


def test_no_write_changes_the_number_of_topic_buckets() -> None:
    async def body(
        resources: Resources, local: MetadataStore, configuration: MetadataStore
    ) -> None:
        await resources.namespaces.create(NAMESPACE, Policies(numberOfTopicBuckets=3))
        with pytest.raises(PreconditionFailed):
            await resources.namespaces.update(NAMESPACE, lambda policies: Policies())
        policies = await resources.namespaces.require(NAMESPACE)
        assert policies.numberOfTopicBuckets == 3

    run(body)


def test_bundles_are_copied_to_the_local_store_on_first_use() -> None:
    async def body(
        resources: Resources, local: MetadataStore, configuration: MetadataStore
    ) -> None:
        namespaces = resources.namespaces
        bundles = BundlesData(boundaries=("0x00000000", "0xffffffff"), numBundles=1)
        with pytest.raises(NamespaceNotFound):
            await namespaces.get_or_create_local(NAMESPACE)
        await namespaces.create(NAMESPACE, Policies(bundles=bundles))
        assert await namespaces.get_local(NAMESPACE) is None
        assert await namespaces.get_or_create_local(NAMESPACE) == LocalPolicies(bundles=bundles)
        stored = await json_at(local, "/admin/local-policies/t/n")
        assert isinstance(stored, dict)
        assert stored["bundles"] == {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
        split = BundlesData(boundaries=("0x00000000", "0x80000000", "0xffffffff"), numBundles=2)
        await namespaces.update_local(
            NAMESPACE, lambda policies: structs.replace(policies, bundles=split)
        )
        assert (await namespaces.get_or_create_local(NAMESPACE)).bundles == split
        await namespaces.delete(NAMESPACE)
        assert await namespaces.get_local(NAMESPACE) is None

    run(body)


def test_a_partitioned_topic_is_created_grown_listed_and_deleted() -> None:
    async def body(
        resources: Resources, local: MetadataStore, configuration: MetadataStore
    ) -> None:
        partitioned = resources.partitioned
        name = parse_topic("persistent://t/n/orders/eu".replace("/eu", " eu"))
        assert await partitioned.get(name) is None
        await partitioned.create(name, 3, {"k": "v"})
        with pytest.raises(Conflict, match="Partitioned topic already exists"):
            await partitioned.create(name, 5)
        await partitioned.update(name, lambda found: structs.replace(found, partitions=5))
        assert await partitioned.get(name) == PartitionedTopicMetadata(
            partitions=5, properties={"k": "v"}
        )
        assert await json_at(
            configuration, "/admin/partitioned-topics/t/n/persistent/orders+eu"
        ) == {
            "partitions": 5,
            "deleted": False,
            "properties": {"k": "v"},
        }
        assert await partitioned.get(name.partition(0)) is None
        assert await partitioned.list(NAMESPACE, TopicDomain.PERSISTENT) == (name,)
        assert await partitioned.list(NAMESPACE, TopicDomain.NON_PERSISTENT) == ()
        await partitioned.delete(name)
        for call in (partitioned.delete(name), partitioned.update(name, lambda found: found)):
            with pytest.raises(TopicNotFound, match="orders eu"):
                await call
        await partitioned.create(name, 1)
        await partitioned.delete_all(NAMESPACE)
        assert await partitioned.get(name) is None

    run(body)


def test_changes_made_by_another_broker_are_seen() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        stores = [MemoryStore(tree), MemoryStore(tree)]
        one, two = (Resources(store, store, clock=SystemClock()) for store in stores)
        assert await two.namespaces.get(NAMESPACE) is None
        await one.namespaces.create(NAMESPACE, Policies())
        assert await two.namespaces.get(NAMESPACE) == Policies()

    asyncio.run(body())
