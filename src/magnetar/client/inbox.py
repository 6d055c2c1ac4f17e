"""Messages that have arrived from any number of segments and wait for the application."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import Any, Final, Generic, Self, TypeVar, overload

from magnetar.client.consumer_set import ConsumerSet
from magnetar.client.error import AlreadyClosedError, ConfigurationError, PulsarError
from magnetar.client.handle import FirstFailure, Handle
from magnetar.client.message import Message, MessageBatch, Run
from magnetar.client.message_id import MessageId
from magnetar.client.progress import Progress
from magnetar.client.quantity import Duration
from magnetar.client.retry import find_deadline
from magnetar.client.topic_consumer import TopicConsumer
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.wakeup import Wakeup

_log = Logger(__name__)

T = TypeVar("T")


class InboxSource:
    """A topic that delivers to an inbox."""

    consumers: ConsumerSet
    hears_each = False
    """Whether it has to know of every message when it is received, and not of a run at its end."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def is_current(self, part: TopicConsumer) -> bool:
        """Whether what a part has delivered counts; if not, it is redelivered elsewhere."""
        return self.consumers.parts.get(part.segment) is part

    def on_claimed(self, part: TopicConsumer, messages: Sequence[Message[Any]]) -> Progress | None:
        """The application receives these; how far it has come with them, where ids tell that.
        Called by any thread, one at a time.
        """
        return None

    def on_received(self, part: TopicConsumer, messages: Sequence[Message[Any]]) -> None:
        """The application has these: there is room for more. Called on the loop."""
        if self.is_current(part):
            part.on_taken(messages)

    def put(self, part: TopicConsumer, messages: Sequence[Message[Any]]) -> None:
        self._inbox.put(self, part, messages)

    def retract(self, part: TopicConsumer, entries: Set[MessageId]) -> int:
        return self._inbox.retract(part, entries)

    def start_over(self, part: TopicConsumer) -> None:
        self._inbox.start_over(part)

    def may_create(self, part: TopicConsumer) -> bool:
        return True

    def on_end(self, part: TopicConsumer) -> None:
        """Consumers of a subscription go on: the topic may be read again."""

    def on_lost(self, part: TopicConsumer, failure: PulsarError) -> None:
        if self.is_current(part):
            _log.warning("segment lost", topic=part.topic, reason=failure)
            self.consumers.skip(part.segment)


class _Run:
    """Messages that came in one entry, taken from the front on. Void once its part has a newer
    generation.
    """

    __slots__ = (
        "generation",
        "is_noted",
        "is_told_each",
        "messages",
        "part",
        "settled",
        "source",
        "start",
    )

    def __init__(
        self, source: InboxSource, part: TopicConsumer, messages: Sequence[Message[Any]]
    ) -> None:
        self.source = source
        self.part = part
        self.generation = part.generation
        self.messages = messages
        self.start = 0
        """The first that was not taken."""
        self.settled = 0
        """The first of which the source does not know that it was."""
        self.is_noted = False
        """Whether `settle` knows that some were taken."""
        self.is_told_each = source.hears_each or part.counts_time

    def take_next(self) -> Message[Any]:
        messages = self.messages
        if type(messages) is not list:  # made all at once: they are taken one by one
            messages = self.messages = list(messages)
        message: Message[Any] = messages[self.start]
        self.start += 1
        message.progress = self.source.on_claimed(self.part, (message,))
        return message


_NO_RUNS: Final[deque[_Run]] = deque(maxlen=0)
"""Of every inbox to which nothing came yet: an empty deque takes 600 bytes."""


class Inbox:
    """One queue in the order of arrival; every receiver that waits is woken by what comes.

    What waits is bounded by the permits that each segment was given. Any thread may claim and wait;
    all the rest belongs to the loop.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.failure: PulsarError | None = None
        self.received = 0
        """How many messages the application got and the sources know of."""
        self._runs = _NO_RUNS
        self._noted: list[_Run] = []
        """Those of which some were taken that their sources do not know of."""
        self._arrived = Wakeup()
        self._lock = threading.Lock()
        """Around everything that changes the runs."""
        self._threads: list[threading.Lock] = []
        """One for each thread that waits; released when something comes."""

    def __len__(self) -> int:
        with self._lock:
            valid = (run for run in self._runs if run.part.generation == run.generation)
            return sum(len(run.messages) - run.start for run in valid)

    @property
    def is_ready(self) -> bool:
        """Whether a receiver need not wait: there is a message, or a failure to raise."""
        with self._lock:
            return self._has_messages or self.failure is not None

    @property
    def _has_messages(self) -> bool:
        return any(run.part.generation == run.generation for run in self._runs)

    def put(
        self, source: InboxSource, part: TopicConsumer, messages: Sequence[Message[Any]]
    ) -> None:
        with self._lock:
            if self._runs is _NO_RUNS:
                self._runs = deque()
            self._runs.append(_Run(source, part, messages))
        self.wake()

    def take_raw(self) -> tuple[TopicConsumer, Any] | None:
        """An entry, for a reader of columns; on the loop, as `take`."""
        while self._runs:
            run = self._runs.popleft()
            if run.part.generation == run.generation:
                return run.part, run.messages[0]
        self._check_failure()
        return None

    def claim(self) -> Message[Any] | None:
        """The next message, for any thread; None when nothing is here. Its source knows of it with
        the next `settle`.
        """
        with self._lock:
            run = self._find_run()
            if run is not None:
                message = run.take_next()
                if run.start == len(run.messages):
                    self._runs.popleft()
                if not run.is_noted:
                    run.is_noted = True
                    self._noted.append(run)
                return message
        self._check_failure()
        return None

    def take(self) -> Message[Any] | None:
        """The same for an application on the loop: its source knows of it at once, or when all that
        came with it is taken. No thread claims beside it, so that it needs no lock.
        """
        run = self._runs[0] if self._runs else None
        if (
            run is None
            or run.part.generation != run.generation
            or not run.source.is_current(run.part)
        ):
            run = self._find_run()
            if run is None:
                self._check_failure()
                return None
        message = run.take_next()
        if not run.is_noted:
            run.is_noted = True
            self._noted.append(run)
        if run.start == len(run.messages):
            self._runs.popleft()
            self.settle()
        elif run.is_told_each:
            self.settle()
        return message

    def claim_run(self, limit: int) -> Run[Any] | None:
        """Up to `limit` messages that came together, as `claim` gives them."""
        with self._lock:
            run = self._find_run()
            if run is not None:
                messages = run.messages[run.start : run.start + limit]
                run.start += len(messages)
                if run.start == len(run.messages):
                    self._runs.popleft()
                if not run.is_noted:
                    run.is_noted = True
                    self._noted.append(run)
                return messages, run.source.on_claimed(run.part, messages)
        self._check_failure()
        return None

    def claim_more(self, limit: int) -> Run[Any] | None:
        """Why nothing more comes is for the next call to tell: this one has messages."""
        try:
            return self.claim_run(limit)
        except PulsarError:
            return None

    def settle(self) -> list[Sequence[Message[Any]]]:
        """Tell the sources what was taken; returns it."""
        with self._lock:
            taken = self._collect()
        return self._report(taken)

    def start_over(self, part: TopicConsumer) -> None:
        """What waits of a part is void, and is delivered once more; what was taken counts."""
        with self._lock:
            part.generation += 1
            taken = self._collect()
        self._report(taken)

    def retract(self, part: TopicConsumer, entries: Set[MessageId]) -> int:
        """The broker will deliver these entries once more; how many messages were not taken."""
        kept: deque[_Run] = deque()
        dropped = 0
        with self._lock:
            for run in self._runs:
                if run.part is not part or run.messages[0].place.entry not in entries:
                    kept.append(run)
                elif part.generation == run.generation:
                    dropped += len(run.messages) - run.start
            self._runs = kept
        return dropped

    def drop(self, part: TopicConsumer) -> None:
        """The broker will deliver these elsewhere."""
        with self._lock:
            self._runs = deque(run for run in self._runs if run.part is not part)

    def _find_run(self) -> _Run | None:
        """The first that is not void."""
        while self._runs:
            run = self._runs[0]
            if run.part.generation == run.generation and run.source.is_current(run.part):
                return run
            self._runs.popleft()
        return None

    def _check_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _collect(self) -> list[tuple[_Run, Sequence[Message[Any]]]]:
        """What was taken and not settled."""
        taken = []
        for run in self._noted:
            taken.append((run, run.messages[run.settled : run.start]))
            run.settled, run.is_noted = run.start, False
        self._noted.clear()
        return taken

    def _report(
        self, taken: Sequence[tuple[_Run, Sequence[Message[Any]]]]
    ) -> list[Sequence[Message[Any]]]:
        for run, messages in taken:
            self.received += len(messages)
            run.source.on_received(run.part, messages)
        return [messages for _, messages in taken]

    async def wait(self, deadline: float | None) -> bool:
        """Until something may be there; False when the time is over."""
        self.settle()
        try:
            async with self.clock.timeout_at(deadline):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def wait_in_thread(self, timeout_s: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """The same for another thread than the loop's, which need not wait when it is over."""
        arrived = threading.Lock()
        arrived.acquire()
        with self._lock:
            if self._has_messages or self.failure is not None or is_over():
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
        self.wake()

    def close(self, failure: AlreadyClosedError) -> None:
        self.failure = failure
        with self._lock:
            self._runs.clear()
        self.wake()

    def wake(self) -> None:
        """Let every receiver look whether it still has to wait."""
        self._arrived.wake()
        with self._lock:
            threads, self._threads = self._threads, []
        for arrived in threads:
            arrived.release()


class Receiver(Handle, Generic[T]):
    """What all consumers share: how messages are received."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._failed = FirstFailure()
        """Of acknowledgements whose caller did not wait."""

    def _settle(self) -> None:
        """Note what threads have received."""
        self._inbox.settle()

    def _check_messages(self) -> None:
        """Raise unless messages are received here, one by one."""

    @overload
    async def receive(self, timeout: None = None) -> Message[T]: ...

    @overload
    async def receive(self, timeout: Duration | None) -> Message[T] | None: ...

    async def receive(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; with a `timeout`, None when there is none within it."""
        self._check_messages()
        inbox = self._inbox
        message = inbox.take()
        if message is None:
            deadline = find_deadline(timeout, inbox.clock)
            while message is None and await inbox.wait(deadline):
                message = inbox.take()
            if message is None:
                message = inbox.take()
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        try:
            return await self.receive()
        except AlreadyClosedError:
            raise StopAsyncIteration from None

    def receive_nowait(self) -> Message[T] | None:
        """A message that is here already, or None."""
        self._check_messages()
        return self._inbox.take()

    async def receive_many(
        self, max_messages: int, timeout: Duration | None = None, *, linger: Duration = 0.0
    ) -> MessageBatch[T]:
        """Up to `max_messages`: those that are here as soon as there is one, even none after
        `timeout`. With `linger`, wait so long after the first one for more.
        """
        self._check_messages()
        check_limit(max_messages)
        inbox = self._inbox
        deadline = find_deadline(timeout, inbox.clock)
        run = inbox.claim_run(max_messages)
        while run is None and await inbox.wait(deadline):
            run = inbox.claim_run(max_messages)
        run = run or inbox.claim_run(max_messages)
        runs, left = [], max_messages
        until = find_deadline(linger, inbox.clock) if linger else None
        while run is not None:
            inbox.settle()
            runs.append(run)
            left -= len(run[0])
            run = inbox.claim_more(left) if left else None
            while run is None and left and until is not None and await inbox.wait(until):
                run = inbox.claim_more(left)
        return MessageBatch(runs)


def check_limit(max_messages: int) -> None:
    if not isinstance(max_messages, int) or max_messages < 1:
        raise ConfigurationError(f"max_messages is a number above 0, not {max_messages!r}")
