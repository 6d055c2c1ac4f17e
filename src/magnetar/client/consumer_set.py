"""One consumer on each segment that is wanted, while what is wanted changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from magnetar.client.connection import Connection
from magnetar.client.error import (
    AlreadyClosedError,
    ConsumerBusyError,
    NotFoundError,
    PulsarError,
)
from magnetar.client.message_id import EARLIEST_ID, LATEST_ID, MessageId
from magnetar.client.progress import Floor
from magnetar.client.retry import wait_all
from magnetar.client.session import Session
from magnetar.client.topic_consumer import TopicConsumer, ask_last
from magnetar.client.watch import make_backoff
from magnetar.model.name import TopicName
from magnetar.model.segment import HashRange, SegmentId
from magnetar.runtime.log import Logger
from magnetar.wire.command import position_of

_log = Logger(__name__)


class SegmentRead(NamedTuple):
    """Which topic a segment is read from, and the buckets when several consumers share it."""

    topic: TopicName
    is_legacy: bool = False
    buckets: tuple[HashRange, ...] = ()
    is_guest: bool = False
    """For a moment only, under a name that no controller takes for a reader it has sent."""


class SegmentConsumer(TopicConsumer):
    """Knows where it stands in the segment, and whether that is its end."""

    @property
    def is_emptied(self) -> bool:
        """Whether the application has got everything there will ever be."""
        return self.has_reached_end and self._untaken == 0 and not len(self._intake)

    @property
    def place(self) -> MessageId | None:
        """After which message a reader reads on; None while that is "earliest" or "latest"."""
        floor = self._reader.floor
        if floor is None or floor.id in (EARLIEST_ID, LATEST_ID) or floor.is_included:
            return None
        return floor.id

    async def seek_time(self, publish_time_ms: int) -> None:
        """Move a reader, and learn where to: after a loss it starts there again."""
        await self.seek(publish_time_ms)
        place = await self._find_place()
        if place is not None and self.place is None:
            self._reader.move(Floor(place, is_included=False))

    async def attach(self, connection: Connection) -> None:
        # Delivery starts over, and the broker reports its end once more.
        self.has_reached_end = False
        await super().attach(connection)

    async def _find_place(self) -> MessageId | None:
        """The broker's word on it, before anything was acknowledged."""
        timeout = self._session.operation_timeout
        connection = await self._attachment.wait(timeout)
        answer = await ask_last(connection, self._id, timeout)
        if not answer.HasField("consumer_mark_delete_position"):
            return None
        return MessageId(*position_of(answer.consumer_mark_delete_position))


def covers(place: MessageId | None, last: MessageId) -> bool:
    """Whether a reader that stands after `place` has nothing to read up to `last`."""
    return place is not None and (place == LATEST_ID or not Floor(place, False).wants(last))


Make = Callable[[SegmentId, SegmentRead], TopicConsumer]
Open = Callable[[SegmentId, TopicConsumer], Awaitable[None]]
Release = Callable[[SegmentId, TopicConsumer], Awaitable[None]]


async def open_part(number: SegmentId, part: TopicConsumer) -> None:
    await part.open()


async def close_part(number: SegmentId, part: TopicConsumer) -> None:
    await part.close()


class ConsumerSet:
    """Each segment is opened, tried again and let go by itself: one that is slow holds up no other.

    A segment whose topic is gone is left out: it was pruned, and a layout will say so. A segment
    that another consumer still holds is tried again until it lets go.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        *,
        make: Make,
        open: Open = open_part,
        release: Release = close_part,
        on_gone: Callable[[SegmentId], None] | None = None,
        waits_if_busy: bool = True,
    ) -> None:
        self._waits_if_busy = waits_if_busy
        """Whether a first consumer may still have to let go; if not, it stays."""
        self.parts: dict[SegmentId, TopicConsumer] = {}
        """Attached, or about to be."""
        self.leaving: dict[SegmentId, TopicConsumer] = {}
        """Not wanted any more, and not closed yet."""
        self._session = session
        self._name = name
        self._make = make
        self._open = open
        self._release = release
        self._on_gone = on_gone
        self._wanted: dict[SegmentId, SegmentRead] = {}
        self._reads: dict[SegmentId, SegmentRead] = {}
        """What is attached or being attached, and as what."""
        self._gone: dict[SegmentId, SegmentRead] = {}
        self._opening: dict[SegmentId, asyncio.Task[Any]] = {}
        self._releases: dict[asyncio.Task[None], None] = {}
        self._is_started = False
        self._is_closed = False
        self._is_paused = False

    async def start(
        self, wanted: Mapping[SegmentId, SegmentRead], *, hand_over_s: float | None = None
    ) -> None:
        """Attach everywhere, or raise why not; a busy segment has the operation timeout.

        With `hand_over_s`, a segment that its reader has not let go by then is attached when it
        does: that may take as long as an application has work with what it holds.
        """
        self._is_started = True
        self._wanted = dict(wanted)
        self._reads = dict(wanted)
        scope = self._session.scope
        first = {
            number: scope.start(self._attach_first(number, read), f"attach {read.topic}")
            for number, read in wanted.items()
        }
        self._opening.update(first)
        try:
            if first:
                await wait_all(first.values(), clock=self._session.clock, timeout=hand_over_s)
            self._settle_first(first)
        except BaseException:
            await self.close()
            raise
        self._reconcile()

    def _settle_first(self, first: Mapping[SegmentId, asyncio.Task[PulsarError | None]]) -> None:
        """Raise why not, and go on in the background where a segment is not handed over yet."""
        for number, task in first.items():
            if self._opening.get(number) is not task:
                continue  # not wanted any more
            if not task.done():
                self._begin(number, self._reads[number], task)
            elif failure := task.result():
                raise failure
            else:
                del self._opening[number]

    def want(self, wanted: Mapping[SegmentId, SegmentRead]) -> None:
        self._wanted = dict(wanted)
        self._reconcile()

    def pause(self) -> None:
        """Ask for no more messages, also from segments that come later."""
        self._is_paused = True
        for part in self.parts.values():
            part.pause()

    def resume(self) -> None:
        self._is_paused = False
        for part in self.parts.values():
            part.resume()

    async def visit(
        self,
        reads: Mapping[SegmentId, SegmentRead],
        act: Callable[[TopicConsumer, bool], Awaitable[None]],
    ) -> None:
        """Do something on all of these segments: on the attached ones, and on others as a guest.

        Nothing is done unless it can be done on all. Guests come first, and leave at once: what is
        done on the attached ones may bring others here.
        """
        held = dict(self.parts)
        guests: list[TopicConsumer] = []
        try:
            for number, read in reads.items():
                if number not in held:
                    part = self._make(number, read._replace(is_guest=True))
                    part.pause()
                    guests.append(part)
                    try:
                        await part.open()
                    except NotFoundError:
                        guests.remove(part)  # pruned meanwhile
            for part in guests:
                await act(part, True)
                await part.close()
            for part in held.values():
                await act(part, False)
        except ConsumerBusyError:
            raise ConsumerBusyError(
                f"Other consumers hold segments of {self._name}; close them first, or use"
                " `magnetar admin subscriptions`, which reaches all segments"
            ) from None
        finally:
            await asyncio.gather(*(part.close() for part in guests))

    def skip(self, number: SegmentId) -> None:
        """Its topic is gone: do not attach again while the layout still names it."""
        self.parts.pop(number, None)
        read = self._reads.pop(number, None)
        if read is not None:
            self._gone[number] = read

    async def close(self) -> None:
        self._is_closed = True
        tasks = [*self._opening.values(), *self._releases]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        parts = [*self.parts.values(), *self.leaving.values()]
        self.parts.clear()
        self.leaving.clear()
        await asyncio.gather(*(part.close() for part in parts))

    def _reconcile(self) -> None:
        """Begin whatever brings what is attached towards what is wanted."""
        if not self._is_started or self._is_closed:
            return
        wanted = self._wanted
        self._gone = {key: read for key, read in self._gone.items() if wanted.get(key) == read}
        for number in [key for key, read in self._reads.items() if wanted.get(key) != read]:
            self._let_go(number)
        for number, read in wanted.items():
            if not any(number in each for each in (self._reads, self._gone, self.leaving)):
                self._reads[number] = read
                self._begin(number, read)

    def _begin(
        self,
        number: SegmentId,
        read: SegmentRead,
        attempt: asyncio.Task[PulsarError | None] | None = None,
    ) -> None:
        insisting = self._insist(number, read, attempt)
        self._opening[number] = self._session.scope.start(insisting, f"attach {read.topic}")

    async def _attach_first(self, number: SegmentId, read: SegmentRead) -> PulsarError | None:
        clock = self._session.clock
        deadline = clock.monotonic() + self._session.operation_timeout
        backoff = make_backoff(self._session, 1.0)
        while failure := await self._attach(number, read):
            if self._reads.get(number) != read:
                return None  # not wanted any more: no failure of the start
            delay_s = backoff.next_s()
            is_late = clock.monotonic() + delay_s >= deadline
            may_pass = self._waits_if_busy and isinstance(failure, ConsumerBusyError)
            if is_late or not may_pass:
                return failure
            await self._session.clock.sleep(delay_s)
        return None

    async def _insist(
        self,
        number: SegmentId,
        read: SegmentRead,
        attempt: asyncio.Task[PulsarError | None] | None,
    ) -> None:
        """Until it is attached; `attempt` is one that is under way."""
        backoff = make_backoff(self._session)
        own = asyncio.current_task()
        try:
            while failure := await (attempt or self._attach(number, read)):
                attempt = None
                if isinstance(failure, AlreadyClosedError):
                    return
                _log.warning("segment not attached", topic=read.topic, reason=failure)
                await self._session.clock.sleep(backoff.next_s())
        finally:
            if self._opening.get(number) is own:
                del self._opening[number]

    async def _attach(self, number: SegmentId, read: SegmentRead) -> PulsarError | None:
        part = self._make(number, read)
        self.parts[number] = part
        if self._is_paused:
            part.pause()
        try:
            await self._open(number, part)
        except NotFoundError as error:
            self._forget(number, part)
            if read.is_legacy:
                return error
            self._reads.pop(number, None)
            self._gone[number] = read
            if self._on_gone is not None:
                self._on_gone(number)
        except PulsarError as error:
            self._forget(number, part)
            return error
        except BaseException:
            self._forget(number, part)
            await part.close()
            raise
        return None

    def _forget(self, number: SegmentId, part: TopicConsumer) -> None:
        if self.parts.get(number) is part:
            del self.parts[number]

    def _let_go(self, number: SegmentId) -> None:
        del self._reads[number]
        opening = self._opening.pop(number, None)
        # One of the first is noted until all of them are done: this one may be attached by now.
        is_done = opening is None or opening.done()
        if opening is not None and not is_done and opening is not asyncio.current_task():
            opening.cancel()  # it closes what it has begun
            self.parts.pop(number, None)
            return
        part = self.parts.pop(number, None)
        if part is not None:
            self.leaving[number] = part
            task = self._session.scope.start(self._finish(number, part), f"leave {part.topic}")
            self._releases[task] = None
            task.add_done_callback(self._releases.pop)

    async def _finish(self, number: SegmentId, part: TopicConsumer) -> None:
        await self._release(number, part)
        self.leaving.pop(number, None)
        self._reconcile()  # it may be wanted again by now
