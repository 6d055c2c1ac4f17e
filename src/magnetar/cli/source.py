"""What `produce`, `consume` and `bench` open: any topic, with or without a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from magnetar import (
    AsyncConsumer,
    AsyncProducer,
    AsyncPulsarClient,
    AsyncQueueConsumer,
    Checkpoint,
    Message,
    MessageId,
    Schema,
    SendFailedError,
    SendOptions,
)
from magnetar.cli.command import Options, UsageError
from magnetar.cli.security import make_authentication, make_tls
from magnetar.model.name import TopicDomain, parse_topic
from magnetar.runtime.clock import Clock

T = TypeVar("T")

Received: TypeAlias = Message[Any]
Producer: TypeAlias = AsyncProducer[Any]


@asynccontextmanager
async def connect(options: Options) -> AsyncIterator[AsyncPulsarClient]:
    async with AsyncPulsarClient(
        options.url, authentication=make_authentication(options), tls=make_tls(options)
    ) as client:
        await client.connect()
        yield client


def _is_scalable(topic: str) -> bool:
    return parse_topic(topic).domain is TopicDomain.TOPIC


async def open_producer(client: AsyncPulsarClient, options: Options, **more: Any) -> Producer:
    batching = options.batching == "on"
    producer: Producer = await client.producer(
        options.topic, compression=options.compression, batching=batching, **more
    )
    return producer


async def send_all(
    producer: Producer,
    items: AsyncIterator[T],
    encode: Callable[[T], tuple[Any, SendOptions]],
    *,
    rate: float,
    clock: Clock,
    on_stored: Callable[[float, float], None] = lambda began, ended: None,
) -> int:
    """How many were sent, not faster than `rate`; raise why the first one failed, if any did."""
    started, count, failures = clock.monotonic(), 0, []

    def on_done(began: float, sent: asyncio.Future[Any]) -> None:
        if not sent.cancelled() and sent.exception() is not None:
            failures.append(sent)
        else:
            on_stored(began, clock.monotonic())

    async for item in items:
        if rate:
            await asyncio.sleep(max(0.0, started + count / rate - clock.monotonic()))
        value, described = encode(item)
        began = clock.monotonic()
        sent = await producer.submit(value, **described)
        sent.add_done_callback(partial(on_done, began))
        count += 1
        if failures:
            break
    try:
        await producer.flush()
    except SendFailedError as error:
        raise error.first from None
    return count


class Source(NamedTuple):
    """How messages are read, and how those that were read are acknowledged."""

    receive_nowait: Callable[[], Received | None]
    receive: Callable[[float | None], Awaitable[Received | None]]
    acknowledge: Callable[[Sequence[Any]], Awaitable[None]]


async def open_source(
    client: AsyncPulsarClient, options: Options, schema: Schema[Any] = Schema.BYTES
) -> Source:
    topic, position, is_scalable = options.topic, options.position, _is_scalable(options.topic)
    more: dict[str, Any] = {"receiver_queue_size": options.queue_size, "schema": schema}
    if options.reader and is_scalable:
        if position not in ("earliest", "latest"):
            raise UsageError("magnetar consume: a scalable topic is read from earliest or latest")
        start = Checkpoint.LATEST if position == "latest" else Checkpoint.EARLIEST
        checkpoints = await client.checkpoint_consumer(topic, start=start, **more)
        return Source(checkpoints.receive_nowait, checkpoints.receive, _acknowledge_nothing)
    if options.reader:
        id = MessageId.parse(position)
        reader = await client.reader(topic, id, start_included=True, **more)
        return Source(lambda: None, reader.read, _acknowledge_nothing)
    more |= {"subscription": options.subscription, "initial_position": position}
    if not is_scalable:
        return _acknowledged_singly(await client.consumer(topic, type=options.type, **more))
    if options.type == "shared":
        return _acknowledged_singly(await client.queue_consumer(topic, **more))
    stream = await client.stream_consumer(topic, **more)

    async def acknowledge(messages: Sequence[Any]) -> None:
        """The last message stands for all before it."""
        if messages:
            await stream.acknowledge_cumulative(messages[-1])

    return Source(stream.receive_nowait, stream.receive, acknowledge)


def _acknowledged_singly(consumer: AsyncConsumer[Any] | AsyncQueueConsumer[Any]) -> Source:
    async def acknowledge(messages: Sequence[Any]) -> None:
        for message in messages:
            await consumer.acknowledge(message)

    return Source(consumer.receive_nowait, consumer.receive, acknowledge)


async def _acknowledge_nothing(messages: Sequence[Any]) -> None:
    """The broker remembers nothing of a reader; a checkpoint is the application's own."""
