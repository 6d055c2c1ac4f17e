"""Namespaces: made, listed and removed with all they hold; their properties, and what one cluster
keeps of them by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from magnetar.broker.administration.bundle import find_bundles, regular_topics
from magnetar.broker.administration.port import (
    NamespaceContents,
    NamespaceOwners,
    TopicOwners,
    TopicTraces,
)
from magnetar.broker.administration.record import Store, check_tenant, load_policies, without
from magnetar.broker.administration.registry import Document, carries_out, finds
from magnetar.broker.policy_default import plan_context
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.segment import together
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
from magnetar.model.limit import Limits, merge_properties
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    is_valid_part,
    parse_stored_topic,
)
from magnetar.model.policy import LocalPolicies, Policies
from magnetar.model.validation import check_topic_buckets, check_topic_buckets_kept
from magnetar.operation.row import DOMAINS
from magnetar.rules.bundle import plan_bundles
from magnetar.rules.policy_field import check_policies
from magnetar.rules.system import SYSTEM_NAMESPACE, is_system_topic

_ROUNDS_MAX: Final = 5


@finds(LocalPolicies)
async def load_local(resources: Resources, namespace: NamespaceName) -> LocalPolicies:
    """What this cluster keeps of a namespace by itself."""
    await load_policies(resources, namespace)
    return await resources.namespaces.get_local(namespace) or LocalPolicies()


@carries_out("namespaces.list")
async def list_namespaces(resources: Resources, tenant: str) -> Sequence[str]:
    if not is_valid_part(tenant) or await resources.tenants.get(tenant) is None:
        raise TenantNotFound(f"Tenant not found: {tenant}")
    return [str(name) for name in await resources.namespaces.list(tenant)]


@carries_out("namespaces.get")
async def get_namespace(policies: Policies, local: LocalPolicies) -> Policies:
    """With the bundles that are in use here."""
    return policies if local.bundles is None else replace(policies, bundles=local.bundles)


@carries_out("namespaces.create")
async def create_namespace(
    owners: NamespaceOwners, namespace: NamespaceName, policies: Policies | None
) -> None:
    await check_tenant(owners.resources, namespace.tenant)
    asked = policies if policies is not None else Policies()
    config, namespaces = owners.config, owners.resources.namespaces
    check_policies(asked, plan_context(config))
    if namespace == SYSTEM_NAMESPACE and (asked.numberOfTopicBuckets or 1) > 1:
        raise PreconditionFailed(
            f"Invalid value for numberOfTopicBuckets: {namespace} holds the brokers' own topics,"
            " which all brokers find without asking for its policies"
        )
    if owners.ledgers.is_apache_readable and (asked.numberOfTopicBuckets or 1) > 1:
        raise PreconditionFailed(
            "Invalid value for numberOfTopicBuckets: with ledgers that brokers share there is one"
            " bucket, for Apache Pulsar knows no others"
        )
    clusters = await _check_clusters(owners, namespace, asked)
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
    owners: NamespaceOwners, namespace: NamespaceName, asked: Policies
) -> tuple[str, ...]:
    tenant = await owners.resources.tenants.get(namespace.tenant)
    assert tenant is not None, "the caller looked"
    if not asked.replication_clusters:
        return (owners.cluster,)
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
async def get_topic_buckets(policies: Policies) -> int:
    return policies.numberOfTopicBuckets or 1


@carries_out("namespaces.rebucket")
async def rebucket(policies: Policies, topic_buckets: int) -> None:
    """Only what is true already may be set."""
    check_topic_buckets(topic_buckets)
    check_topic_buckets_kept(policies, Policies(numberOfTopicBuckets=topic_buckets))


@carries_out("namespaces.delete")
async def delete_namespace(
    owners: NamespaceContents, namespace: NamespaceName, force: bool
) -> None:
    if force and not owners.config.forceDeleteNamespaceAllowed:
        raise MethodNotAllowed("Broker doesn't allow forced deletion of namespaces")
    await remove_namespace(owners, namespace, force=force)


async def remove_namespace(
    owners: NamespaceContents, namespace: NamespaceName, *, force: bool
) -> None:
    """Mark, then empty, then forget: after the mark there is only forward.

    Each round deletes what is found; a topic that came to be meanwhile costs another round.
    """
    namespaces = owners.resources.namespaces
    policies = await namespaces.get(namespace)
    if policies is None:
        raise NamespaceNotFound(f"Namespace {namespace} does not exist.")
    if len(policies.replication_clusters) > 1:
        raise PreconditionFailed(
            "Cannot delete the namespace; it is still replicated to more than one cluster"
        )
    topics = await _all_topics(owners, namespace)
    if not force and await _has_user_topics(owners.resources, namespace, topics):
        raise Conflict("Cannot delete non empty namespace")
    await namespaces.update(namespace, lambda each: replace(each, deleted=True))
    if owners.bundles is not None:
        await owners.bundles.gather(await find_bundles(owners, namespace, None))
    for _ in range(_ROUNDS_MAX):
        await _delete_topics(owners, topics)
        await owners.resources.partitioned.delete_all(namespace)
        topics = await _all_topics(owners, namespace)
        if not topics and await owners.tree.clear(namespace):
            break
    else:
        raise Conflict(f"Topics keep coming to be in {namespace}")
    await owners.policies.delete_namespace(namespace)
    if owners.bundles is not None:
        await owners.bundles.forget(namespace)
    await owners.store.delete_recursive(f"/namespace/{namespace}")
    await namespaces.delete(namespace)


async def _all_topics(owners: TopicOwners, namespace: NamespaceName) -> Sequence[TopicName]:
    """Regular and scalable ones; segments go with their topic."""
    regular = await regular_topics(owners.catalog, namespace)
    return [*await owners.scalable.records.list(namespace), *regular]


async def _has_user_topics(
    resources: Resources, namespace: NamespaceName, topics: Sequence[TopicName]
) -> bool:
    if not all(is_system_topic(topic) for topic in topics):
        return True
    for domain in DOMAINS:
        if await resources.partitioned.list(namespace, domain):
            return True
    return False


async def _delete_topics(owners: TopicTraces, topics: Sequence[TopicName]) -> None:
    async def delete_one(topic: TopicName) -> None:
        owner = owners.scalable if topic.domain is TopicDomain.TOPIC else owners.catalog
        with suppress(TopicNotFound):
            await owner.delete_topic(topic, force=True)

    await together(map(delete_one, topics))
    for base in sorted({topic.base.full for topic in topics}):
        await owners.schemas.delete_storage(parse_stored_topic(base))


# Properties
@carries_out("namespaces.properties")
async def get_properties(policies: Policies) -> Mapping[str, str]:
    return policies.properties


@carries_out("namespaces.property")
async def get_property(policies: Policies, key: str) -> str | None:
    return policies.properties.get(key)


@carries_out("namespaces.set_properties")
async def set_properties(limits: Limits, store: Store, properties: dict[str, str]) -> None:
    await store(
        lambda policies: replace(
            policies, properties=merge_properties(limits, policies.properties, properties)
        )
    )


@carries_out("namespaces.set_property")
async def set_property(limits: Limits, store: Store, key: str, value: str) -> None:
    await set_properties(limits, store, {key: value})


@carries_out("namespaces.clear_properties")
async def clear_properties(store: Store) -> None:
    await store(lambda policies: replace(policies, properties={}))


@carries_out("namespaces.remove_property")
async def remove_property(policies: Policies, store: Store, key: str) -> str | None:
    """What it was, if it was set."""
    await store(lambda present: replace(present, properties=without(present.properties, key)))
    return policies.properties.get(key)


# What this cluster keeps by itself
@carries_out("namespaces.bookie_affinity")
async def get_bookie_affinity(local: LocalPolicies) -> Document | None:
    return local.bookieAffinityGroup


@carries_out("namespaces.set_bookie_affinity")
async def set_bookie_affinity(
    resources: Resources, namespace: NamespaceName, group: dict[str, str]
) -> None:
    await _store_local(resources, namespace, bookieAffinityGroup=group)


@carries_out("namespaces.remove_bookie_affinity")
async def remove_bookie_affinity(resources: Resources, namespace: NamespaceName) -> None:
    await _store_local(resources, namespace, bookieAffinityGroup=None)


@carries_out("namespaces.anti_affinity")
async def get_anti_affinity(local: LocalPolicies) -> str | None:
    return local.namespaceAntiAffinityGroup


@carries_out("namespaces.set_anti_affinity")
async def set_anti_affinity(resources: Resources, namespace: NamespaceName, group: str) -> None:
    await _store_local(resources, namespace, namespaceAntiAffinityGroup=group)


@carries_out("namespaces.remove_anti_affinity")
async def remove_anti_affinity(resources: Resources, namespace: NamespaceName) -> None:
    await _store_local(resources, namespace, namespaceAntiAffinityGroup=None)


async def _store_local(resources: Resources, namespace: NamespaceName, **fields: object) -> None:
    await check_tenant(resources, namespace.tenant)
    await load_policies(resources, namespace)
    await resources.namespaces.get_or_create_local(namespace)
    await resources.namespaces.update_local(namespace, lambda each: replace(each, **fields))
