"""Takes back what clients hold when the grants that gave it to them are gone.

A client is told to reconnect, and then hears why it cannot. What is still being attached is not
seen here: whoever attaches it asks again when it is about to be held (`handler/permission.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from magnetar.broker.resource import POLICIES
from magnetar.errors import RecordUnreadable, StoreUnavailable
from magnetar.metadata.store import Cancel, Change, ChangeKind, SessionEvent
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.permission import (
    NAMESPACE_READ,
    TOPIC_CONSUME,
    TOPIC_PRODUCE,
    TOPIC_READ,
    Need,
    Target,
)
from magnetar.runtime.log import Log
from magnetar.runtime.reconciler import Reconciler

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection
    from magnetar.broker.service import Service

_log = Log(__name__)

_EVERYWHERE: Final = ""
_RECORD_PARTS: Final = (1, 2)
"""Below the policies: a tenant, or a tenant and a namespace."""


class Revocation:
    """Looks at every connection after a change of a namespace, a tenant or the super-users.

    The writer of a change waits until all that this broker serves was looked at.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._changed: set[str] = set()
        """Tenants and namespaces by their names."""
        self._reconciler = Reconciler(
            service.tasks, "check permissions", self._check, clock=service.clock
        )
        self._cancels: tuple[Cancel, ...] = ()
        if service.authorization.is_enabled:
            resources = service.resources
            self._cancels = (
                resources.configuration.watch(POLICIES, self._on_record),
                resources.configuration.watch_session(self._on_session),
                service.config.listen(("superUserRoles",), lambda: self._mark(_EVERYWHERE)),
            )
            resources.namespaces.on_written(self.settle)
            resources.tenants.on_written(self.settle)

    async def settle(self) -> None:
        """Wait until every change known so far has had its effect."""
        await self._reconciler.settle()

    def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        self._reconciler.close()

    def _on_record(self, change: Change) -> None:
        name = change.path.removeprefix(POLICIES).removeprefix("/")
        is_record = change.kind is not ChangeKind.CHILDREN_CHANGED
        if is_record and len(name.split("/")) in _RECORD_PARTS:
            self._mark(name)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # what changed meanwhile was not told
            self._mark(_EVERYWHERE)

    def _mark(self, name: str) -> None:
        self._changed.add(name)
        self._reconciler.request()

    async def _check(self) -> None:
        changed, self._changed = self._changed, set()
        try:
            for connection in list(self._service.connections):
                await self._check_connection(connection, changed)
        except StoreUnavailable:  # which is asked again
            self._changed |= changed
            raise

    async def _check_connection(self, connection: Connection, changed: set[str]) -> None:
        if connection.closed:
            return
        try:
            await _check_clients(connection, changed)
            await _check_watches(connection, changed)
        except RecordUnreadable as error:
            _log.error("permissions cannot be read", error=error, address=connection.address)


def _is_about(changed: set[str], namespace: NamespaceName) -> bool:
    return not changed.isdisjoint((_EVERYWHERE, namespace.tenant, str(namespace)))


async def _check_clients(connection: Connection, changed: set[str]) -> None:
    for producer in list(connection.producers.values()):
        topic = producer.topic.name
        if _is_about(changed, topic.namespace) and not await _may(connection, TOPIC_PRODUCE, topic):
            producer.disconnect()
    for consumer in (*connection.consumers.values(), *connection.consumers_away):
        subscription = consumer.subscription
        if subscription is None or not _is_about(changed, subscription.topic.name.namespace):
            continue
        topic = subscription.topic.name
        if not await _may(connection, TOPIC_CONSUME, topic, subscription.name):
            consumer.disconnect()
            connection.consumers_away.pop(consumer.id)


async def _check_watches(connection: Connection, changed: set[str]) -> None:
    """There are no words for the end of these: the connection ends."""
    for need, target in list(_watched(connection)):
        namespace = target.namespace_name
        assert namespace is not None
        access = connection.service.authorization
        is_stale = _is_about(changed, namespace)
        if is_stale and await access.decide(connection.caller, need, target) is not None:
            connection.close()
            return


def _watched(connection: Connection) -> Iterator[tuple[Need, Target]]:
    held = connection.scalable
    for session in held.layouts.values():
        yield TOPIC_READ, Target(topic=session.subject)
    for group in held.groups.values():
        yield TOPIC_CONSUME, Target(topic=group.topic, subscription=group.subscription)
    watched = {
        *(watcher.namespace for watcher in held.namespaces.values()),
        *(watcher.namespace for watcher in connection.watchers.values()),
    }
    for namespace in watched:
        yield NAMESPACE_READ, Target(namespace=namespace)


async def _may(
    connection: Connection, need: Need, topic: TopicName, subscription: str | None = None
) -> bool:
    target = Target(topic=topic, subscription=subscription)
    access = connection.service.authorization
    return await access.decide(connection.caller, need, target) is None
