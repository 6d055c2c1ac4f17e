"""Policies of namespaces and topics, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from magnetar.broker.administration.record import check_tenant, load_policies, store_policies
from magnetar.broker.administration.topic import check_exists
from magnetar.broker.default import plan_context, read_broker_value
from magnetar.errors import Forbidden, MethodNotAllowed, PreconditionFailed
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import DispatchRate, Policies, SubscriptionPolicies, TopicPolicies
from magnetar.operation.policy import AnyPolicy, Level
from magnetar.operation.policy_table import CLUSTERS, SUBSCRIPTION_RATE
from magnetar.rules.policy_field import apply_value, check_value, parse_key, read_value

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class NamespacePolicyApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def get(self, namespace: NamespaceName, policy: AnyPolicy) -> Any:
        record = await load_policies(self._service, namespace)
        value = read_value(policy, Level.NAMESPACE, record, cluster=self._service.cluster)
        if value is not None:
            return value
        at = policy.level(Level.NAMESPACE)
        if at.unset_by_broker:
            return read_broker_value(policy, self._service.config)
        return at.unset

    async def set(
        self, namespace: NamespaceName, policy: AnyPolicy, value: Any, *, key: str = ""
    ) -> None:
        """None removes, unless a write without a value means something else."""
        if value is None:
            value = policy.level(Level.NAMESPACE).bodyless
        parse_key(key)
        if policy is CLUSTERS:
            await self._check_clusters(namespace, value)

        def change(record: Policies) -> Policies:
            if value is not None:
                context = plan_context(self._service.config)._replace(
                    quotas=tuple(record.backlog_quota_map.values()),
                    retention=record.retention_policies,
                    replication_clusters=record.replication_clusters,
                    allowed_clusters=record.allowed_clusters,
                )
                check_value(policy, value, context)
            return self._apply(policy, record, value, key)

        await store_policies(self._service, namespace, change)

    async def remove(self, namespace: NamespaceName, policy: AnyPolicy, *, key: str = "") -> None:
        parse_key(key)
        await store_policies(
            self._service, namespace, lambda record: self._apply(policy, record, None, key)
        )

    def _apply(self, policy: AnyPolicy, record: Policies, value: Any, key: str) -> Policies:
        cluster = self._service.cluster
        return apply_value(policy, Level.NAMESPACE, record, value, cluster=cluster, key=key)

    async def _check_clusters(self, namespace: NamespaceName, clusters: Sequence[str]) -> None:
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


class TopicPolicyApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._policies = service.policies

    async def get(
        self, topic: TopicName, policy: AnyPolicy, *, applied: bool, is_global: bool
    ) -> Any:
        record = await self._read(topic, applied=applied, is_global=is_global)
        value = read_value(policy, Level.TOPIC, record, cluster=self._service.cluster)
        return policy.level(Level.TOPIC).unset if value is None else value

    async def set(
        self, topic: TopicName, policy: AnyPolicy, value: Any, *, is_global: bool, key: str = ""
    ) -> None:
        """An invalid value is refused before anything is written; None removes, unless a write
        without a value means something else.
        """
        parse_key(key)
        await self._check(topic)
        if value is None:
            value = policy.level(Level.TOPIC).bodyless
        await self._store(topic, policy, value, is_global=is_global, key=key)

    async def remove(
        self, topic: TopicName, policy: AnyPolicy, *, is_global: bool, key: str = ""
    ) -> None:
        parse_key(key)
        await self._check(topic)
        await self._store(topic, policy, None, is_global=is_global, key=key)

    async def _store(
        self, topic: TopicName, policy: AnyPolicy, value: Any, *, is_global: bool, key: str
    ) -> None:
        if value is not None:
            applied = await self._policies.get_applied(topic)
            context = plan_context(self._service.config)._replace(
                level=Level.TOPIC,
                quotas=tuple(applied.backLogQuotaMap.values()),
                retention=applied.retentionPolicies,
            )
            check_value(policy, value, context)
            if policy is CLUSTERS:
                await self._check_clusters(topic, value, is_global=is_global)
        cluster = self._service.cluster
        await self._policies.update(
            topic,
            lambda record: apply_value(
                policy, Level.TOPIC, record, value, cluster=cluster, key=key
            ),
            is_global=is_global,
            skip_if_absent=value is None,
        )

    async def _check_clusters(
        self, topic: TopicName, clusters: Sequence[str], *, is_global: bool
    ) -> None:
        if self._service.cluster not in clusters and not is_global:
            raise PreconditionFailed(
                "Can not remove local cluster from the local topic-level replication clusters"
                " policy"
            )
        known = await self._service.resources.clusters.list()
        allowed = (await load_policies(self._service, topic.namespace)).replication_clusters
        for cluster in clusters:
            if cluster not in known:
                raise PreconditionFailed(f"Invalid cluster id: {cluster}")
            if is_global and cluster not in allowed:
                raise PreconditionFailed(f"The namespace is not replicated to {cluster}")

    async def backend(self, namespace: NamespaceName) -> Mapping[str, str]:
        """Which backend keeps the topic policies of a namespace, and why."""
        await load_policies(self._service, namespace)
        name, reason = await self._policies.describe_backend(namespace)
        return {"backend": name, "reason": reason}

    async def delete(self, topic: TopicName) -> None:
        """Both scopes; also after the topic itself is gone."""
        self._check_may_have(topic)
        await self._policies.delete(topic)

    # Rates of one subscription
    async def subscription_rate(
        self, topic: TopicName, subscription: str, *, applied: bool, is_global: bool
    ) -> DispatchRate | None:
        policies = await self._read(topic, applied=applied, is_global=is_global)
        own = policies.subscriptionPolicies.get(subscription)
        if own is not None and own.dispatchRate is not None:
            return own.dispatchRate
        return policies.subscriptionDispatchRate if applied else None

    async def set_subscription_rate(
        self, topic: TopicName, subscription: str, rate: DispatchRate | None, *, is_global: bool
    ) -> None:
        await self._check(topic)
        if rate is not None:
            context = plan_context(self._service.config)._replace(level=Level.TOPIC)
            check_value(SUBSCRIPTION_RATE, rate, context)

        def change(record: TopicPolicies) -> TopicPolicies:
            policies = dict(record.subscriptionPolicies)
            policies.pop(subscription, None)
            if rate is not None:
                policies[subscription] = SubscriptionPolicies(dispatchRate=rate)
            return replace(record, subscriptionPolicies=policies)

        await self._policies.update(topic, change, is_global=is_global, skip_if_absent=rate is None)

    # Before anything
    async def _read(self, topic: TopicName, *, applied: bool, is_global: bool) -> TopicPolicies:
        await self._check(topic)
        if applied:
            return await self._policies.get_applied(topic)
        return await self._policies.get(topic, is_global=is_global) or TopicPolicies()

    async def _check(self, topic: TopicName) -> None:
        self._check_may_have(topic)
        await check_exists(self._service, topic)

    def _check_may_have(self, topic: TopicName) -> None:
        if not self._policies.is_enabled:
            raise MethodNotAllowed(
                "Topic level policies is disabled, to enable the topic level policy and retry."
            )
        if topic.is_partition:
            raise PreconditionFailed("Not allowed to set/get topic policy for a partition")
