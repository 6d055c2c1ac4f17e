"""Blocking twins of what `client.classic` makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from magnetar.client.classic import AsyncClassic, Topics
from magnetar.client.consumer import AsyncConsumer
from magnetar.client.error import AlreadyClosedError
from magnetar.client.facade.handle import SyncHandle
from magnetar.client.facade.loop import BackgroundLoop
from magnetar.client.message import Message
from magnetar.client.message_id import MessageId, Start, Target
from magnetar.client.option import ConsumerOptions, ProducerOptions, ReaderOptions
from magnetar.client.producer import AsyncProducer
from magnetar.client.quantity import Duration
from magnetar.client.reader import AsyncReader
from magnetar.client.schema.schema import Schema
from magnetar.client.send_option import SendOptions
from magnetar.client.stats import ConsumerStats, ProducerStats
from magnetar.client.table_view import AsyncTableView

T = TypeVar("T")


class Producer(SyncHandle[AsyncProducer[T]], Generic[T]):
    """Made by `client.classic.create_producer`; use it as a context manager."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    @property
    def name(self) -> str:
        """The name the broker knows; each partition may have got its own."""
        return self._inner.name

    @property
    def partitions(self) -> int:
        """How many partitions the topic has; 0 for a topic without."""
        return self._inner.partitions

    @property
    def last_sequence_id(self) -> int:
        return self._call(lambda: self._inner.last_sequence_id)

    @property
    def stats(self) -> ProducerStats:
        return self._call(lambda: self._inner.stats)

    def send(self, value: T | None, **options: Unpack[SendOptions]) -> MessageId:
        """Publish and return the id once the broker has stored it; None is a tombstone."""
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


class Consumer(SyncHandle[AsyncConsumer[T]], Generic[T]):
    """Made by `client.classic.subscribe`; a context manager and iterator of messages."""

    @property
    def topics(self) -> tuple[str, ...]:
        return self._inner.topics

    @property
    def subscription(self) -> str:
        return self._inner.subscription

    @property
    def is_active(self) -> bool:
        """On a failover subscription: whether this consumer is the one that is served."""
        return self._call(lambda: self._inner.is_active)

    @property
    def has_reached_end(self) -> bool:
        """Whether every topic is terminated and consumed."""
        return self._call(lambda: self._inner.has_reached_end)

    @property
    def stats(self) -> ConsumerStats:
        return self._call(lambda: self._inner.stats)

    def receive(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; None when there is none within `timeout`."""
        return self._run(self._inner.receive(timeout))

    def receive_nowait(self) -> Message[T] | None:
        """A message that is here already, or None."""
        return self._call(self._inner.receive_nowait)

    def receive_many(self, max_messages: int, timeout: Duration | None = None) -> list[Message[T]]:
        """Up to `max_messages`, as soon as there are any; fewer, even none, after `timeout`."""
        return self._run(self._inner.receive_many(max_messages, timeout))

    def acknowledge(self, message: Message[T] | MessageId) -> None:
        """The message is done. With `ack_receipts` returns once the broker has stored that."""
        self._run(self._inner.acknowledge(message))

    def acknowledge_cumulative(self, message: Message[T] | MessageId) -> None:
        """This message and all before it on the same topic or partition are done."""
        self._run(self._inner.acknowledge_cumulative(message))

    def negative_acknowledge(
        self, message: Message[T] | MessageId, delay: Duration | None = None
    ) -> None:
        """Ask for the message again after `delay`, or as the consumer's backoff says."""
        self._call(lambda: self._inner.negative_acknowledge(message, delay))

    def reconsume_later(self, message: Message[T], delay: Duration) -> None:
        """Put the message aside: it comes again through the retry topic, `delay` later."""
        self._run(self._inner.reconsume_later(message, delay))

    def pause(self) -> None:
        """Ask for no more messages; those on their way still come."""
        self._call(self._inner.pause)

    def resume(self) -> None:
        self._call(self._inner.resume)

    def redeliver_unacknowledged(self) -> None:
        """Ask for everything unacknowledged again, now."""
        self._call(self._inner.redeliver_unacknowledged)

    def seek(self, target: Target) -> None:
        """Move the subscription to a message (it comes next) or to a publish time."""
        self._run(self._inner.seek(target))

    def last_message_ids(self) -> dict[str, MessageId | None]:
        """The last message of each topic or partition; None for an empty one."""
        return self._run(self._inner.last_message_ids())

    def is_behind(self) -> bool:
        """Whether some topic has stored a message that `receive` has not returned yet."""
        return self._run(self._inner.is_behind())

    def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription and close."""
        self._run(self._inner.unsubscribe(force=force))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[T]:
        try:
            message = self.receive()
        except AlreadyClosedError:
            raise StopIteration from None
        assert message is not None, "receive without a timeout returns a message"
        return message


class Reader(SyncHandle[AsyncReader[T]], Generic[T]):
    """Made by `client.classic.reader`; a context manager and iterator of messages."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    @property
    def stats(self) -> ConsumerStats:
        return self._call(lambda: self._inner.stats)

    def read(self, timeout: Duration | None = None) -> Message[T] | None:
        """The next message; None when there is none within `timeout`."""
        return self._run(self._inner.read(timeout))

    def has_message_available(self) -> bool:
        """Whether a message was stored that `read` has not returned yet."""
        return self._run(self._inner.has_message_available())

    def seek(self, target: Target) -> None:
        """Move to a message (it comes next) or to a publish time."""
        self._run(self._inner.seek(target))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[T]:
        try:
            message = self.read()
        except AlreadyClosedError:
            raise StopIteration from None
        assert message is not None, "read without a timeout returns a message"
        return message


class TableView(SyncHandle[AsyncTableView[T]], Generic[T]):
    """Made by `client.classic.table_view`: the latest value of every key."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    def get(self, key: str, default: T | None = None) -> T | None:
        return self._call(lambda: self._inner.get(key, default))

    def keys(self) -> list[str]:
        return self._call(lambda: list(self._inner.keys()))

    def values(self) -> list[T]:
        return self._call(lambda: list(self._inner.values()))

    def items(self) -> list[tuple[str, T]]:
        return self._call(lambda: list(self._inner.items()))

    def __getitem__(self, key: str) -> T:
        return self._call(lambda: self._inner[key])

    def __contains__(self, key: object) -> bool:
        return self._call(lambda: key in self._inner)

    def __len__(self) -> int:
        return self._call(lambda: len(self._inner))

    def listen(self, listener: Callable[[str, T | None], None]) -> None:
        """Call for every key there is, then for every change; on the client's thread."""
        self._call(lambda: self._inner.listen(listener))

    def refresh(self) -> None:
        """Wait until everything stored before the call is here."""
        self._run(self._inner.refresh())


class Classic:
    """`client.classic`: everything about `persistent://` and `non-persistent://` topics."""

    def __init__(self, loop: BackgroundLoop, inner: AsyncClassic) -> None:
        self._loop = loop
        self._inner = inner

    @overload
    def create_producer(
        self, topic: str, **options: Unpack[ProducerOptions]
    ) -> Producer[bytes]: ...

    @overload
    def create_producer(
        self, topic: str, *, schema: Schema[T], **options: Unpack[ProducerOptions]
    ) -> Producer[T]: ...

    def create_producer(self, topic: str, **options: Any) -> Producer[Any]:
        """A producer on a topic, which the broker creates if it is missing and may be."""
        opening = self._inner.create_producer(topic, **options)
        return Producer(self._loop, self._loop.run(opening.open()))

    @overload
    def subscribe(
        self,
        topic: Topics,
        subscription: str,
        *,
        pattern: str | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[bytes]: ...

    @overload
    def subscribe(
        self,
        topic: Topics,
        subscription: str,
        *,
        pattern: str | None = None,
        schema: Schema[T],
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[T]: ...

    def subscribe(self, topic: Topics, subscription: str, **options: Any) -> Consumer[Any]:
        """A consumer of one topic, several, or of all that match `pattern`."""
        opening = self._inner.subscribe(topic, subscription, **options)
        return Consumer(self._loop, self._loop.run(opening.open()))

    @overload
    def reader(
        self, topic: str, start: Start = "latest", **options: Unpack[ReaderOptions]
    ) -> Reader[bytes]: ...

    @overload
    def reader(
        self,
        topic: str,
        start: Start = "latest",
        *,
        schema: Schema[T],
        **options: Unpack[ReaderOptions],
    ) -> Reader[T]: ...

    def reader(self, topic: str, start: Start = "latest", **options: Any) -> Reader[Any]:
        """A reader from a message on; `start` itself comes only with `start_included`."""
        opening = self._inner.reader(topic, start, **options)
        return Reader(self._loop, self._loop.run(opening.open()))

    @overload
    def table_view(self, topic: str) -> TableView[bytes]: ...

    @overload
    def table_view(self, topic: str, *, schema: Schema[T]) -> TableView[T]: ...

    def table_view(self, topic: str, **options: Any) -> TableView[Any]:
        """The latest value of each key; opened once everything stored is read."""
        opening = self._inner.table_view(topic, **options)
        return TableView(self._loop, self._loop.run(opening.open()))

    def count_partitions(self, topic: str) -> int:
        """0 for a topic without partitions; nothing is created."""
        return self._loop.run(self._inner.count_partitions(topic))

    def list_topics(self, namespace: str, *, mode: str = "PERSISTENT") -> list[str]:
        """Full names of a namespace's topics; `mode` is PERSISTENT, NON_PERSISTENT or ALL."""
        return self._loop.run(self._inner.list_topics(namespace, mode=mode))
