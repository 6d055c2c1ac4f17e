"""Revocation: disconnects producers, consumers and watchers whose grants are gone.

The client reconnects, and its next request is refused with the reason. What is still being attached
is not seen here: its handler asks again just before the connection holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from magnetar.broker.authorization import Authorization
from magnetar.broker.connection import Connection, Connections
from magnetar.broker.resource import POLICIES, Resources
from magnetar.errors import RecordUnreadable, StoreUnavailable
from magnetar.metadata.store import Cancel, Change, ChangeKind, SessionEvent
from magnetar.model.name import NamespaceName
from magnetar.model.permission import TOPIC_CONSUME, TOPIC_PRODUCE, Need, Target
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)

_EVERYWHERE: Final = ""
_RECORD_PARTS: Final = (1, 2)
"""Below the policies: a tenant, or a tenant and a namespace."""


class Revocation:
    """Looks at every connection after a change of a namespace, a tenant or the super-users.

    The writer of a change waits until all that this broker serves was looked at.
    """

    def __init__(
        self,
        connections: Connections,
        authorization: Authorization,
        resources: Resources,
        config: Configuration,
        tasks: TaskScope,
        *,
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._authorization = authorization
        self._changed: set[str] = set()
        """Tenants and namespaces by their names."""
        self._reconciler = Reconciler(tasks, "check permissions", self._check, clock=clock)
        self._cancels: tuple[Cancel, ...] = ()
        if authorization.is_enabled:
            self._cancels = (
                resources.configuration.watch(POLICIES, self._on_record),
                resources.configuration.watch_session(self._on_session),
                config.listen(("superUserRoles",), lambda: self._mark(_EVERYWHERE)),
            )
            resources.namespaces.on_written(self.catch_up)
            resources.tenants.on_written(self.catch_up)

    async def catch_up(self) -> None:
        """Wait until every change known so far has had its effect."""
        await self._reconciler.catch_up()

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
        if event is SessionEvent.RECONNECTED:  # changes meanwhile were not seen
            self._mark(_EVERYWHERE)

    def _mark(self, name: str) -> None:
        self._changed.add(name)
        self._reconciler.request()

    async def _check(self) -> None:
        changed, self._changed = self._changed, set()
        try:
            for connection in self._connections:
                await self._check_connection(connection, changed)
        except StoreUnavailable:  # which is asked again
            self._changed |= changed
            raise

    async def _check_connection(self, connection: Connection, changed: set[str]) -> None:
        if connection.closed:
            return
        try:
            await self._check_clients(connection, changed)
            await self._check_watches(connection, changed)
        except RecordUnreadable as error:
            _log.error("permissions cannot be read", error=error, address=connection.address)

    async def _check_clients(self, connection: Connection, changed: set[str]) -> None:
        for producer in connection.producers:
            target = Target(topic=producer.topic.name)
            if await self._is_revoked(connection, changed, TOPIC_PRODUCE, target):
                producer.disconnect()
        for consumer in (*connection.consumers, *connection.consumers.away):
            subscription = consumer.subscription
            if subscription is None:
                continue
            target = Target(topic=subscription.topic.name, subscription=subscription.name)
            if await self._is_revoked(connection, changed, TOPIC_CONSUME, target):
                consumer.disconnect()
                connection.consumers.away.pop(consumer.id)

    async def _check_watches(self, connection: Connection, changed: set[str]) -> None:
        """There are no words for the end of these: the connection ends."""
        for need, target in list(_watched(connection)):
            if await self._is_revoked(connection, changed, need, target):
                connection.close()
                return

    async def _is_revoked(
        self, connection: Connection, changed: set[str], need: Need, target: Target
    ) -> bool:
        namespace = target.namespace_name
        assert namespace is not None
        if not _is_about(changed, namespace):
            return False
        return await self._authorization.decide(connection.caller, need, target) is not None


def _is_about(changed: set[str], namespace: NamespaceName) -> bool:
    return not changed.isdisjoint((_EVERYWHERE, namespace.tenant, str(namespace)))


def _watched(connection: Connection) -> Iterator[tuple[Need, Target]]:
    for attachment in connection.attachments:
        yield from attachment.needs()
