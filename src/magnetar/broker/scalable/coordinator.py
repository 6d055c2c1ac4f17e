"""Coordinator of a consumer group, of a STREAM subscription or of checkpoints: which consumer reads
which segment of a topic.

Consumers register by name and may lose their connection for a while. What each reads is decided by
`rules.assign`; a segment is handed out when everything it came out of is drained (`rules.drain`).
The owner of a segment says when a cursor has drained it, so nothing is polled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from magnetar.broker.attachment import Link
from magnetar.broker.consumer import Consumer
from magnetar.broker.scalable.host import Host
from magnetar.broker.scalable.redelivery import StallWatch
from magnetar.broker.scalable.registration import ClientLink, Registration, reader_name
from magnetar.errors import BrokerError, ServiceNotReady
from magnetar.model.layout import Layout
from magnetar.model.scalable import (
    ConsumerAssignment,
    ConsumerKind,
    ConsumerRecord,
    SubscriptionKind,
)
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.assign import (
    Assignment,
    Member,
    changed_members,
    decide_assignment,
    restore_assignment,
)
from magnetar.rules.drain import decide_drained, explain_withheld
from magnetar.rules.release import shares_buckets
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Log
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

_log = Log(__name__)

_RETRY_FIRST_S: Final = 1.0
_RETRY_MOST_S: Final = 5.0


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
        self._host = host
        self._clock = clock
        self._config = config
        self._tasks = TaskScope(f"group {subscription}")
        self._sessions: dict[str, Registration] = {}
        self._stalls = StallWatch(
            self._tasks,
            self._send,
            clock=clock,
            config=config,
            on_redelivered=on_redelivered,
        )
        self._assignment = Assignment()
        self._drained: frozenset[SegmentId] = frozenset()
        self._backlog: dict[SegmentId, int] = {}
        """Of sealed segments that are not drained, when it was last asked for."""
        self._layout = host.layout
        """What the assignment was made for."""
        self._reconciler = Reconciler(
            self._tasks,
            "assign",
            self._run,
            clock=clock,
            first_s=_RETRY_FIRST_S,
            most_s=_RETRY_MOST_S,
        )
        self._coming = 0
        self._closed = False

    @property
    def kind(self) -> ConsumerKind:
        """Order is kept for all as soon as one asks for it."""
        kinds = {session.record.kind for session in self._sessions.values()}
        return (
            ConsumerKind.CHECKPOINT if kinds == {ConsumerKind.CHECKPOINT} else ConsumerKind.STREAM
        )

    @property
    def consumers(self) -> tuple[str, ...]:
        """Registered ones, with or without a connection."""
        return tuple(sorted(self._sessions))

    @property
    def is_idle(self) -> bool:
        return not self._sessions and not self._coming

    @property
    def is_closed(self) -> bool:
        return self._closed

    def owners_of(self, segment: SegmentId) -> tuple[str, ...]:
        return self._assignment.owners.get(segment, ())

    # ------------------------------------------------------------------ coming and going

    async def register(
        self, consumer_name: str, kind: ConsumerKind, consumer_id: int, connection: ClientLink
    ) -> ConsumerAssignment:
        """Take a consumer in, or back; it is told its segments, and so is everyone it takes from.

        A consumer is known by its name: the latest connection that brings the name has it.
        """
        self._coming += 1
        try:
            await self._enter(consumer_name, kind)
        finally:
            self._coming -= 1
        self._check_open()
        session = self._sessions.get(consumer_name)
        shares = shares_buckets(connection.client_version)
        is_same = session is not None and (session.record.kind, session.shares) == (kind, shares)
        session = self._sessions.setdefault(consumer_name, Registration(consumer_name))
        session.record = replace(session.record, kind=kind)
        session.shares = shares
        session.stop_grace()
        session.connection, session.consumer_id = connection, consumer_id
        session.registered_ms = self._clock.now_ms()
        if connection.closed:  # it went while the record was written, and nobody will say so again
            self._expect_back(session)
        if not is_same:
            self._reconciler.request()
        await self._reconciler.settle()
        self._host.on_consumers_changed(has_joined=True)
        self._note_readers(session)
        part = self._part_of(session)
        if is_same and session.connection is connection:
            session.send(part)
        return part

    async def _enter(self, consumer_name: str, kind: ConsumerKind) -> None:
        """Record that there is such a subscription and such a consumer."""
        self._check_open()
        if kind is ConsumerKind.STREAM:
            await self._host.register_subscription(self.subscription, SubscriptionKind.STREAM)
        session = self._sessions.get(consumer_name)
        if session is None or session.record.kind is not kind:
            await self._store(consumer_name, ConsumerRecord(kind))

    async def leave(self, consumer_name: str) -> None:
        """The consumer will not come back: its segments go to the others at once."""
        session = self._sessions.pop(consumer_name, None)
        if session is None or self._closed:
            return
        session.stop_grace()
        self._reconciler.request()
        await self._host.records.delete_consumer(self._host.topic, self.subscription, consumer_name)
        self._host.on_consumers_changed(has_joined=False)
        await self._reconciler.settle()

    def on_connection_closed(self, connection: Link) -> None:
        for session in self._sessions.values():
            if session.connection is connection:
                self._expect_back(session)

    def _expect_back(self, session: Registration) -> None:
        session.connection = None
        session.stop_grace()
        if not self._closed:
            grace_s = self._config.scalableTopicConsumerSessionGracePeriodSeconds
            session.grace = self._clock.call_later(grace_s, self._on_grace_over, session)

    def _on_grace_over(self, session: Registration) -> None:
        session.grace = None
        if self._sessions.get(session.name) is session and session.connection is None:
            _log.info(
                "consumer did not come back",
                topic=self._host.topic.full,
                subscription=self.subscription,
                consumer=session.name,
            )
            self._tasks.start(self.leave(session.name), name="leave")

    async def unregister(self, connection: Link, consumer_id: int) -> None:
        """The consumer that registered over this connection under this id leaves."""
        for session in list(self._sessions.values()):
            if session.connection is connection and session.consumer_id == consumer_id:
                await self.leave(session.name)
                return

    def on_reader_attached(self, segment: SegmentId, reader: Consumer) -> None:
        for name in self.owners_of(segment):
            session = self._sessions.get(name)
            if session is None or reader.name != reader_name(name, segment):
                continue
            if session.note_reader(segment, reader) and self.kind is ConsumerKind.STREAM:
                self._stalls.on_returned(session, segment, reader, self._host.layout)

    def _note_readers(self, session: Registration) -> None:
        """Readers may be back before their consumer has registered, or before this controller."""
        for segment in self._segments_of(session):
            subscription = self._host.segments.loaded_subscription(
                self._layout.get(segment).ref, self.subscription
            )
            for reader in () if subscription is None else subscription.consumers:
                self.on_reader_attached(segment, reader)

    def on_reader_closed(self, segment: SegmentId, reader: str, *, since_ms: int) -> None:
        """A consumer closed its reader of a segment. One that it should go on reading is closed by
        a consumer that closes itself: there may be no other word of it.

        `since_ms` is when the reader was attached: one that was given up earlier, or belongs to an
        earlier consumer of the same name, may be closed late. Clients that share segments close
        readers to open others in their place, so nothing can be told from it.
        """
        for name in self.owners_of(segment):
            session = self._sessions.get(name)
            if session is None or reader != reader_name(name, segment) or session.shares:
                continue
            if since_ms >= session.holds_since_ms(segment):
                self._tasks.start(self._dismiss(session), name="leave")

    def remind(self, segment: SegmentId, reader: str) -> None:
        """A reader stays where another waits: its consumer may not have heard that it is to go."""
        for name, session in self._sessions.items():
            if reader == reader_name(name, segment) and name not in self.owners_of(segment):
                self._send(session)

    async def _dismiss(self, session: Registration) -> None:
        await self.leave(session.name)
        self._send(session)

    # ------------------------------------------------------------------ what changes

    def on_layout_changed(self) -> None:
        self._stalls.on_layout(self._host.layout)
        self._reconciler.request()

    def on_drained(self, segment: SegmentId) -> None:
        if segment not in self._drained:
            self._drained |= {segment}
            self._backlog.pop(segment, None)
            self._reconciler.request()

    def on_cursor_moved(self) -> None:
        """A seek may have given drained segments new work."""
        self._drained = frozenset()
        self._reconciler.request()

    async def restore(self) -> None:
        """Take over from an earlier controller: its consumers have the whole grace to come back."""
        records = await self._host.records.load_consumers(self._host.topic, self.subscription)
        for name, record in records.items():
            if name not in self._sessions:
                session = self._sessions[name] = Registration(name, record)
                self._expect_back(session)
        segments = {name: each.record.segments for name, each in self._sessions.items()}
        self._assignment = restore_assignment(self._host.layout.epoch, segments)
        for names in self._assignment.owners.values():
            for name in names if len(names) > 1 else ():
                self._sessions[name].shares = True
        self._drained = frozenset()
        if self._sessions:
            self._reconciler.request()
            await self._reconciler.settle()

    async def move(self, host: Host) -> None:
        """Somebody else controls the topic from now on; the consumers notice nothing."""
        self._host = host
        for session in list(self._sessions.values()):
            await self._store(session.name, session.record)
        self.on_cursor_moved()
        await self._reconciler.settle()

    # ------------------------------------------------------------------ deciding

    async def _run(self) -> None:
        """Decide anew, once for all that changed before."""
        try:
            await self._look()
            while self._reconciler.renew():
                await self._look()
            await self._assign(self._host.layout)
        except BrokerError as failure:
            self._on_failure("segments not assigned", failure)

    async def _look(self) -> None:
        """Find out which sealed segments are drained, of those not known to be."""
        layout = self._host.layout
        self._drained &= layout.by_id.keys()
        self._backlog = {n: b for n, b in self._backlog.items() if n in layout.by_id}
        if self.kind is ConsumerKind.CHECKPOINT or not self._sessions:
            return
        for segment in layout.sealed:
            if segment.id not in self._drained:
                await self._look_at(layout, segment)

    async def _look_at(self, layout: Layout, segment: Segment) -> None:
        segments = self._host.segments
        try:
            backlog = await segments.backlog(segment.ref, self.subscription)
            if backlog is None and await segments.see(segment.ref) is None:
                backlog = 0  # its data is gone: nothing can be read there
        except BrokerError as failure:
            self._on_failure(f"backlog of segment {segment.id} not known", failure)
            return
        if backlog is None:
            self._backlog.pop(segment.id, None)
            return
        self._backlog[segment.id] = backlog
        self._drained |= decide_drained(layout, {segment.id: backlog})

    def _on_failure(self, problem: str, failure: BrokerError) -> None:
        _log.warning(
            problem,
            topic=self._host.topic.full,
            subscription=self.subscription,
            reason=failure.sentence,
        )
        self._reconciler.request_later()

    async def _assign(self, layout: Layout) -> None:
        before, self._layout = self._assignment, layout
        members = [Member(each.name, each.shares) for each in self._sessions.values()]
        self._assignment = decide_assignment(
            layout, members, before, kind=self.kind, drained=self._drained
        )
        names = changed_members(before, self._assignment)
        if before.epoch != layout.epoch:
            names = self.consumers  # everyone is told of a new layout
        changed = [self._sessions[name] for name in names if name in self._sessions]
        # Those who give something up hear of it before those who get it.
        changed.sort(key=lambda one: len(one.record.segments) <= len(self._segments_of(one)))
        for session in changed:
            self._send(session)
        now_ms = self._clock.now_ms()
        for session in list(self._sessions.values()):
            segments = self._segments_of(session)
            session.take(segments, now_ms=now_ms)
            is_known = self._sessions.get(session.name) is session
            if segments != session.record.segments and is_known:
                session.record = replace(session.record, segments=segments)
                await self._store(session.name, session.record)

    def _segments_of(self, session: Registration) -> tuple[SegmentId, ...]:
        return self._assignment.segments_of(session.name)

    async def _store(self, name: str, record: ConsumerRecord) -> None:
        await self._host.records.store_consumer(self._host.topic, self.subscription, name, record)

    def _part_of(self, session: Registration) -> ConsumerAssignment:
        part = self._assignment.part_of(session.name, self._layout, self._host.topic)
        kept = tuple(each for each in part.segments if each.id not in session.withdrawn)
        return replace(part, segments=kept)

    def _send(self, session: Registration) -> None:
        session.send(self._part_of(session))

    # ------------------------------------------------------------------ asking

    def stats(self) -> dict[str, Any]:
        return {
            "type": self.kind.value,
            "consumerCount": len(self._sessions),
            "consumers": {
                name: {
                    "connected": session.connection is not None,
                    "segments": list(self._segments_of(session)),
                }
                for name, session in sorted(self._sessions.items())
            },
            "waiting": self.explain(),
        }

    def explain(self) -> list[str]:
        """Why segments are not handed out yet, a sentence for each."""
        if self.kind is ConsumerKind.CHECKPOINT:
            return []
        sentences = explain_withheld(
            self._layout,
            self._drained,
            unacked=self._unacked(self._layout.sealed),
            owners=self._assignment.owners,
        )
        return list(sentences.values())

    def _unacked(self, segments: Iterable[Segment]) -> dict[SegmentId, int]:
        """What is left to acknowledge: as of now where the segment is served here."""
        counts = dict(self._backlog)
        for segment in segments:
            subscription = self._host.segments.loaded_subscription(segment.ref, self.subscription)
            if subscription is not None:
                counts[segment.id] = subscription.backlog
        return counts

    # ------------------------------------------------------------------ the end

    def _check_open(self) -> None:
        if self._closed:
            raise ServiceNotReady("The controller of the topic is closing")

    async def close(self, *, is_over: bool = False) -> None:
        """Consumers are told that nothing is left to read, or else sent to look for a new leader:
        losing the connection is all that makes them do so.
        """
        self._closed = True
        self._reconciler.close()
        for session in self._sessions.values():
            session.stop_grace()
            if is_over:
                session.send(ConsumerAssignment(self._layout.epoch))
            elif session.connection is not None:
                session.connection.close()
        await self._tasks.close()


CoordinatorFactory: TypeAlias = Callable[[Host, str], Coordinator]
"""Makes the coordinator of a subscription's group."""
