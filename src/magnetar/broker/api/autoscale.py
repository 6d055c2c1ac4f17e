"""How topics may scale themselves: overrides of namespaces and topics, and what is in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from magnetar.broker.administration.record import load_policies, store_policies
from magnetar.broker.scalable.autoscale import plan_auto_scale
from magnetar.model.autoscale import (
    FIELDS,
    AutoScaleOverride,
    Override,
    apply_override,
    check_auto_scale,
    format_override,
    source_of,
)
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import Policies
from magnetar.model.scalable import ScalableTopicMetadata

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class AutoScaleApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    # Of a namespace
    async def of_namespace(self, namespace: NamespaceName) -> Override | None:
        return (await load_policies(self._service, namespace)).scalableTopicAutoScalePolicy

    async def set_of_namespace(
        self, namespace: NamespaceName, override: AutoScaleOverride | None
    ) -> None:
        """None removes; what contradicts the broker's own values is refused."""
        value = None if override is None else format_override(override)
        check_auto_scale(apply_override(plan_auto_scale(self._service.config), value))

        def change(policies: Policies) -> Policies:
            return structs.replace(policies, scalableTopicAutoScalePolicy=value)

        await store_policies(self._service, namespace, change)

    # Of a topic
    async def of_topic(self, topic: TopicName) -> Override | None:
        return (await self._service.scalable.metadata(topic)).auto_scale_policy

    async def set_of_topic(self, topic: TopicName, override: AutoScaleOverride | None) -> None:
        """None removes; what contradicts the broker's or the namespace's values is refused."""
        await self._service.scalable.metadata(topic)
        value = None if override is None else format_override(override)
        if value is not None:
            above = apply_override(
                plan_auto_scale(self._service.config), await self.of_namespace(topic.namespace)
            )
            check_auto_scale(apply_override(above, value))

        def change(record: ScalableTopicMetadata) -> ScalableTopicMetadata:
            return replace(record, auto_scale_policy=value)

        await self._service.scalable.records.update(topic, change)

    async def effective(self, topic: TopicName) -> Mapping[str, Any]:
        """Every value that is in force, and where it was set."""
        own = await self.of_topic(topic)
        namespace = await self.of_namespace(topic.namespace)
        policy = apply_override(plan_auto_scale(self._service.config), namespace)
        policy = apply_override(policy, own)
        return {
            name: {"value": getattr(policy, name), "source": source_of(name, namespace, own).value}
            for name in FIELDS
        }
