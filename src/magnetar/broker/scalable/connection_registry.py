"""Registry of one connection: the layouts and namespaces it watches, the groups its consumers are
registered with, and the assignments it could not be sent yet. All of it ends with the connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from magnetar.broker.attachment import Link
from magnetar.model.limit import Limits, check_size
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.permission import NAMESPACE_READ, TOPIC_CONSUME, TOPIC_READ, Need, Target
from magnetar.model.scalable import ConsumerAssignment
from magnetar.wire.command import CommandScalableTopicAssignmentUpdate, make_command
from magnetar.wire.layout import encode_assignment


class Watch(Protocol):
    def on_writable(self) -> None: ...
    def close(self) -> None: ...


class LayoutWatch(Watch, Protocol):
    @property
    def subject(self) -> TopicName: ...


class NamespaceWatch(Watch, Protocol):
    @property
    def namespace(self) -> NamespaceName: ...


class JoinedGroup(Protocol):
    @property
    def topic(self) -> TopicName: ...

    @property
    def subscription(self) -> str: ...

    async def unregister(self, link: Link, consumer_id: int) -> None: ...
    def on_connection_closed(self, link: Link) -> None: ...


class ConnectionRegistry:
    __slots__ = ("_limits", "_link", "_unsent", "groups", "layouts", "migrated", "namespaces")

    def __init__(self, link: Link, limits: Limits) -> None:
        self._link = link
        self._limits = limits
        self.layouts: dict[int, LayoutWatch] = {}
        self.namespaces: dict[int, NamespaceWatch] = {}
        self.groups: dict[int, JoinedGroup] = {}
        """Where consumers are registered, by consumer id."""
        self.migrated: set[TopicName] = set()
        """Regular topics whose producers and consumers were closed by a migration."""
        self._unsent: dict[int, ConsumerAssignment] = {}
        """Assignments of consumers that were not sent, by consumer id."""

    def check_room(self) -> None:
        """Raise TooManyRequests when the connection watches as much as one may."""
        watched = len(self.layouts) + len(self.namespaces) + len(self.groups)
        check_size(self._limits, "scalable_watches", watched + 1)

    def needs(self) -> Iterator[tuple[Need, Target]]:
        """The permissions without which the client may not keep what it has here."""
        for session in self.layouts.values():
            yield TOPIC_READ, Target(topic=session.subject)
        for group in self.groups.values():
            yield TOPIC_CONSUME, Target(topic=group.topic, subscription=group.subscription)
        for namespace in {watcher.namespace for watcher in self.namespaces.values()}:
            yield NAMESPACE_READ, Target(namespace=namespace)

    def send_assignment(self, consumer_id: int, assignment: ConsumerAssignment) -> None:
        """Send a consumer what it is to read; while the client does not read, only the newest."""
        if self._link.writable:
            self._unsent.pop(consumer_id, None)
            self._link.send_command(
                make_command(
                    CommandScalableTopicAssignmentUpdate(
                        consumer_id=consumer_id, assignment=encode_assignment(assignment)
                    )
                )
            )
        else:
            self._unsent[consumer_id] = assignment

    def _watches(self) -> list[Watch]:
        return [*self.layouts.values(), *self.namespaces.values()]

    def on_writable(self) -> None:
        for consumer_id, assignment in list(self._unsent.items()):
            self.send_assignment(consumer_id, assignment)
        for watch in self._watches():
            watch.on_writable()

    async def leave(self, consumer_id: int) -> None:
        group = self.groups.pop(consumer_id)
        self._unsent.pop(consumer_id, None)
        await group.unregister(self._link, consumer_id)

    def close(self) -> None:
        for watch in self._watches():
            watch.close()
        for group in self.groups.values():
            group.on_connection_closed(self._link)
        self.layouts.clear()
        self.namespaces.clear()
        self.groups.clear()
