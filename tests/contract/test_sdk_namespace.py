"""Consumers of a namespace: topics that match come and go."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from tests.contract.sdk_place import SILENCE_S, Place, take, until


async def send(client: Any, topic: str, count: int) -> None:
    async with client.producer(topic) as producer:
        for number in range(count):
            await producer.send(b"%d" % number, key=str(number))


def test_a_queue_over_a_namespace_follows_the_topics_that_match(place: Place) -> None:
    async def body() -> None:
        namespace = place.create_namespace()
        create = place.admin.scalable_topics.create
        names = {word: f"topic://{namespace}/{word}" for word in ("early", "late", "other")}
        create(names["early"], segments=2, properties={"kind": "orders"})
        async with (
            place.client() as client,
            client.queue_consumer(
                namespace=namespace,
                property_filters={"kind": "orders"},
                subscription="s",
                initial_position="earliest",
            ) as consumer,
        ):
            assert consumer.topic == f"namespace://{namespace}"
            assert consumer.topics == (names["early"],)
            create(names["late"], properties={"kind": "orders"})
            create(names["other"], properties={"kind": "invoices"})
            for name in names.values():
                await send(client, name, 5)
            messages = await take(consumer, 10)
            assert Counter(message.topic for message in messages) == {
                names["early"]: 5,
                names["late"]: 5,
            }
            for message in messages:
                await consumer.acknowledge(message)
            assert await consumer.receive(SILENCE_S) is None
            place.admin.scalable_topics.delete(names["early"], force=True)
            await until(lambda: consumer.topics == (names["late"],))
            await asyncio.sleep(SILENCE_S)
            assert names["early"] not in place.admin.scalable_topics.list(namespace)

    asyncio.run(body())


def test_a_stream_over_a_namespace_follows_the_topics_that_match(place: Place) -> None:
    async def body() -> None:
        namespace = place.create_namespace()
        create = place.admin.scalable_topics.create
        names = {word: f"topic://{namespace}/{word}" for word in ("early", "late", "other")}
        create(names["early"], segments=2, properties={"kind": "orders"})
        async with (
            place.client() as client,
            client.stream_consumer(
                namespace=namespace,
                property_filters={"kind": "orders"},
                subscription="s",
                initial_position="earliest",
            ) as consumer,
        ):
            assert consumer.topic == f"namespace://{namespace}"
            create(names["late"], properties={"kind": "orders"})
            create(names["other"], properties={"kind": "invoices"})
            for name in names.values():
                await send(client, name, 5)
            messages = await take(consumer, 10)
            assert Counter(message.topic for message in messages) == {
                names["early"]: 5,
                names["late"]: 5,
            }
            await consumer.acknowledge_cumulative(messages[-1])
            assert await consumer.receive(SILENCE_S) is None
            if place.is_apache:  # tells its watchers that a deleted topic with a stream was added
                return
            place.admin.scalable_topics.delete(names["early"], force=True)
            await until(lambda: consumer.topics == (names["late"],))

    asyncio.run(body())


def test_one_cumulative_acknowledgement_covers_all_topics_of_a_namespace(place: Place) -> None:
    async def body() -> None:
        namespace = place.create_namespace()
        names = [f"topic://{namespace}/{word}" for word in ("a", "b")]
        for name in names:
            place.admin.scalable_topics.create(name, segments=2)
        options = {
            "namespace": namespace,
            "subscription": "s",
            "name": "only",
            "initial_position": "earliest",
        }
        async with place.client() as client:
            async with client.stream_consumer(**options) as consumer:
                for name in names:
                    await send(client, name, 10)
                messages = await take(consumer, 20)
                assert Counter(message.topic for message in messages) == dict.fromkeys(names, 10)
                await consumer.acknowledge_cumulative(messages[-1].id)
            async with client.stream_consumer(**options) as consumer:
                assert await consumer.receive(1.0) is None

    asyncio.run(body())


def test_what_is_not_acknowledged_when_the_consumer_leaves_comes_again(place: Place) -> None:
    """The reference acknowledges everything it had fetched when it leaves a topic."""

    async def body() -> None:
        namespace = place.create_namespace()
        place.admin.scalable_topics.create(f"topic://{namespace}/a", segments=2)
        options = {
            "namespace": namespace,
            "subscription": "s",
            "name": "only",
            "initial_position": "earliest",
        }
        async with place.client() as client:
            async with client.stream_consumer(**options) as consumer:
                await send(client, f"topic://{namespace}/a", 10)
                await take(consumer, 10)
            async with client.stream_consumer(**options) as consumer:
                await take(consumer, 10)

    asyncio.run(body())


def test_a_paused_consumer_of_a_namespace_asks_later_topics_for_nothing_either(
    place: Place,
) -> None:
    async def body() -> None:
        namespace = place.create_namespace()
        async with (
            place.client() as client,
            client.queue_consumer(
                namespace=namespace, subscription="s", initial_position="earliest"
            ) as consumer,
        ):
            consumer.pause()
            topic = f"topic://{namespace}/late"
            place.create_topic_named(topic)
            await send(client, topic, 3)
            await until(lambda: consumer.topics == (topic,))
            assert await consumer.receive(SILENCE_S) is None
            consumer.resume()
            assert len(await take(consumer, 3)) == 3

    asyncio.run(body())
