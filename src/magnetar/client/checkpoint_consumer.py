"""Reading a topic from a checkpoint, alone or in a group; the application keeps its place."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from magnetar.client.checkpoint import Checkpoint, ReadPositions, check_start
from magnetar.client.consumer_set import ConsumerSet, SegmentConsumer, SegmentRead, covers
from magnetar.client.delivery import RawEntry
from magnetar.client.error import (
    AlreadyClosedError,
    ConfigurationError,
    FeatureNotSupportedError,
    NotFoundError,
    PulsarError,
)
from magnetar.client.handle import ConsumerStats
from magnetar.client.inbox import Inbox, InboxSource, Receiver
from magnetar.client.layout import LayoutWatch
from magnetar.client.membership import Membership
from magnetar.client.message import Message
from magnetar.client.progress import Placed
from magnetar.client.quantity import Duration
from magnetar.client.retry import find_deadline
from magnetar.client.session import Session
from magnetar.client.stream import plan_assigned
from magnetar.client.subscribed_topic import origin_of, plan_reads
from magnetar.client.subscription import ConsumerSettings
from magnetar.client.topic_consumer import TopicConsumer, count_lag
from magnetar.model.migration import MANAGED
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.scalable import ConsumerAssignment, ConsumerKind, LayoutView
from magnetar.model.segment import SegmentId
from magnetar.runtime.log import Logger

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_PASSED_S: Final = 1.0
"""How often the position is sent to the broker: it needs it to say that a segment has ended."""

_log = Logger(__name__)


class CheckpointTopic(InboxSource):
    """The segments that a reader reads, while the layout and its share of them change."""

    hears_each = True

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ConsumerSettings,
        inbox: Inbox,
        group: str | None,
    ) -> None:
        super().__init__(inbox)
        self._session = session
        self._settings = settings
        self._group = group
        self._watch = LayoutWatch(session, topic, on_change=self._on_layout)
        self._membership: Membership | None = None
        self._assigned: dict[SegmentId, SegmentRead] | None = None
        self._positions = ReadPositions(is_alone=group is None)
        self._passed: dict[SegmentId, Placed] = {}
        """What was received since the broker was told."""
        self._passing: asyncio.Task[None] | None = None
        self.consumers = self._make_consumers()

    @property
    def topic(self) -> str:
        return self._watch.topic.full

    async def open(self, start: Checkpoint) -> None:
        await self._watch.open()
        layout = self._watch.layout
        if layout.is_synthetic:
            regular = parse_topic(layout.active[0].legacy_topic).base
            raise FeatureNotSupportedError(
                f"{regular} is a regular topic and has no checkpoints; first run `magnetar"
                f" admin scalable-topics migrate-to-scalable {regular}`, or read it as it is"
                " with client.reader"
            )
        self._begin(start)
        if self._group is not None:
            self._assigned = plan_assigned(await self._join(self._group))
        await self.consumers.start(self._plan())
        self._passing = self._session.scope.periodic(
            _PASSED_S, self._pass_on, f"progress of {self._settings.name}"
        )

    def checkpoint(self) -> Checkpoint:
        layout, reached = self._watch.layout, self._positions.reached()
        return Checkpoint(positions={n: place for n, place in reached.items() if n in layout.by_id})

    async def seek(self, start: Checkpoint) -> None:
        previous, self.consumers = self.consumers, self._make_consumers()
        self._begin(start)
        await previous.close()
        await self.consumers.start(self._plan())

    async def is_behind(self) -> bool:
        for part in tuple(self.consumers.parts.values()):
            if await part.is_behind():
                return True
        finished = self._positions.finished
        return bool(self._reads().keys() - finished - self.consumers.parts.keys())

    async def close(self) -> None:
        if self._passing is not None:
            self._passing.cancel()
        self._watch.close()
        await self.consumers.close()
        if self._membership is not None:
            self._membership.close()

    def on_received(self, part: TopicConsumer, messages: Sequence[Message[Any]]) -> None:
        if self.is_current(part):
            part.on_taken(messages)
            self._on_taken(part, messages[-1])

    def take_raw(self, part: TopicConsumer, raw: RawEntry) -> bool:
        if not self.is_current(part):
            return False
        part.on_taken_raw(raw)
        self._on_taken(part, raw)
        return True

    def _on_taken(self, part: TopicConsumer, last: Placed) -> None:
        """The application has got everything of a segment up to `last`."""
        assert isinstance(part, SegmentConsumer)
        number, ends = part.segment, self._positions.ends
        self._positions.taken[number] = self._passed[number] = last
        if part.has_reached_end and part.is_emptied:
            self._finish(number)
        elif number in ends and covers(last.place, ends[number]):
            self._session.scope.start(self._pass_on(), f"end of {part.topic}")

    # ------------------------------------------------------------------ what to read

    def _begin(self, start: Checkpoint) -> None:
        self._passed.clear()
        now_ms = self._session.clock.now_ms()
        self._positions.begin(start, self._watch.layout, now_ms=now_ms)

    def _reads(self) -> dict[SegmentId, SegmentRead]:
        if self._assigned is not None:
            return self._assigned
        return plan_reads(self._watch.topic, self._watch.layout)

    def _plan(self) -> dict[SegmentId, SegmentRead]:
        return self._positions.plan(self._reads(), self._watch.layout)

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
            start=self._positions.floor(number),
            properties=properties,
        )
        origin = origin_of(self.topic, number)
        return SegmentConsumer(self._session, read.topic, settings, origin=origin, outlet=self)

    def on_end(self, part: TopicConsumer) -> None:
        assert isinstance(part, SegmentConsumer)
        # What was trimmed is never delivered, although it was the last.
        if part.is_emptied and self.is_current(part):
            self._finish(part.segment)

    def on_lost(self, part: TopicConsumer, failure: PulsarError) -> None:
        if not self.is_current(part):
            return
        self.consumers.skip(part.segment)
        if isinstance(failure, NotFoundError):
            self._finish(part.segment)
        else:
            self._inbox.fail(failure)

    async def _open_part(self, number: SegmentId, part: TopicConsumer) -> None:
        assert isinstance(part, SegmentConsumer)
        await part.open()
        segment = self._watch.layout.by_id.get(number)
        if number not in self._positions.reached():
            start_ms = self._positions.start_ms(segment)
            if start_ms is not None:
                await part.seek_time(start_ms)
            if part.place is not None:
                self._positions.places.setdefault(number, part.place)
        if segment is not None and segment.is_sealed:
            await self._find_end(number, part)

    async def _find_end(self, number: SegmentId, part: TopicConsumer) -> None:
        """Learn when to tell the broker what was read: what it says then is the last word.

        The id alone is not: a broker may answer with an older one for a while.
        """
        last = await part.last_message_id()
        if last is not None:
            self._positions.ends[number] = last
        place = self._positions.reached().get(number)
        if place is not None and place.entry_id >= 0:
            part.acknowledge_cumulative(place)

    def _finish(self, number: SegmentId) -> None:
        if number not in self._positions.finished:
            self._positions.finished.add(number)
            self.consumers.want(self._plan())

    # ------------------------------------------------------------------ changes

    def _on_layout(self, view: LayoutView) -> None:
        self._positions.finished &= view.layout.by_id.keys()
        for number, part in self.consumers.parts.items():
            segment = view.layout.by_id.get(number)
            if segment is not None and segment.is_sealed and number not in self._positions.ends:
                self._session.scope.start(self._follow_end(number, part), f"end of {part.topic}")
        self.consumers.want(self._plan())

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
        self.consumers.want(self._plan())

    async def _pass_on(self) -> None:
        """Tell the broker what was read: it forgets it, and says when a segment ends."""
        passed, self._passed = self._passed, {}
        for number, message in passed.items():
            part = self.consumers.parts.get(number)
            if part is not None:
                part.acknowledge_cumulative(message.place)


class ColumnReading(Protocol):
    """Entries on their way into one batch."""

    @property
    def rows(self) -> int: ...

    def add(self, raw: RawEntry) -> None: ...

    def take(self) -> pa.RecordBatch: ...


class AsyncCheckpointConsumer(Receiver[T], Generic[T]):
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
        super().__init__(Inbox(session.clock))
        self._session = session
        self._settings = settings
        self._start = start
        self._group = group
        self._reading = CheckpointTopic(session, topic, settings, self._inbox, group)
        self._columns: ColumnReading | None = None
        if settings.columns:
            try:
                reading = importlib.import_module("magnetar.columns.reading")
            except ModuleNotFoundError as error:
                raise ConfigurationError(
                    f"columns need {error.name}: pip install 'magnetar[spark]'"
                ) from None
            self._columns = reading.ColumnReading(settings.columns)

    @property
    def topic(self) -> str:
        """The `topic://` name."""
        return self._reading.topic

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def group(self) -> str | None:
        return self._group

    @property
    def segments(self) -> tuple[SegmentId, ...]:
        """Those it reads now."""
        return tuple(sorted(self._reading.consumers.parts))

    @property
    def stats(self) -> ConsumerStats:
        return ConsumerStats(
            self._inbox.received, 0, 0, len(self._inbox), {self.topic: self.segments}
        )

    async def open(self) -> None:
        try:
            await self._reading.open(self._start)
        except BaseException:
            await self._reading.close()
            raise
        self._session.made[self] = None

    async def receive_arrow(
        self, max_rows: int = 10_000, timeout: Duration | None = None
    ) -> pa.RecordBatch:
        """What is here as soon as there is something, as an Arrow batch of the chosen `columns`.

        It ends with the entry that makes it `max_rows` or more, and is empty after `timeout`.
        """
        columns = self._columns
        if columns is None:
            raise ConfigurationError("receive_arrow needs columns=[...] when the reader is made")
        deadline = find_deadline(timeout, self._inbox.clock)
        while True:
            while columns.rows < max_rows and (found := self._inbox.take_raw()) is not None:
                if self._reading.take_raw(*found):
                    columns.add(found[1])
            if columns.rows or not await self._inbox.wait(deadline):
                self._inbox.received += columns.rows
                return columns.take()

    def checkpoint(self) -> Checkpoint:
        """Where the application has come: what it received is before it, all the rest after."""
        return self._reading.checkpoint()

    async def seek(self, start: Checkpoint) -> None:
        """Go on from there; what waits to be received is dropped."""
        check_start(start)
        await self._reading.seek(start)

    def pause(self) -> None:
        """Ask for no more messages; those that were asked for still come."""
        self._reading.consumers.pause()

    def resume(self) -> None:
        self._reading.consumers.resume()

    async def has_message_available(self) -> bool:
        """Whether a message was stored that was not received yet."""
        return await self._reading.is_behind()

    async def lag(self) -> int:
        """How many messages were stored in the segments that it reads now and were not received
        yet; about as many while a broker counts what was stored before it had the topic.

        Raises FeatureNotSupportedError on Apache Pulsar, which counts entries.
        """
        self._settle()
        parts = tuple(self._reading.consumers.parts.values())
        return sum(await asyncio.gather(*(count_lag(part) for part in parts)))

    async def close(self) -> None:
        if isinstance(self._inbox.failure, AlreadyClosedError):
            return
        self._inbox.close(AlreadyClosedError(f"The reader of {self.topic} is closed"))
        self._session.made.pop(self, None)
        await self._reading.close()

    def _check_messages(self) -> None:
        if self._columns is not None:
            raise ConfigurationError("A reader of columns has no messages; use receive_arrow")
