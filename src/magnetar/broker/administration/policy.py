"""Policies of namespaces and topics: reading, setting and removing each as its row says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_type_hints

from magnetar.broker.administration.port import PolicySettings
from magnetar.broker.administration.record import check_tenant, load_policies, store_policies
from magnetar.broker.administration.registry import FUNCTIONS, Function, carries_out
from magnetar.broker.administration.topic import check_exists
from magnetar.broker.policy import PolicyService
from magnetar.broker.policy_default import plan_context, read_broker_value
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.service import ScalableService
from magnetar.errors import Forbidden, MethodNotAllowed, PreconditionFailed
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, parse_topic
from magnetar.model.policy import Policies, TopicPolicies
from magnetar.operation.policy import ACTIONS, AnyPolicy, At, Level, policies_at
from magnetar.operation.policy_table import CLUSTERS, OWN_RATE, POLICIES
from magnetar.operation.row import Place
from magnetar.rules.policy_field import (
    apply_value,
    check_value,
    find_slot,
    read_value,
    value_type,
)


def policy_functions(
    policies: Iterable[AnyPolicy] = (*POLICIES, OWN_RATE),
) -> Mapping[str, Function]:
    """What carries the operations on policies out, by their names."""
    return {
        f"{level}_policies.{at.operation(action)}": _typed(each, policy, level, at)
        for level, make in ((Level.NAMESPACE, _of_namespace), (Level.TOPIC, _of_topic))
        for policy, at in policies_at(level, policies)
        for action, each in zip(ACTIONS, make(policy, at), strict=True)
    }


def _typed(function: Function, policy: AnyPolicy, level: Level, at: At) -> Function:
    """Say what the row's values are; a write without one may mean something."""
    kinds = get_type_hints(function)
    del kinds["owners"]
    is_get = kinds["return"] is object
    kind = value_type(policy, level, all_keys=is_get)
    is_required = at.bodyless is None if level is Level.TOPIC else bool(at.missing)
    if "value" in kinds:
        kinds["value"] = kind if is_required else kind | None
    if is_get:
        kinds["return"] = kind
    if policy.key is None or (is_get and policy.key.place is not Place.PATH):
        kinds.pop("key", None)
    function.__annotations__ = kinds
    return function


# Of namespaces
def _of_namespace(policy: AnyPolicy, at: At) -> tuple[Function, Function, Function]:
    level = Level.NAMESPACE

    async def get(owners: PolicySettings, namespace: NamespaceName) -> object:
        record = await load_policies(owners.resources, namespace)
        value = read_value(policy, level, record, find_slot(policy, level, owners.cluster))
        if value is None and at.unset_by_broker:
            return read_broker_value(policy, owners.config)
        return at.unset if value is None else value

    async def store(owners: PolicySettings, namespace: NamespaceName, value: Any, key: str) -> None:
        slot = find_slot(policy, level, owners.cluster, key)
        if policy is CLUSTERS:
            await _check_clusters(owners.resources, namespace, value)

        def change(record: Policies) -> Policies:
            if value is not None:
                context = plan_context(owners.config)._replace(
                    quotas=tuple(record.backlog_quota_map.values()),
                    retention=record.retention_policies,
                    replication_clusters=record.replication_clusters,
                    allowed_clusters=record.allowed_clusters,
                )
                check_value(policy, value, context)
            return apply_value(policy, level, record, value, slot)

        await store_policies(owners.resources, namespace, change)

    async def set_(
        owners: PolicySettings, namespace: NamespaceName, value: Any, key: str = ""
    ) -> None:
        await store(owners, namespace, at.bodyless if value is None else value, key)

    async def remove(owners: PolicySettings, namespace: NamespaceName, key: str = "") -> None:
        await store(owners, namespace, None, key)

    return get, set_, remove


async def _check_clusters(
    resources: Resources, namespace: NamespaceName, clusters: Sequence[str]
) -> None:
    await check_tenant(resources, namespace.tenant)
    tenant = await resources.tenants.get(namespace.tenant)
    known = await resources.clusters.list()
    for cluster in clusters:
        if cluster not in known:
            raise Forbidden(f"Invalid cluster id: {cluster}")
        if tenant is not None and cluster not in tenant.allowedClusters:
            raise Forbidden(
                f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant"
                f" [{namespace.tenant}]"
            )


@carries_out("namespace_policies.get_topic_policies_backend")
async def get_backend(
    resources: Resources, policies: PolicyService, namespace: NamespaceName
) -> Mapping[str, str]:
    await load_policies(resources, namespace)
    name, reason = await policies.backend.describe_backend(namespace)
    return {"backend": name, "reason": reason}


# Of topics
def _of_topic(policy: AnyPolicy, at: At) -> tuple[Function, Function, Function]:
    level = Level.TOPIC

    async def get(
        owners: PolicySettings, topic: TopicName, applied: bool, is_global: bool, key: str = ""
    ) -> object:
        await _check(owners, topic)
        if applied:
            record = await owners.policies.get_applied(topic)
        else:
            record = await owners.policies.get(topic, is_global=is_global) or TopicPolicies()
        value = read_value(
            policy, level, record, find_slot(policy, level, owners.cluster, key or None)
        )
        if value is None and applied and at.older:
            return getattr(record, at.older)
        return at.unset if value is None else value

    async def store(
        owners: PolicySettings, topic: TopicName, value: Any, is_global: bool, key: str
    ) -> None:
        slot = find_slot(policy, level, owners.cluster, key)
        await _check(owners, topic)
        if value is not None:
            applied = await owners.policies.get_applied(topic)
            context = plan_context(owners.config)._replace(
                level=level,
                quotas=tuple(applied.backLogQuotaMap.values()),
                retention=applied.retentionPolicies,
            )
            check_value(policy, value, context)
            if policy is CLUSTERS:
                await _check_topic_clusters(owners, topic, value, is_global=is_global)

        def change(record: TopicPolicies) -> TopicPolicies:
            return apply_value(policy, level, record, value, slot)

        for name in await _policy_names(owners.scalable, topic):
            await owners.policies.update(
                name, change, is_global=is_global, skip_if_absent=value is None
            )

    async def set_(
        owners: PolicySettings, topic: TopicName, value: Any, is_global: bool, key: str = ""
    ) -> None:
        await store(owners, topic, at.bodyless if value is None else value, is_global, key)

    async def remove(
        owners: PolicySettings, topic: TopicName, is_global: bool, key: str = ""
    ) -> None:
        await store(owners, topic, None, is_global, key)

    return get, set_, remove


async def _check_topic_clusters(
    owners: PolicySettings, topic: TopicName, clusters: Sequence[str], *, is_global: bool
) -> None:
    if owners.cluster not in clusters and not is_global:
        raise PreconditionFailed(
            "Can not remove local cluster from the local topic-level replication clusters policy"
        )
    known = await owners.resources.clusters.list()
    allowed = (await load_policies(owners.resources, topic.namespace)).replication_clusters
    for cluster in clusters:
        if cluster not in known:
            raise PreconditionFailed(f"Invalid cluster id: {cluster}")
        if is_global and cluster not in allowed:
            raise PreconditionFailed(f"The namespace is not replicated to {cluster}")


@carries_out("topic_policies.delete_policies")
async def delete_policies(
    scalable: ScalableService, policies: PolicyService, topic: TopicName
) -> None:
    """Both scopes; also after the topic itself is gone."""
    _check_may_have(policies, topic)
    for name in await _policy_names(scalable, topic):
        await policies.delete(name)


async def _policy_names(scalable: ScalableService, topic: TopicName) -> tuple[TopicName, ...]:
    """The topic, and the regular one that it was migrated from: its messages are sealed segments of
    this topic, but their policies are looked up under the old name.
    """
    if topic.domain is not TopicDomain.TOPIC:
        return (topic,)
    record = await scalable.records.get(topic)
    origin = None if record is None else record.migrated_from
    return (topic,) if origin is None else (topic, parse_topic(origin.topic))


async def _check(owners: PolicySettings, topic: TopicName) -> None:
    _check_may_have(owners.policies, topic)
    await check_exists(owners, topic)


def _check_may_have(policies: PolicyService, topic: TopicName) -> None:
    if not policies.is_enabled:
        raise MethodNotAllowed(
            "Topic level policies is disabled, to enable the topic level policy and retry."
        )
    if topic.is_partition:
        raise PreconditionFailed("Not allowed to set/get topic policy for a partition")


FUNCTIONS.update(policy_functions())
