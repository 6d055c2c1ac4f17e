"""Namespaces: made, listed and removed with all they hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from magnetar.broker.administration.hash_range import check_boundaries, plan_boundaries
from magnetar.broker.administration.record import check_tenant, load_policies
from magnetar.broker.default import plan_context
from magnetar.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    MethodNotAllowed,
    NamespaceNotFound,
    PreconditionFailed,
    TenantNotFound,
    TopicNotFound,
)
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    is_valid_part,
    parse_stored_topic,
)
from magnetar.model.policy import BundlesData, Policies
from magnetar.model.validation import check_topic_buckets, check_topic_buckets_kept
from magnetar.rules.policy_field import check_policies
from magnetar.rules.system import SYSTEM_NAMESPACE, is_system_topic

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_DELETES_AT_ONCE: Final = 16
_ROUNDS_MAX: Final = 5
_DOMAINS: Final = (TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT)


class NamespaceApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._namespaces = service.resources.namespaces

    async def list(self, tenant: str) -> Sequence[str]:
        if not is_valid_part(tenant) or await self._service.resources.tenants.get(tenant) is None:
            raise TenantNotFound(f"Tenant not found: {tenant}")
        return [str(name) for name in await self._namespaces.list(tenant)]

    async def get(self, name: NamespaceName) -> Policies:
        """All policies, with the bundles that are in use here."""
        policies = await load_policies(self._service, name)
        local = await self._namespaces.get_local(name)
        if local is not None and local.bundles is not None:
            policies = replace(policies, bundles=local.bundles)
        return policies

    async def create(self, name: NamespaceName, policies: Policies | None) -> None:
        await check_tenant(self._service, name.tenant)
        asked = policies if policies is not None else Policies()
        check_policies(asked, plan_context(self._service.config))
        if name == SYSTEM_NAMESPACE and (asked.numberOfTopicBuckets or 1) > 1:
            raise PreconditionFailed(
                f"Invalid value for numberOfTopicBuckets: {name} holds the brokers' own topics,"
                " which all brokers find without asking for its policies"
            )
        clusters = await self._check_clusters(name, asked)
        bundles = self._plan_bundles(asked.bundles)
        present = await self._namespaces.get(name)
        if present is not None:
            if asked.numberOfTopicBuckets is not None:
                check_topic_buckets_kept(present, asked)
            raise Conflict("Namespace already exists")
        limit = self._service.config.maxNamespacesPerTenant
        if limit > 0 and len(await self._namespaces.list(name.tenant)) >= limit:
            raise PreconditionFailed(
                f"Exceed the maximum number of namespace in tenant :{name.tenant}"
            )
        complete = replace(asked, replication_clusters=clusters, bundles=bundles, deleted=False)
        await self._namespaces.create(name, complete)

    async def buckets(self, name: NamespaceName) -> int:
        return (await load_policies(self._service, name)).numberOfTopicBuckets or 1

    async def set_buckets(self, name: NamespaceName, count: int) -> None:
        """Only what is true already may be set."""
        check_topic_buckets(count)
        present = await load_policies(self._service, name)
        check_topic_buckets_kept(present, Policies(numberOfTopicBuckets=count))

    def _plan_bundles(self, asked: BundlesData | None) -> BundlesData:
        count = 0 if asked is None else asked.numBundles
        if asked is None or count <= 0:
            count = self._service.config.defaultNumberOfNamespaceBundles
            boundaries = plan_boundaries(count)
        elif asked.boundaries:
            boundaries = check_boundaries(asked.boundaries)
        else:
            boundaries = plan_boundaries(count)
        return BundlesData(boundaries=boundaries, numBundles=len(boundaries) - 1)

    async def _check_clusters(self, name: NamespaceName, asked: Policies) -> tuple[str, ...]:
        tenant = await self._service.resources.tenants.get(name.tenant)
        assert tenant is not None, "the caller looked"
        if not asked.replication_clusters:
            return (self._service.cluster,)
        for cluster in asked.replication_clusters:
            if cluster not in tenant.allowedClusters:
                raise Forbidden(
                    f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant"
                    f" [{name.tenant}]"
                )
            if asked.allowed_clusters and cluster not in asked.allowed_clusters:
                raise BadRequest(
                    f"Cluster [{cluster}] is not in the list of allowed clusters of the namespace"
                )
        return asked.replication_clusters

    async def delete(self, name: NamespaceName, *, force: bool) -> None:
        if force and not self._service.config.forceDeleteNamespaceAllowed:
            raise MethodNotAllowed("Broker doesn't allow forced deletion of namespaces")
        await self.remove(name, force=force)

    async def remove(self, name: NamespaceName, *, force: bool) -> None:
        """Mark, then empty, then forget: after the mark there is only forward.

        Each round deletes what is found; a topic that came to be meanwhile costs another round.
        """
        policies = await self._namespaces.get(name)
        if policies is None:
            raise NamespaceNotFound(f"Namespace {name} does not exist.")
        if len(policies.replication_clusters) > 1:
            raise PreconditionFailed(
                "Cannot delete the namespace; it is still replicated to more than one cluster"
            )
        topics = await self._topics(name)
        if not force and await self._has_user_topics(name, topics):
            raise Conflict("Cannot delete non empty namespace")
        await self._namespaces.update(name, lambda each: replace(each, deleted=True))
        for _ in range(_ROUNDS_MAX):
            await self._delete_topics(topics)
            await self._service.resources.partitioned.delete_all(name)
            topics = await self._topics(name)
            if not topics and await self._service.tree.clear(name):
                break
        else:
            raise Conflict(f"Topics keep coming to be in {name}")
        await self._service.policies.delete_namespace(name)
        await self._service.store.delete_recursive(f"/namespace/{name}")
        await self._namespaces.delete(name)

    async def _topics(self, name: NamespaceName) -> Sequence[TopicName]:
        """Regular and scalable ones; segments go with their topic."""
        found = [await self._service.list_topics(name, domain) for domain in _DOMAINS]
        regular = [parse_stored_topic(full) for names in found for full in names]
        return [*await self._service.scalable.list(name), *regular]

    async def _has_user_topics(self, name: NamespaceName, topics: Sequence[TopicName]) -> bool:
        if not all(is_system_topic(topic) for topic in topics):
            return True
        for domain in _DOMAINS:
            if await self._service.resources.partitioned.list(name, domain):
                return True
        return False

    async def _delete_topics(self, topics: Sequence[TopicName]) -> None:
        gate = asyncio.Semaphore(_DELETES_AT_ONCE)

        async def delete_one(topic: TopicName) -> None:
            async with gate:
                try:
                    if topic.domain is TopicDomain.TOPIC:
                        await self._service.scalable.delete_topic(topic, force=True)
                    else:
                        await self._service.delete_topic(topic, force=True)
                except TopicNotFound:
                    return

        await asyncio.gather(*(delete_one(topic) for topic in topics))
        for base in sorted({topic.base.full for topic in topics}):
            await self._service.schemas.delete_storage(parse_stored_topic(base))
