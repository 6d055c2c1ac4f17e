"""Blocking twins of the producers and consumers of scalable topics."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, Unpack

from magnetar.client.error import AlreadyClosedError
from magnetar.client.facade.handle import SyncHandle
from magnetar.client.quantity import Duration
from magnetar.client.scalable.checkpoint import Checkpoint
from magnetar.client.scalable.checkpoint_consumer import AsyncCheckpointConsumer
from magnetar.client.scalable.consumer import SubscriptionConsumer
from magnetar.client.scalable.layout import AsyncLayoutChanges, LayoutChange
from magnetar.client.scalable.message import Message, MessageBatch
from magnetar.client.scalable.message_id import MessageId
from magnetar.client.scalable.producer import AsyncScalableProducer
from magnetar.client.scalable.queue import AsyncQueueConsumer
from magnetar.client.scalable.stream import AsyncStreamConsumer
from magnetar.client.send_option import SendOptions
from magnetar.client.stats import ConsumerStats, ProducerStats
from magnetar.model.segment import SegmentId

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class AsyncReceiver(Protocol):
    """What the async consumers have in common."""

    @property
    def topic(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def stats(self) -> ConsumerStats: ...

    async def receive(self, timeout: Duration | None = None) -> Message[Any] | None: ...

    def receive_nowait(self) -> Message[Any] | None: ...

    async def receive_many(
        self, max_messages: int, timeout: Duration | None = None, *, linger: Duration = 0.0
    ) -> MessageBatch[Any]: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    async def close(self) -> None: ...


R = TypeVar("R", bound=AsyncReceiver)
S = TypeVar("S", bound=SubscriptionConsumer[Any, Any])


class ScalableProducer(SyncHandle[AsyncScalableProducer[T]], Generic[T]):
    """Made by `client.producer`; use it as a context manager. Threads may share it."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def last_sequence_id(self) -> int:
        return self._call(lambda: self._inner.last_sequence_id)

    @property
    def stats(self) -> ProducerStats:
        return self._call(lambda: self._inner.stats)

    def send(self, value: T | None, **options: Unpack[SendOptions]) -> MessageId:
        """Publish, and return the id once the broker has stored it."""
        return self._run_future(lambda: self._inner.begin_send(value, options))

    def submit(self, value: T | None, **options: Unpack[SendOptions]) -> Future[MessageId]:
        """Wait for room only, and return the future of the id: many sends on their way at once."""
        return self._loop.start(self._inner.submit(value, **options))

    def send_nowait(self, value: T | None, **options: Unpack[SendOptions]) -> Future[MessageId]:
        """Publish without waiting for room; raises QueueFullError when too many wait."""

        async def body() -> asyncio.Future[MessageId]:
            return self._inner.send_nowait(value, **options)

        return self._loop.start(body())

    def flush(self) -> None:
        """Wait until everything sent before is stored or has failed.

        Raises SendFailedError when a message that was submitted since the last flush has failed.
        """
        self._run(self._inner.flush())


class SyncReceiver(SyncHandle[R], Generic[R, T]):
    """How messages are received; iterating ends when the consumer is closed."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def stats(self) -> ConsumerStats:
        return self._call(lambda: self._inner.stats)

    def receive(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; None when there is none within `timeout`."""
        return self._run(self._inner.receive(timeout))

    def receive_nowait(self) -> Message[T] | None:
        """A message that is here already, or None."""
        return self._call(self._inner.receive_nowait)

    def receive_many(
        self, max_messages: int, timeout: Duration | None = None, *, linger: Duration = 0.0
    ) -> MessageBatch[T]:
        """Up to `max_messages`, those that are here as soon as there is one."""
        return self._run(self._inner.receive_many(max_messages, timeout, linger=linger))

    def pause(self) -> None:
        """Ask for no more messages; those that were asked for still come."""
        self._call(self._inner.pause)

    def resume(self) -> None:
        self._call(self._inner.resume)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[T]:
        try:
            message = self.receive()
        except AlreadyClosedError:
            raise StopIteration from None
        assert message is not None, "receive without a timeout returns a message"
        return message


class SyncSubscription(SyncReceiver[S, T], Generic[S, T]):
    @property
    def topics(self) -> tuple[str, ...]:
        return self._call(lambda: self._inner.topics)

    @property
    def subscription(self) -> str:
        return self._inner.subscription

    def seek(self, target: datetime | MessageId) -> None:
        """Move to a time, or to `EARLIEST_ID` or `LATEST_ID`, in the segments it consumes."""
        self._run(self._inner.seek(target))

    def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription in the segments it consumes, and close."""
        self._run(self._inner.unsubscribe(force=force))


class StreamConsumer(SyncSubscription[AsyncStreamConsumer[T], T], Generic[T]):
    """Made by `client.stream_consumer`; a context manager and iterator of messages."""

    def acknowledge_cumulative(
        self, message: Message[T] | MessageId, transaction: None = None
    ) -> None:
        """Everything received up to this message is done, in all segments and topics."""
        self._run(self._inner.acknowledge_cumulative(message, transaction))


class QueueConsumer(SyncSubscription[AsyncQueueConsumer[T], T], Generic[T]):
    """Made by `client.queue_consumer`; a context manager and iterator of messages."""

    def acknowledge(self, message: Message[T] | MessageId, transaction: None = None) -> None:
        """The message is done. With `ack_receipts` returns once the broker has stored that."""
        self._run(self._inner.acknowledge(message, transaction))

    def negative_acknowledge(
        self, message: Message[T] | MessageId, delay: Duration | None = None
    ) -> None:
        """Ask for the message again after `delay`, or as the consumer's backoff says."""
        self._call(lambda: self._inner.negative_acknowledge(message, delay))

    def reconsume_later(self, message: Message[T], delay: Duration) -> None:
        """Put the message aside: it comes again through the retry topic, `delay` later."""
        self._run(self._inner.reconsume_later(message, delay))

    @contextmanager
    def processing(self, message: Message[T]) -> Iterator[Message[T]]:
        """Acknowledge when the body ends well; ask for the message again when it raises."""
        scope = self._inner.processing(message)
        entered = self._run(scope.__aenter__())
        try:
            yield entered
        except BaseException:
            self._run(scope.__aexit__(*sys.exc_info()))
            raise
        self._run(scope.__aexit__(None, None, None))


class CheckpointConsumer(SyncReceiver[AsyncCheckpointConsumer[T], T], Generic[T]):
    """Made by `client.checkpoint_consumer`; a context manager and iterator of messages."""

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

    def seek(self, start: Checkpoint) -> None:
        """Go on from there; what waits to be received is dropped."""
        self._run(self._inner.seek(start))

    def receive_arrow(
        self, max_rows: int = 10_000, timeout: Duration | None = None
    ) -> pa.RecordBatch:
        """What is here as soon as there is something, as an Arrow batch of the chosen `columns`."""
        return self._run(self._inner.receive_arrow(max_rows, timeout))

    def has_message_available(self) -> bool:
        """Whether a message was stored that was not received yet."""
        return self._run(self._inner.has_message_available())


class LayoutChanges(SyncHandle[AsyncLayoutChanges]):
    """Made by `client.layout_changes`: the segments there are, then every change of them."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LayoutChange:
        async def body() -> LayoutChange | None:
            try:
                return await anext(self._inner)
            except StopAsyncIteration:  # cannot cross the border of a coroutine
                return None

        change = self._run(body())
        if change is None:
            raise StopIteration
        return change
