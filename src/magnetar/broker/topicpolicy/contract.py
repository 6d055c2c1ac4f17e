"""What keeps the policies of single topics must offer, be it one of ours or somebody else's."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from magnetar.errors import MethodNotAllowed, NotAllowed
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.rules.policy import plan_merged
from magnetar.rules.system import CHANGE_EVENTS
from magnetar.runtime.log import Log

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_log = Log(__name__)

PolicyChange: TypeAlias = Callable[[TopicPolicies], TopicPolicies]


@dataclass(frozen=True, slots=True)
class PolicyUpdate:
    """The policies of one scope as they are now; None: there are none any more."""

    topic: TopicName
    is_global: bool
    policies: TopicPolicies | None


TopicPolicyListener: TypeAlias = Callable[[PolicyUpdate], None]
"""Called on the event loop with the latest state; may miss steps in between. Must be quick."""


class TopicPoliciesService(ABC):
    """Policies of a topic in two scopes that know nothing of each other: this cluster's (local) and
    every cluster's (global).

    Topics are named by their base: a partition has its topic's policies, a segment too. Whoever
    cannot answer raises; an absent record is not a reason to.
    """

    name: str = ""
    """What configurations and administrators call it."""

    def start(self, service: Service) -> None:
        """Called once before anything else. Raising keeps the broker from starting."""
        return

    async def close(self) -> None:
        return None

    @abstractmethod
    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        """What was set in exactly one scope; `isGlobal` of the answer says which."""

    async def get_merged(self, topic: TopicName) -> TopicPolicies:
        """What was set in either scope; the local one wins, setting by setting."""
        local, shared = await asyncio.gather(
            self.get(topic, is_global=False), self.get(topic, is_global=True)
        )
        return plan_merged(local, shared)

    @abstractmethod
    async def update(
        self,
        topic: TopicName,
        change: PolicyChange,
        *,
        is_global: bool = False,
        skip_if_absent: bool = False,
    ) -> None:
        """Store what `change` makes of the present policies, or of new ones unless
        `skip_if_absent`. It may be called several times.

        When this returns, `get` answers the new state and listeners have been told.
        """

    @abstractmethod
    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        """Remove the local policies, and the global ones unless told to keep them."""

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        """The namespace goes, with all its topics: leave nothing of it."""
        return

    async def register_listener_async(
        self, topic: TopicName, listener: TopicPolicyListener
    ) -> bool:
        """Tell the listener of every change from now on. False: nothing will ever be told.

        A backend that has to wait before it can register overrides this one; one that has not may
        leave it and offer `register_listener`.
        """
        return self.register_listener(topic, listener)

    def register_listener(self, topic: TopicName, listener: TopicPolicyListener) -> bool:
        """The older hook, without waiting, for backends that have nothing to wait for."""
        return False

    @abstractmethod
    def unregister_listener(self, topic: TopicName, listener: TopicPolicyListener) -> None:
        """No more is told; twice is the same as once."""

    async def settle(self) -> None:
        """Wait until listeners have heard of every change that is known here."""
        return

    def on_change_events_loaded(self, topic: TopicName) -> None:
        """A namespace's `__change_events`, or a partition of it, was loaded."""
        return

    def check_change_events(self, namespace: NamespaceName) -> None:
        """Raise unless a namespace without `__change_events` may be given one."""
        raise NotAllowed(
            f"{CHANGE_EVENTS} would take the topic policies of {namespace} away from {self.name}"
        )

    async def describe_backend(self, namespace: NamespaceName) -> tuple[str, str]:
        """Which backend serves a namespace, and why."""
        return self.name, f"{self.name} serves every namespace of this broker"


class DisabledTopicPolicies(TopicPoliciesService):
    """No topic has policies of its own."""

    name = "disabled"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        return None

    async def update(
        self,
        topic: TopicName,
        change: PolicyChange,
        *,
        is_global: bool = False,
        skip_if_absent: bool = False,
    ) -> None:
        raise MethodNotAllowed(f"Topic level policies is disabled: {self._reason}")

    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        """There is nothing."""

    def register_listener(self, topic: TopicName, listener: TopicPolicyListener) -> bool:
        return False

    def check_change_events(self, namespace: NamespaceName) -> None:
        """There are no policies to take away."""

    def unregister_listener(self, topic: TopicName, listener: TopicPolicyListener) -> None:
        """None was registered."""

    async def describe_backend(self, namespace: NamespaceName) -> tuple[str, str]:
        return self.name, self._reason


class Listeners:
    """Who wants to hear of which topic. One that fails disturbs nobody."""

    def __init__(self) -> None:
        self._of: dict[TopicName, list[TopicPolicyListener]] = {}
        self.namespaces: Counter[NamespaceName] = Counter()
        """How many topics of each namespace are listened to; none of those without."""

    def __contains__(self, topic: TopicName) -> bool:
        return topic in self._of

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def topics(self, namespace: NamespaceName | None = None) -> tuple[TopicName, ...]:
        return tuple(
            topic for topic in self._of if namespace is None or topic.namespace == namespace
        )

    def of(self, topic: TopicName) -> tuple[TopicPolicyListener, ...]:
        return tuple(self._of.get(topic, ()))

    def add(self, topic: TopicName, listener: TopicPolicyListener) -> None:
        if topic not in self._of:
            self.namespaces[topic.namespace] += 1
        known = self._of.setdefault(topic, [])
        if listener not in known:
            known.append(listener)

    def discard(self, topic: TopicName, listener: TopicPolicyListener) -> None:
        known = self._of.get(topic)
        if known is None:
            return
        if listener in known:
            known.remove(listener)
        if not known:
            del self._of[topic]
            self.namespaces[topic.namespace] -= 1
            if not self.namespaces[topic.namespace]:
                del self.namespaces[topic.namespace]

    def clear(self) -> None:
        self._of.clear()
        self.namespaces.clear()

    def tell(self, update: PolicyUpdate) -> None:
        for listener in self.of(update.topic):
            try:
                listener(update)
            # A listener may be anybody's; the others must hear of the change all the same.
            except Exception as error:
                _log.error("policy listener failed", error=error, topic=str(update.topic))
