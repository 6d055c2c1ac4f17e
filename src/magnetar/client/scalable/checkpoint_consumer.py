"""Reading a topic from a checkpoint, alone or in a group; the application keeps its place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from magnetar.client.error import (
    AlreadyClosedError,
    FeatureNotSupportedError,
    NotFoundError,
    PulsarError,
)
from magnetar.client.message import Message as Delivered
from magnetar.client.message_id import EARLIEST, LATEST
from magnetar.client.message_id import MessageId as EntryId
from magnetar.client.raw import RawEntry
from magnetar.client.scalable.arrow import ArrowReceiver
from magnetar.client.scalable.checkpoint import Checkpoint
from magnetar.client.scalable.consumer_set import ConsumerSet, SegmentRead
from magnetar.client.scalable.inbox import Inbox
from magnetar.client.scalable.layout import LayoutWatch
from magnetar.client.scalable.membership import Membership
from magnetar.client.scalable.queue import plan_reads
from magnetar.client.scalable.segment_consumer import SegmentConsumer, covers
from magnetar.client.scalable.stream import plan_assigned
from magnetar.client.scalable.trail import Mark
from magnetar.client.session import Session
from magnetar.client.stats import ConsumerStats
from magnetar.client.subscription import ConsumerSettings, Floor
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.model.layout import Layout
from magnetar.model.migration import MANAGED
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.scalable import ConsumerAssignment, ConsumerKind, LayoutView
from magnetar.model.segment import Segment, SegmentId
from magnetar.runtime.log import Logger

T = TypeVar("T")

_PASSED_S: Final = 1.0
"""How often the position is sent to the broker: it needs it to say that a segment has ended."""

_log = Logger(__name__)


class AsyncCheckpointConsumer(ArrowReceiver[T], Generic[T]):
    """Made by `client.checkpoint_consumer`; an async context manager and iterator of messages.

    A segment is read once all it came out of is read to the end, so that every key is read in
    order across splits and merges. In a group that holds for the segments of one member.
    """

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ConsumerSettings,
        start: Checkpoint,
        group: str | None,
    ) -> None:
        inbox: Inbox[T] = Inbox(session.clock)
        super().__init__(inbox, settings.columns)
        self._session = session
        self._settings = settings
        self._start = start
        self._group = group
        self._watch = LayoutWatch(session, topic, on_change=self._on_layout)
        self._membership: Membership | None = None
        self._assigned: dict[SegmentId, SegmentRead] | None = None
        self._places: dict[SegmentId, EntryId] = {}
        """The message before the first one to come of each segment."""
        self._ends: dict[SegmentId, EntryId] = {}
        self._finished: set[SegmentId] = set()
        self._taken: dict[SegmentId, Delivered[Any] | RawEntry] = {}
        """The last message received of each segment."""
        self._passed: dict[SegmentId, Delivered[Any] | RawEntry] = {}
        """Those of them that the broker has not heard of."""
        self._marks: dict[SegmentId, Mark] = {}
        self._first: frozenset[SegmentId] = frozenset()
        self._opened_at_ms = session.clock.now_ms()
        self._passing: asyncio.Task[None] | None = None
        self._consumers = self._make_consumers()

    @property
    def topic(self) -> str:
        """The `topic://` name."""
        return self._watch.topic.full

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def group(self) -> str | None:
        return self._group

    @property
    def segments(self) -> tuple[SegmentId, ...]:
        """Those it reads now."""
        return tuple(sorted(self._consumers.parts))

    @property
    def stats(self) -> ConsumerStats:
        return ConsumerStats(self._received, 0, 0, len(self._inbox), {self.topic: self.segments})

    async def open(self) -> None:
        try:
            await self._watch.open()
            layout = self._watch.layout
            if layout.is_synthetic:
                regular = parse_topic(layout.active[0].legacy_topic).base
                raise FeatureNotSupportedError(
                    f"{regular} is a regular topic and has no checkpoints; first run `magnetar"
                    f" admin scalable-topics migrate-to-scalable {regular}`, or read it as it is"
                    " with client.classic.reader"
                )
            self._begin(layout)
            if self._group is not None:
                assignment = await self._join(self._group)
                self._assigned = plan_assigned(assignment)
            await self._consumers.start(self._plan())
        except BaseException:
            await self._leave()
            raise
        self._session.made[self] = None
        self._passing = self._session.scope.periodic(
            _PASSED_S, self._pass_on, f"progress of {self.name}"
        )

    def checkpoint(self) -> Checkpoint:
        """Where the application has come: what it received is before it, all the rest after."""
        layout = self._watch.layout
        return Checkpoint(
            positions={
                number: place for number, place in self._reached().items() if number in layout.by_id
            }
        )

    def _reached(self) -> dict[SegmentId, EntryId]:
        """The last message received of each segment, or the one before the first to come."""
        return self._places | {number: message.id for number, message in self._taken.items()}

    async def seek(self, start: Checkpoint) -> None:
        """Go on from there; what waits to be received is dropped."""
        previous, self._consumers = self._consumers, self._make_consumers()
        self._start = start
        self._begin(self._watch.layout)
        await previous.close()
        await self._consumers.start(self._plan())

    def pause(self) -> None:
        """Ask for no more messages; those that were asked for still come."""
        self._consumers.pause()

    def resume(self) -> None:
        self._consumers.resume()

    async def has_message_available(self) -> bool:
        """Whether a message was stored that was not received yet."""
        for part in tuple(self._consumers.parts.values()):
            if await part.is_behind():
                return True
        waiting = self._reads().keys() - self._finished - self._consumers.parts.keys()
        return bool(waiting)

    async def close(self) -> None:
        if isinstance(self._inbox.failure, AlreadyClosedError):
            return
        self._inbox.close(AlreadyClosedError(f"The reader of {self.topic} is closed"))
        self._session.made.pop(self, None)
        if self._passing is not None:
            self._passing.cancel()
        await self._leave()

    def take(self, part: TopicConsumer, delivered: Sequence[Delivered[Any]]) -> Mark | None:
        last = delivered[-1]
        number = SegmentId(last.origin)
        if self._consumers.parts.get(number) is not part:
            return None
        part.on_taken(delivered)
        self._on_taken(number, part, last)
        mark = self._marks.get(number)
        if mark is None:
            mark = self._marks[number] = Mark(self.topic, number, names_topic=False)
        return mark

    def _on_taken(
        self, number: SegmentId, part: TopicConsumer, last: Delivered[Any] | RawEntry
    ) -> None:
        """The application has got everything of a segment up to `last`."""
        assert isinstance(part, SegmentConsumer)
        self._taken[number] = self._passed[number] = last
        if part.has_reached_end and part.is_emptied:
            self._finish(number)
        elif number in self._ends and covers(last.id, self._ends[number]):
            self._session.scope.start(self._pass_on(), f"end of {part.topic}")

    def _take_raw(self, part: TopicConsumer, raw: RawEntry) -> bool:
        number = SegmentId(raw.origin)
        if self._consumers.parts.get(number) is not part:
            return False
        part.on_taken_raw(raw)
        self._on_taken(number, part, raw)
        return True

    async def _leave(self) -> None:
        self._watch.close()
        await self._consumers.close()
        if self._membership is not None:
            self._membership.close()

    # ------------------------------------------------------------------ where to start

    def _begin(self, layout: Layout) -> None:
        self._places = dict(self._start.positions)
        self._ends.clear()
        self._taken.clear()
        self._passed.clear()
        self._first = frozenset(layout.by_id)
        self._opened_at_ms = self._session.clock.now_ms()
        self._finished = {
            number for number, place in self._places.items() if self._is_past(layout, number, place)
        }
        for segment in layout.sealed:
            if self._is_skipped(segment):
                self._places[segment.id] = LATEST
                self._finished.add(segment.id)

    def _is_past(self, layout: Layout, number: SegmentId, place: EntryId) -> bool:
        segment = layout.by_id.get(number)
        return place == LATEST and segment is not None and segment.is_sealed

    def _is_skipped(self, segment: Segment) -> bool:
        """Whether everything in a sealed segment is older than the start."""
        if self._start.is_latest:
            return True
        at_ms, sealed_at_ms = self._start.at_ms, segment.sealed_at_ms
        return at_ms is not None and sealed_at_ms is not None and sealed_at_ms < at_ms

    def _start_ms(self, number: SegmentId) -> int | None:
        """The time to begin a segment at that has no place yet.

        "Latest" in a group is the time the member came: it may get a segment only after another
        member has let go of it, and what came in between must not be lost.
        """
        segment = self._watch.layout.by_id.get(number)
        at_ms = self._start.at_ms
        if self._start.is_latest and self._group is not None:
            at_ms = self._opened_at_ms
        if at_ms is None or segment is None or segment.created_at_ms >= at_ms:
            return None
        return at_ms

    def _floor(self, number: SegmentId) -> Floor:
        place = self._reached().get(number)
        if place is not None:
            return Floor(place, is_included=False)
        if self._start.is_latest and self._group is None and number in self._first:
            return Floor(LATEST, is_included=False)
        return Floor(EARLIEST, is_included=True)

    # ------------------------------------------------------------------ what to read

    def _reads(self) -> dict[SegmentId, SegmentRead]:
        if self._assigned is not None:
            return self._assigned
        return plan_reads(self._watch.topic, self._watch.layout)

    def _plan(self) -> dict[SegmentId, SegmentRead]:
        """Segments that are not read to the end and whose parents are."""
        reads = self._reads()
        by_id = self._watch.layout.by_id
        return {
            number: read
            for number, read in reads.items()
            if number not in self._finished
            and all(
                parent in self._finished or parent not in reads
                for parent in (by_id[number].parents if number in by_id else ())
            )
        }

    def _make_consumers(self) -> ConsumerSet:
        return ConsumerSet(
            self._session,
            f"reader {self._settings.name}",
            make=self._make,
            open=self._open_part,
            on_gone=self._finish,
        )

    def _make(self, number: SegmentId, read: SegmentRead) -> TopicConsumer:
        properties = dict(self._settings.properties)
        if read.is_legacy:
            properties[MANAGED] = "true"
        settings = replace(
            self._settings,
            name=f"{self._settings.name}-seg-{number}",
            start=self._floor(number),
            properties=properties,
        )
        consumers = self._consumers

        def on_lost(error: PulsarError) -> None:
            consumers.skip(number)
            if isinstance(error, NotFoundError):
                self._finish(number)
            else:
                self._inbox.fail(error)

        def on_end() -> None:
            if part.is_emptied:  # what was trimmed is never delivered, although it was the last
                self._finish(number)

        part = SegmentConsumer(
            self._session,
            read.topic,
            settings,
            origin=number,
            deliver=lambda part, messages: self._inbox.put(self, part, messages),
            give_up=on_lost,
            on_end=on_end,
        )
        return part

    async def _open_part(self, number: SegmentId, part: TopicConsumer) -> None:
        assert isinstance(part, SegmentConsumer)
        await part.open()
        if number not in self._reached():
            start_ms = self._start_ms(number)
            if start_ms is not None:
                await part.seek_time(start_ms)
            if part.place is not None:
                self._places.setdefault(number, part.place)
        segment = self._watch.layout.by_id.get(number)
        if segment is not None and segment.is_sealed:
            await self._find_end(number, part)

    async def _find_end(self, number: SegmentId, part: TopicConsumer) -> None:
        """Learn when to tell the broker what was read: what it says then is the last word.

        The id alone is not: a broker may answer with an older one for a while.
        """
        last = await part.last_message_id()
        if last is not None:
            self._ends[number] = last
        place = self._reached().get(number)
        if place is not None and place.entry_id >= 0:
            await part.acknowledge_cumulative(place)

    def _finish(self, number: SegmentId) -> None:
        if number not in self._finished:
            self._finished.add(number)
            self._consumers.want(self._plan())

    # ------------------------------------------------------------------ changes

    def _on_layout(self, view: LayoutView) -> None:
        self._finished &= view.layout.by_id.keys()
        for number, part in self._consumers.parts.items():
            segment = view.layout.by_id.get(number)
            if segment is not None and segment.is_sealed and number not in self._ends:
                self._session.scope.start(self._follow_end(number, part), f"end of {part.topic}")
        self._consumers.want(self._plan())

    async def _follow_end(self, number: SegmentId, part: TopicConsumer) -> None:
        try:
            await self._find_end(number, part)
        except PulsarError as error:
            _log.debug("end of segment not told", topic=part.topic, reason=error)

    async def _join(self, group: str) -> ConsumerAssignment:
        self._membership = Membership(
            self._session,
            self._watch.topic,
            group,
            self._settings.name,
            ConsumerKind.CHECKPOINT,
            on_assigned=self._on_assigned,
            on_lost=self._inbox.fail,
        )
        return await self._membership.open(self._watch.view)

    def _on_assigned(self, assignment: ConsumerAssignment) -> None:
        self._assigned = plan_assigned(assignment)
        self._consumers.want(self._plan())

    async def _pass_on(self) -> None:
        """Tell the broker what was read: it forgets it, and says when a segment ends."""
        passed, self._passed = self._passed, {}
        for number, message in passed.items():
            part = self._consumers.parts.get(number)
            if part is not None:
                await part.acknowledge_cumulative(message.id)
