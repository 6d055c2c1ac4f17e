"""Subscriptions as a whole: moved, deleted and shared in all segments, held or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar import EARLIEST_ID, LATEST_ID, ConsumerBusyError, Schema
from tests.contract.sdk_place import SILENCE_S, Place, take, until
from tests.contract.sdk_regular import new_name

OPTIONS: dict[str, Any] = {
    "subscription": "s",
    "schema": Schema.INT64,
    "initial_position": "earliest",
}


async def send(producer: Any, *numbers: int) -> None:
    for number in numbers:
        await producer.submit(number, key=f"k{number}")
    await producer.flush()


async def values(consumer: Any, count: int) -> list[int]:
    return sorted(message.value for message in await take(consumer, count))


def test_a_stream_moves_in_segments_that_are_withheld_too(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(1)
        async with place.client() as client:
            out = await client.producer(topic, schema=Schema.INT64)
            stream = await client.stream_consumer(topic, **OPTIONS)
            await send(out, *range(5))
            assert await values(stream, 5) == list(range(5))
            await place.split(topic, 0)
            await send(out, *range(5, 15))  # in children that wait for an acknowledgement
            await stream.seek(LATEST_ID)
            await send(out, *range(15, 20))
            assert await values(stream, 5) == list(range(15, 20))
            assert await stream.receive(SILENCE_S) is None

    asyncio.run(body())


def test_a_stream_goes_back_to_the_beginning_of_everything(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            out = await client.producer(topic, schema=Schema.INT64)
            stream = await client.stream_consumer(topic, **OPTIONS)
            await send(out, *range(10))
            messages = await take(stream, 10)
            await stream.acknowledge_cumulative(messages[-1])
            await stream.seek(EARLIEST_ID)
            assert await values(stream, 10) == list(range(10))

    asyncio.run(body())


def test_a_shared_stream_is_moved_and_deleted_by_its_last_consumer_only(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            out = await client.producer(topic, schema=Schema.INT64)
            first = await client.stream_consumer(topic, name="a", **OPTIONS)
            second = await client.stream_consumer(topic, name="b", **OPTIONS)
            await until(
                lambda: all(len(each.stats.segments[topic]) == 1 for each in (first, second))
            )
            with pytest.raises(ConsumerBusyError, match="magnetar admin"):
                await first.seek(EARLIEST_ID)
            with pytest.raises(ConsumerBusyError, match="magnetar admin"):
                await first.unsubscribe()
            await send(out, *range(10))
            async with asyncio.TaskGroup() as tasks:  # both still work
                for consumer in (first, second):
                    tasks.create_task(take(consumer, 1))

    asyncio.run(body())


def test_an_unsubscribed_stream_leaves_nothing_behind(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(1)
        options = {"name": "only", **OPTIONS}  # Apache Pulsar keeps who left for a minute
        async with place.client() as client:
            out = await client.producer(topic, schema=Schema.INT64)
            stream = await client.stream_consumer(topic, **options)
            await send(out, *range(5))
            messages = await take(stream, 5)
            await stream.acknowledge_cumulative(messages[2])
            await place.split(topic, 0)
            await send(out, *range(5, 10))
            await stream.unsubscribe()
            again = await client.stream_consumer(topic, **options)
            found = await take(again, 5)
            await again.acknowledge_cumulative(found[-1])
            found += await take(again, 5)
            assert sorted(message.value for message in found) == list(range(10))

    asyncio.run(body())


def test_consumers_share_the_partitions_of_a_regular_topic(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        await asyncio.to_thread(place.admin.topics.create_partitioned, topic, 4)
        scalable = topic.replace("persistent", "topic")
        async with place.client() as client:
            out = await client.producer(topic, schema=Schema.INT64)
            first = await client.stream_consumer(topic, name="a", **OPTIONS)
            second = await client.stream_consumer(topic, name="b", **OPTIONS)
            if not place.is_apache:  # there each stands by on all of them
                await until(
                    lambda: all(len(each.stats.segments[scalable]) == 2 for each in (first, second))
                )
            await send(out, *range(40))
            got: dict[str, list[int]] = {"a": [], "b": []}

            async def drain(name: str, consumer: Any) -> None:
                while sum(map(len, got.values())) < 40:
                    message = await consumer.receive(SILENCE_S)
                    if message is not None:
                        got[name].append(message.value)
                        await consumer.acknowledge_cumulative(message)

            async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
                tasks.create_task(drain("a", first))
                tasks.create_task(drain("b", second))
            assert sorted(got["a"] + got["b"]) == list(range(40))
            assert place.is_apache or (got["a"] and got["b"])

    asyncio.run(body())
