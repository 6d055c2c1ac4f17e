"""Regular topics on the same client: producers, the four subscription types, readers, tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar, Unpack, overload

from magnetar.client.choice import check_name, check_options, choose
from magnetar.client.consumer import AsyncConsumer
from magnetar.client.dead_letter import DeadLetters, LetterProducer
from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import Start, choose_start
from magnetar.client.opening import Opening
from magnetar.client.option import (
    ConsumerOptions,
    ProducerOptions,
    ReaderOptions,
    build_consumer,
    build_producer,
    build_reader,
    choose_type,
)
from magnetar.client.pattern import parse_pattern
from magnetar.client.policy import DeadLetterPolicy
from magnetar.client.producer import AsyncProducer
from magnetar.client.quantity import parse_duration
from magnetar.client.reader import AsyncReader
from magnetar.client.retry_letter import RetryLetters
from magnetar.client.schema.schema import Schema
from magnetar.client.session import Session
from magnetar.client.subscription import Floor
from magnetar.client.table_view import AsyncTableView
from magnetar.errors import InvalidName
from magnetar.model.name import TopicDomain, TopicName, parse_namespace, parse_topic
from magnetar.rules.route import KeyHash

T = TypeVar("T")

Topics = str | Iterable[str] | None
"""One topic, several, or none where a pattern is given."""


class AsyncClassic:
    """`client.classic`: everything about `persistent://` and `non-persistent://` topics."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @overload
    def create_producer(
        self, topic: str, **options: Unpack[ProducerOptions]
    ) -> Opening[AsyncProducer[bytes]]: ...

    @overload
    def create_producer(
        self, topic: str, *, schema: Schema[T], **options: Unpack[ProducerOptions]
    ) -> Opening[AsyncProducer[T]]: ...

    def create_producer(
        self, topic: str, *, schema: Schema[Any] = Schema.BYTES, **options: Any
    ) -> Opening[AsyncProducer[Any]]:
        """A producer on a topic, which the broker creates if it is missing and may be."""
        given = ProducerOptions(**options)  # type: ignore[typeddict-item]
        settings = self._session.watch_producer(build_producer(schema, given))
        words = {str(known): known for known in KeyHash}
        hashing = choose("hashing", given.get("hashing", KeyHash.JAVA_STRING), words)
        parsed = parse_regular(topic)

        async def open() -> AsyncProducer[Any]:
            producer: AsyncProducer[Any] = AsyncProducer(self._session, parsed, settings, hashing)
            await producer.open()
            return producer

        return Opening(open)

    @overload
    def subscribe(
        self,
        topic: Topics,
        subscription: str,
        *,
        pattern: str | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Opening[AsyncConsumer[bytes]]: ...

    @overload
    def subscribe(
        self,
        topic: Topics,
        subscription: str,
        *,
        pattern: str | None = None,
        schema: Schema[T],
        **options: Unpack[ConsumerOptions],
    ) -> Opening[AsyncConsumer[T]]: ...

    def subscribe(
        self,
        topic: Topics,
        subscription: str,
        *,
        pattern: str | None = None,
        schema: Schema[Any] = Schema.BYTES,
        **options: Any,
    ) -> Opening[AsyncConsumer[Any]]:
        """A consumer of one topic or several, on a subscription that is made if it is missing.

        With `pattern` instead of a topic: of all topics of a namespace whose names match, also of
        those created later.
        """
        check_options("subscribe", options, ConsumerOptions.__annotations__)
        given = ConsumerOptions(**options)  # type: ignore[typeddict-item]
        topics = _choose_topics(topic, pattern)
        policy = given.get("dead_letter")
        if policy is not None and not choose_type(given).is_shared:
            raise ConfigurationError("dead_letter needs type='shared' or 'key_shared'")
        dead_letters = self._make_dead_letters(policy, topics, subscription)
        retries = self._make_retries(policy, topics, subscription)
        if policy is not None and policy.retry_topic is not None:
            topics.append(parse_regular(policy.retry_topic))
        built = build_consumer(
            subscription, schema, given, dead_letters, self._session.clock.chance
        )
        settings = self._session.watch_consumer(built)
        interval = parse_duration(
            "pattern_interval", given.get("pattern_interval", 60.0), least=0.001
        )
        chosen = None
        if pattern is not None:
            chosen = parse_pattern(pattern, interval=interval)
            settings = replace(settings, create_topic=False)  # one that is deleted stays so

        async def open() -> AsyncConsumer[Any]:
            consumer: AsyncConsumer[Any] = AsyncConsumer(
                self._session, topics, settings, pattern=chosen, retries=retries
            )
            await consumer.open()
            return consumer

        return Opening(open)

    @overload
    def reader(
        self, topic: str, start: Start = "latest", **options: Unpack[ReaderOptions]
    ) -> Opening[AsyncReader[bytes]]: ...

    @overload
    def reader(
        self,
        topic: str,
        start: Start = "latest",
        *,
        schema: Schema[T],
        **options: Unpack[ReaderOptions],
    ) -> Opening[AsyncReader[T]]: ...

    def reader(
        self,
        topic: str,
        start: Start = "latest",
        *,
        schema: Schema[Any] = Schema.BYTES,
        **options: Any,
    ) -> Opening[AsyncReader[Any]]:
        """A reader from a message on; `start` itself comes only with `start_included`."""
        check_options("reader", options, ReaderOptions.__annotations__)
        given = ReaderOptions(**options)  # type: ignore[typeddict-item]
        floor = Floor(choose_start(start), given.get("start_included", False))
        settings = build_reader(floor, schema, given, self._session.clock.chance)
        parsed = parse_regular(topic)

        async def open() -> AsyncReader[Any]:
            consumer: AsyncConsumer[Any] = AsyncConsumer(self._session, [parsed], settings)
            await consumer.open()
            return AsyncReader(consumer)

        return Opening(open)

    @overload
    def table_view(self, topic: str) -> Opening[AsyncTableView[bytes]]: ...

    @overload
    def table_view(self, topic: str, *, schema: Schema[T]) -> Opening[AsyncTableView[T]]: ...

    def table_view(
        self, topic: str, *, schema: Schema[Any] = Schema.BYTES
    ) -> Opening[AsyncTableView[Any]]:
        """The latest value of each key; opened once everything stored is read."""
        is_compacted = parse_regular(topic).is_persistent

        async def open_reader() -> AsyncReader[Any]:
            return await self.reader(topic, "earliest", schema=schema, read_compacted=is_compacted)

        async def open() -> AsyncTableView[Any]:
            view: AsyncTableView[Any] = AsyncTableView(self._session, open_reader)
            await view.open()
            return view

        return Opening(open)

    async def count_partitions(self, topic: str) -> int:
        """0 for a topic without partitions; nothing is created."""
        return await self._session.lookup.count_partitions(parse_regular(topic), create=False)

    async def list_topics(self, namespace: str, *, mode: str = "PERSISTENT") -> list[str]:
        """Full names of a namespace's topics; `mode` is PERSISTENT, NON_PERSISTENT or ALL."""
        try:
            parsed = parse_namespace(namespace)
        except InvalidName as error:
            raise ConfigurationError(error.sentence) from None
        return await self._session.lookup.list_topics(parsed, mode=mode)

    async def _open_letter_producer(
        self, topic: str, initial_subscription: str | None
    ) -> LetterProducer:
        return await self.create_producer(
            topic, batching=False, initial_subscription=initial_subscription
        )

    def _make_dead_letters(
        self, policy: DeadLetterPolicy | None, topics: list[TopicName], subscription: str
    ) -> DeadLetters | None:
        if policy is None:
            return None
        target = _choose_dead_letter_topic(policy, topics, subscription)
        return DeadLetters(
            policy,
            subscription,
            scope=self._session.scope,
            open_letter_producer=lambda: self._open_letter_producer(
                target, policy.initial_subscription
            ),
        )

    def _make_retries(
        self, policy: DeadLetterPolicy | None, topics: list[TopicName], subscription: str
    ) -> RetryLetters | None:
        if policy is None or policy.retry_topic is None:
            return None
        if not topics:
            raise ConfigurationError("A consumer with a pattern has no retry_topic")
        return RetryLetters(
            subscription,
            retry_topic=parse_regular(policy.retry_topic).full,
            dead_letter_topic=_choose_dead_letter_topic(policy, topics, subscription),
            policy=policy,
            open_letter_producer=self._open_letter_producer,
        )


def parse_regular(topic: str) -> TopicName:
    """A topic that is not scalable."""
    check_name(topic)
    try:
        parsed = parse_topic(topic)
    except InvalidName as error:
        raise ConfigurationError(error.sentence) from None
    if parsed.domain is TopicDomain.TOPIC:
        raise ConfigurationError(
            f"{topic} is a scalable topic; use client.producer and client.queue_consumer,"
            " stream_consumer or checkpoint_consumer"
        )
    return parsed


def _choose_topics(topic: Topics, pattern: str | None) -> list[TopicName]:
    if (topic is None) == (pattern is None):
        raise ConfigurationError("Give one of topic and pattern; for a pattern, topic is None")
    named = [] if topic is None else [topic] if isinstance(topic, str) else list(topic)
    if pattern is None and not named:
        raise ConfigurationError("A consumer needs a topic")
    return [parse_regular(each) for each in named]


def _choose_dead_letter_topic(
    policy: DeadLetterPolicy, topics: list[TopicName], subscription: str
) -> str:
    if policy.topic is not None:
        return parse_regular(policy.topic).full
    if not topics:
        raise ConfigurationError("With a pattern, dead_letter needs a topic of its own")
    return f"{topics[0].base.full}-{subscription}-DLQ"
