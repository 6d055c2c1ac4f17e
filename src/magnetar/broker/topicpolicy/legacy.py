"""Namespaces that have `__change_events` stay with it; all others use the configured backend."""

from __future__ import annotations

from magnetar.broker.topicpolicy.contract import PolicyChange, PolicyHost, TopicPoliciesService
from magnetar.broker.topicpolicy.metadata import MetadataStoreTopicPolicies
from magnetar.broker.topicpolicy.system import SystemTopicPolicies
from magnetar.errors import InvalidConfiguration
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.rules.system import CHANGE_EVENTS


class LegacyAwareTopicPolicies(TopicPoliciesService):
    """The backend that a namespace has is the one that answers: its failure is the caller's."""

    def __init__(self, system: SystemTopicPolicies, configured: TopicPoliciesService) -> None:
        if isinstance(configured, SystemTopicPolicies):
            raise InvalidConfiguration("the configured backend is the system topic already")
        self.name = configured.name
        self.system = system
        self._configured = configured

    def start(self, host: PolicyHost) -> None:
        """The system topic backend reads nothing before a namespace needs it, and notifies when a
        namespace moves.
        """
        self._configured.notify = self.system.notify = self.notify
        self._configured.start(host)
        self.system.start(host)

    async def close(self) -> None:
        try:
            await self._configured.close()
        finally:
            await self.system.close()

    async def _backend(self, namespace: NamespaceName) -> TopicPoliciesService:
        return self.system if await self.system.has_events(namespace) else self._configured

    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        backend = await self._backend(topic.namespace)
        return await backend.get(topic, is_global=is_global)

    async def update(self, topic: TopicName, change: PolicyChange, *, is_global: bool) -> None:
        backend = await self._backend(topic.namespace)
        await backend.update(topic, change, is_global=is_global)

    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        backend = await self._backend(topic.namespace)
        await backend.delete(topic, keep_global=keep_global)

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        """Both: what the namespace has now may not be what it had."""
        await self.system.delete_namespace(namespace)
        await self._configured.delete_namespace(namespace)

    def on_topic_loaded(self, topic: TopicName) -> None:
        self.system.on_topic_loaded(topic)

    async def describe_backend(self, namespace: NamespaceName) -> tuple[str, str]:
        if await self._backend(namespace) is self.system:
            reason = f"{namespace} has {CHANGE_EVENTS}, so its policies stay there"
            if isinstance(self._configured, MetadataStoreTopicPolicies):
                hidden = await self._configured.count(namespace)
                if hidden:
                    reason += f"; {hidden} records in the metadata store are not used"
            return self.system.name, reason
        return (
            self.name,
            f"{namespace} has no {CHANGE_EVENTS}, so the configured {self.name} serves it",
        )
