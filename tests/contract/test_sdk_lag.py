"""How far consumers and readers are behind, in messages, whatever entries they came in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from magnetar import Checkpoint, FeatureNotSupportedError
from tests.contract.sdk_place import Place, take, until_equal
from tests.contract.sdk_regular import KINDS_OF_TOPIC, new_name, open_queue, pick_topic

BOTH = pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
VALUES = [b"%d" % number for number in range(10)]


async def send_batches(client: Any, topic: str) -> None:
    """Two entries of ten messages each."""
    producer = await client.producer(topic)
    for _ in range(2):
        await producer.send_many(VALUES)


async def until_behind(place: Place, count: Callable[[], Awaitable[int]], messages: int) -> None:
    if place.is_apache:
        with pytest.raises(FeatureNotSupportedError, match="in messages"):
            await count()
    else:
        await until_equal(count, messages)


@BOTH
def test_a_queue_is_behind_by_messages_and_its_backlog_is_entries(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind, segments=1)
        async with place.client() as client:
            consumer = await open_queue(client, topic)
            await send_batches(client, topic)
            await until_behind(place, consumer.lag, 20)
            messages = await take(consumer, 13)
            for message in messages:
                await consumer.acknowledge(message)
            await until_behind(place, consumer.lag, 7)
            await until_equal(consumer.backlog, 1)

    asyncio.run(body())


def test_a_stream_is_behind_by_what_comes_after_its_last_acknowledgement(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            consumer = await client.stream_consumer(topic, subscription="s")
            await send_batches(client, topic)
            messages = await take(consumer, 13)
            await consumer.acknowledge_cumulative(messages[-1])
            await until_behind(place, consumer.lag, 7)

    asyncio.run(body())


def test_a_reader_is_behind_by_what_it_has_not_returned(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client() as client:
            await send_batches(client, topic)
            reader = await client.reader(topic, "earliest")
            await until_behind(place, reader.lag, 20)
            for _ in range(13):
                last = await reader.read(20)
            await until_behind(place, reader.lag, 7)
            later = await client.reader(topic, last.id)
            await until_behind(place, later.lag, 7)
            newest = await client.reader(topic)
            await until_behind(place, newest.lag, 0)

    asyncio.run(body())


def test_a_checkpoint_consumer_is_behind_by_what_comes_after_its_checkpoint(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            await send_batches(client, topic)
            consumer = await client.checkpoint_consumer(topic, start=Checkpoint.EARLIEST)
            await until_behind(place, consumer.lag, 20)
            await take(consumer, 13)
            await until_behind(place, consumer.lag, 7)
            later = await client.checkpoint_consumer(topic, start=consumer.checkpoint())
            await until_behind(place, later.lag, 7)

    asyncio.run(body())
