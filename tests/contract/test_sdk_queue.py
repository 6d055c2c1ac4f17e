"""Queue consumers: shared messages, single acknowledgements, following the segments."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from magnetar import (
    EARLIEST_ID,
    AlreadyClosedError,
    BackoffPolicy,
    ConfigurationError,
    DeadLetterPolicy,
    Schema,
)
from tests.contract.sdk_place import PATIENCE_S, SILENCE_S, Place, take, until, until_equal


async def send_all(client: Any, topic: str, values: list[str]) -> None:
    async with client.producer(topic, schema=Schema.STRING) as producer:
        for value in values:
            await producer.submit(value, key=value)


def name_values(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_a_consumer_knows_how_much_is_left_to_do(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="q") as queue,
            client.stream_consumer(topic, subscription="s") as stream,
            client.producer(topic, batching=False) as producer,
        ):
            assert await queue.backlog() == await stream.backlog() == 0
            for number in range(5):
                await producer.send(b"x", key=str(number))
            assert await queue.backlog() == await stream.backlog() == 5
            messages = await take(queue, 5)
            await queue.acknowledge(messages[:2])
            last = (await take(stream, 5))[-1]
            await stream.acknowledge_cumulative(last)
            async with asyncio.timeout(PATIENCE_S):
                while (await queue.backlog(), await stream.backlog()) != (3, 0):
                    await asyncio.sleep(0.01)

    asyncio.run(body())


def test_consumers_share_every_message_exactly_once(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        async with place.client() as client, AsyncExitStack() as stack:
            consumers = [
                await stack.enter_async_context(
                    client.queue_consumer(topic, subscription="s", receiver_queue_size=10)
                )
                for _ in range(3)
            ]
            async with client.producer(topic, batching=False) as producer:
                for number in range(150):
                    await producer.submit(b"%d" % number, key=str(number))

            async def drain(consumer: Any) -> list[bytes]:
                values = []
                while (message := await consumer.receive(2.0)) is not None:
                    values.append(message.value)
                    await consumer.acknowledge(message)
                return values

            shares = await asyncio.gather(*(drain(consumer) for consumer in consumers))
            received = [value for share in shares for value in share]
            assert sorted(received) == sorted(b"%d" % number for number in range(150))
            assert all(shares)

    asyncio.run(body())


def test_many_producers_and_consumers_pass_every_message_once(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        async with place.client() as client, AsyncExitStack() as stack:
            enter = stack.enter_async_context
            consumers = [
                await enter(client.queue_consumer(topic, subscription="s", receiver_queue_size=10))
                for _ in range(3)
            ]
            producers = [await enter(client.producer(topic)) for _ in range(4)]

            async def load(number: int, producer: Any) -> None:
                for count in range(100):
                    await producer.submit(b"%d-%d" % (number, count), key=str(count))
                await producer.flush()

            async def drain(consumer: Any) -> list[bytes]:
                values = []
                while (message := await consumer.receive(2.0)) is not None:
                    values.append(message.value)
                    await consumer.acknowledge(message)
                return values

            loads = [load(number, each) for number, each in enumerate(producers)]
            *_, first, second, third = await asyncio.gather(*loads, *map(drain, consumers))
            received = sorted((*first, *second, *third))
            sent = [b"%d-%d" % (number, count) for number in range(4) for count in range(100)]
            assert received == sorted(sent)
            assert first and second and third

    asyncio.run(body())


def test_messages_of_one_segment_come_in_order_and_a_consumer_says_who_it_is(
    place: Place,
) -> None:
    async def body() -> None:
        topic = place.create_topic()
        options = {"subscription": "s", "name": "me", "schema": Schema.STRING}
        async with place.client() as client:
            async with client.queue_consumer(topic, **options) as consumer:
                assert (consumer.topic, consumer.topics) == (topic, (topic,))
                assert (consumer.subscription, consumer.name) == ("s", "me")
                assert await consumer.receive(SILENCE_S) is None
                assert consumer.receive_nowait() is None
                async with client.producer(topic, schema=Schema.STRING) as producer:
                    for value in name_values("m", 50):
                        await producer.submit(value)
                messages = await take(consumer, 50)
                assert [message.value for message in messages] == name_values("m", 50)
                for message in messages:
                    await consumer.acknowledge(message)
            async with client.queue_consumer(topic, **options) as consumer:
                assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_all_segments_are_empty_after_each_message_is_acknowledged(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        async with place.client() as client:
            async with client.queue_consumer(topic, subscription="s") as consumer:
                await send_all(client, topic, name_values("m", 40))
                messages = await take(consumer, 40)
                assert {message.segment_id for message in messages} == {0, 1, 2, 3}
                for message in messages:
                    await consumer.acknowledge(message.id)
            async with client.queue_consumer(topic, subscription="s") as consumer:
                assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


@pytest.mark.parametrize("segments", [1, 3])
def test_no_more_is_held_of_each_segment_than_the_receiver_queue_takes(
    place: Place, segments: int
) -> None:
    async def body() -> None:
        topic = place.create_topic(segments)
        options = {"subscription": "s", "receiver_queue_size": 5}
        async with place.client() as client:
            consumer = await client.queue_consumer(topic, **options)
            async with client.producer(topic, batching=False) as producer:
                for number in range(20 * segments):
                    await producer.submit(b"x", key=str(number))
            await until(lambda: consumer.stats.waiting == 5 * segments)
            await asyncio.sleep(SILENCE_S)
            assert consumer.stats.waiting == 5 * segments
            await take(consumer, 20 * segments)

    asyncio.run(body())


def test_who_comes_first_gets_everything_while_there_is_room(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            first = await client.queue_consumer(topic, subscription="s", priority=0)
            second = await client.queue_consumer(topic, subscription="s", priority=1)
            async with client.producer(topic, batching=False) as producer:
                for _ in range(20):
                    await producer.send(b"x")
            await until(lambda: first.stats.waiting + second.stats.waiting == 20)
            assert second.stats.waiting == 0

    asyncio.run(body())


def test_what_the_first_has_no_room_for_goes_to_the_second(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            first = await client.queue_consumer(
                topic, subscription="s", priority=0, receiver_queue_size=5
            )
            second = await client.queue_consumer(topic, subscription="s", priority=1)
            async with client.producer(topic, batching=False) as producer:
                for _ in range(20):
                    await producer.send(b"x")
            await until(lambda: first.stats.waiting + second.stats.waiting == 20)
            assert first.stats.waiting == 5

    asyncio.run(body())


@pytest.mark.parametrize("change", ["split", "merge"])
def test_who_is_attached_stays_so_while_segments_change(place: Place, change: str) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
            client.producer(topic, schema=Schema.STRING) as producer,
        ):
            values = name_values("m", 100)
            for value in values[:50]:
                await producer.submit(value, key=value)
            if change == "split":
                await place.split(topic, 0)
            else:
                await place.merge(topic, 0, 1)
            for value in values[50:]:
                await producer.submit(value, key=value)
            await producer.flush()
            found = []
            for message in await take(consumer, 100):
                found.append(message.value)
                await consumer.acknowledge(message)
            assert sorted(found) == sorted(values)
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_a_subscription_is_moved_to_a_mark_and_emptied_over_rest(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        place.admin.scalable_topics.create_subscription(topic, "s", kind="QUEUE")
        async with place.client() as client:
            await send_all(client, topic, name_values("before", 10))
            await asyncio.sleep(0.05)
            mark = place.now_ms()
            await asyncio.sleep(0.05)
            await send_all(client, topic, name_values("after", 10))
            await place.split(topic, 0)  # its children are empty
            options = {"subscription": "s", "schema": Schema.STRING}
            async with client.queue_consumer(topic, **options) as consumer:
                for message in await take(consumer, 20):
                    await consumer.acknowledge(message)
            await asyncio.to_thread(place.admin.scalable_topics.seek, topic, "s", mark)
            async with client.queue_consumer(topic, **options) as consumer:
                found = {message.value for message in await take(consumer, 10)}
                assert found == set(name_values("after", 10))
                assert await consumer.receive(SILENCE_S) is None
            await asyncio.to_thread(place.admin.scalable_topics.clear_backlog, topic, "s")
            async with client.queue_consumer(topic, **options) as consumer:
                assert await consumer.receive(SILENCE_S) is None
                await send_all(client, topic, ["later"])
                [message] = await take(consumer, 1)
                assert message.value == "later"

    asyncio.run(body())


def test_what_is_acknowledged_does_not_come_again_and_the_rest_does(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        async with place.client() as client:
            options = {"subscription": "s", "schema": Schema.STRING}
            async with client.queue_consumer(topic, **options) as consumer:
                await send_all(client, topic, name_values("m", 60))
                messages = await take(consumer, 60)
                for message in messages[:25]:
                    await consumer.acknowledge(message)
            async with client.queue_consumer(topic, **options) as consumer:
                left = {message.value for message in await take(consumer, 35)}
                assert left == {message.value for message in messages[25:]}
                assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_a_refused_message_comes_again_after_its_delay(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with (
            place.client() as client,
            client.queue_consumer(
                topic, subscription="s", nack_backoff=BackoffPolicy.fixed(0.2)
            ) as consumer,
        ):
            async with client.producer(topic) as producer:
                await producer.send(b"x", key="k")
            [message] = await take(consumer, 1)
            consumer.negative_acknowledge(message)
            [again] = await take(consumer, 1)
            assert (again.id, again.redelivery_count) == (message.id, 1)
            await consumer.acknowledge(again)

    asyncio.run(body())


def test_a_body_that_ends_well_acknowledges_and_one_that_raises_asks_again(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", nack_delay=0.1) as consumer,
        ):
            async with client.producer(topic) as producer:
                await producer.send(b"x")
            [message] = await take(consumer, 1)
            with pytest.raises(ZeroDivisionError):
                async with consumer.processing(message):
                    raise ZeroDivisionError
            [again] = await take(consumer, 1)
            async with consumer.processing(again):
                pass
            assert again.id == message.id
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_the_initial_position_decides_about_what_was_sent_before(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            await send_all(client, topic, name_values("before", 10))
            latest = client.queue_consumer(topic, subscription="l", schema=Schema.STRING)
            earliest = client.queue_consumer(
                topic, subscription="e", schema=Schema.STRING, initial_position="earliest"
            )
            async with latest as late, earliest as early:
                await send_all(client, topic, name_values("after", 10))
                assert {message.value for message in await take(late, 10)} == set(
                    name_values("after", 10)
                )
                assert len({message.value for message in await take(early, 20)}) == 20

    asyncio.run(body())


def test_a_split_and_a_merge_in_between_lose_nothing_and_repeat_nothing(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
        ):
            await send_all(client, topic, name_values("first", 50))
            await place.split(topic, 0)
            await send_all(client, topic, name_values("second", 50))
            await place.merge(topic, 2, 3)
            await send_all(client, topic, name_values("third", 50))
            values = []
            for message in await take(consumer, 150):
                values.append(message.value)
                await consumer.acknowledge(message)
            assert len(set(values)) == 150
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_a_new_subscription_gets_sealed_and_active_segments(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        place.admin.scalable_topics.create_subscription(topic, "keeps-sealed-segments")
        async with place.client() as client:
            await send_all(client, topic, name_values("first", 20))
            await place.split(topic, 0)
            await send_all(client, topic, name_values("second", 20))
            await place.split(topic, 1)
            await send_all(client, topic, name_values("third", 20))
            async with client.queue_consumer(
                topic, subscription="s", schema=Schema.STRING, initial_position="earliest"
            ) as consumer:
                assert len({message.value for message in await take(consumer, 60)}) == 60

    asyncio.run(body())


def test_a_subscription_made_over_rest_gets_what_was_sent_before_any_consumer(
    place: Place,
) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        place.admin.scalable_topics.create_subscription(topic, "s", kind="QUEUE")
        async with place.client() as client:
            await send_all(client, topic, name_values("m", 30))
            async with client.queue_consumer(topic, subscription="s") as consumer:
                await take(consumer, 30)

    asyncio.run(body())


def test_a_message_delivered_too_often_goes_to_the_dead_letter_topic(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(3)
        place.admin.scalable_topics.create(f"{topic}-DLQ")
        async with (
            place.client() as client,
            client.queue_consumer(
                f"{topic}-DLQ", subscription="d", schema=Schema.STRING
            ) as letters,
            client.queue_consumer(
                topic,
                subscription="s",
                schema=Schema.STRING,
                nack_delay=0.05,
                dead_letter=DeadLetterPolicy(max_redeliveries=2),
            ) as consumer,
        ):
            async with client.producer(topic, schema=Schema.STRING, batching=False) as producer:
                for number in range(3):
                    await producer.send(f"m{number}", key=f"k{number}", properties={"a": "b"})
            deliveries: dict[str, int] = {}
            for _ in range(9):
                [message] = await take(consumer, 1)
                deliveries[message.value] = deliveries.get(message.value, 0) + 1
                consumer.negative_acknowledge(message)
            assert deliveries == {"m0": 3, "m1": 3, "m2": 3}
            for letter in await take(letters, 3):
                assert letter.key == f"k{letter.value[1:]}"
                assert letter.properties["a"] == "b"
                assert letter.properties["REAL_TOPIC"] == topic
                assert letter.properties["REAL_SUBSCRIPTION"] == "s"
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_several_topics_are_one_queue(place: Place) -> None:
    async def body() -> None:
        topics = [place.create_topic(2) for _ in range(2)]
        async with (
            place.client() as client,
            client.queue_consumer(topics, subscription="s", schema=Schema.STRING) as consumer,
        ):
            for topic in topics:
                await send_all(client, topic, name_values("m", 5))
            messages = await take(consumer, 10)
            assert sorted(message.topic for message in messages) == sorted(topics * 5)
            for message in messages:
                await consumer.acknowledge(message.id)
            assert sorted(consumer.topics) == sorted(topics)

    asyncio.run(body())


def test_a_subscription_can_be_moved_back_to_its_beginning(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
        ):
            await send_all(client, topic, name_values("m", 10))
            for message in await take(consumer, 10):
                await consumer.acknowledge(message)
            await consumer.seek(EARLIEST_ID)
            assert len({message.value for message in await take(consumer, 10)}) == 10

    asyncio.run(body())


def test_a_paused_consumer_asks_for_no_more(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", receiver_queue_size=2) as consumer,
        ):
            consumer.pause()
            async with client.producer(topic, batching=False) as producer:
                for number in range(10):
                    await producer.send(b"%d" % number)
            got = 0
            while (message := await consumer.receive(SILENCE_S)) is not None:
                await consumer.acknowledge(message)
                got += 1
            assert got <= 2
            consumer.resume()
            await take(consumer, 10 - got)

    asyncio.run(body())


def test_whoever_waits_hears_that_the_consumer_is_closed(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            consumer = await client.queue_consumer(topic, subscription="s")
            waiting = asyncio.create_task(consumer.receive())
            await asyncio.sleep(0.05)
            await consumer.close()
            with pytest.raises(AlreadyClosedError):
                await waiting
            with pytest.raises(AlreadyClosedError):
                await consumer.receive()
            assert [message async for message in consumer] == []
            await consumer.close()

    asyncio.run(body())


@pytest.mark.parametrize("receipts", [False, True])
def test_a_batch_is_acknowledged_at_once(place: Place, receipts: bool) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            options = {"subscription": "s", "ack_receipts": receipts}
            async with (
                client.queue_consumer(topic, **options) as consumer,
                client.producer(topic, batching=False) as producer,
            ):
                for number in range(40):
                    await producer.submit(b"%d" % number)
                first = await take(consumer, 10)
                batch = await consumer.receive_many(10, 20.0)
                await consumer.acknowledge([*first[:4], first[4].id])
                await consumer.acknowledge(batch)
                await consumer.flush()
                done = {message.data for message in (*first[:5], *batch)}
                assert consumer.stats.acknowledged == len(done)
                with pytest.raises(ConfigurationError, match="neither a message"):
                    await consumer.acknowledge(7)
            async with client.queue_consumer(topic, **options) as consumer:
                rest = {message.data for message in await take(consumer, 40 - len(done))}
                assert not rest & done and len(rest | done) == 40
                assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_an_id_that_cannot_be_acknowledged_is_refused_to_its_caller_and_harms_no_other(
    place: Place,
) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            consumer = await client.queue_consumer(topic, subscription="s")
            await send_all(client, topic, ["a", "b", "c"])
            first, second, third = await take(consumer, 3)
            unsized = replace(first.id, batch_index=5, batch_size=0)
            for done in (unsized, [first, unsized]):
                with pytest.raises(ConfigurationError, match="size of its batch"):
                    await consumer.acknowledge(done)
            await consumer.acknowledge([second.id, third.id])
            await consumer.flush()
            await until_equal(consumer.backlog, 1)
            await consumer.acknowledge(first)
            await until_equal(consumer.backlog, 0)

    asyncio.run(body())


def test_an_id_without_its_topic_is_refused_where_there_are_several(place: Place) -> None:
    async def body() -> None:
        topics = [place.create_topic(), place.create_topic()]
        async with place.client() as client:
            consumer = await client.queue_consumer(topics, subscription="s")
            await send_all(client, topics[0], ["a"])
            [message] = await take(consumer, 1)
            nameless = replace(message.id, topic=None)
            with pytest.raises(ConfigurationError, match="which topic"):
                await consumer.acknowledge(nameless)
            with pytest.raises(ConfigurationError, match="which topic"):
                consumer.negative_acknowledge(nameless)
            await consumer.acknowledge(message)
            await until_equal(consumer.backlog, 0)

    asyncio.run(body())
