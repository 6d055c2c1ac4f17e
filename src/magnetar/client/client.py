"""The asyncio client: one object per application, producers and consumers made by it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Never, TypeVar, Unpack, overload

from magnetar.client.address import parse_addresses
from magnetar.client.authentication import Authentication, NoAuthentication
from magnetar.client.bulk import AsyncBulk
from magnetar.client.choice import check_keywords
from magnetar.client.classic import AsyncClassic
from magnetar.client.dead_letter import LetterProducer
from magnetar.client.error import AlreadyClosedError, FeatureNotSupportedError, PulsarError
from magnetar.client.greeting import parse_description
from magnetar.client.handle import Handle
from magnetar.client.kind import check_authentication, check_kinds
from magnetar.client.lookup import Lookup
from magnetar.client.memory import MEMORY_BYTES_DEFAULT, MemoryLimit
from magnetar.client.opening import Opening
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.pool import ConnectionPool
from magnetar.client.quantity import Duration, Size, parse_duration, parse_size
from magnetar.client.scalable.checkpoint import Checkpoint, check_start
from magnetar.client.scalable.checkpoint_consumer import AsyncCheckpointConsumer
from magnetar.client.scalable.inbox import Inbox
from magnetar.client.scalable.layout import AsyncLayoutChanges, parse_scalable
from magnetar.client.scalable.option import (
    CheckpointOptions,
    QueueOptions,
    ScalableProducerOptions,
    StreamOptions,
    Topics,
    build_checkpoint,
    build_queue,
    build_scalable_producer,
    build_stream,
    choose_target,
)
from magnetar.client.scalable.producer import AsyncScalableProducer
from magnetar.client.scalable.queue import AsyncQueueConsumer, QueueTopic
from magnetar.client.scalable.retry import plan_retries
from magnetar.client.scalable.stream import AsyncStreamConsumer, StreamTopic
from magnetar.client.scalable.topic_set import TopicSet
from magnetar.client.scalable.trail import Trail
from magnetar.client.scalable.transaction import refuse_transaction
from magnetar.client.schema.schema import Schema
from magnetar.client.session import Session
from magnetar.client.telemetry import Telemetry
from magnetar.client.tls import TlsPolicy
from magnetar.model.name import TopicName
from magnetar.runtime.clock import SYSTEM, Clock

T = TypeVar("T")


class AsyncPulsarClient(Handle):
    """Connects when first needed. Everything it made is closed with it.

    What its methods return is to be awaited, or entered with `async with`. It belongs to one event
    loop: create it inside, and close it there.
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
        clock: Clock | None = None,
        **unknown: Never,
    ) -> None:
        check_keywords("AsyncPulsarClient", AsyncPulsarClient.__init__, unknown)
        given = {"connection": connection, "tls": tls, "listener_name": listener_name}
        check_kinds({**given, "description": description})
        check_authentication(authentication)
        refuse_transaction(transaction_timeout)
        policy = connection or ConnectionPolicy()
        chosen_clock = clock or SYSTEM
        timeout = parse_duration("operation_timeout", operation_timeout, least=0.001)
        pool = ConnectionPool(
            parse_addresses(service_url),
            authentication=authentication or NoAuthentication(),
            policy=policy,
            tls=tls,
            description=parse_description(description),
            clock=chosen_clock,
        )
        lookup = Lookup(
            pool, clock=chosen_clock, policy=policy, timeout=timeout, listener=listener_name or ""
        )
        memory = MemoryLimit(parse_size("memory_limit", memory_limit))
        self._session = Session(
            pool, lookup, chosen_clock, policy, timeout, memory=memory, telemetry=telemetry
        )
        self._classic = AsyncClassic(self._session)
        self._bulk = AsyncBulk(self._session, self._check_open)
        self._is_closed = False

    @property
    def classic(self) -> AsyncClassic:
        """Regular topics, their partitions, and the four subscription types."""
        return self._classic

    @property
    def bulk(self) -> AsyncBulk:
        """What jobs over whole topics need."""
        return self._bulk

    async def connect(self) -> None:
        """Connect now instead of with the first use; raises at once when nobody answers."""
        await self._session.pool.get_service()

    @overload
    def producer(
        self, topic: str, **options: Unpack[ScalableProducerOptions]
    ) -> Opening[AsyncScalableProducer[bytes]]: ...

    @overload
    def producer(
        self, topic: str, *, schema: Schema[T], **options: Unpack[ScalableProducerOptions]
    ) -> Opening[AsyncScalableProducer[T]]: ...

    def producer(
        self, topic: str, *, schema: Schema[Any] = Schema.BYTES, **options: Any
    ) -> Opening[AsyncScalableProducer[Any]]:
        """A producer on a scalable topic, or on a regular one that may become scalable."""
        given = ScalableProducerOptions(**options)  # type: ignore[typeddict-item]
        built, routing, waits_for_room = build_scalable_producer(
            schema, given, self._session.clock.chance
        )
        settings = self._session.watch_producer(built)
        parsed = parse_scalable(topic)

        async def open() -> AsyncScalableProducer[Any]:
            self._check_open()
            producer: AsyncScalableProducer[Any] = AsyncScalableProducer(
                self._session, parsed, settings, routing, waits_for_room=waits_for_room
            )
            await producer.open()
            return producer

        return Opening(open)

    @overload
    def stream_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        namespace: str | None = None,
        property_filters: Mapping[str, str] | None = None,
        **options: Unpack[StreamOptions],
    ) -> Opening[AsyncStreamConsumer[bytes]]: ...

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
    ) -> Opening[AsyncStreamConsumer[T]]: ...

    def stream_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[Any] = Schema.BYTES,
        namespace: str | None = None,
        property_filters: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Opening[AsyncStreamConsumer[Any]]:
        """A consumer that gets all messages of a key, in order, and acknowledges cumulatively.

        Consumers of one subscription share the segments. On a topic, on several, or on all of a
        `namespace` whose properties match.
        """
        given = StreamOptions(**options)  # type: ignore[typeddict-item]
        built, release_timeout = build_stream(
            subscription, schema, given, self._session.clock.chance
        )
        settings = self._session.watch_consumer(built)
        topics, chosen = choose_target(topic, namespace)

        async def open() -> AsyncStreamConsumer[Any]:
            self._check_open()
            inbox: Inbox[Any] = Inbox(self._session.clock)

            def make(name: TopicName, *, create: bool) -> StreamTopic:
                return StreamTopic(
                    self._session,
                    name,
                    settings,
                    inbox,
                    trail,
                    create=create,
                    release_timeout=release_timeout,
                    on_lost=on_lost,
                )

            def on_lost(member: StreamTopic, error: PulsarError) -> None:
                if not topic_set.lose(member):
                    inbox.fail(error)

            topic_set = TopicSet(
                self._session, make, topics=topics, namespace=chosen, filters=property_filters
            )
            trail = Trail(names_topic=topic_set.is_of_many)
            consumer = AsyncStreamConsumer(self._session, settings, inbox, topic_set, trail)
            await consumer.open()
            return consumer

        return Opening(open)

    @overload
    def queue_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        namespace: str | None = None,
        property_filters: Mapping[str, str] | None = None,
        **options: Unpack[QueueOptions],
    ) -> Opening[AsyncQueueConsumer[bytes]]: ...

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
    ) -> Opening[AsyncQueueConsumer[T]]: ...

    def queue_consumer(
        self,
        topic: Topics = None,
        *,
        subscription: str,
        schema: Schema[Any] = Schema.BYTES,
        namespace: str | None = None,
        property_filters: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Opening[AsyncQueueConsumer[Any]]:
        """A consumer among others that share the messages, each acknowledged on its own.

        On a topic, on several, or on all of a `namespace` whose properties match.
        """
        given = QueueOptions(**options)  # type: ignore[typeddict-item]
        settings = self._session.watch_consumer(
            build_queue(subscription, schema, given, self._session.clock.chance)
        )
        topics, chosen = choose_target(topic, namespace)

        async def open_letter_producer(target: str, initial: str | None) -> LetterProducer:
            return await self.producer(target, batching=False, initial_subscription=initial)

        topics, policy, retries = plan_retries(
            given.get("dead_letter"),
            topics,
            subscription,
            open_letter_producer=open_letter_producer,
        )

        async def open() -> AsyncQueueConsumer[Any]:
            self._check_open()
            inbox: Inbox[Any] = Inbox(self._session.clock)

            def make(name: TopicName, *, create: bool) -> QueueTopic:
                return QueueTopic(
                    self._session,
                    name,
                    settings,
                    inbox,
                    create=create,
                    names_topic=chosen is not None or len(topics) > 1,
                    dead_letter=policy,
                    open_letter_producer=open_letter_producer,
                )

            topic_set = TopicSet(
                self._session, make, topics=topics, namespace=chosen, filters=property_filters
            )
            consumer = AsyncQueueConsumer(self._session, settings, inbox, topic_set, retries)
            await consumer.open()
            return consumer

        return Opening(open)

    @overload
    def checkpoint_consumer(
        self,
        topic: str,
        *,
        start: Checkpoint = ...,
        group: str | None = None,
        **options: Unpack[CheckpointOptions],
    ) -> Opening[AsyncCheckpointConsumer[bytes]]: ...

    @overload
    def checkpoint_consumer(
        self,
        topic: str,
        *,
        schema: Schema[T],
        start: Checkpoint = ...,
        group: str | None = None,
        **options: Unpack[CheckpointOptions],
    ) -> Opening[AsyncCheckpointConsumer[T]]: ...

    def checkpoint_consumer(
        self,
        topic: str,
        *,
        schema: Schema[Any] = Schema.BYTES,
        start: Checkpoint = Checkpoint.LATEST,
        group: str | None = None,
        **options: Any,
    ) -> Opening[AsyncCheckpointConsumer[Any]]:
        """A reader whose place the application keeps; members of a `group` share the segments."""
        check_kinds({"group": group})
        check_start(start)
        given = CheckpointOptions(**options)  # type: ignore[typeddict-item]
        settings = self._session.watch_consumer(
            build_checkpoint(schema, given, self._session.clock.chance)
        )
        parsed = parse_scalable(topic)

        async def open() -> AsyncCheckpointConsumer[Any]:
            self._check_open()
            consumer: AsyncCheckpointConsumer[Any] = AsyncCheckpointConsumer(
                self._session, parsed, settings, start, group
            )
            await consumer.open()
            return consumer

        return Opening(open)

    def layout_changes(self, topic: str) -> AsyncLayoutChanges:
        """An async iterator: the segments there are, then every change of them."""
        return AsyncLayoutChanges(self._session, parse_scalable(topic))

    def transaction(self) -> None:
        raise FeatureNotSupportedError("Transactions are not supported")

    async def close(self, *, immediate: bool = False) -> None:
        """Close everything that was made here, then the connections; again does nothing.

        With `immediate` nothing is flushed: sends that are not confirmed fail.
        """
        if self._is_closed:
            return
        self._session.pool.check_loop()
        self._is_closed = True
        if immediate:
            self._session.is_ending_now = True
            self._session.pool.close()
        for made in tuple(self._session.made):
            await made.close()
        await self._session.scope.close()
        self._session.pool.close()
        await self._session.pool.wait_ended()

    def _check_open(self) -> None:
        if self._is_closed:
            raise AlreadyClosedError("The client is closed")
