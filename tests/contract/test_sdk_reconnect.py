"""Connections that break: producers and consumers get them back, and their places with them."""

from __future__ import annotations

import asyncio
from typing import Any

from magnetar import BackoffPolicy, Checkpoint, ConnectionPolicy, Schema
from tests.contract.sdk_place import SILENCE_S, Place, take, until

QUICK = ConnectionPolicy(backoff=BackoffPolicy(0.01, 0.2))


async def send(producer: Any, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await producer.send(number, key=f"k{number % 10}")


async def collect(consumer: Any, wanted: set[int]) -> None:
    """What was not acknowledged when a connection broke may come twice."""
    found: set[int] = set()
    while found < wanted:
        [message] = await take(consumer, 1)
        await consumer.acknowledge(message)
        found.add(message.value)
    assert found == wanted


def test_a_producer_and_a_queue_go_on_and_see_the_layout_change_afterwards(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with (
            place.client(connection=QUICK) as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.INT64) as queue,
            client.producer(topic, schema=Schema.INT64) as producer,
        ):
            await send(producer, 0, 9)
            await collect(queue, set(range(10)))
            await place.cut(client)
            await send(producer, 10, 19)
            await collect(queue, set(range(10, 20)))
            await place.split(topic, 0)
            sent = [await producer.send(number, key=f"k{number}") for number in range(20, 40)]
            assert {id.segment_id for id in sent} == {1, 2, 3}
            await collect(queue, set(range(20, 40)))

    asyncio.run(body())


def test_a_stream_that_was_cut_off_keeps_its_share(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        options = {"subscription": "s", "schema": Schema.INT64}
        async with (
            place.client() as client,
            place.client(connection=QUICK) as unlucky,
            client.stream_consumer(topic, name="a", **options) as first,
            unlucky.stream_consumer(topic, name="b", **options) as second,
            client.producer(topic, schema=Schema.INT64) as producer,
        ):
            both = (first, second)
            await until(lambda: all(len(each.stats.segments[topic]) == 2 for each in both))
            before = [each.stats.segments[topic] for each in both]
            await send(producer, 0, 39)
            shares = [await drain(each) for each in both]
            assert shares[0].keys() | shares[1].keys() == {f"k{n}" for n in range(10)}
            assert not shares[0].keys() & shares[1].keys()
            await place.cut(unlucky)
            await send(producer, 40, 79)
            again = [await drain(each) for each in both]
            assert [each.stats.segments[topic] for each in both] == before
            for old, new in zip(shares, again, strict=True):
                assert old.keys() == new.keys()
                assert all(numbers == sorted(numbers) for numbers in new.values())
            numbers = [n for share in again for found in share.values() for n in found]
            assert sorted(numbers) == list(range(40, 80))

    asyncio.run(body())


async def drain(consumer: Any) -> dict[str, list[int]]:
    """Numbers by key until none comes; all of it acknowledged, and heard by the broker."""
    found: dict[str, list[int]] = {}
    while (message := await consumer.receive(5 * SILENCE_S)) is not None:
        found.setdefault(message.key, []).append(message.value)
        await consumer.acknowledge_cumulative(message)
    return found


def test_a_checkpoint_consumer_goes_on_behind_what_it_has_read(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with (
            place.client() as client,
            place.client(connection=QUICK) as unlucky,
            client.producer(topic, schema=Schema.INT64) as producer,
            unlucky.checkpoint_consumer(
                topic, start=Checkpoint.EARLIEST, schema=Schema.INT64
            ) as reader,
        ):
            await send(producer, 0, 19)
            found = [message.value for message in await take(reader, 7)]
            await place.cut(unlucky)
            await send(producer, 20, 29)
            found += [message.value for message in await take(reader, 23)]
            assert sorted(found) == list(range(30))
            assert await reader.receive(SILENCE_S) is None

    asyncio.run(body())
