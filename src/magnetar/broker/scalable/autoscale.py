"""Auto-scale policy of a topic: the broker's values, the namespace's, the topic's own."""

from __future__ import annotations

from magnetar.broker.resource import Namespaces
from magnetar.errors import PreconditionFailed
from magnetar.model.autoscale import AutoScalePolicy, Override, apply_override, check_auto_scale
from magnetar.model.name import NamespaceName
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.runtime.configuration import Configuration


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


class ScalePolicies:
    """The policies of this broker's topics, each read when it is asked for."""

    def __init__(self, config: Configuration, namespaces: Namespaces) -> None:
        self._config = config
        self._namespaces = namespaces

    async def load_override(self, namespace: NamespaceName) -> Override | None:
        """What the namespace sets."""
        policies = await self._namespaces.get(namespace)
        return None if policies is None else policies.scalableTopicAutoScalePolicy

    async def load(
        self, namespace: NamespaceName, record: ScalableTopicMetadata
    ) -> AutoScalePolicy:
        """What is in force, whether it makes sense or not; raise PreconditionFailed when a stored
        value cannot be read.
        """
        override = await self.load_override(namespace)
        above = apply_override(plan_auto_scale(self._config), override)
        return apply_override(above, record.auto_scale_policy)

    async def load_valid(
        self, namespace: NamespaceName, record: ScalableTopicMetadata
    ) -> AutoScalePolicy | None:
        """None when what is set contradicts itself: then nothing scales."""
        try:
            policy = await self.load(namespace, record)
            check_auto_scale(policy)
        except PreconditionFailed:
            return None
        return policy
