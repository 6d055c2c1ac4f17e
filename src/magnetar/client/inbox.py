"""Messages that have arrived from any number of segments and wait for the application."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from magnetar.client.error import AlreadyClosedError, ConfigurationError, PulsarError
from magnetar.client.handle import Handle
from magnetar.client.message import Message, MessageBatch
from magnetar.client.message_id import MessageId
from magnetar.client.progress import Progress
from magnetar.client.quantity import Duration
from magnetar.client.retry import find_deadline
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.runtime.clock import Clock

O = TypeVar("O")  # noqa: E741  who takes them


class _Run(Generic[O]):
    __slots__ = ("generation", "messages", "owner", "part", "start")

    def __init__(self, owner: O, part: TopicConsumer, messages: Sequence[Message[Any]]) -> None:
        self.owner = owner
        self.part = part
        self.generation = part.generation
        self.messages = messages
        self.start = 0


class Backlog(Generic[O]):
    """In the order of arrival. What came under an older generation of its part is void."""

    def __init__(self) -> None:
        self._runs: deque[_Run[O]] = deque()

    def __bool__(self) -> bool:
        return any(run.part.generation == run.generation for run in self._runs)

    def __len__(self) -> int:
        valid = (run for run in self._runs if run.part.generation == run.generation)
        return sum(len(run.messages) - run.start for run in valid)

    def put(self, owner: O, part: TopicConsumer, messages: Sequence[Message[Any]]) -> None:
        self._runs.append(_Run(owner, part, messages))

    def take_one(self) -> tuple[O, TopicConsumer, Message[Any]] | None:
        while self._runs:
            run = self._runs[0]
            if run.part.generation != run.generation:
                self._runs.popleft()
                continue
            messages = run.messages
            if not isinstance(messages, list):  # made all at once: they are taken one by one
                messages = run.messages = list(messages)
            message = messages[run.start]
            run.start += 1
            if run.start == len(messages):
                self._runs.popleft()
            return run.owner, run.part, message
        return None

    def take_run(self, limit: int) -> tuple[O, TopicConsumer, Sequence[Message[Any]]] | None:
        """Up to `limit` messages of one part, as many as came together."""
        while self._runs:
            run = self._runs[0]
            if run.part.generation != run.generation:
                self._runs.popleft()
                continue
            end = run.start + limit
            messages = run.messages[run.start : end]
            run.start = end
            if end >= len(run.messages):
                self._runs.popleft()
            return run.owner, run.part, messages
        return None

    def retract(self, part: TopicConsumer, entries: Set[MessageId]) -> int:
        """Drop what came in these entries; returns how many messages were not taken. The messages
        of a run came in one entry.
        """
        kept: deque[_Run[O]] = deque()
        dropped = 0
        for run in self._runs:
            if run.part is not part or run.messages[0].place.entry not in entries:
                kept.append(run)
            elif part.generation == run.generation:
                dropped += len(run.messages) - run.start
        self._runs = kept
        return dropped

    def drop(self, part: TopicConsumer) -> None:
        self._runs = deque(run for run in self._runs if run.part is not part)

    def clear(self) -> None:
        self._runs.clear()


M = TypeVar("M")


class Supply(Handle, Generic[M]):
    @overload
    async def receive(self, timeout: None = None) -> M: ...

    @overload
    async def receive(self, timeout: Duration | None) -> M | None: ...

    @abstractmethod
    async def receive(self, timeout: Duration | None = None) -> M | None: ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> M:
        try:
            return await self.receive()
        except AlreadyClosedError:
            raise StopAsyncIteration from None


T = TypeVar("T")


class Source(Protocol):
    """A topic that delivers here."""

    def is_current(self, part: TopicConsumer) -> bool:
        """Whether what a part has delivered counts; if not, it is redelivered elsewhere."""

    def on_claimed(self, part: TopicConsumer, messages: Sequence[Message[Any]]) -> Progress | None:
        """The application receives these; how far it has come with them, where ids tell that.
        Called by any thread, one at a time.
        """

    def on_received(self, part: TopicConsumer, messages: Sequence[Message[Any]]) -> None:
        """The application has these: there is room for more. Called on the loop."""


@dataclass(slots=True, eq=False)
class Claim:
    """Messages that an application got, of which their source is not told yet."""

    source: Source
    part: TopicConsumer
    messages: Sequence[Message[Any]]
    progress: Progress | None


class Inbox:
    """One queue in the order of arrival; every receiver that waits is woken by what comes.

    What waits is bounded by the permits that each segment was given. Any thread may claim and wait;
    all the rest belongs to the loop.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.failure: PulsarError | None = None
        self._backlog: Backlog[Source] = Backlog()
        self._arrived = asyncio.Event()
        self._lock = threading.Lock()
        """Around everything that changes the backlog."""
        self._threads: list[threading.Lock] = []
        """One for each thread that waits; released when something comes."""

    def __len__(self) -> int:
        with self._lock:
            return len(self._backlog)

    @property
    def is_ready(self) -> bool:
        """Whether a receiver need not wait: there is a message, or a failure to raise."""
        with self._lock:
            return bool(self._backlog) or self.failure is not None

    def put(self, source: Source, part: TopicConsumer, messages: Sequence[Message[Any]]) -> None:
        with self._lock:
            self._backlog.put(source, part, messages)
        self._wake()

    def take_raw(self) -> tuple[TopicConsumer, Any] | None:
        """An entry, for a reader of columns; on the loop, as `take`."""
        found = self._backlog.take_one()
        if found is not None:
            return found[1], found[2]
        if self.failure is not None:
            raise self.failure
        return None

    def claim(self) -> Claim | None:
        """The next message; None when nothing is here. To be passed to `settle`, on the loop."""
        with self._lock:
            while (found := self._backlog.take_one()) is not None:
                source, part, message = found
                if source.is_current(part):
                    messages = (message,)
                    progress = source.on_claimed(part, messages)
                    message.progress = progress
                    return Claim(source, part, messages, progress)
        if self.failure is not None:
            raise self.failure
        return None

    def take(self) -> Message[Any] | None:
        """The next message; None when nothing is here. It is claimed and settled at once.

        For an application on the loop: no thread claims beside it, so that it needs no lock.
        """
        while (found := self._backlog.take_one()) is not None:
            source, part, message = found
            if source.is_current(part):
                messages = (message,)
                message.progress = source.on_claimed(part, messages)
                source.on_received(part, messages)
                return message
        if self.failure is not None:
            raise self.failure
        return None

    def claim_run(self, limit: int) -> Claim | None:
        """Up to `limit` messages that came together; None when nothing is here."""
        with self._lock:
            while (found := self._backlog.take_run(limit)) is not None:
                source, part, messages = found
                if source.is_current(part):
                    return Claim(source, part, messages, source.on_claimed(part, messages))
        if self.failure is not None:
            raise self.failure
        return None

    def settle(self, claims: Iterable[Claim]) -> int:
        """Make room for as many messages as were claimed; returns their number."""
        count = 0
        first: Claim | None = None
        joined: list[Message[Any]] = []
        for claim in claims:
            count += len(claim.messages)
            if first is None or first.part is not claim.part or first.source is not claim.source:
                if first is not None:
                    first.source.on_received(first.part, joined)
                first, joined = claim, []
            joined += claim.messages
        if first is not None:
            first.source.on_received(first.part, joined)
        return count

    def retract(self, part: TopicConsumer, entries: Set[MessageId]) -> int:
        """The broker will deliver these entries once more."""
        with self._lock:
            return self._backlog.retract(part, entries)

    def drop(self, part: TopicConsumer) -> None:
        """The broker will deliver these elsewhere."""
        with self._lock:
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

    def wait_in_thread(self, timeout_s: float) -> None:
        """The same for another thread than the loop's; -1 waits without end."""
        arrived = threading.Lock()
        arrived.acquire()
        with self._lock:
            if self._backlog or self.failure is not None:
                return
            self._threads.append(arrived)
        try:
            arrived.acquire(timeout=timeout_s)
        finally:
            with self._lock:
                if arrived in self._threads:
                    self._threads.remove(arrived)

    def fail(self, failure: PulsarError) -> None:
        """Receivers get what is here, then the reason why no more comes."""
        if self.failure is None:
            self.failure = failure
        self._wake()

    def close(self, failure: AlreadyClosedError) -> None:
        self.failure = failure
        with self._lock:
            self._backlog.clear()
        self._wake()

    def _wake(self) -> None:
        self._arrived.set()
        with self._lock:
            threads, self._threads = self._threads, []
        for arrived in threads:
            arrived.release()


class Receiver(Supply[Message[T]], Generic[T]):
    """What all consumers share: how messages are received."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._received = 0

    def _settle_claims(self, claims: Iterable[Claim]) -> None:
        self._received += self._inbox.settle(claims)

    def _check_messages(self) -> None:
        """Raise unless messages are received here, one by one."""

    @overload
    async def receive(self, timeout: None = None) -> Message[T]: ...

    @overload
    async def receive(self, timeout: Duration | None) -> Message[T] | None: ...

    async def receive(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; with a `timeout`, None when there is none within it."""
        message = self.receive_nowait()
        if message is None:
            deadline = find_deadline(timeout, self._inbox.clock)
            while message is None and await self._inbox.wait(deadline):
                message = self.receive_nowait()
            if message is None:
                message = self.receive_nowait()
        return message

    def receive_nowait(self) -> Message[T] | None:
        """A message that is here already, or None."""
        self._check_messages()
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
        self._check_messages()
        check_limit(max_messages)
        first = self._inbox.claim_run(max_messages)
        if first is None:
            first = await self._wait_run(max_messages, timeout)
        if first is None:
            return MessageBatch(())
        until = find_deadline(linger, self._inbox.clock) if linger else None
        runs, count = [first], 0
        while True:
            run = runs[-1]
            run.source.on_received(run.part, run.messages)
            count += len(run.messages)
            more = None
            while count < max_messages:
                more = claim_more(self._inbox, max_messages - count)
                if more is not None or until is None or not await self._inbox.wait(until):
                    break
            if more is None:
                break
            runs.append(more)
        self._received += count
        return MessageBatch([(run.messages, run.progress) for run in runs])

    async def _wait_run(self, limit: int, timeout: Duration | None) -> Claim | None:
        deadline = find_deadline(timeout, self._inbox.clock)
        while await self._inbox.wait(deadline):
            run = self._inbox.claim_run(limit)
            if run is not None:
                return run
        return self._inbox.claim_run(limit)


def check_limit(max_messages: int) -> None:
    if not isinstance(max_messages, int) or max_messages < 1:
        raise ConfigurationError(f"max_messages is a number above 0, not {max_messages!r}")


def claim_more(inbox: Inbox, limit: int) -> Claim | None:
    """Why nothing more comes is for the next call to tell: this one has messages."""
    try:
        return inbox.claim_run(limit)
    except PulsarError:
        return None
