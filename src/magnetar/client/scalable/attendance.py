"""Keeping one consumer on each segment that is wanted, while what is wanted changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from magnetar.client.error import (
    AlreadyClosedError,
    ConsumerBusyError,
    NotFoundError,
    PulsarError,
)
from magnetar.client.scalable.watch import BACKOFF_FIRST_S, BACKOFF_MOST_S
from magnetar.client.session import Session
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.model.name import TopicName
from magnetar.model.segment import HashRange, SegmentId
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.log import Log

_log = Log(__name__)


class Seat(NamedTuple):
    """Which topic a segment is read from, and the buckets when several consumers share it."""

    topic: TopicName
    is_legacy: bool = False
    buckets: tuple[HashRange, ...] = ()


Make = Callable[[SegmentId, Seat], TopicConsumer]
Open = Callable[[SegmentId, TopicConsumer], Awaitable[None]]
Release = Callable[[SegmentId, TopicConsumer], Awaitable[None]]


async def open_part(number: SegmentId, part: TopicConsumer) -> None:
    await part.open()


async def close_part(number: SegmentId, part: TopicConsumer) -> None:
    await part.close()


class Attendance:
    """One task moves what is attached towards what is wanted; the newest wish counts.

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
    ) -> None:
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
        self._wanted: dict[SegmentId, Seat] = {}
        self._seats: dict[SegmentId, Seat] = {}
        self._gone: dict[SegmentId, Seat] = {}
        self._changed = asyncio.Event()
        self._mover: asyncio.Task[None] | None = None
        self._releases: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._is_paused = False

    async def start(self, wanted: Mapping[SegmentId, Seat]) -> None:
        """Attach everywhere, or raise why not; a busy segment has the operation timeout."""
        self._wanted = dict(wanted)
        clock = self._session.clock
        deadline = clock.monotonic() + self._session.operation_timeout
        backoff = Backoff(BACKOFF_FIRST_S, 1.0)
        try:
            while failure := await self._move():
                if not isinstance(failure, ConsumerBusyError):
                    raise failure
                delay_s = backoff.next_s()
                if clock.monotonic() + delay_s >= deadline:
                    raise failure
                await asyncio.sleep(delay_s)
        except BaseException:
            await self.close()
            raise
        self._mover = self._session.scope.start(self._run(), f"segments of {self._name}")

    def want(self, wanted: Mapping[SegmentId, Seat]) -> None:
        self._wanted = dict(wanted)
        self._changed.set()

    def pause(self) -> None:
        """Ask for no more messages, also from segments that come later."""
        self._is_paused = True
        for part in self.parts.values():
            part.pause()

    def resume(self) -> None:
        self._is_paused = False
        for part in self.parts.values():
            part.resume()

    def drop(self, number: SegmentId) -> None:
        """A part ended by itself; it is attached again if it is still wanted."""
        self.parts.pop(number, None)
        self._seats.pop(number, None)
        self._changed.set()

    def skip(self, number: SegmentId) -> None:
        """Its topic is gone: do not attach again while the layout still names it."""
        seat = self._seats.get(number)
        if seat is not None:
            self._gone[number] = seat
        self.drop(number)

    async def close(self) -> None:
        self._is_closed = True
        tasks = [task for task in (self._mover, *self._releases) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        parts = [*self.parts.values(), *self.leaving.values()]
        self.parts.clear()
        self.leaving.clear()
        await asyncio.gather(*(part.close() for part in parts))

    async def _run(self) -> None:
        backoff = Backoff(BACKOFF_FIRST_S, BACKOFF_MOST_S)
        while not self._is_closed:
            await self._changed.wait()
            self._changed.clear()
            failure = await self._move()
            if failure is None:
                backoff.reset()
                continue
            if isinstance(failure, AlreadyClosedError):
                return
            _log.warning("segment not attached", of=self._name, reason=failure)
            try:
                async with asyncio.timeout(backoff.next_s()):
                    await self._changed.wait()  # a new wish is tried at once
            except TimeoutError:
                self._changed.set()

    async def _move(self) -> PulsarError | None:
        """One round; the first failure if there was any."""
        wanted = self._wanted
        for number in [each for each in self.parts if self._seats[each] != wanted.get(each)]:
            self._let_go(number)
        self._gone = {key: seat for key, seat in self._gone.items() if wanted.get(key) == seat}
        missing = [
            (number, seat)
            for number, seat in wanted.items()
            if number not in self.parts and number not in self.leaving and number not in self._gone
        ]
        attached = await asyncio.gather(*(self._attach(number, seat) for number, seat in missing))
        return next((failure for failure in attached if failure is not None), None)

    async def _attach(self, number: SegmentId, seat: Seat) -> PulsarError | None:
        part = self._make(number, seat)
        self.parts[number], self._seats[number] = part, seat
        if self._is_paused:
            part.pause()
        try:
            await self._open(number, part)
        except NotFoundError as error:
            self._forget(number, part)
            if seat.is_legacy:
                return error
            self._gone[number] = seat
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
            del self._seats[number]

    def _let_go(self, number: SegmentId) -> None:
        part = self.parts.pop(number)
        del self._seats[number]
        self.leaving[number] = part
        task = self._session.scope.start(self._finish(number, part), f"leave {part.topic}")
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def _finish(self, number: SegmentId, part: TopicConsumer) -> None:
        await self._release(number, part)
        self.leaving.pop(number, None)
        self._changed.set()  # it may be wanted again by now
