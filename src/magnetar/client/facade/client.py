"""The blocking client: the asyncio one, driven from ordinary threads."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Never, Self, TypeVar, Unpack, overload

from magnetar.client.authentication import Authentication
from magnetar.client.choice import check_keywords
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.facade.classic import Classic
from magnetar.client.facade.loop import BackgroundLoop
from magnetar.client.facade.scalable import (
    CheckpointConsumer,
    LayoutChanges,
    QueueConsumer,
    ScalableProducer,
    StreamConsumer,
)
from magnetar.client.memory import MEMORY_BYTES_DEFAULT
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.quantity import Duration, Size
from magnetar.client.scalable.checkpoint import Checkpoint
from magnetar.client.scalable.option import (
    CheckpointOptions,
    QueueOptions,
    ScalableProducerOptions,
    StreamOptions,
    Topics,
)
from magnetar.client.schema.schema import Schema
from magnetar.client.telemetry import Telemetry
from magnetar.client.tls import TlsPolicy

T = TypeVar("T")


class PulsarClient:
    """Connects when first needed. Everything it made is closed with it.

    One thread of its own serves all producers and consumers. Threads may share it; a process that
    is forked makes its own.
    """

    def __init__(
        self,
        service_url: str,
        *,
        authentication: Authentication | None = None,
        operation_timeout: Duration = 30.0,
        connection: ConnectionPolicy | None = None,
        transaction_timeout: None = None,
        tls: TlsPolicy | ssl.SSLContext | None = None,
        memory_limit: Size = MEMORY_BYTES_DEFAULT,
        listener_name: str | None = None,
        description: str | None = None,
        telemetry: Telemetry | None = None,
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
        )
        inner = self._inner
        self._loop = BackgroundLoop(lambda: inner.close(immediate=True))
        self._classic = Classic(self._loop, self._inner.classic)

    @property
    def classic(self) -> Classic:
        """Regular topics, their partitions, and the four subscription types."""
        return self._classic

    def connect(self) -> None:
        """Connect now instead of with the first use; raises at once when nobody answers."""
        self._loop.run(self._inner.connect())

    @overload
    def producer(
        self, topic: str, **options: Unpack[ScalableProducerOptions]
    ) -> ScalableProducer[bytes]: ...

    @overload
    def producer(
        self, topic: str, *, schema: Schema[T], **options: Unpack[ScalableProducerOptions]
    ) -> ScalableProducer[T]: ...

    def producer(self, topic: str, **options: Any) -> ScalableProducer[Any]:
        """A producer on a scalable topic, or on a regular one that may become scalable."""
        opening = self._inner.producer(topic, **options)
        return ScalableProducer(self._loop, self._loop.run(opening.open()))

    @overload
    def stream_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        namespace: str | None = None,
        property_filters: Mapping[str, str] | None = None,
        **options: Unpack[StreamOptions],
    ) -> StreamConsumer[bytes]: ...

    @overload
    def stream_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[T],
        namespace: str | None = None,
        property_filters: Mapping[str, str] | None = None,
        **options: Unpack[StreamOptions],
    ) -> StreamConsumer[T]: ...

    def stream_consumer(
        self, topic: Topics = None, *, subscription: str, **options: Any
    ) -> StreamConsumer[Any]:
        """A consumer that gets all messages of a key, in order, and acknowledges cumulatively."""
        opening = self._inner.stream_consumer(topic, subscription=subscription, **options)
        return StreamConsumer(self._loop, self._loop.run(opening.open()))

    @overload
    def queue_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        namespace: str | None = None,
        property_filters: Mapping[str, str] | None = None,
        **options: Unpack[QueueOptions],
    ) -> QueueConsumer[bytes]: ...

    @overload
    def queue_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[T],
        namespace: str | None = None,
        property_filters: Mapping[str, str] | None = None,
        **options: Unpack[QueueOptions],
    ) -> QueueConsumer[T]: ...

    def queue_consumer(
        self, topic: Topics = None, *, subscription: str, **options: Any
    ) -> QueueConsumer[Any]:
        """A consumer among others that share the messages, each acknowledged on its own."""
        opening = self._inner.queue_consumer(topic, subscription=subscription, **options)
        return QueueConsumer(self._loop, self._loop.run(opening.open()))

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

    def checkpoint_consumer(self, topic: str, **options: Any) -> CheckpointConsumer[Any]:
        """A reader whose place the application keeps; members of a `group` share the segments."""
        opening = self._inner.checkpoint_consumer(topic, **options)
        return CheckpointConsumer(self._loop, self._loop.run(opening.open()))

    def layout_changes(self, topic: str) -> LayoutChanges:
        """An iterator: the segments there are, then every change of them."""
        return LayoutChanges(self._loop, self._inner.layout_changes(topic))

    def transaction(self) -> None:
        self._inner.transaction()

    def close(self, *, immediate: bool = False) -> None:
        """Close everything that was made here, then the connections; again does nothing."""
        if not self._loop.is_open:
            return
        try:
            self._loop.run(self._inner.close(immediate=immediate))
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
