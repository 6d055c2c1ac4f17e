"""Layouts observed, and regular topics through the clients of scalable ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar import (
    ConnectionLost,
    ConnectionOpened,
    Event,
    LayoutChange,
    NotFoundError,
    SegmentsAssigned,
)
from tests.contract.sdk_place import PATIENCE_S, Place, take, until

KEYS = ("", "a", "key-0", "key-1", "order-42", "customer-99")


def create_regular(place: Place, partitions: int) -> str:
    topic = place.name_topic().replace("topic://", "persistent://")
    if partitions:
        place.admin.topics.create_partitioned(topic, partitions)
    else:
        place.admin.topics.create(topic)
    return topic


def test_every_layout_is_told_as_it_comes(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client, client.layout_changes(topic) as changes:
            async with asyncio.timeout(PATIENCE_S):
                first = await anext(changes)
                await place.split(topic, 0)
                split = await anext(changes)
                await place.merge(topic, 2, 3)
                merge = await anext(changes)
            assert (first.before, first.epoch, first.added) == (None, 0, (0, 1))
            assert (split.before, split.added, split.sealed) == (first.after, (2, 3), (0,))
            assert (merge.added, merge.sealed) == ((4,), (2, 3))
            assert {change.topic for change in (first, split, merge)} == {topic}

    asyncio.run(body())


def test_a_client_reports_connections_assignments_and_layouts(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        events: list[Event] = []

        def is_moved() -> bool:
            assigned = [each for each in events if isinstance(each, SegmentsAssigned)]
            return {2, 3} <= set(assigned[-1].segments)

        async with place.client(on_event=events.append) as client:
            await client.producer(topic)
            await client.stream_consumer(topic, subscription="s", name="c")
            await place.split(topic, 0)
            await until(is_moved)
            await until(lambda: any(isinstance(event, LayoutChange) for event in events))
        assert isinstance(events[0], ConnectionOpened) and events[0].server_version
        assert SegmentsAssigned(topic, "s", "c", (0, 1)) in events
        [change] = (event for event in events if isinstance(event, LayoutChange))
        assert (change.topic, change.added, change.sealed) == (topic, (2, 3), (0,))
        assert not any(isinstance(event, ConnectionLost) for event in events)

    asyncio.run(body())


def test_watching_a_topic_does_not_make_it(place: Place) -> None:
    async def body() -> None:
        topic = place.name_topic()
        async with place.client() as client, client.layout_changes(topic) as changes:
            if not place.is_apache:
                with pytest.raises(NotFoundError):
                    await anext(changes)
                assert topic not in place.admin.scalable_topics.list("public/default")

    asyncio.run(body())


def test_keys_of_a_partitioned_topic_go_where_other_producers_put_them(place: Place) -> None:
    async def body() -> None:
        topic = create_regular(place, 4)
        async with place.client() as client:
            async with client.producer(topic) as producer:
                murmur = [(await producer.send(b"", key=key)).partition for key in KEYS]
                assert producer.topic == topic
            async with client.producer(topic, partition_hash="java-string") as producer:
                java = [(await producer.send(b"", key=key)).partition for key in KEYS]
        assert murmur == [0, 2, 3, 0, 2, 0]
        assert java[:2] == [0, 1]

    asyncio.run(body())


@pytest.mark.parametrize("partitions", [0, 3])
@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_regular_topics_are_consumed_like_scalable_ones(
    place: Place, kind: str, partitions: int
) -> None:
    async def body() -> None:
        topic = create_regular(place, partitions)
        async with place.client() as client:

            async def consume() -> Any:
                if kind == "queue":
                    return await client.queue_consumer(topic, subscription="s")
                return await client.stream_consumer(topic, subscription="s")

            consumer = await consume()
            classic = await client.producer(topic)
            for number in range(10):
                await classic.send(b"%d" % number, key=str(number))
            async with client.producer(topic) as producer:
                for number in range(10, 20):
                    await producer.send(b"%d" % number, key=str(number))
            messages = await take(consumer, 20)
            assert sorted(int(message.value) for message in messages) == list(range(20))
            assert {message.topic for message in messages} == {
                topic.replace("persistent://", "topic://")
            }
            if kind == "queue":
                for message in messages:
                    await consumer.acknowledge(message)
            else:
                await consumer.acknowledge_cumulative(messages[-1])
            await consumer.close()
            again = await consume()
            assert await again.receive(0.5) is None

    asyncio.run(body())
