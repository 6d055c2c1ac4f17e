"""The blocking consumers: they receive and acknowledge without a wait for the loop's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypeVar, overload

from magnetar.client.background_loop import BackgroundLoop, Burst, SyncHandle, waited
from magnetar.client.checkpoint import Checkpoint
from magnetar.client.checkpoint_consumer import AsyncCheckpointConsumer
from magnetar.client.consumer import (
    AsyncConsumer,
    AsyncQueueConsumer,
    IndividualConsumer,
    SubscriptionConsumer,
    check_concurrency,
    log_failed,
)
from magnetar.client.error import AlreadyClosedError
from magnetar.client.handle import ConsumerStats, FirstFailure, TransactionHandle
from magnetar.client.inbox import Inbox, check_limit
from magnetar.client.message import Message, MessageBatch, Run
from magnetar.client.message_id import MessageId
from magnetar.client.place import Done
from magnetar.client.quantity import Duration
from magnetar.client.reader import AsyncReader
from magnetar.client.retry import find_deadline
from magnetar.client.stream import AsyncStreamConsumer, vector_id
from magnetar.model.segment import SegmentId

_CHECK_S: Final = 5.0
"""How often a waiting thread looks whether the client is still there."""


class AsyncSource(Protocol):
    """What has messages for other threads."""

    @property
    def _inbox(self) -> Inbox: ...

    @property
    def _failed(self) -> FirstFailure: ...

    @property
    def stats(self) -> ConsumerStats: ...

    def _settle(self) -> None: ...

    async def close(self) -> None: ...


class AsyncReceiver(AsyncSource, Protocol):
    """What the async consumers have in common."""

    @property
    def topic(self) -> str: ...

    @property
    def name(self) -> str: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


S = TypeVar("S", bound=AsyncSource)
R = TypeVar("R", bound=AsyncReceiver)
C = TypeVar("C", bound=SubscriptionConsumer[Any, Any])
N = TypeVar("N", bound=IndividualConsumer[Any])
T = TypeVar("T")
M = TypeVar("M")
I = TypeVar("I")  # noqa: E741  what is acknowledged


class SyncSource(SyncHandle[S], Generic[S, T]):
    """Takes what has arrived in the caller's thread; the loop learns of it in runs.

    Iterating ends when the consumer is closed.
    """

    def __init__(self, loop: BackgroundLoop, inner: S) -> None:
        super().__init__(loop, inner)
        self._inbox = inner._inbox
        self._burst = Burst(loop, inner._settle, inner._failed)

    @property
    def stats(self) -> ConsumerStats:
        return self._call(lambda: self._inner.stats)

    def close(self) -> None:
        """Raises what went wrong with an acknowledgement that was not waited for.

        Does nothing after the client's own close, or in a process that was forked.
        """
        self._burst.wake()
        super().close()
        self._burst.check_failure()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[T]:
        try:
            message = self._receive(None)
        except AlreadyClosedError:
            raise StopIteration from None
        assert message is not None, "receive without a timeout returns a message"
        return message

    def _receive(self, timeout: Duration | None) -> Message[T] | None:
        self._burst.check()
        message = self._inbox.claim() or self._wait(self._inbox.claim, timeout)
        self._burst.wake()
        return message

    def _receive_many(
        self, max_messages: int, timeout: Duration | None, linger: Duration
    ) -> MessageBatch[T]:
        self._burst.check()
        check_limit(max_messages)
        inbox, left = self._inbox, max_messages
        run = inbox.claim_run(left) or self._wait(partial(inbox.claim_run, left), timeout)
        runs: list[Run[T]] = []
        until = find_deadline(linger, inbox.clock) if linger else None
        while run is not None:
            self._burst.wake()
            runs.append(run)
            left -= len(run[0])
            run = inbox.claim_more(left) if left else None
            if run is None and left and until is not None and inbox.failure is None:
                rest = max(until - inbox.clock.monotonic(), 0.0)
                run = self._wait(partial(inbox.claim_more, left), rest)
        return MessageBatch(runs)

    def _receive_until(self, is_over: Callable[[], bool]) -> Message[T] | None:
        """The next message; None when it is over, or the consumer is closed."""
        try:
            self._burst.check()
            message = None
            if not is_over():
                message = self._inbox.claim() or self._wait(self._inbox.claim, None, is_over)
                self._burst.wake()
        except AlreadyClosedError:
            return None
        return message

    def _wait(
        self,
        claim: Callable[[], M | None],
        timeout: Duration | None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> M | None:
        deadline = find_deadline(timeout, self._inbox.clock)
        while True:
            rest = _CHECK_S
            if deadline is not None:
                rest = min(rest, deadline - self._inbox.clock.monotonic())
            if rest > 0:
                self._inbox.wait_in_thread(rest, is_over)
            found = claim()
            if found is not None or rest <= 0 or self._inbox.failure is not None or is_over():
                return found
            self._loop.check()

    def _post(self, work: Callable[[Sequence[I]], object], *items: I) -> None:
        """Tell the loop without waiting for it; what goes wrong there is raised at the next
        occasion, and keeps no other call from being made.
        """
        self._loop.check()
        for item in items:
            self._burst.call_alone(work, item)
        self._burst.check_failure()


class SyncReceiver(SyncSource[R, T], Generic[R, T]):
    """What the blocking consumers have in common."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    @property
    def name(self) -> str:
        return self._inner.name

    @overload
    def receive(self, timeout: None = None) -> Message[T]: ...

    @overload
    def receive(self, timeout: Duration | None) -> Message[T] | None: ...

    def receive(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; with a `timeout`, None when there is none within it."""
        return self._receive(timeout)

    def receive_nowait(self) -> Message[T] | None:
        """A message that is here already, or None."""
        return self._receive(0)

    def receive_many(
        self, max_messages: int, timeout: Duration | None = None, *, linger: Duration = 0.0
    ) -> MessageBatch[T]:
        """Up to `max_messages`: those that are here as soon as there is one, even none after
        `timeout`. With `linger`, wait so long after the first one for more.
        """
        return self._receive_many(max_messages, timeout, linger)

    def pause(self) -> None:
        """Ask for no more messages; those that were asked for still come."""
        self._call(self._inner.pause)

    def resume(self) -> None:
        self._call(self._inner.resume)


class SyncSubscription(SyncReceiver[C, T], Generic[C, T]):
    """What those with a subscription have in common."""

    @property
    def topics(self) -> tuple[str, ...]:
        return self._call(lambda: self._inner.topics)

    @property
    def subscription(self) -> str:
        return self._inner.subscription

    def flush(self) -> None:
        """Send what is acknowledged now; raises what went wrong with any of it so far."""
        self._burst.wake()
        self._run(self._inner.flush())
        self._burst.check()

    backlog = waited(SubscriptionConsumer.backlog)
    lag = waited(SubscriptionConsumer.lag)
    seek = waited(SubscriptionConsumer.seek)
    unsubscribe = waited(SubscriptionConsumer.unsubscribe)


class StreamConsumer(SyncSubscription[AsyncStreamConsumer[T], T], Generic[T]):
    """Made by `client.stream_consumer`; a context manager and iterator of messages."""

    def __init__(self, loop: BackgroundLoop, inner: AsyncStreamConsumer[T]) -> None:
        super().__init__(loop, inner)
        self._begin_cumulative = inner._begin_cumulative

    def acknowledge_cumulative(
        self, message: Message[T] | MessageId, transaction: TransactionHandle | None = None
    ) -> None:
        """Everything received up to this message is done, in all segments and topics.

        Waits for the broker only with `ack_receipts`.
        """
        if self._inner._has_receipts or transaction is not None:
            self._run(self._inner.acknowledge_cumulative(message, transaction))
        else:
            self._post(self._begin_cumulative, vector_id(message))


class SyncIndividual(SyncSubscription[N, T], Generic[N, T]):
    """Acknowledges each message on its own."""

    def __init__(self, loop: BackgroundLoop, inner: N) -> None:
        super().__init__(loop, inner)
        self._begin_acknowledge = inner._begin_acknowledge
        self._acknowledge_received = inner._acknowledge_received
        self._check_done = inner._check_done
        self._has_receipts = inner._has_receipts
        self._is_of_many = inner._topic_set.is_of_many
        self._stops = 0
        self._refuse = inner._refuse

    def acknowledge(self, message: Done[T], transaction: TransactionHandle | None = None) -> None:
        """The message is done, or all of several, such as a batch of `receive_many`.

        Waits for the broker only with `ack_receipts`.
        """
        if self._has_receipts or transaction is not None:
            self._run(self._inner.acknowledge(message, transaction))
        elif isinstance(message, Message):
            self._loop.check()
            if self._is_of_many:
                self._check_done(message)
            self._burst.call(self._acknowledge_received, message)
            self._burst.check_failure()
        else:
            self._post(self._begin_acknowledge, *self._check_done(message))

    def negative_acknowledge(
        self, message: Message[T] | MessageId, delay: Duration | None = None
    ) -> None:
        """Ask for the message again after `delay`, or as the consumer's backoff says."""
        self._post(self._refuse, self._inner._check_refused(message, delay))

    reconsume_later = waited(IndividualConsumer.reconsume_later)

    def run(self, handler: Callable[[Message[T]], object], *, concurrency: int = 1) -> None:
        """Call `handler` with every message, in so many threads, until `stop` is called or the
        consumer is closed.

        A message is acknowledged when its handler returns. When it raises, that is logged, and the
        message is redelivered as `nack_backoff` says, and buried as `dead_letter` says. Anything
        else that goes wrong in one thread, Ctrl-C too, lets the others end as `stop` does, and is
        raised then.
        """
        check_concurrency(concurrency)
        at = self._stops
        failures: list[BaseException] = []

        def is_over() -> bool:
            return bool(failures) or self._stops != at

        def work() -> None:
            try:
                while (message := self._receive_until(is_over)) is not None:
                    try:
                        with self.processing(message):
                            handler(message)
                    except Exception as error:  # an application's code may raise anything
                        log_failed(message, error)
            except BaseException as error:
                failures.append(error)
                self._loop.wake(self._inbox.wake)

        others = [threading.Thread(target=work, daemon=True) for _ in range(concurrency - 1)]
        for each in others:
            each.start()
        work()
        for each in others:
            each.join()
        if failures:
            raise failures[0]

    def stop(self) -> None:
        """Let every `run` return once the handlers under way have ended; what they have done is
        acknowledged, and the consumer stays open. Any thread may call it, and a signal's handler.
        """
        self._stops += 1
        self._loop.wake(self._inbox.wake)  # there: a signal may come while this thread has its lock

    @contextmanager
    def processing(self, message: Message[T]) -> Iterator[Message[T]]:
        """Acknowledge when the body ends well; ask for the message again when it raises."""
        try:
            yield message
        except BaseException:
            self.negative_acknowledge(message)
            raise
        self.acknowledge(message)


class QueueConsumer(SyncIndividual[AsyncQueueConsumer[T], T], Generic[T]):
    """Made by `client.queue_consumer`; a context manager and iterator of messages."""


class Consumer(SyncIndividual[AsyncConsumer[T], T], Generic[T]):
    """Made by `client.consumer`; a context manager and iterator of messages."""

    def __init__(self, loop: BackgroundLoop, inner: AsyncConsumer[T]) -> None:
        super().__init__(loop, inner)
        self._begin_cumulative = inner._begin_cumulative

    @property
    def is_active(self) -> bool:
        """On a failover subscription: whether this consumer is the one that is served."""
        return self._call(lambda: self._inner.is_active)

    @property
    def has_reached_end(self) -> bool:
        """Whether every topic is terminated and consumed."""
        return self._call(lambda: self._inner.has_reached_end)

    def acknowledge_cumulative(
        self, message: Message[T] | MessageId, transaction: TransactionHandle | None = None
    ) -> None:
        """This message and all before it on the same topic or partition are done."""
        if self._inner._has_receipts or transaction is not None:
            self._run(self._inner.acknowledge_cumulative(message, transaction))
        else:
            self._post(self._begin_cumulative, self._inner._check_cumulative(message))

    def redeliver_unacknowledged(self) -> None:
        """Ask for everything unacknowledged again, now."""
        self._call(self._inner.redeliver_unacknowledged)

    seek = waited(AsyncConsumer.seek)
    last_message_ids = waited(AsyncConsumer.last_message_ids)
    is_behind = waited(AsyncConsumer.is_behind)


class CheckpointConsumer(SyncReceiver[AsyncCheckpointConsumer[T], T], Generic[T]):
    """Made by `client.checkpoint_consumer`; a context manager and iterator of messages."""

    def _receive(self, timeout: Duration | None) -> Message[T] | None:
        self._inner._check_messages()
        return super()._receive(timeout)

    def _receive_many(
        self, max_messages: int, timeout: Duration | None, linger: Duration
    ) -> MessageBatch[T]:
        self._inner._check_messages()
        return super()._receive_many(max_messages, timeout, linger)

    @property
    def group(self) -> str | None:
        return self._inner.group

    @property
    def segments(self) -> tuple[SegmentId, ...]:
        """Those it reads now."""
        return self._call(lambda: self._inner.segments)

    def checkpoint(self) -> Checkpoint:
        """Where the application has come: what it received is before it, all the rest after."""
        return self._call(self._inner.checkpoint)

    seek = waited(AsyncCheckpointConsumer.seek)
    receive_arrow = waited(AsyncCheckpointConsumer.receive_arrow)
    has_message_available = waited(AsyncCheckpointConsumer.has_message_available)
    lag = waited(AsyncCheckpointConsumer.lag)


class Reader(SyncSource[AsyncReader[T], T], Generic[T]):
    """Made by `client.reader`; a context manager and iterator of messages."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    @overload
    def read(self, timeout: None = None) -> Message[T]: ...

    @overload
    def read(self, timeout: Duration | None) -> Message[T] | None: ...

    def read(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; with a `timeout`, None when there is none within it."""
        return self._receive(timeout)

    has_message_available = waited(AsyncReader.has_message_available)
    lag = waited(AsyncReader.lag)
    seek = waited(AsyncReader.seek)
