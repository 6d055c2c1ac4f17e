"""The blocking client: the asyncio one, driven from ordinary threads.

With the smaller things it makes: tables, layouts and transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar, Unpack

from magnetar.client.background_loop import BackgroundLoop, SyncHandle, waited
from magnetar.client.blocking_consumer import (
    CheckpointConsumer,
    Consumer,
    QueueConsumer,
    Reader,
    StreamConsumer,
)
from magnetar.client.blocking_producer import Producer
from magnetar.client.checkpoint import Checkpoint
from magnetar.client.client import AsyncPulsarClient, ClientOptions
from magnetar.client.event import LayoutChange
from magnetar.client.handle import Enlisting, TransactionHandle, behind
from magnetar.client.keyword import describe, mirror
from magnetar.client.layout import AsyncLayoutChanges
from magnetar.client.message_id import Start
from magnetar.client.option import (
    CheckpointOptions,
    ConsumerOptions,
    ProducerOptions,
    QueueOptions,
    ReaderOptions,
    StreamOptions,
    Topics,
)
from magnetar.client.quantity import Duration
from magnetar.client.reader import AsyncTableView
from magnetar.client.schema.schema import BYTES, D, Schema
from magnetar.client.transaction import AsyncTransaction, TransactionState
from magnetar.model.transaction import TransactionId

if TYPE_CHECKING:
    from magnetar.client.admin.blocking import AdminClient

T = TypeVar("T")


class PulsarClient:
    """Connects when first needed. Everything it made is closed with it.

    One thread of its own serves all producers and consumers. Threads may share it; a process that
    is forked makes its own. `on_event` is called by that thread with every `Event`; it must return
    soon, and call nothing of the client.
    """

    @describe(ClientOptions)
    def __init__(self, service_url: str, **options: Unpack[ClientOptions]) -> None:
        inner = self._inner = AsyncPulsarClient(service_url, **options)
        self._loop = BackgroundLoop(lambda: inner.close(immediate=True))
        self._admin: AdminClient | None = None
        self._lock = RLock()
        """Around what one thread does for all: making the admin client, and the end."""

    def __repr__(self) -> str:
        return repr(self._inner).replace(type(self._inner).__name__, type(self).__name__, 1)

    @property
    def admin(self) -> AdminClient:
        """The admin client of the service at `admin_url`, with this client's credentials."""
        self._loop.check()
        with self._lock:
            self._loop.check()  # it may have been closed meanwhile
            if self._admin is None:
                from magnetar.client.admin.blocking import AdminClient

                self._admin = AdminClient(self._inner._find_admin(), **self._inner._admin_options)
            return self._admin

    def connect(self) -> None:
        """Connect now instead of with the first use; raises at once when no broker answers."""
        self._loop.run(self._inner.connect())

    @mirror(AsyncPulsarClient.producer)
    def producer(
        self, topic: str, *, schema: Schema[D] = BYTES, **options: Unpack[ProducerOptions]
    ) -> Producer[D]:
        opening = self._inner.producer(topic, schema=schema, **options)
        return Producer(self._loop, self._loop.run(opening.open()))

    @mirror(AsyncPulsarClient.stream_consumer)
    def stream_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[D] = BYTES,
        **options: Unpack[StreamOptions],
    ) -> StreamConsumer[D]:
        opening = self._inner.stream_consumer(
            topic, subscription=subscription, schema=schema, **options
        )
        return StreamConsumer(self._loop, self._loop.run(opening.open()))

    @mirror(AsyncPulsarClient.queue_consumer)
    def queue_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[D] = BYTES,
        **options: Unpack[QueueOptions],
    ) -> QueueConsumer[D]:
        opening = self._inner.queue_consumer(
            topic, subscription=subscription, schema=schema, **options
        )
        return QueueConsumer(self._loop, self._loop.run(opening.open()))

    @mirror(AsyncPulsarClient.consumer)
    def consumer(
        self,
        topic: Topics,
        subscription: str,
        *,
        schema: Schema[D] = BYTES,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[D]:
        opening = self._inner.consumer(topic, subscription, schema=schema, **options)
        return Consumer(self._loop, self._loop.run(opening.open()))

    @mirror(AsyncPulsarClient.reader)
    def reader(
        self,
        topic: str,
        start: Start = "latest",
        *,
        schema: Schema[D] = BYTES,
        **options: Unpack[ReaderOptions],
    ) -> Reader[D]:
        opening = self._inner.reader(topic, start, schema=schema, **options)
        return Reader(self._loop, self._loop.run(opening.open()))

    @mirror(AsyncPulsarClient.table_view)
    def table_view(self, topic: str, *, schema: Schema[D] = BYTES) -> TableView[D]:
        opening = self._inner.table_view(topic, schema=schema)
        return TableView(self._loop, self._loop.run(opening.open()))

    @mirror(AsyncPulsarClient.checkpoint_consumer)
    def checkpoint_consumer(
        self,
        topic: str,
        *,
        start: Checkpoint = Checkpoint.LATEST,
        group: str | None = None,
        schema: Schema[D] = BYTES,
        **options: Unpack[CheckpointOptions],
    ) -> CheckpointConsumer[D]:
        opening = self._inner.checkpoint_consumer(
            topic, start=start, group=group, schema=schema, **options
        )
        return CheckpointConsumer(self._loop, self._loop.run(opening.open()))

    def layout_changes(self, topic: str) -> LayoutChanges:
        """An iterator: the segments there are, then every change of them."""
        return LayoutChanges(self._loop, self._inner.layout_changes(topic))

    def transaction(self, *, timeout: Duration | None = None, scalable: bool = True) -> Transaction:
        """`with` commits at the end, and aborts on an exception; on Apache Pulsar it spans scalable
        topics, or with `scalable=False` regular ones.
        """
        opening = self._inner.transaction(timeout=timeout, scalable=scalable)
        return Transaction(self._loop, self._loop.run(opening.open()))

    def count_partitions(self, topic: str) -> int:
        """0 for a topic without partitions; nothing is created."""
        return self._loop.run(self._inner.count_partitions(topic))

    def list_topics(self, namespace: str, *, mode: str = "PERSISTENT") -> list[str]:
        """Regular topics of a namespace; `mode` is PERSISTENT, NON_PERSISTENT or ALL."""
        return self._loop.run(self._inner.list_topics(namespace, mode=mode))

    def close(self, *, immediate: bool = False) -> None:
        """Close everything that was made here, then the connections; again does nothing.

        A thread that calls it meanwhile returns when all of it is closed. Raises what went wrong
        with a submitted message, or with an acknowledgement, and was not told yet.
        """
        if not self._loop.is_open:
            return
        self._loop.check()
        with self._lock:
            if not self._loop.is_open:
                return
            if self._admin is not None:
                self._admin.close()
            try:
                self._loop.run(self._inner.close(immediate=immediate))
            finally:
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with behind(error):
            self.close()


class TableView(SyncHandle[AsyncTableView[T]], Generic[T]):
    """Made by `client.table_view`: the latest value of every key."""

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

    refresh = waited(AsyncTableView.refresh)


class LayoutChanges(SyncHandle[AsyncLayoutChanges]):
    """Made by `client.layout_changes`: the segments there are, then every change of them."""

    @property
    def topic(self) -> str:
        return self._inner.topic

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


class Transaction(SyncHandle[AsyncTransaction], TransactionHandle):
    """Made by `client.transaction`: `with` commits at the end, and aborts on an exception."""

    @property
    def id(self) -> TransactionId:
        """The number of its coordinator, and the number that it gave out."""
        return self._inner.id

    @property
    def state(self) -> TransactionState:
        return self._call(lambda: self._inner.state)

    @property
    def enlisting(self) -> Enlisting:
        return self._inner

    commit = waited(AsyncTransaction.commit)
    abort = waited(AsyncTransaction.abort)

    def __exit__(self, *raised: object) -> None:
        self._run(self._inner.__aexit__(*raised))
