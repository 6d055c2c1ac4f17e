"""Assignment of the segments of a topic to the members of a group.

`rules.assign` decides which consumer reads what; a segment is handed out when everything it came
out of is drained (`rules.drain`). The owner of a segment reports when a cursor has drained it, so
nothing is polled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from magnetar.broker.scalable.membership import GroupMembership
from magnetar.broker.scalable.registration import Registration
from magnetar.errors import BrokerError
from magnetar.model.layout import Layout
from magnetar.model.scalable import ConsumerAssignment, ConsumerKind
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.assign import (
    Assignment,
    GroupMember,
    changed_members,
    decide_assignment,
    restore_assignment,
)
from magnetar.rules.drain import decide_drained, explain_withheld
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

_RETRY_FIRST_S: Final = 1.0
_RETRY_MOST_S: Final = 5.0

_log = Logger(__name__)


class Assigner:
    def __init__(self, members: GroupMembership, tasks: TaskScope, *, clock: Clock) -> None:
        self._members = members
        self._clock = clock
        self._assignment = Assignment()
        self._drained: frozenset[SegmentId] = frozenset()
        self._backlog: dict[SegmentId, int] = {}
        """Of sealed segments that are not drained, when it was last asked for."""
        self.layout = members.host.layout
        """What the assignment was made for."""
        self.reconciler = Reconciler(
            tasks,
            "assign",
            self._run,
            clock=clock,
            first_s=_RETRY_FIRST_S,
            most_s=_RETRY_MOST_S,
        )

    def owners_of(self, segment: SegmentId) -> tuple[str, ...]:
        return self._assignment.owners.get(segment, ())

    def segments_of(self, member: Registration) -> tuple[SegmentId, ...]:
        return self._assignment.segments_of(member.name)

    def part_of(self, member: Registration) -> ConsumerAssignment:
        """What a consumer is to read, without the segments that are withdrawn from it."""
        part = self._assignment.part_of(member.name, self.layout, self._members.host.topic)
        kept = tuple(each for each in part.segments if each.id not in member.withdrawn)
        return replace(part, segments=kept)

    def send(self, member: Registration) -> None:
        member.send(self.part_of(member))

    # ------------------------------------------------------------------ what changes

    def on_drained(self, segment: SegmentId) -> None:
        if segment not in self._drained:
            self._drained |= {segment}
            self._backlog.pop(segment, None)
            self.reconciler.request()

    def on_cursor_moved(self) -> None:
        """A seek may have given drained segments new work."""
        self._drained = frozenset()
        self.reconciler.request()

    async def restore(self) -> None:
        """Begin with what the members had under an earlier controller."""
        segments = {member.name: member.record.segments for member in self._members}
        self._assignment = restore_assignment(self._members.host.layout.epoch, segments)
        shared = [names for names in self._assignment.owners.values() if len(names) > 1]
        for member in self._members:
            if any(member.name in names for names in shared):
                member.shares = True
        self._drained = frozenset()
        if segments:
            self.reconciler.request()
            await self.reconciler.catch_up()

    # ------------------------------------------------------------------ deciding

    async def _run(self) -> None:
        """Decide anew, once for all that changed before."""
        try:
            await self._look()
            while self.reconciler.renew():
                await self._look()
            await self._assign(self._members.host.layout)
        except BrokerError as failure:
            self._on_failure("segments not assigned", failure)

    async def _look(self) -> None:
        """Find out which sealed segments are drained, of those not known to be."""
        layout = self._members.host.layout
        self._drained &= layout.by_id.keys()
        self._backlog = {n: b for n, b in self._backlog.items() if n in layout.by_id}
        if self._members.kind is ConsumerKind.CHECKPOINT or not self._members.names:
            return
        for segment in layout.sealed:
            if segment.id not in self._drained:
                await self._look_at(layout, segment)
                if not self._is_reported(segment) and segment.id not in self._drained:
                    self.reconciler.request_later()

    async def _look_at(self, layout: Layout, segment: Segment) -> None:
        segments = self._members.host.segments
        try:
            backlog = await segments.backlog(segment.ref, self._members.subscription)
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

    def _is_reported(self, segment: Segment) -> bool:
        """Whether it is certain that this broker is notified when the segment is drained."""
        segments, subscription = self._members.host.segments, self._members.subscription
        if segments.reports_drained:
            return True
        return segments.loaded_subscription(segment.ref, subscription) is not None

    def _on_failure(self, problem: str, failure: BrokerError) -> None:
        _log.warning(
            "assignment put off",
            problem=problem,
            topic=self._members.host.topic.full,
            subscription=self._members.subscription,
            reason=failure.sentence,
        )
        self.reconciler.request_later()

    async def _assign(self, layout: Layout) -> None:
        before, self.layout = self._assignment, layout
        members = [GroupMember(each.name, each.shares) for each in self._members]
        self._assignment = decide_assignment(
            layout, members, before, kind=self._members.kind, drained=self._drained
        )
        names = changed_members(before, self._assignment)
        if before.epoch != layout.epoch:
            names = self._members.names  # a new layout is sent to all
        found = (self._members.get(name) for name in names)
        changed = [member for member in found if member is not None]
        # Members that give something up are sent it before those that gain it.
        changed.sort(key=lambda one: len(one.record.segments) <= len(self.segments_of(one)))
        for member in changed:
            self.send(member)
        now_ms = self._clock.now_ms()
        for member in self._members:
            segments = self.segments_of(member)
            member.take(segments, now_ms=now_ms)
            is_known = self._members.get(member.name) is member
            if segments != member.record.segments and is_known:
                member.record = replace(member.record, segments=segments)
                await self._members.store(member.name, member.record)

    # ------------------------------------------------------------------ asking

    def explain(self) -> list[str]:
        """Why segments are not handed out yet, a sentence for each."""
        if self._members.kind is ConsumerKind.CHECKPOINT:
            return []
        sentences = explain_withheld(
            self.layout, self._drained, unacked=self._unacked(), owners=self._assignment.owners
        )
        return list(sentences.values())

    def _unacked(self) -> dict[SegmentId, int]:
        """What is left to acknowledge: as of now where the segment is served here."""
        counts, members = dict(self._backlog), self._members
        for segment in self.layout.sealed:
            found = members.host.segments.loaded_subscription(segment.ref, members.subscription)
            if found is not None:
                counts[segment.id] = found.backlog
        return counts
