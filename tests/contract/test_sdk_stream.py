"""Stream consumers: order, position vectors, cumulative acknowledgement, sharing of segments."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from magnetar import ConfigurationError, MessageId, Schema
from tests.contract.sdk_place import SILENCE_S, Place, take, until


async def send_numbers(producer: Any, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await producer.submit(str(number), key=f"k{number % 10}")
    await producer.flush()


def by_key(messages: list[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for message in messages:
        found[message.key].append(int(message.value))
    return found


def test_one_acknowledgement_of_the_last_message_empties_all_segments(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        options = {"subscription": "s", "name": "only", "schema": Schema.STRING}
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            async with client.stream_consumer(topic, **options) as consumer:
                await send_numbers(out, 0, 99)
                messages = await take(consumer, 100)
                found = by_key(messages)
                assert all(numbers == sorted(numbers) for numbers in found.values())
                assert {message.topic for message in messages} == {topic}
                await consumer.acknowledge_cumulative(messages[-1])
            async with client.stream_consumer(topic, **options) as consumer:
                assert await consumer.receive(1.0) is None

    asyncio.run(body())


def test_messages_of_one_segment_come_in_order_and_a_consumer_says_who_it_is(
    place: Place,
) -> None:
    async def body() -> None:
        topic = place.create_topic()
        options = {"subscription": "s", "name": "me", "schema": Schema.STRING}
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            async with client.stream_consumer(topic, **options) as consumer:
                assert (consumer.topic, consumer.topics) == (topic, (topic,))
                assert (consumer.subscription, consumer.name) == ("s", "me")
                assert await consumer.receive(SILENCE_S) is None
                for number in range(50):
                    await out.submit(str(number))
                await out.flush()
                messages = await take(consumer, 50)
                assert [int(message.value) for message in messages] == list(range(50))
                await consumer.acknowledge_cumulative(messages[-1])
            async with client.stream_consumer(topic, **options) as consumer:
                assert await consumer.receive(1.0) is None

    asyncio.run(body())


def test_the_initial_position_decides_about_what_was_sent_before(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            await send_numbers(out, 0, 9)
            open = client.stream_consumer
            async with (
                open(topic, subscription="l", schema=Schema.STRING) as late,
                open(
                    topic, subscription="e", schema=Schema.STRING, initial_position="earliest"
                ) as early,
            ):
                await send_numbers(out, 10, 19)
                found = [int(message.value) for message in await take(late, 10)]
                assert sorted(found) == list(range(10, 20))
                found = [int(message.value) for message in await take(early, 20)]
                assert sorted(found) == list(range(20))

    asyncio.run(body())


def test_two_hundred_keys_come_once_each(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        async with (
            place.client() as client,
            client.stream_consumer(topic, subscription="s") as consumer,
            client.producer(topic) as out,
        ):
            for number in range(200):
                await out.submit(b"x", key=f"key-{number}")
            await out.flush()
            keys = [message.key for message in await take(consumer, 200)]
            assert sorted(keys) == sorted(f"key-{number}" for number in range(200))
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_nothing_comes_again_of_parents_and_children_that_were_acknowledged(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        options = {"subscription": "s", "name": "only", "schema": Schema.STRING}
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            async with client.stream_consumer(topic, **options) as consumer:
                await send_numbers(out, 0, 19)
                messages = await take(consumer, 20)
                await consumer.acknowledge_cumulative(messages[-1])
                await place.split(topic, 0)
                await send_numbers(out, 20, 39)
                messages = await take(consumer, 20)
                assert {message.segment_id for message in messages} == {1, 2}
                await consumer.acknowledge_cumulative(messages[-1])
            async with client.stream_consumer(topic, **options) as consumer:
                assert await consumer.receive(1.0) is None

    asyncio.run(body())


def test_the_segments_of_a_consumer_that_leaves_go_to_the_others(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        options = {"subscription": "s", "schema": Schema.STRING}
        async with (
            place.client() as client,
            client.stream_consumer(topic, name="a", **options) as first,
            client.producer(topic, schema=Schema.STRING) as out,
        ):
            async with place.client() as other:
                second = await other.stream_consumer(topic, name="b", **options)
                await until(lambda: len(first.stats.segments[topic]) == 2)
                await until(lambda: len(second.stats.segments[topic]) == 2)
            await until(lambda: len(first.stats.segments[topic]) == 4, place.grace_s)
            await send_numbers(out, 0, 19)
            await take(first, 20)

    asyncio.run(body())


def test_an_acknowledgement_covers_what_was_received_before_and_nothing_else(
    place: Place,
) -> None:
    """The reference takes positions when messages arrive: it covers what nobody received."""

    async def body() -> None:
        topic = place.create_topic(4)
        options = {"subscription": "s", "name": "only", "schema": Schema.STRING}
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            async with client.stream_consumer(topic, **options) as consumer:
                await send_numbers(out, 0, 99)
                await asyncio.sleep(SILENCE_S)  # everything has arrived
                received = await take(consumer, 40)
                saved = bytes(received[-1].id)
                await consumer.acknowledge_cumulative(MessageId.from_bytes(saved))
            async with client.stream_consumer(topic, **options) as consumer:
                rest = await take(consumer, 60)
                assert await consumer.receive(SILENCE_S) is None
        values = sorted(int(message.value) for message in (*received, *rest))
        assert values == list(range(100))

    asyncio.run(body())


def test_a_batch_of_messages_knows_its_last_id(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.producer(topic, schema=Schema.STRING) as out,
            client.stream_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
        ):
            await send_numbers(out, 0, 9)
            batch = await consumer.receive_many(10, 5.0, linger=2.0)
            assert sorted(int(message.value) for message in batch) == list(range(10))
            assert batch.last_id == batch[-1].id
            await consumer.acknowledge_cumulative(batch.last_id)
            empty = await consumer.receive_many(10, SILENCE_S)
            assert len(empty) == 0
            with pytest.raises(ConfigurationError, match="empty"):
                _ = empty.last_id

    asyncio.run(body())


def test_an_id_that_does_not_say_how_far_one_came_is_refused(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.producer(topic) as out,
            client.stream_consumer(topic, subscription="s") as consumer,
        ):
            sent = await out.send(b"x")
            with pytest.raises(ConfigurationError, match="how far"):
                await consumer.acknowledge_cumulative(sent)

    asyncio.run(body())


def test_consumers_share_the_segments_and_no_key_is_split(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        options = {"subscription": "s", "schema": Schema.STRING}
        async with (
            place.client() as client,
            client.producer(topic, schema=Schema.STRING) as out,
            client.stream_consumer(topic, name="a", **options) as first,
            client.stream_consumer(topic, name="b", **options) as second,
        ):
            await until(lambda: len(first.stats.segments[topic]) == 2)
            await until(lambda: len(second.stats.segments[topic]) == 2)
            await send_numbers(out, 0, 99)
            received: list[list[Any]] = [[], []]
            while sum(map(len, received)) < 100:
                for messages, consumer in zip(received, (first, second), strict=True):
                    messages += await consumer.receive_many(100, SILENCE_S)
            keys = [{message.key for message in messages} for messages in received]
            assert keys[0] and keys[1] and not keys[0] & keys[1]

    asyncio.run(body())


def test_one_that_joins_gets_its_segments_when_their_reader_has_acknowledged(place: Place) -> None:
    """The reader may take its time: longer than any operation may."""

    async def body() -> None:
        topic = place.create_topic(2)
        options: dict[str, Any] = {"subscription": "s", "schema": Schema.STRING}
        async with (
            place.client(operation_timeout=3) as client,
            client.producer(topic, schema=Schema.STRING) as out,
            client.stream_consumer(topic, name="a", **options) as busy,
        ):
            await send_numbers(out, 0, 49)
            held = await take(busy, 50)
            async with client.stream_consumer(topic, name="b", **options) as other:
                assert await other.receive(4.0) is None
                await busy.acknowledge_cumulative(held[-1])
                await send_numbers(out, 50, 99)
                messages: list[list[Any]] = [[], []]
                while sum(map(len, messages)) < 50:
                    for found, consumer in zip(messages, (busy, other), strict=True):
                        found += await consumer.receive_many(100, SILENCE_S)
                assert messages[0] and messages[1]
                numbers = sorted(int(each.value) for found in messages for each in found)
                assert numbers == list(range(50, 100))

    asyncio.run(body())


def test_children_come_after_their_parents_are_acknowledged(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        options = {"subscription": "s", "name": "only", "schema": Schema.STRING}
        async with (
            place.client() as client,
            client.producer(topic, schema=Schema.STRING) as out,
            client.stream_consumer(topic, **options) as consumer,
        ):
            await send_numbers(out, 0, 49)
            await place.split(topic, 0)
            await send_numbers(out, 50, 99)
            await place.merge(topic, 1, 2)
            await send_numbers(out, 100, 149)
            messages = []
            for _ in range(150):
                [message] = await take(consumer, 1)
                messages.append(message)
                await consumer.acknowledge_cumulative(message)
            found = by_key(messages)
            assert all(numbers == sorted(set(numbers)) for numbers in found.values())
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_a_fresh_subscription_replays_all_generations_in_order(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        place.admin.scalable_topics.create_subscription(topic, "keeps-sealed-segments")
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            await send_numbers(out, 0, 29)
            await place.split(topic, 0)
            await send_numbers(out, 30, 59)
            await place.split(topic, 1)
            await send_numbers(out, 60, 89)
            options = {"subscription": "s", "name": "only", "initial_position": "earliest"}
            async with client.stream_consumer(topic, schema=Schema.STRING, **options) as consumer:
                messages = []
                for _ in range(90):
                    [message] = await take(consumer, 1)
                    messages.append(message)
                    await consumer.acknowledge_cumulative(message)
            assert all(numbers == sorted(numbers) for numbers in by_key(messages).values())
            async with client.stream_consumer(topic, schema=Schema.STRING, **options) as consumer:
                assert await consumer.receive(1.0) is None

    asyncio.run(body())


def test_a_consumer_that_comes_back_under_its_name_has_its_segments_at_once(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        options = {"subscription": "s", "schema": Schema.STRING}
        async with (
            place.client() as client,
            client.stream_consumer(topic, name="a", **options) as first,
        ):
            second = await client.stream_consumer(topic, name="b", **options)
            await until(lambda: len(first.stats.segments[topic]) == 2)
            await until(lambda: len(second.stats.segments[topic]) == 2)
            before = second.stats.segments[topic]
            await second.close()
            async with client.stream_consumer(topic, name="b", **options) as again:
                assert again.stats.segments[topic] == before
                assert len(first.stats.segments[topic]) == 2

    asyncio.run(body())
