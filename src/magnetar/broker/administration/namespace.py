"""Namespaces: made, listed and removed with all they hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from magnetar.broker.administration.bundle import regular_topics
from magnetar.broker.administration.record import check_tenant, load_policies
from magnetar.broker.administration.registry import carries_out
from magnetar.broker.administration.topic import for_each
from magnetar.broker.default import plan_context
from magnetar.broker.service import Service
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
from magnetar.model.policy import Policies
from magnetar.model.validation import check_topic_buckets, check_topic_buckets_kept
from magnetar.operation.row import DOMAINS
from magnetar.rules.bundle import plan_bundles
from magnetar.rules.policy_field import check_policies
from magnetar.rules.system import SYSTEM_NAMESPACE, is_system_topic

_ROUNDS_MAX: Final = 5


@carries_out("namespaces.list")
async def list_namespaces(service: Service, tenant: str) -> Sequence[str]:
    if not is_valid_part(tenant) or await service.resources.tenants.get(tenant) is None:
        raise TenantNotFound(f"Tenant not found: {tenant}")
    return [str(name) for name in await service.resources.namespaces.list(tenant)]


@carries_out("namespaces.get")
async def get_namespace(service: Service, namespace: NamespaceName) -> Policies:
    """With the bundles that are in use here."""
    policies = await load_policies(service, namespace)
    local = await service.resources.namespaces.get_local(namespace)
    if local is not None and local.bundles is not None:
        policies = replace(policies, bundles=local.bundles)
    return policies


@carries_out("namespaces.create")
async def create_namespace(
    service: Service, namespace: NamespaceName, policies: Policies | None
) -> None:
    await check_tenant(service, namespace.tenant)
    asked = policies if policies is not None else Policies()
    config, namespaces = service.config, service.resources.namespaces
    check_policies(asked, plan_context(config))
    if namespace == SYSTEM_NAMESPACE and (asked.numberOfTopicBuckets or 1) > 1:
        raise PreconditionFailed(
            f"Invalid value for numberOfTopicBuckets: {namespace} holds the brokers' own topics,"
            " which all brokers find without asking for its policies"
        )
    clusters = await _check_clusters(service, namespace, asked)
    bundles = plan_bundles(asked.bundles, config.defaultNumberOfNamespaceBundles)
    present = await namespaces.get(namespace)
    if present is not None:
        if asked.numberOfTopicBuckets is not None:
            check_topic_buckets_kept(present, asked)
        raise Conflict("Namespace already exists")
    limit = config.maxNamespacesPerTenant
    if limit > 0 and len(await namespaces.list(namespace.tenant)) >= limit:
        raise PreconditionFailed(
            f"Exceed the maximum number of namespace in tenant :{namespace.tenant}"
        )
    complete = replace(asked, replication_clusters=clusters, bundles=bundles, deleted=False)
    await namespaces.create(namespace, complete)


async def _check_clusters(
    service: Service, namespace: NamespaceName, asked: Policies
) -> tuple[str, ...]:
    tenant = await service.resources.tenants.get(namespace.tenant)
    assert tenant is not None, "the caller looked"
    if not asked.replication_clusters:
        return (service.cluster,)
    for cluster in asked.replication_clusters:
        if cluster not in tenant.allowedClusters:
            raise Forbidden(
                f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant"
                f" [{namespace.tenant}]"
            )
        if asked.allowed_clusters and cluster not in asked.allowed_clusters:
            raise BadRequest(
                f"Cluster [{cluster}] is not in the list of allowed clusters of the namespace"
            )
    return asked.replication_clusters


@carries_out("namespaces.topic_buckets")
async def get_topic_buckets(service: Service, namespace: NamespaceName) -> int:
    return (await load_policies(service, namespace)).numberOfTopicBuckets or 1


@carries_out("namespaces.rebucket")
async def rebucket(service: Service, namespace: NamespaceName, topic_buckets: int) -> None:
    """Only what is true already may be set."""
    check_topic_buckets(topic_buckets)
    present = await load_policies(service, namespace)
    check_topic_buckets_kept(present, Policies(numberOfTopicBuckets=topic_buckets))


@carries_out("namespaces.delete")
async def delete_namespace(service: Service, namespace: NamespaceName, force: bool) -> None:
    if force and not service.config.forceDeleteNamespaceAllowed:
        raise MethodNotAllowed("Broker doesn't allow forced deletion of namespaces")
    await remove_namespace(service, namespace, force=force)


async def remove_namespace(service: Service, namespace: NamespaceName, *, force: bool) -> None:
    """Mark, then empty, then forget: after the mark there is only forward.

    Each round deletes what is found; a topic that came to be meanwhile costs another round.
    """
    namespaces = service.resources.namespaces
    policies = await namespaces.get(namespace)
    if policies is None:
        raise NamespaceNotFound(f"Namespace {namespace} does not exist.")
    if len(policies.replication_clusters) > 1:
        raise PreconditionFailed(
            "Cannot delete the namespace; it is still replicated to more than one cluster"
        )
    topics = await _all_topics(service, namespace)
    if not force and await _has_user_topics(service, namespace, topics):
        raise Conflict("Cannot delete non empty namespace")
    await namespaces.update(namespace, lambda each: replace(each, deleted=True))
    for _ in range(_ROUNDS_MAX):
        await _delete_topics(service, topics)
        await service.resources.partitioned.delete_all(namespace)
        topics = await _all_topics(service, namespace)
        if not topics and await service.tree.clear(namespace):
            break
    else:
        raise Conflict(f"Topics keep coming to be in {namespace}")
    await service.policies.delete_namespace(namespace)
    await service.store.delete_recursive(f"/namespace/{namespace}")
    await namespaces.delete(namespace)


async def _all_topics(service: Service, namespace: NamespaceName) -> Sequence[TopicName]:
    """Regular and scalable ones; segments go with their topic."""
    regular = await regular_topics(service, namespace)
    return [*await service.scalable.list(namespace), *regular]


async def _has_user_topics(
    service: Service, namespace: NamespaceName, topics: Sequence[TopicName]
) -> bool:
    if not all(is_system_topic(topic) for topic in topics):
        return True
    for domain in DOMAINS:
        if await service.resources.partitioned.list(namespace, domain):
            return True
    return False


async def _delete_topics(service: Service, topics: Sequence[TopicName]) -> None:
    async def delete_one(topic: TopicName) -> None:
        owner = service.scalable if topic.domain is TopicDomain.TOPIC else service
        with suppress(TopicNotFound):
            await owner.delete_topic(topic, force=True)

    await for_each(topics, delete_one)
    for base in sorted({topic.base.full for topic in topics}):
        await service.schemas.delete_storage(parse_stored_topic(base))
