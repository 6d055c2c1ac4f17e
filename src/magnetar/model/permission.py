"""What a call needs of its caller: the vocabulary of the tables of routes and commands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from magnetar.model.name import NamespaceName, TopicName


class AuthAction(StrEnum):
    PRODUCE = "produce"
    CONSUME = "consume"
    FUNCTIONS = "functions"
    SOURCES = "sources"
    SINKS = "sinks"
    PACKAGES = "packages"


class Scope(StrEnum):
    """What the need is about. Administrators of the tenant may do everything below `TENANT`."""

    OPEN = "open"
    """Without authentication."""
    AUTHENTICATED = "authenticated"
    """Every authenticated caller."""
    ATTACHED = "attached"
    """It acts on what this very connection attached to, and was checked then."""
    SUPER_USER = "super-user"
    TENANT = "tenant"
    NAMESPACE = "namespace"
    TOPIC = "topic"
    TOPIC_POLICY = "topic policy"


@dataclass(frozen=True, slots=True)
class Need:
    scope: Scope
    actions: tuple[AuthAction, ...] = ()
    """Any one of these suffices. None: no grant does, it takes an administrator."""

    def __str__(self) -> str:
        granted = " or ".join(action.value for action in self.actions)
        return f"{self.scope.value} {granted}".strip()


_PRODUCE, _CONSUME = AuthAction.PRODUCE, AuthAction.CONSUME

OPEN: Final = Need(Scope.OPEN)
AUTHENTICATED: Final = Need(Scope.AUTHENTICATED)
ATTACHED: Final = Need(Scope.ATTACHED)
SUPER_USER: Final = Need(Scope.SUPER_USER)
TENANT_ADMIN: Final = Need(Scope.TENANT)
NAMESPACE_ADMIN: Final = Need(Scope.NAMESPACE)
NAMESPACE_READ: Final = Need(Scope.NAMESPACE, (_PRODUCE, _CONSUME))
NAMESPACE_CONSUME: Final = Need(Scope.NAMESPACE, (_CONSUME,))
TOPIC_ADMIN: Final = Need(Scope.TOPIC)
TOPIC_READ: Final = Need(Scope.TOPIC, (_PRODUCE, _CONSUME))
TOPIC_PRODUCE: Final = Need(Scope.TOPIC, (_PRODUCE,))
TOPIC_CONSUME: Final = Need(Scope.TOPIC, (_CONSUME,))
"""With a subscription in the target, the roles of that subscription count too."""
TOPIC_POLICY: Final = Need(Scope.TOPIC_POLICY)


@dataclass(frozen=True, slots=True)
class Target:
    """What a call is about; as much as its need asks for."""

    tenant: str | None = None
    namespace: NamespaceName | None = None
    topic: TopicName | None = None
    subscription: str | None = None

    @property
    def tenant_name(self) -> str | None:
        namespace = self.namespace_name
        return self.tenant if namespace is None else namespace.tenant

    @property
    def namespace_name(self) -> NamespaceName | None:
        return self.namespace if self.topic is None else self.topic.namespace

    def __str__(self) -> str:
        found = self.topic or self.namespace or self.tenant
        return "this broker" if found is None else str(found)
