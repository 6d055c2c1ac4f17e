"""Messages that have arrived from any number of segments and wait for the application."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set
from typing import Any, Generic, Protocol, TypeVar

from magnetar.client.backlog import Backlog
from magnetar.client.deadline import find_deadline
from magnetar.client.error import AlreadyClosedError, ConfigurationError, PulsarError
from magnetar.client.message import Message as Delivered
from magnetar.client.message_id import MessageId as EntryId
from magnetar.client.quantity import Duration
from magnetar.client.scalable.message import Message, MessageBatch, Run
from magnetar.client.scalable.trail import Mark
from magnetar.client.supply import Supply
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.runtime.clock import Clock

T = TypeVar("T")


class Source(Protocol):
    """A topic that delivers here."""

    def take(self, part: TopicConsumer, delivered: Sequence[Delivered[Any]]) -> Mark | None:
        """The application has these from now on; None if they are void."""


class Inbox(Generic[T]):
    """One queue in the order of arrival; every receiver that waits is woken by what comes.

    What waits is bounded by the permits that each segment was given.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._backlog: Backlog[Source] = Backlog()
        self._arrived = asyncio.Event()
        self.failure: PulsarError | None = None

    def __len__(self) -> int:
        return len(self._backlog)

    def put(self, source: Source, part: TopicConsumer, messages: Sequence[Delivered[Any]]) -> None:
        self._backlog.put(source, part, messages)
        self._arrived.set()

    def take_raw(self) -> tuple[TopicConsumer, Any] | None:
        """An entry, for a reader of columns."""
        found = self._backlog.take_one()
        if found is not None:
            return found[1], found[2]
        if self.failure is not None:
            raise self.failure
        return None

    def take(self) -> Message[T] | None:
        while (found := self._backlog.take_one()) is not None:
            source, part, delivered = found
            mark = source.take(part, (delivered,))
            if mark is not None:
                return Message(delivered, mark)
        if self.failure is not None:
            raise self.failure
        return None

    def take_run(self, limit: int) -> Run[T] | None:
        """Up to `limit` messages that came together; None when nothing is here."""
        while (found := self._backlog.take_run(limit)) is not None:
            source, part, delivered = found
            mark = source.take(part, delivered)
            if mark is not None:
                return delivered, mark
        if self.failure is not None:
            raise self.failure
        return None

    def retract(self, part: TopicConsumer, entries: Set[EntryId]) -> int:
        """The broker will deliver these entries once more."""
        return self._backlog.retract(part, entries)

    def drop(self, part: TopicConsumer) -> None:
        """The broker will deliver these elsewhere."""
        self._backlog.drop(part)

    async def wait(self, deadline: float | None) -> bool:
        """Until something may be there; False when the time is over."""
        self._arrived.clear()
        try:
            async with self.clock.timeout_at(deadline):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def fail(self, failure: PulsarError) -> None:
        """Receivers get what is here, then the reason why no more comes."""
        if self.failure is None:
            self.failure = failure
        self._arrived.set()

    def close(self, failure: AlreadyClosedError) -> None:
        self.failure = failure
        self._backlog.clear()
        self._arrived.set()


class Receiver(Supply[Message[T]], Generic[T]):
    """What all consumers of scalable topics share: how messages are received."""

    def __init__(self, inbox: Inbox[T]) -> None:
        self._inbox = inbox
        self._received = 0

    async def receive(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; None when there is none within `timeout`."""
        message = self._inbox.take()
        if message is None:
            deadline = find_deadline(timeout, self._inbox.clock)
            while message is None and await self._inbox.wait(deadline):
                message = self._inbox.take()
            if message is None:
                message = self._inbox.take()
        if message is not None:
            self._received += 1
        return message

    def receive_nowait(self) -> Message[T] | None:
        """A message that is here already, or None."""
        message = self._inbox.take()
        if message is not None:
            self._received += 1
        return message

    async def receive_many(
        self, max_messages: int, timeout: Duration | None = None, *, linger: Duration = 0.0
    ) -> MessageBatch[T]:
        """Up to `max_messages`: those that are here as soon as there is one, even none after
        `timeout`. With `linger`, wait so long after the first one for more.
        """
        if not isinstance(max_messages, int) or max_messages < 1:
            raise ConfigurationError(f"max_messages is a number above 0, not {max_messages!r}")
        first = self._inbox.take_run(max_messages)
        if first is None:
            first = await self._wait_run(max_messages, timeout)
        if first is None:
            return MessageBatch(())
        runs = [first]
        count = len(first[0])
        until = find_deadline(linger, self._inbox.clock) if linger else None
        while count < max_messages:
            run = self._take_more(max_messages - count)
            if run is not None:
                runs.append(run)
                count += len(run[0])
            elif until is None or not await self._inbox.wait(until):
                break
        self._received += count
        return MessageBatch(runs)

    async def _wait_run(self, limit: int, timeout: Duration | None) -> Run[T] | None:
        deadline = find_deadline(timeout, self._inbox.clock)
        while await self._inbox.wait(deadline):
            run = self._inbox.take_run(limit)
            if run is not None:
                return run
        return self._inbox.take_run(limit)

    def _take_more(self, limit: int) -> Run[T] | None:
        """Why nothing more comes is for the next call to tell: this one has messages."""
        try:
            return self._inbox.take_run(limit)
        except PulsarError:
            return None
