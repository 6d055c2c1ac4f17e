"""Which policy a topic scales itself by: the broker's values, the namespace's, the topic's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.errors import PreconditionFailed
from magnetar.model.autoscale import AutoScalePolicy, Override, apply_override, check_auto_scale
from magnetar.model.name import NamespaceName
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.runtime.configuration import Configuration

if TYPE_CHECKING:
    from magnetar.broker.service import Service


def plan_auto_scale(config: Configuration) -> AutoScalePolicy:
    """What the broker's configuration says."""
    return AutoScalePolicy(
        enabled=config.scalableTopicAutoScaleEnabled,
        maxSegments=config.scalableTopicMaxSegments,
        minSegments=config.scalableTopicMinSegments,
        maxDagDepth=config.scalableTopicMaxDagDepth,
        splitCooldownSeconds=config.scalableTopicSplitCooldownSeconds,
        mergeCooldownSeconds=config.scalableTopicMergeCooldownSeconds,
        mergeWindowSeconds=config.scalableTopicMergeWindowSeconds,
        splitMsgRateInThreshold=config.scalableTopicSplitMsgRateInThreshold,
        splitMsgRateOutThreshold=config.scalableTopicSplitMsgRateOutThreshold,
        splitBytesRateInThreshold=config.scalableTopicSplitBytesRateInThreshold,
        splitBytesRateOutThreshold=config.scalableTopicSplitBytesRateOutThreshold,
        mergeMsgRateInThreshold=config.scalableTopicMergeMsgRateInThreshold,
        mergeMsgRateOutThreshold=config.scalableTopicMergeMsgRateOutThreshold,
        mergeBytesRateInThreshold=config.scalableTopicMergeBytesRateInThreshold,
        mergeBytesRateOutThreshold=config.scalableTopicMergeBytesRateOutThreshold,
        consumersPerSegment=config.scalableTopicConsumersPerSegment,
    )


async def load_namespace_override(service: Service, namespace: NamespaceName) -> Override | None:
    policies = await service.resources.namespaces.get(namespace)
    return None if policies is None else policies.scalableTopicAutoScalePolicy


async def load_auto_scale(
    service: Service, namespace: NamespaceName, record: ScalableTopicMetadata
) -> AutoScalePolicy:
    """What is in force, whether it makes sense or not; raise PreconditionFailed when a stored
    value cannot be read.
    """
    above = apply_override(
        plan_auto_scale(service.config), await load_namespace_override(service, namespace)
    )
    return apply_override(above, record.auto_scale_policy)


async def load_valid_auto_scale(
    service: Service, namespace: NamespaceName, record: ScalableTopicMetadata
) -> AutoScalePolicy | None:
    """None when what is set contradicts itself: then nothing scales."""
    try:
        policy = await load_auto_scale(service, namespace, record)
        check_auto_scale(policy)
    except PreconditionFailed:
        return None
    return policy
