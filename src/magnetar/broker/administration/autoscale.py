"""How topics may scale themselves: overrides of namespaces and topics, and what is in force."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from magnetar.broker.administration.record import load_policies, store_policies
from magnetar.broker.administration.registry import Document, carries_out
from magnetar.broker.scalable.autoscale import plan_auto_scale
from magnetar.broker.service import Service
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


# Of a namespace
@carries_out("scalable_topics.namespace_auto_scale_policy")
async def get_of_namespace(service: Service, namespace: NamespaceName) -> Override | None:
    return (await load_policies(service, namespace)).scalableTopicAutoScalePolicy


@carries_out("scalable_topics.set_namespace_auto_scale_policy")
async def set_of_namespace(
    service: Service, namespace: NamespaceName, override: AutoScaleOverride
) -> None:
    """What contradicts the broker's own values is refused."""
    await _store_of_namespace(service, namespace, format_override(override))


@carries_out("scalable_topics.remove_namespace_auto_scale_policy")
async def remove_of_namespace(service: Service, namespace: NamespaceName) -> None:
    await _store_of_namespace(service, namespace, None)


async def _store_of_namespace(
    service: Service, namespace: NamespaceName, value: Override | None
) -> None:
    check_auto_scale(apply_override(plan_auto_scale(service.config), value))
    await store_policies(
        service,
        namespace,
        lambda policies: structs.replace(policies, scalableTopicAutoScalePolicy=value),
    )


# Of a topic
@carries_out("scalable_topics.auto_scale_policy")
async def get_of_topic(service: Service, topic: TopicName) -> Override | None:
    return (await service.scalable.metadata(topic)).auto_scale_policy


@carries_out("scalable_topics.set_auto_scale_policy")
async def set_of_topic(service: Service, topic: TopicName, override: AutoScaleOverride) -> None:
    """What contradicts the broker's or the namespace's values is refused."""
    await service.scalable.metadata(topic)
    value = format_override(override)
    above = apply_override(
        plan_auto_scale(service.config), await get_of_namespace(service, topic.namespace)
    )
    check_auto_scale(apply_override(above, value))
    await _store_of_topic(service, topic, value)


@carries_out("scalable_topics.remove_auto_scale_policy")
async def remove_of_topic(service: Service, topic: TopicName) -> None:
    await service.scalable.metadata(topic)
    await _store_of_topic(service, topic, None)


async def _store_of_topic(service: Service, topic: TopicName, value: Override | None) -> None:
    await service.scalable.records.update(
        topic, lambda record: replace(record, auto_scale_policy=value)
    )


async def describe_auto_scale(service: Service, topic: TopicName) -> Document:
    """Every value that is in force, and where it was set."""
    own = await get_of_topic(service, topic)
    namespace = await get_of_namespace(service, topic.namespace)
    policy = apply_override(plan_auto_scale(service.config), namespace)
    policy = apply_override(policy, own)
    return {
        name: {"value": getattr(policy, name), "source": source_of(name, namespace, own).value}
        for name in FIELDS
    }
