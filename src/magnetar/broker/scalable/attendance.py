"""What one connection has to do with scalable topics: it all ends with the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.model.limit import Limits, check_size
from magnetar.model.name import TopicName
from magnetar.model.scalable import ConsumerAssignment
from magnetar.wire.command import CommandScalableTopicAssignmentUpdate, make_command
from magnetar.wire.layout import encode_assignment

if TYPE_CHECKING:
    from magnetar.broker.connection import Connection
    from magnetar.broker.scalable.coordinator import Coordinator
    from magnetar.broker.scalable.session import LayoutSession
    from magnetar.broker.scalable.watch import NamespaceWatcher


class Attendance:
    __slots__ = ("_limits", "_untold", "groups", "layouts", "namespaces", "sent_away")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.layouts: dict[int, LayoutSession] = {}
        self.namespaces: dict[int, NamespaceWatcher] = {}
        self.groups: dict[int, Coordinator] = {}
        """Where consumers are registered, by consumer id."""
        self.sent_away: set[TopicName] = set()
        """Regular topics whose producers and consumers were closed by a migration."""
        self._untold: dict[int, ConsumerAssignment] = {}
        """What consumers are to read and were not sent, by consumer id."""

    def check_room(self) -> None:
        """Raise TooManyRequests when the connection watches as much as one may."""
        watched = len(self.layouts) + len(self.namespaces) + len(self.groups)
        check_size(self._limits, "scalable_watches", watched + 1)

    def tell(
        self, connection: Connection, consumer_id: int, assignment: ConsumerAssignment
    ) -> None:
        """Send a consumer what it is to read; while the client does not read, only the newest."""
        if connection.writable:
            self._untold.pop(consumer_id, None)
            connection.send_command(
                make_command(
                    CommandScalableTopicAssignmentUpdate(
                        consumer_id=consumer_id, assignment=encode_assignment(assignment)
                    )
                )
            )
        else:
            self._untold[consumer_id] = assignment

    def on_writable(self, connection: Connection) -> None:
        for consumer_id, assignment in list(self._untold.items()):
            self.tell(connection, consumer_id, assignment)
        for session in list(self.layouts.values()):
            session.on_writable()
        for watcher in list(self.namespaces.values()):
            watcher.on_writable()

    async def leave(self, connection: Connection, consumer_id: int) -> None:
        group = self.groups.pop(consumer_id)
        self._untold.pop(consumer_id, None)
        name = group.find_consumer(connection, consumer_id)
        if name is not None:
            await group.leave(name)

    def close(self, connection: Connection) -> None:
        for session in self.layouts.values():
            session.close()
        for watcher in self.namespaces.values():
            watcher.close()
        for group in self.groups.values():
            group.on_connection_closed(connection)
        self.layouts.clear()
        self.namespaces.clear()
        self.groups.clear()
