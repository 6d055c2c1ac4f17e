"""Where `magnetar consume` reads from: any topic, with or without a subscription."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from magnetar.cli.command import Options, UsageError
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.consumer import AsyncConsumer
from magnetar.client.message import Message
from magnetar.client.message_id import parse_message_id
from magnetar.client.reader import AsyncReader
from magnetar.client.scalable.checkpoint import Checkpoint
from magnetar.client.scalable.checkpoint_consumer import AsyncCheckpointConsumer
from magnetar.client.scalable.message import Message as ScalableMessage
from magnetar.client.scalable.queue import AsyncQueueConsumer
from magnetar.client.scalable.stream import AsyncStreamConsumer
from magnetar.client.schema.schema import Schema
from magnetar.model.name import TopicDomain, parse_topic

Received: TypeAlias = Message[Any] | ScalableMessage[Any]


class Source(Protocol):
    def receive_nowait(self) -> Received | None: ...

    async def receive(self, timeout: float | None) -> Received | None: ...

    async def acknowledge(self, messages: Sequence[Any]) -> None: ...


def is_scalable(topic: str) -> bool:
    return parse_topic(topic).domain is TopicDomain.TOPIC


async def open_source(
    client: AsyncPulsarClient, options: Options, schema: Schema[Any] = Schema.BYTES
) -> Source:
    topic, size = options.topic, options.queue_size
    if not is_scalable(topic):
        return await _open_regular(client, options, schema)
    if options.reader:
        if options.position not in ("earliest", "latest"):
            raise UsageError("magnetar consume: a scalable topic is read from earliest or latest")
        is_latest = options.position == "latest"
        start = Checkpoint.LATEST if is_latest else Checkpoint.EARLIEST
        return CheckpointSource(
            await client.checkpoint_consumer(
                topic, start=start, receiver_queue_size=size, schema=schema
            )
        )
    if options.type == "shared":
        return ConsumerSource(
            await client.queue_consumer(
                topic,
                subscription=options.subscription,
                initial_position=options.position,
                receiver_queue_size=size,
                schema=schema,
            )
        )
    return StreamSource(
        await client.stream_consumer(
            topic,
            subscription=options.subscription,
            initial_position=options.position,
            receiver_queue_size=size,
            schema=schema,
        )
    )


async def _open_regular(client: AsyncPulsarClient, options: Options, schema: Schema[Any]) -> Source:
    if options.reader:
        reader = await client.classic.reader(
            options.topic,
            parse_message_id(options.position),
            start_included=True,
            receiver_queue_size=options.queue_size,
            schema=schema,
        )
        return ReaderSource(reader)
    consumer = await client.classic.subscribe(
        options.topic,
        options.subscription,
        type=options.type,
        initial_position=options.position,
        receiver_queue_size=options.queue_size,
        schema=schema,
    )
    return ConsumerSource(consumer)


class ConsumerSource:
    """Each message is acknowledged on its own."""

    def __init__(self, consumer: AsyncConsumer[Any] | AsyncQueueConsumer[Any]) -> None:
        self._consumer = consumer

    def receive_nowait(self) -> Received | None:
        return self._consumer.receive_nowait()

    async def receive(self, timeout: float | None) -> Received | None:
        return await self._consumer.receive(timeout)

    async def acknowledge(self, messages: Sequence[Any]) -> None:
        for message in messages:
            await self._consumer.acknowledge(message)


class ReaderSource:
    """Nothing is acknowledged: the broker remembers nothing of a reader."""

    def __init__(self, reader: AsyncReader[Any]) -> None:
        self._reader = reader

    def receive_nowait(self) -> Received | None:
        return None

    async def receive(self, timeout: float | None) -> Received | None:
        return await self._reader.read(timeout)

    async def acknowledge(self, messages: Sequence[Any]) -> None:
        return None


class StreamSource:
    """The last message stands for all before it."""

    def __init__(self, consumer: AsyncStreamConsumer[Any]) -> None:
        self._consumer = consumer

    def receive_nowait(self) -> Received | None:
        return self._consumer.receive_nowait()

    async def receive(self, timeout: float | None) -> Received | None:
        return await self._consumer.receive(timeout)

    async def acknowledge(self, messages: Sequence[Any]) -> None:
        if messages:
            await self._consumer.acknowledge_cumulative(messages[-1])


class CheckpointSource:
    """Nothing is acknowledged: the place is the application's own."""

    def __init__(self, consumer: AsyncCheckpointConsumer[Any]) -> None:
        self._consumer = consumer

    def receive_nowait(self) -> Received | None:
        return self._consumer.receive_nowait()

    async def receive(self, timeout: float | None) -> Received | None:
        return await self._consumer.receive(timeout)

    async def acknowledge(self, messages: Sequence[Any]) -> None:
        return None
