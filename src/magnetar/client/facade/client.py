"""The blocking client: the asyncio one, driven from ordinary threads."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, Unpack, overload

from magnetar.client.authentication import Authentication
from magnetar.client.checkpoint import Checkpoint
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.event import OnEvent
from magnetar.client.facade.consumer import (
    CheckpointConsumer,
    Consumer,
    QueueConsumer,
    Reader,
    StreamConsumer,
)
from magnetar.client.facade.loop import BackgroundLoop
from magnetar.client.facade.producer import Producer
from magnetar.client.facade.view import LayoutChanges, TableView, Transaction
from magnetar.client.keyword import check_keywords, mirror
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
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.quantity import Duration, Size
from magnetar.client.schema.schema import Schema
from magnetar.client.session import MEMORY_BYTES_DEFAULT
from magnetar.client.telemetry import Telemetry
from magnetar.client.tls import TlsPolicy
from magnetar.client.transaction import TIMEOUT_S

if TYPE_CHECKING:
    from magnetar.client.admin.blocking import AdminClient

T = TypeVar("T")


class PulsarClient:
    """Connects when first needed. Everything it made is closed with it.

    One thread of its own serves all producers and consumers. Threads may share it; a process that
    is forked makes its own. `on_event` is called by that thread with every `Event`; it must return
    soon, and call nothing of the client.
    """

    def __init__(
        self,
        service_url: str,
        *,
        authentication: Authentication | None = None,
        operation_timeout: Duration = 30.0,
        connection: ConnectionPolicy | None = None,
        transaction_timeout: Duration = TIMEOUT_S,
        tls: TlsPolicy | ssl.SSLContext | None = None,
        memory_limit: Size = MEMORY_BYTES_DEFAULT,
        listener_name: str | None = None,
        description: str | None = None,
        telemetry: Telemetry | None = None,
        admin_url: str | None = None,
        on_event: OnEvent | None = None,
        **unknown: Never,
    ) -> None:
        check_keywords("PulsarClient", PulsarClient.__init__, unknown)
        self._inner = AsyncPulsarClient(
            service_url,
            authentication=authentication,
            operation_timeout=operation_timeout,
            connection=connection,
            transaction_timeout=transaction_timeout,
            tls=tls,
            memory_limit=memory_limit,
            listener_name=listener_name,
            description=description,
            telemetry=telemetry,
            admin_url=admin_url,
            on_event=on_event,
        )
        inner = self._inner
        self._loop = BackgroundLoop(lambda: inner.close(immediate=True))
        self._admin: AdminClient | None = None

    def __repr__(self) -> str:
        return repr(self._inner).replace(type(self._inner).__name__, type(self).__name__, 1)

    @property
    def admin(self) -> AdminClient:
        """The admin client of the service at `admin_url`, with this client's credentials."""
        self._loop.check()
        if self._admin is None:
            from magnetar.client.admin.blocking import AdminClient

            self._admin = AdminClient(self._inner._find_admin(), **self._inner._admin_options)
        return self._admin

    def connect(self) -> None:
        """Connect now instead of with the first use; raises at once when nobody answers."""
        self._loop.run(self._inner.connect())

    @overload
    def producer(self, topic: str, **options: Unpack[ProducerOptions]) -> Producer[bytes]: ...

    @overload
    def producer(
        self, topic: str, *, schema: Schema[T], **options: Unpack[ProducerOptions]
    ) -> Producer[T]: ...

    @mirror(AsyncPulsarClient.producer)
    def producer(self, topic: str, **options: Any) -> Producer[Any]:
        opening = self._inner.producer(topic, **options)
        return Producer(self._loop, self._loop.run(opening.open()))

    @overload
    def stream_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        **options: Unpack[StreamOptions],
    ) -> StreamConsumer[bytes]: ...

    @overload
    def stream_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[T],
        **options: Unpack[StreamOptions],
    ) -> StreamConsumer[T]: ...

    @mirror(AsyncPulsarClient.stream_consumer)
    def stream_consumer(
        self, topic: Topics = None, *, subscription: str, **options: Any
    ) -> StreamConsumer[Any]:
        opening = self._inner.stream_consumer(topic, subscription=subscription, **options)
        return StreamConsumer(self._loop, self._loop.run(opening.open()))

    @overload
    def queue_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        **options: Unpack[QueueOptions],
    ) -> QueueConsumer[bytes]: ...

    @overload
    def queue_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[T],
        **options: Unpack[QueueOptions],
    ) -> QueueConsumer[T]: ...

    @mirror(AsyncPulsarClient.queue_consumer)
    def queue_consumer(
        self, topic: Topics = None, *, subscription: str, **options: Any
    ) -> QueueConsumer[Any]:
        opening = self._inner.queue_consumer(topic, subscription=subscription, **options)
        return QueueConsumer(self._loop, self._loop.run(opening.open()))

    @overload
    def consumer(
        self, topic: Topics, subscription: str, **options: Unpack[ConsumerOptions]
    ) -> Consumer[bytes]: ...

    @overload
    def consumer(
        self,
        topic: Topics,
        subscription: str,
        *,
        schema: Schema[T],
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[T]: ...

    @mirror(AsyncPulsarClient.consumer)
    def consumer(self, topic: Topics, subscription: str, **options: Any) -> Consumer[Any]:
        opening = self._inner.consumer(topic, subscription, **options)
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

    @mirror(AsyncPulsarClient.reader)
    def reader(self, topic: str, start: Start = "latest", **options: Any) -> Reader[Any]:
        opening = self._inner.reader(topic, start, **options)
        return Reader(self._loop, self._loop.run(opening.open()))

    @overload
    def table_view(self, topic: str) -> TableView[bytes]: ...

    @overload
    def table_view(self, topic: str, *, schema: Schema[T]) -> TableView[T]: ...

    @mirror(AsyncPulsarClient.table_view)
    def table_view(self, topic: str, **options: Any) -> TableView[Any]:
        opening = self._inner.table_view(topic, **options)
        return TableView(self._loop, self._loop.run(opening.open()))

    @overload
    def checkpoint_consumer(
        self,
        topic: str,
        *,
        start: Checkpoint = ...,
        group: str | None = None,
        **options: Unpack[CheckpointOptions],
    ) -> CheckpointConsumer[bytes]: ...

    @overload
    def checkpoint_consumer(
        self,
        topic: str,
        *,
        schema: Schema[T],
        start: Checkpoint = ...,
        group: str | None = None,
        **options: Unpack[CheckpointOptions],
    ) -> CheckpointConsumer[T]: ...

    @mirror(AsyncPulsarClient.checkpoint_consumer)
    def checkpoint_consumer(self, topic: str, **options: Any) -> CheckpointConsumer[Any]:
        opening = self._inner.checkpoint_consumer(topic, **options)
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
        """Close everything that was made here, then the connections; again does nothing."""
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

    def __exit__(self, *_: object) -> None:
        self.close()
