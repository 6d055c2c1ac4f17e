"""What is administered: clusters, tenants, namespaces and partitioned topics, over the metadata
stores.

The configuration store is shared by all clusters, the local one belongs to this cluster; both may
be the same store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from magnetar.errors import (
    Conflict,
    NamespaceNotFound,
    NotFound,
    RecordExists,
    RecordNotFound,
    TenantNotFound,
    TopicNotFound,
)
from magnetar.metadata.cache import MetadataCache
from magnetar.metadata.store import Cancel, MetadataStore
from magnetar.model.bookie import BOOKIES, BookieInfo, BookieRacks
from magnetar.model.document import decode_document, encode_document
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.policy import LocalPolicies, Policies
from magnetar.model.tenancy import ClusterData, PartitionedTopicMetadata, TenantInfo
from magnetar.model.validation import check_topic_buckets_kept
from magnetar.rules.isolation import IsolationPolicy
from magnetar.runtime.clock import Clock

CLUSTERS: Final = "/admin/clusters"
POLICIES: Final = "/admin/policies"
LOCAL_POLICIES: Final = "/admin/local-policies"
PARTITIONED_TOPICS: Final = "/admin/partitioned-topics"

T = TypeVar("T")


def document_cache(
    store: MetadataStore, prefix: str, kind: type[T], *, clock: Clock
) -> MetadataCache[T]:
    """A cache of JSON records of one kind."""
    return MetadataCache(
        store,
        prefix,
        encode=encode_document,
        decode=lambda data: decode_document(data, kind),
        clock=clock,
    )


class Clusters:
    def __init__(self, store: MetadataStore, *, clock: Clock) -> None:
        self._store = store
        self._cache = document_cache(store, CLUSTERS, ClusterData, clock=clock)

    async def get(self, name: str) -> ClusterData | None:
        return await self._cache.get(f"{CLUSTERS}/{name}")

    async def list(self) -> tuple[str, ...]:
        return await self._store.children(CLUSTERS)

    async def create(self, name: str, data: ClusterData) -> None:
        try:
            await self._cache.create(f"{CLUSTERS}/{name}", data)
        except RecordExists:
            raise Conflict("Cluster already exists") from None

    async def update(self, name: str, change: Callable[[ClusterData], ClusterData]) -> ClusterData:
        try:
            return await self._cache.read_modify_update(f"{CLUSTERS}/{name}", change)
        except RecordNotFound:
            raise NotFound(f"Cluster does not exist: {name}") from None

    async def delete(self, name: str) -> None:
        if await self.get(name) is None:
            raise NotFound(f"Cluster does not exist: {name}")
        await self._store.delete_recursive(f"{CLUSTERS}/{name}")
        self._cache.invalidate(f"{CLUSTERS}/{name}")

    def close(self) -> None:
        self._cache.close()


class Tenants:
    """A tenant's record stands above those of its namespaces."""

    def __init__(self, store: MetadataStore, *, clock: Clock) -> None:
        self._store = store
        self._cache = document_cache(store, POLICIES, TenantInfo, clock=clock)
        self._written: list[Callable[[], Awaitable[None]]] = []

    def on_written(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Wait for the listener after each change of a tenant, before the writer goes on."""
        self._written.append(listener)

    async def get(self, name: str) -> TenantInfo | None:
        return await self._cache.get(f"{POLICIES}/{name}")

    async def exists(self, name: str) -> bool:
        return await self.get(name) is not None

    async def list(self) -> tuple[str, ...]:
        return await self._store.children(POLICIES)

    async def create(self, name: str, info: TenantInfo) -> None:
        try:
            await self._cache.create(f"{POLICIES}/{name}", info)
        except RecordExists:
            raise Conflict("Tenant already exist") from None

    async def update(self, name: str, change: Callable[[TenantInfo], TenantInfo]) -> TenantInfo:
        try:
            info = await self._cache.read_modify_update(f"{POLICIES}/{name}", change)
        except RecordNotFound:
            raise TenantNotFound("Tenant does not exist", name) from None
        for listener in self._written:
            await listener()
        return info

    async def delete(self, name: str) -> None:
        """Raise RecordNotEmpty while it has namespaces."""
        try:
            await self._cache.delete(f"{POLICIES}/{name}")
        except RecordNotFound:
            raise TenantNotFound("Tenant does not exist", name) from None

    def close(self) -> None:
        self._cache.close()


class Namespaces:
    """Policies are shared by all clusters; the bundles in use are this cluster's own."""

    def __init__(self, local: MetadataStore, configuration: MetadataStore, *, clock: Clock) -> None:
        self._configuration = configuration
        self._cache = document_cache(configuration, POLICIES, Policies, clock=clock)
        self._local_cache = document_cache(local, LOCAL_POLICIES, LocalPolicies, clock=clock)
        self._written: list[Callable[[], Awaitable[None]]] = []

    def on_written(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Wait for the listener after each write of policies, before the writer goes on."""
        self._written.append(listener)

    async def get(self, name: NamespaceName) -> Policies | None:
        return await self._cache.get(policies_path(name))

    async def require(self, name: NamespaceName) -> Policies:
        policies = await self.get(name)
        if policies is None:
            raise NamespaceNotFound("Namespace does not exist", name)
        return policies

    def get_if_cached(self, name: NamespaceName) -> Policies | None:
        return self._cache.get_if_cached(policies_path(name))

    async def exists(self, name: NamespaceName) -> bool:
        return await self.get(name) is not None

    async def list(self, tenant: str) -> tuple[NamespaceName, ...]:
        names = await self._configuration.children(f"{POLICIES}/{tenant}")
        return tuple(NamespaceName(tenant, name) for name in names)

    async def create(self, name: NamespaceName, policies: Policies) -> None:
        try:
            await self._cache.create(policies_path(name), policies)
        except RecordExists:
            raise Conflict("Namespace already exists") from None
        await self._tell_written()

    async def update(self, name: NamespaceName, change: Callable[[Policies], Policies]) -> Policies:
        def change_checked(before: Policies) -> Policies:
            after = change(before)
            check_topic_buckets_kept(before, after)
            return after

        try:
            policies = await self._cache.read_modify_update(policies_path(name), change_checked)
        except RecordNotFound:
            raise NamespaceNotFound("Namespace does not exist", name) from None
        await self._tell_written()
        return policies

    async def delete(self, name: NamespaceName) -> None:
        """Remove the policies and then what this cluster keeps of them."""
        try:
            await self._cache.delete(policies_path(name))
        except RecordNotFound:
            raise NamespaceNotFound("Namespace does not exist", name) from None
        await self.delete_local(name)
        await self._tell_written()

    async def get_local(self, name: NamespaceName) -> LocalPolicies | None:
        return await self._local_cache.get(local_policies_path(name))

    async def get_or_create_local(self, name: NamespaceName) -> LocalPolicies:
        """The cluster's own copy; made from the shared policies on first use."""
        found = await self.get_local(name)
        if found is not None:
            return found
        policies = await self.require(name)
        return await self._local_cache.read_modify_update_or_create(
            local_policies_path(name),
            lambda present: present or LocalPolicies(bundles=policies.bundles),
        )

    async def update_local(
        self, name: NamespaceName, change: Callable[[LocalPolicies], LocalPolicies]
    ) -> LocalPolicies:
        return await self._local_cache.read_modify_update_or_create(
            local_policies_path(name), lambda present: change(present or LocalPolicies())
        )

    async def delete_local(self, name: NamespaceName) -> None:
        try:
            await self._local_cache.delete(local_policies_path(name))
        except RecordNotFound:
            pass  # it was never used in this cluster

    async def _tell_written(self) -> None:
        for listener in self._written:
            await listener()

    def close(self) -> None:
        self._cache.close()
        self._local_cache.close()


class PartitionedTopics:
    def __init__(self, store: MetadataStore, *, clock: Clock) -> None:
        self._store = store
        self._cache = document_cache(
            store, PARTITIONED_TOPICS, PartitionedTopicMetadata, clock=clock
        )

    async def get(self, name: TopicName) -> PartitionedTopicMetadata | None:
        """What is known of the very name given; a partition is never a partitioned topic."""
        return await self._cache.get(partitioned_topic_path(name))

    async def list(self, namespace: NamespaceName, domain: TopicDomain) -> tuple[TopicName, ...]:
        parent = f"{PARTITIONED_TOPICS}/{namespace}/{domain.value}"
        names = await self._store.children(parent)
        return tuple(TopicName(domain, namespace, decode_local(name)) for name in names)

    async def create(
        self, name: TopicName, partitions: int, properties: Mapping[str, str] | None = None
    ) -> None:
        metadata = PartitionedTopicMetadata(
            partitions=partitions, properties=None if properties is None else dict(properties)
        )
        try:
            await self._cache.create(partitioned_topic_path(name), metadata)
        except RecordExists:
            raise Conflict("Partitioned topic already exists") from None

    async def update(
        self,
        name: TopicName,
        change: Callable[[PartitionedTopicMetadata], PartitionedTopicMetadata],
    ) -> PartitionedTopicMetadata:
        try:
            return await self._cache.read_modify_update(partitioned_topic_path(name), change)
        except RecordNotFound:
            raise TopicNotFound(f"Partitioned Topic {name} not found") from None

    async def delete(self, name: TopicName) -> None:
        try:
            await self._cache.delete(partitioned_topic_path(name))
        except RecordNotFound:
            raise TopicNotFound(f"Partitioned Topic {name} not found") from None

    async def delete_all(self, namespace: NamespaceName) -> None:
        await self._store.delete_recursive(f"{PARTITIONED_TOPICS}/{namespace}")

    def watch(self, name: TopicName, listener: Callable[[], None]) -> Cancel:
        """Call the listener after each change of what `get` says of the name."""
        return self._store.watch(partitioned_topic_path(name), lambda _: listener())

    def close(self) -> None:
        self._cache.close()


class Racks:
    """Where bookies stand, in one record."""

    def __init__(self, store: MetadataStore, *, clock: Clock) -> None:
        self._cache = document_cache(store, BOOKIES, dict[str, dict[str, BookieInfo]], clock=clock)

    async def get(self) -> BookieRacks:
        return await self._cache.get(BOOKIES) or {}

    async def update(self, change: Callable[[BookieRacks], BookieRacks]) -> None:
        def apply(present: dict[str, dict[str, BookieInfo]] | None) -> Any:
            return change(present or {})

        await self._cache.read_modify_update_or_create(BOOKIES, apply)

    def close(self) -> None:
        self._cache.close()


class IsolationPolicies:
    """Which brokers are kept for which namespaces; one record for each cluster."""

    def __init__(self, store: MetadataStore, *, clock: Clock) -> None:
        self._cache = document_cache(store, CLUSTERS, dict[str, IsolationPolicy], clock=clock)

    async def get(self, cluster: str) -> Mapping[str, IsolationPolicy] | None:
        """By name; None while none was ever set."""
        return await self._cache.get(isolation_path(cluster))

    async def update(
        self, cluster: str, name: str, policy: IsolationPolicy | None
    ) -> IsolationPolicy | None:
        """Set or remove one, and return the one that was there."""
        before: list[IsolationPolicy | None] = []

        def apply(present: dict[str, IsolationPolicy] | None) -> dict[str, IsolationPolicy]:
            policies = dict(present or {})
            before[:] = [policies.pop(name, None)]
            return policies if policy is None else {**policies, name: policy}

        await self._cache.read_modify_update_or_create(isolation_path(cluster), apply)
        return before[0]

    def close(self) -> None:
        self._cache.close()


class Resources:
    def __init__(self, local: MetadataStore, configuration: MetadataStore, *, clock: Clock) -> None:
        self.local = local
        self.configuration = configuration
        self.clusters = Clusters(configuration, clock=clock)
        self.tenants = Tenants(configuration, clock=clock)
        self.namespaces = Namespaces(local, configuration, clock=clock)
        self.partitioned = PartitionedTopics(configuration, clock=clock)
        self.racks = Racks(local, clock=clock)
        self.isolation = IsolationPolicies(configuration, clock=clock)

    def close(self) -> None:
        """Stop listening to the stores; they are closed by their owner."""
        self.clusters.close()
        self.tenants.close()
        self.namespaces.close()
        self.partitioned.close()
        self.racks.close()
        self.isolation.close()


def policies_path(name: NamespaceName) -> str:
    return f"{POLICIES}/{name}"


def local_policies_path(name: NamespaceName) -> str:
    return f"{LOCAL_POLICIES}/{name}"


def isolation_path(cluster: str) -> str:
    return f"{CLUSTERS}/{cluster}/namespaceIsolationPolicies"


def partitioned_topic_path(name: TopicName) -> str:
    return f"{PARTITIONED_TOPICS}/{name.namespace}/{name.domain.value}/{name.encoded_local}"
