"""Messages on their way: how many there may be, and the end of each, once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from magnetar.client.error import PulsarError, QueueFullError, SendFailedError
from magnetar.client.interceptor import tell_sent
from magnetar.client.outgoing import Outcome, Outgoing
from magnetar.client.publication import ProducerSettings
from magnetar.client.session import Session
from magnetar.runtime.clock import Timer
from magnetar.runtime.task import yield_to_loop

M = TypeVar("M", bound=Outgoing)


class SendCompletion(Protocol):
    """Ends the sends of messages, each once."""

    def confirm(self, messages: Sequence[Any], ids: Sequence[Any]) -> None:
        """The broker has stored these; those of a run have an id each."""

    def try_join(self, message: Any, payloads: Sequence[bytes]) -> int:
        """How many of these may go with a message that is on its way."""

    def fail(self, messages: Iterable[Any], error: PulsarError) -> None:
        """These are not stored; those that have ended already are skipped."""


class Admission(Generic[M]):
    """Bounded by number for a producer and by bytes for its client; first come, first served.

    A message takes its place when it enters and gives it back when it ends: confirmed, failed or
    late. Places are counted here, not by callbacks of the futures: those cost more than a send.
    """

    def __init__(
        self,
        session: Session,
        settings: ProducerSettings,
        *,
        name: Callable[[], str],
        send: Callable[[M], None],
        explain: Callable[[M], PulsarError],
        on_late: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_late` is called when messages have failed because of their time-out."""
        self.sent = 0
        self.failed = 0
        self._session = session
        self._settings = settings
        self._name = name
        self._send = send
        self._explain = explain
        self._on_late = on_late
        self._loop = asyncio.get_running_loop()
        self._room = settings.max_pending_messages
        self._number = 0
        self._queue: deque[tuple[M, asyncio.Future[None] | None]] = deque()
        """Who waits to enter, and perhaps a caller who waits for just that."""
        self._vacated = asyncio.Event()
        self._admitting: asyncio.Task[None] | None = None
        self._entered: dict[M, None] = {}
        """In the order of the calls; those that ended are gone."""
        self._timer: Timer | None = None
        self._untold = 0
        """Submitted messages that failed since the last flush."""
        self._first: PulsarError | None = None
        self._closed: PulsarError | None = None

    @property
    def pending(self) -> int:
        return self._settings.max_pending_messages - self._room + len(self._queue)

    def try_enter(self, message: M) -> bool:
        """Calls that wait enter first, in their order."""
        if self._room <= 0 or self._queue or not self._session.memory.try_take(message.size):
            return False
        self._enter(message)
        return True

    def try_join(self, message: M, payloads: Sequence[bytes]) -> int:
        """Let these in as part of a message, and return how many there is room for: none when
        others came after it.
        """
        if message.number + message.count != self._number or self._queue:
            return 0
        joining = payloads if len(payloads) <= self._room else payloads[: self._room]
        if not self._session.memory.try_take(sum(map(len, joining))):
            return 0
        self._room -= len(joining)
        self._number += len(joining)
        return len(joining)

    async def enter(self, message: M) -> None:
        """Wait for room; giving up leaves nothing behind."""
        self._check_open()
        place: asyncio.Future[None] = self._loop.create_future()
        self._queue_up(message, place)
        try:
            await place
        except asyncio.CancelledError:
            message.sent.cancel()
            raise

    async def enter_all(self, messages: Sequence[M]) -> None:
        """Together, as soon as there is room for any of them: nothing comes in between."""
        while self._room <= 0 and self._closed is None:
            self._vacated.clear()
            await self._vacated.wait()
        self._check_open()
        size = sum(message.size for message in messages)
        await self._session.memory.take(size)
        if self._closed is not None:
            self._session.memory.give(size)
        self._check_open()
        for message in messages:
            self._enter(message)

    def enter_later(self, message: M) -> None:
        """As soon as there is room, while the caller waits for the end of the message."""
        self._queue_up(message, None)

    def _queue_up(self, message: M, place: asyncio.Future[None] | None) -> None:
        self._queue.append((message, place))
        if self._admitting is None or self._admitting.done():
            self._admitting = self._session.scope.start(self._admit(), f"room on {self._name()}")

    def has_room(self, size: int, *, behind: int, ahead: int) -> bool:
        """Whether a message could enter behind others, which have so many bytes; any thread may
        ask.
        """
        return (
            not self._queue and self._room > behind and self._session.memory.fits(size, ahead=ahead)
        )

    def enter_all_later(self, messages: Sequence[M]) -> None:
        """In their order, each at once if there is room; what was closed meanwhile fails them."""
        failure = self._closed
        for message in messages:
            if failure is not None:
                message.sent.set_exception(failure)
            elif not self.try_enter(message):
                self.enter_later(message)

    async def enter_or_wait(self, message: M) -> bool:
        """Wait until half of the room is free: a thread that waited for it gets to send many. Where
        the client's memory is short, the message enters in its turn among those of all producers.

        Returns whether it has entered.
        """
        enough = (self._settings.max_pending_messages + 1) // 2
        while (self._queue or self._room < enough) and self._closed is None:
            self._vacated.clear()
            await self._vacated.wait()
        if self._session.memory.fits(message.size):
            return False
        await self.enter(message)
        return True

    def full(self, message: M | None = None) -> QueueFullError:
        """Why nothing may enter now; a transaction goes on without the message."""
        if message is not None and message.transaction is not None:
            message.sent.set_result(None)
        if self._room > 0:
            return QueueFullError("The client's memory limit is reached")
        limit = self._settings.max_pending_messages
        return QueueFullError(f"{limit} messages wait for their receipts already")

    def confirm(self, messages: Sequence[M], ids: Sequence[Any]) -> None:
        size = count = at = 0
        entered, interceptors = self._entered, self._settings.interceptors
        for message in messages:
            if message.is_run:
                id, at = ids[at : at + message.count], at + message.count
            else:
                id, at = ids[at], at + 1
            if entered.pop(message, message) is message:
                continue  # it was too late
            size += message.size
            count += message.count
            if interceptors:  # before a thread that waits for it goes on
                tell_sent(interceptors, self._name(), message.options, id, None)
            sent = message.sent
            if not sent.done():
                sent.set_result(id)
        self.sent += count
        self._give_back(count, size)

    def fail(self, messages: Iterable[M], error: PulsarError) -> None:
        size = count = 0
        for message in messages:
            if self._entered.pop(message, message) is message:
                continue
            size += message.size
            count += message.count
            if self._settings.interceptors and not message.sent.cancelled():
                tell_sent(self._settings.interceptors, self._name(), message.options, None, error)
            if not message.sent.done():
                message.sent.set_exception(error)
                if message.is_submitted:
                    # asyncio need not tell: `flush` or `close` does, or the commit.
                    message.sent.exception()
                    if message.transaction is None:
                        self._untold += message.count
                        self._first = self._first or error
        self.failed += count
        self._give_back(count, size)

    def exchange(self, message: M, parts: Sequence[M]) -> None:
        """Go on with what it was made of, in its place; it ends when all of them have."""
        if self._entered.pop(message, message) is message:
            return  # it has ended
        self._session.memory.give(message.size - sum(part.size for part in parts))
        left = len(parts)

        def on_ended(part: Outcome) -> None:
            nonlocal left
            left -= 1
            if message.sent.done():
                return
            failure = None if part.cancelled() else part.exception()
            if failure is not None:
                message.sent.set_exception(failure)
            elif not left:
                message.sent.set_result(part.result())
            self._vacated.set()

        for part in parts:
            part.expires_at = message.expires_at
            self._entered[part] = None
            part.sent.add_done_callback(on_ended)

    async def drain(self, timeout: float | None) -> None:
        """Until everything that was sent before has ended, or the time is over."""
        waiting = [message.sent for message in self._entered]
        waiting += [message.sent for message, _ in self._queue]
        try:
            async with self._session.clock.timeout(timeout):
                while waiting:
                    if waiting[-1].done():
                        waiting.pop()
                        continue
                    self._vacated.clear()
                    await self._vacated.wait()
        except TimeoutError:
            pass  # what has not ended is for the caller to fail
        await yield_to_loop()  # callbacks of those that have ended run before the caller goes on

    def check_failures(self) -> None:
        """Raise what was not told yet."""
        failed, first = self._untold, self._first
        self._untold, self._first = 0, None
        if first is not None:
            raise SendFailedError(self._name(), failed, first) from first

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    def close(self, failure: PulsarError) -> None:
        """Whatever has not ended fails, and nothing enters any more."""
        self._closed = failure
        if self._timer is not None:
            self._timer.cancel()
        if self._admitting is not None:
            self._admitting.cancel()
        for message, place in self._queue:
            if place is None:
                if not message.sent.done():
                    message.sent.set_exception(failure)
                continue
            if not place.done():
                place.set_exception(failure)
            message.sent.cancel()
        self._queue.clear()
        self._vacated.set()
        self.fail(tuple(self._entered), failure)

    def _give_back(self, count: int, size: int) -> None:
        if count:
            self._room += count
            self._session.memory.give(size)
            self._vacated.set()

    async def _admit(self) -> None:
        """Let those in who wait, one after the other, as room and memory come free."""
        while self._queue:
            message, place = self._queue[0]
            waiting = message.sent if place is None else place
            if not waiting.done() and self._room <= 0:
                self._vacated.clear()
                await self._vacated.wait()
                continue
            if not waiting.done():
                await self._session.memory.take(message.size)
                if waiting.done():  # given up meanwhile
                    self._session.memory.give(message.size)
            self._queue.popleft()
            if not waiting.done():
                if place is not None:
                    place.set_result(None)
                self._enter(message)

    def _enter(self, message: M) -> None:
        """Room and memory are taken."""
        self._room -= message.count
        message.number = self._number
        self._number += message.count
        self._entered[message] = None
        timeout = self._settings.send_timeout
        if timeout > 0:
            message.expires_at = self._session.clock.monotonic() + timeout
            if self._timer is None:
                self._timer = self._session.clock.call_at(message.expires_at, self._expire)
        self._send(message)

    def _expire(self) -> None:
        self._timer = None
        now = self._session.clock.monotonic()
        late = []
        for message in self._entered:
            if message.expires_at > now:
                self._timer = self._session.clock.call_at(message.expires_at, self._expire)
                break
            late.append(message)
        for message in late:
            self.fail((message,), self._explain(message))
        if late:
            self._on_late()
