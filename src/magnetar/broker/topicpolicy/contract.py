"""What a backend of topic policies must offer, one of the broker's own or of another package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.resource import Resources
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.topic import Topic
from magnetar.errors import MethodNotAllowed
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.runtime.clock import Clock

PolicyChange: TypeAlias = Callable[[TopicPolicies | None], TopicPolicies]
"""From the policies of one scope, None when it has none, to what they become. When it raises,
nothing is changed and `update` raises the same."""
PolicyNotice: TypeAlias = TopicName | NamespaceName | None
"""Whose topic policies may have changed: a topic's, those of a namespace's topics, or any."""


class PolicyTopics(Protocol):
    """The topics of a broker, for a backend that keeps policies in some of them."""

    @property
    def closing(self) -> bool: ...

    async def load_topic(self, name: TopicName, *, create: bool = False) -> Topic: ...

    async def topic_exists(self, name: TopicName) -> bool: ...


@dataclass(frozen=True, slots=True)
class PolicyHost:
    """What a backend may use of its broker."""

    clock: Clock
    resources: Resources
    schemas: SchemaRegistry
    topics: PolicyTopics
    calls: BrokerCalls
    cluster: str
    producer_name: str
    """The prefix of this broker's producer names."""
    namespaces_in_use: Callable[[], set[NamespaceName]]
    """The namespaces of loaded topics that may have policies of their own."""


class TopicPoliciesService(ABC):
    """Policies of a topic in two independent scopes: this cluster's (local) and every cluster's
    (global).

    Topics are named by their base: a partition has its topic's policies, a segment too. A backend
    that cannot answer raises; an absent record is no reason to.
    """

    name: str = ""
    """What configurations and administrators call it."""
    allows_change_events: bool = False
    """Whether a namespace without `__change_events` may be given one; it would move the namespace
    from any other backend to the system topic."""

    notify: Callable[[PolicyNotice], None]
    """Set before `start`. A backend calls it on the event loop after each change, its own or made
    elsewhere; the broker asks what the policies are now."""

    def start(self, host: PolicyHost) -> None:
        """Called once before anything else. Raising keeps the broker from starting."""
        return

    async def close(self) -> None:
        return None

    @abstractmethod
    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        """What was set in exactly one scope; `isGlobal` of the answer says which."""

    @abstractmethod
    async def update(self, topic: TopicName, change: PolicyChange, *, is_global: bool) -> None:
        """Store what `change` makes of the present policies. It may be called several times.

        When this returns, `get` answers the new state and `notify` has been called.
        """

    @abstractmethod
    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        """Remove the local policies, and the global ones unless `keep_global`."""

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        """The namespace is deleted with all its topics: leave nothing of it."""
        return

    def on_topic_loaded(self, topic: TopicName) -> None:
        """Called for every topic that was loaded here."""
        return

    async def describe_backend(self, namespace: NamespaceName) -> tuple[str, str]:
        """Which backend serves a namespace, and why."""
        return self.name, f"{self.name} serves every namespace of this broker"


class DisabledTopicPolicies(TopicPoliciesService):
    """No topic has policies of its own."""

    name = "disabled"
    allows_change_events = True

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        return None

    async def update(self, topic: TopicName, change: PolicyChange, *, is_global: bool) -> None:
        raise MethodNotAllowed("Topic level policies is disabled")

    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        """There is nothing."""

    async def describe_backend(self, namespace: NamespaceName) -> tuple[str, str]:
        return self.name, self._reason
