"""Namespaces that have `__change_events` stay with it; all others use the configured backend."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.broker.topicpolicy.contract import (
    Listeners,
    PolicyChange,
    PolicyUpdate,
    TopicPoliciesService,
    TopicPolicyListener,
)
from magnetar.broker.topicpolicy.marker import Markers
from magnetar.broker.topicpolicy.metadata import MetadataStoreTopicPolicies
from magnetar.broker.topicpolicy.system import SystemTopicPolicies
from magnetar.errors import BrokerError, InvalidConfiguration, NotAllowed
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.model.segment import policy_name
from magnetar.rules.system import CHANGE_EVENTS
from magnetar.runtime.log import Log
from magnetar.runtime.task import TaskScope

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_log = Log(__name__)


class LegacyAwareTopicPolicies(TopicPoliciesService):
    """The backend that a namespace has is the one that answers: its failure is the caller's."""

    name = "legacy-aware"

    def __init__(self, system: SystemTopicPolicies, configured: TopicPoliciesService) -> None:
        if isinstance(configured, SystemTopicPolicies):
            raise InvalidConfiguration("the configured backend is the system topic already")
        self.system = system
        self._configured = configured
        self._markers: Markers | None = None
        self._listeners = Listeners()
        self._registered: dict[tuple[TopicName, TopicPolicyListener], TopicPoliciesService] = {}
        self._scope = TaskScope("policy routing")

    def start(self, service: Service) -> None:
        """Start the configured backend only; the other one reads when a namespace needs it."""
        self._configured.start(service)
        self._markers = Markers(service)
        self.system.bind(service, self._markers)
        self._markers.listen(self._on_marker)

    async def close(self) -> None:
        if self._markers is not None:
            self._markers.close()
        await self._scope.close()
        try:
            await self._configured.close()
        finally:
            await self.system.close()

    async def _backend(self, namespace: NamespaceName) -> TopicPoliciesService:
        assert self._markers is not None, "not started"
        return self.system if await self._markers.has(namespace) else self._configured

    # ------------------------------------------------------------------ the contract

    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        backend = await self._backend(topic.namespace)
        return await backend.get(topic, is_global=is_global)

    async def update(
        self,
        topic: TopicName,
        change: PolicyChange,
        *,
        is_global: bool = False,
        skip_if_absent: bool = False,
    ) -> None:
        backend = await self._backend(topic.namespace)
        await backend.update(topic, change, is_global=is_global, skip_if_absent=skip_if_absent)

    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        backend = await self._backend(topic.namespace)
        await backend.delete(topic, keep_global=keep_global)

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        """Both: what the namespace has now may not be what it had."""
        await self.system.delete_namespace(namespace)
        await self._configured.delete_namespace(namespace)

    async def register_listener_async(
        self, topic: TopicName, listener: TopicPolicyListener
    ) -> bool:
        base = policy_name(topic)
        backend = await self._backend(base.namespace)
        taken = await backend.register_listener_async(base, listener)
        if taken:
            self._listeners.add(base, listener)
            self._registered[base, listener] = backend
            if await self._backend(base.namespace) is not backend:
                await self._move(base, listener)  # it moved while the listener was registered
        return taken

    def register_listener(self, topic: TopicName, listener: TopicPolicyListener) -> bool:
        raise NotAllowed("which backend a namespace has is not known without waiting")

    def unregister_listener(self, topic: TopicName, listener: TopicPolicyListener) -> None:
        base = policy_name(topic)
        self._listeners.discard(base, listener)
        self._registered.pop((base, listener), None)
        self._configured.unregister_listener(base, listener)
        self.system.unregister_listener(base, listener)

    async def settle(self) -> None:
        await self._configured.settle()

    def on_change_events_loaded(self, topic: TopicName) -> None:
        self.system.on_change_events_loaded(topic)

    def check_change_events(self, namespace: NamespaceName) -> None:
        self._configured.check_change_events(namespace)

    async def describe_backend(self, namespace: NamespaceName) -> tuple[str, str]:
        if await self._backend(namespace) is self.system:
            reason = f"{namespace} has {CHANGE_EVENTS}, so its policies stay there"
            if isinstance(self._configured, MetadataStoreTopicPolicies):
                hidden = await self._configured.count(namespace)
                if hidden:
                    reason += f"; {hidden} records in the metadata store are not used"
            return self.system.name, reason
        name = self._configured.name
        return name, f"{namespace} has no {CHANGE_EVENTS}, so the configured {name} serves it"

    # ------------------------------------------------------------------ when a namespace moves

    def _on_marker(self, namespace: NamespaceName, gone: bool) -> None:
        if self._listeners.topics(namespace):
            self._scope.start(self._reroute(namespace), f"reroute {namespace}")

    async def _reroute(self, namespace: NamespaceName) -> None:
        for topic in self._listeners.topics(namespace):
            for listener in self._listeners.of(topic):
                try:
                    await self._move(topic, listener)
                except BrokerError as error:
                    _log.error("policies stay as they were", error=error, topic=str(topic))

    async def _move(self, topic: TopicName, listener: TopicPolicyListener) -> None:
        """Listen to the backend that the namespace has now, and hear its word on both scopes."""
        backend = await self._backend(topic.namespace)
        before = self._registered.get((topic, listener))
        if before is None or before is backend:
            return
        before.unregister_listener(topic, listener)
        self._registered[topic, listener] = backend
        await backend.register_listener_async(topic, listener)
        local, shared = await asyncio.gather(
            backend.get(topic, is_global=False), backend.get(topic, is_global=True)
        )
        for is_global, policies in ((False, local), (True, shared)):
            told = Listeners()
            told.add(topic, listener)
            told.tell(PolicyUpdate(topic, is_global, policies))
