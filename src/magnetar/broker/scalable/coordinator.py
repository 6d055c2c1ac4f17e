"""Coordinator of a consumer group, of a STREAM subscription or of checkpoints: its members come and
go, their readers attach to segments, and what each is to read follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from magnetar.broker.attachment import Link
from magnetar.broker.consumer import Consumer
from magnetar.broker.scalable.assigner import Assigner
from magnetar.broker.scalable.host import Host
from magnetar.broker.scalable.membership import GroupMembership
from magnetar.broker.scalable.redelivery import StallWatch
from magnetar.broker.scalable.registration import ClientLink, Registration, reader_name
from magnetar.errors import ServiceNotReady
from magnetar.model.answer.scalable import GroupAnswer
from magnetar.model.scalable import ConsumerAssignment, ConsumerKind
from magnetar.model.segment import SegmentId
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.task import TaskScope


class Coordinator:
    def __init__(
        self,
        host: Host,
        subscription: str,
        *,
        clock: Clock,
        config: Configuration,
        on_redelivered: Callable[[], None],
    ) -> None:
        self.subscription = subscription
        self.topic = host.topic
        self._tasks = TaskScope(f"group {subscription}")
        self.members = GroupMembership(
            host, subscription, clock=clock, config=config, on_expired=self._on_expired
        )
        self.assigner = Assigner(self.members, self._tasks, clock=clock)
        self._stalls = StallWatch(
            self._tasks,
            self.assigner.send,
            clock=clock,
            config=config,
            on_redelivered=on_redelivered,
        )
        self.is_closed = False

    # ------------------------------------------------------------------ joining and leaving

    async def register(
        self, consumer_name: str, kind: ConsumerKind, consumer_id: int, connection: ClientLink
    ) -> ConsumerAssignment:
        """Take a consumer in, or back; it is sent its segments, and so are those it takes from.

        A consumer is known by its name: the latest connection that brings the name has it.
        """
        self._check_open()
        await self.members.enter(consumer_name, kind)
        self._check_open()
        member, is_same = self.members.connect(consumer_name, kind, consumer_id, connection)
        if not is_same:
            self.assigner.reconciler.request()
        await self.assigner.reconciler.catch_up()
        self.members.host.on_consumers_changed(has_joined=True)
        self._note_readers(member)
        part = self.assigner.part_of(member)
        if is_same and member.connection is connection:
            member.send(part)
        return part

    def _check_open(self) -> None:
        if self.is_closed:
            raise ServiceNotReady("The controller of the topic is closing")

    async def unregister(self, connection: Link, consumer_id: int) -> None:
        """The consumer that registered over this connection under this id leaves."""
        member = self.members.find(connection, consumer_id)
        if member is not None:
            await self.leave(member.name)

    async def leave(self, consumer_name: str) -> None:
        """The consumer will not come back: its segments go to the others at once."""
        if self.members.remove(consumer_name) is None or self.is_closed:
            return
        self.assigner.reconciler.request()
        await self.members.delete(consumer_name)
        self.members.host.on_consumers_changed(has_joined=False)
        await self.assigner.reconciler.catch_up()

    def _on_expired(self, consumer_name: str) -> None:
        self._tasks.start(self.leave(consumer_name), name="leave")

    def on_connection_closed(self, connection: Link) -> None:
        self.members.on_connection_closed(connection)

    # ------------------------------------------------------------------ readers

    def on_reader_attached(self, segment: SegmentId, reader: Consumer) -> None:
        member = self.note_reader(segment, reader.name, reader)
        if member is not None:
            self._stalls.on_returned(member, segment, reader, self.members.host.layout)

    def note_reader(self, segment: SegmentId, name: str, reader: object) -> Registration | None:
        """A reader was attached to a segment, here or elsewhere: the consumer that it is of, if it
        had one there before and the group keeps its place.
        """
        returned = None
        for owner in self.assigner.owners_of(segment):
            member = self.members.get(owner)
            if member is None or name != reader_name(owner, segment):
                continue
            if member.note_reader(segment, reader) and self.members.kind is ConsumerKind.STREAM:
                returned = member
        return returned

    def recall(self, segment: SegmentId, reader: str, *, has_left: bool) -> None:
        """A reader elsewhere came back and acknowledges nothing of its sealed segment; or it has
        left that since.
        """
        for member in self.members:
            if reader == reader_name(member.name, segment):
                act = self._stalls.hand_back if has_left else self._stalls.recall
                act(member, segment)

    def _note_readers(self, member: Registration) -> None:
        """Readers may be back before their consumer has registered, or before this controller."""
        for segment in self.assigner.segments_of(member):
            subscription = self.members.host.segments.loaded_subscription(
                self.assigner.layout.get(segment).ref, self.subscription
            )
            for reader in () if subscription is None else subscription.consumers:
                self.on_reader_attached(segment, reader)

    def on_reader_closed(self, segment: SegmentId, reader: str, *, since_ms: int) -> None:
        """A consumer closed its reader of a segment. One that it should go on reading is closed by
        a consumer that closes itself: there may be no other word of it.

        `since_ms` is when the reader was attached: one that was given up earlier, or belongs to an
        earlier consumer of the same name, may be closed late. Clients that share segments close
        readers to open others in their place, so nothing follows from it.
        """
        for name in self.assigner.owners_of(segment):
            member = self.members.get(name)
            if member is None or reader != reader_name(name, segment) or member.shares:
                continue
            if since_ms >= member.holds_since_ms(segment):
                self._tasks.start(self._dismiss(member), name="leave")

    async def _dismiss(self, member: Registration) -> None:
        await self.leave(member.name)
        self.assigner.send(member)

    def remind(self, segment: SegmentId, reader: str) -> None:
        """A reader stays where another waits: its consumer may not know that it is to go."""
        for member in self.members:
            is_owner = member.name in self.assigner.owners_of(segment)
            if reader == reader_name(member.name, segment) and not is_owner:
                self.assigner.send(member)

    # ------------------------------------------------------------------ the topic

    def on_layout_changed(self) -> None:
        self._stalls.on_layout(self.members.host.layout)
        self.assigner.reconciler.request()

    async def restore(self) -> None:
        """Take over from an earlier controller."""
        await self.members.load()
        await self.assigner.restore()

    async def move(self, host: Host) -> None:
        """The topic has another owner from now on; the consumers notice nothing."""
        self.members.host = host
        for member in self.members:
            await self.members.store(member.name, member.record)
        self.assigner.on_cursor_moved()
        await self.assigner.reconciler.catch_up()

    def stats(self) -> GroupAnswer:
        return {
            "type": self.members.kind.value,
            "consumerCount": len(self.members.names),
            "consumers": {
                member.name: {
                    "connected": member.connection is not None,
                    "segments": list(self.assigner.segments_of(member)),
                }
                for member in sorted(self.members, key=lambda member: member.name)
            },
            "waiting": self.assigner.explain(),
        }

    async def close(self, *, is_over: bool = False) -> None:
        """Consumers are sent that nothing is left to read, or else sent to look for a new leader:
        losing the connection is all that makes them do so.
        """
        self.is_closed = True
        self.assigner.reconciler.close()
        self.members.close()
        for member in self.members:
            if is_over:
                member.send(ConsumerAssignment(self.assigner.layout.epoch))
            elif member.connection is not None:
                member.connection.close()
        await self._tasks.close()


CoordinatorFactory: TypeAlias = Callable[[Host, str], Coordinator]
"""Makes the coordinator of a subscription's group."""
