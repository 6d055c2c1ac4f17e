"""Policies of a topic, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from magnetar.broker.administration.record import load_policies
from magnetar.broker.administration.topic import check_exists
from magnetar.broker.api.topic_setting import REPLICATION, TopicSetting, check_dispatch_rate
from magnetar.errors import MethodNotAllowed, PreconditionFailed
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import (
    BacklogQuota,
    BacklogQuotaType,
    DispatchRate,
    SubscriptionPolicies,
    TopicPolicies,
)
from magnetar.model.validation import (
    check_backlog_quota,
    check_quota_within_retention,
    parse_quota_type,
)

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class TopicPolicyApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._policies = service.policies

    async def get(
        self, topic: TopicName, setting: TopicSetting, *, applied: bool, is_global: bool
    ) -> Any:
        return setting.read(await self._read(topic, applied=applied, is_global=is_global))

    async def set(
        self, topic: TopicName, setting: TopicSetting, value: Any, *, is_global: bool
    ) -> None:
        """None is what a call without a value means; what cannot be is refused before anything is
        written.
        """
        await self._check(topic)
        if value is None:
            value = setting.bodyless
        await self._store(topic, setting, value, is_global=is_global)

    async def remove(self, topic: TopicName, setting: TopicSetting, *, is_global: bool) -> None:
        await self._check(topic)
        await self._store(topic, setting, None, is_global=is_global)

    async def _store(
        self, topic: TopicName, setting: TopicSetting, value: Any, *, is_global: bool
    ) -> None:
        if value is not None:
            setting.check(value, await self._policies.get_applied(topic), self._service)
            if setting is REPLICATION:
                await self._check_replication(topic, value, is_global=is_global)
        await self._policies.update(
            topic,
            lambda present: setting.apply(present, value),
            is_global=is_global,
            skip_if_absent=value is None,
        )

    async def _check_replication(
        self, topic: TopicName, clusters: Sequence[str], *, is_global: bool
    ) -> None:
        if not clusters:
            raise PreconditionFailed("ClusterIds should not be null or empty")
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
        """What keeps the topic policies of a namespace, and why."""
        await load_policies(self._service, namespace)
        name, reason = await self._policies.describe_backend(namespace)
        return {"backend": name, "reason": reason}

    async def delete(self, topic: TopicName) -> None:
        """Both scopes; also after the topic itself is gone."""
        self._check_may_have(topic)
        await self._policies.delete(topic)

    # Backlog quotas
    async def backlog_quotas(
        self, topic: TopicName, *, applied: bool, is_global: bool
    ) -> Mapping[BacklogQuotaType, BacklogQuota]:
        policies = await self._read(topic, applied=applied, is_global=is_global)
        return policies.backLogQuotaMap

    async def set_backlog_quota(
        self, topic: TopicName, kind: str | None, quota: BacklogQuota | None, *, is_global: bool
    ) -> None:
        quota_type = parse_quota_type(kind)
        await self._check(topic)
        stored = None
        if quota is not None:
            check_backlog_quota(quota)
            stored = replace(quota, limit=quota.size, limitSize=quota.size)
            retention = (await self._policies.get_applied(topic)).retentionPolicies
            check_quota_within_retention(stored, retention, level="topic")

        def change(present: TopicPolicies) -> TopicPolicies:
            quotas = dict(present.backLogQuotaMap)
            quotas.pop(quota_type, None)
            if stored is not None:
                quotas[quota_type] = stored
            return replace(present, backLogQuotaMap=quotas)

        await self._policies.update(
            topic, change, is_global=is_global, skip_if_absent=stored is None
        )

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
            check_dispatch_rate(rate, TopicPolicies(), self._service)

        def change(present: TopicPolicies) -> TopicPolicies:
            policies = dict(present.subscriptionPolicies)
            policies.pop(subscription, None)
            if rate is not None:
                policies[subscription] = SubscriptionPolicies(dispatchRate=rate)
            return replace(present, subscriptionPolicies=policies)

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
