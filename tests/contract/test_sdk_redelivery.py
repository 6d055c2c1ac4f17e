"""Messages that come again, come later, or go elsewhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from magnetar import BackoffPolicy, BatchingPolicy, ConfigurationError, DeadLetterPolicy, Schema
from tests.contract.sdk_place import SILENCE_S, Place, take
from tests.contract.sdk_regular import (
    KINDS_OF_TOPIC,
    open_producer,
    open_queue,
    pick_topic,
)

BOTH = pytest.mark.parametrize("kind", KINDS_OF_TOPIC)


@BOTH
def test_a_refused_message_comes_again_after_its_delay(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            consumer = await open_queue(client, topic)
            producer = await open_producer(client, topic)
            await producer.send(b"x")
            [first] = await take(consumer, 1)
            consumer.negative_acknowledge(first, 0.1)
            [again] = await take(consumer, 1)
            assert (again.id, again.redelivery_count) == (first.id, 1)
            await consumer.acknowledge(again)

    asyncio.run(body())


@BOTH
def test_the_delay_of_a_refused_message_grows_with_its_deliveries(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        backoff = BackoffPolicy(0.01, 3600, multiplier=360_000, jitter=0)
        async with place.client() as client:
            consumer = await open_queue(client, topic, nack_backoff=backoff)
            producer = await open_producer(client, topic)
            await producer.send(b"x")
            [first] = await take(consumer, 1)
            consumer.negative_acknowledge(first)
            [again] = await take(consumer, 1)
            consumer.negative_acknowledge(again)  # an hour from now
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


@BOTH
def test_a_message_that_is_not_acknowledged_in_time_comes_again(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            consumer = await open_queue(client, topic, processing_timeout=0.2)
            producer = await open_producer(client, topic, batching=False)
            await producer.send(b"done")
            [done] = await take(consumer, 1)
            await consumer.acknowledge(done)
            await producer.send(b"forgotten")
            await take(consumer, 1)
            [again] = await take(consumer, 1)
            assert (again.data, again.redelivery_count) == (b"forgotten", 1)
            await consumer.acknowledge(again)

    asyncio.run(body())


@BOTH
def test_the_time_to_process_starts_when_the_application_gets_the_message(
    place: Place, kind: str
) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind, segments=1)
        async with place.client() as client:
            consumer = await open_queue(client, topic, processing_timeout=0.2)
            producer = await open_producer(client, topic, batching=False)
            for number in range(2):
                await producer.send(b"%d" % number)
            [first] = await take(consumer, 1)
            await consumer.acknowledge(first)
            await asyncio.sleep(
                0.5
            )  # the second one waits in the queue for longer than it may take
            [second] = await take(consumer, 1)
            assert (second.data, second.redelivery_count) == (b"1", 0)
            await consumer.acknowledge(second)

    asyncio.run(body())


@BOTH
def test_a_delayed_message_comes_no_earlier(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            consumer = await open_queue(client, topic)
            producer = await open_producer(client, topic)
            due = datetime.now(UTC) + timedelta(seconds=1.5)
            await producer.send(b"after", deliver_after=timedelta(seconds=1.5))
            await producer.send(b"at", deliver_at=due)
            assert await consumer.receive(SILENCE_S) is None
            messages = await take(consumer, 2)
            assert {message.data for message in messages} == {b"after", b"at"}
            # The broker's timer may be a tick early, never a second.
            assert datetime.now(UTC) > due - timedelta(seconds=1)

    asyncio.run(body())


@BOTH
def test_a_message_delivered_too_often_becomes_a_dead_letter(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        target = topic + ("-DLQ" if kind == "scalable" else "-s-DLQ")
        if kind == "scalable":
            place.admin.scalable_topics.create(target)
        async with place.client() as client:
            graves = await open_queue(client, target, "graves", schema=Schema.STRING)
            consumer = await open_queue(
                client,
                topic,
                nack_delay=0.05,
                dead_letter=DeadLetterPolicy(max_redeliveries=2),
            )
            producer = await open_producer(client, topic, schema=Schema.STRING)
            moment = datetime(2020, 1, 2, tzinfo=UTC)
            sent = await producer.send("bad", key="k", properties={"a": "b"}, event_time=moment)
            for count in range(3):
                [message] = await take(consumer, 1)
                assert message.redelivery_count == count
                consumer.negative_acknowledge(message)
            [letter] = await take(graves, 1)
            assert (letter.value, letter.key, letter.event_time) == ("bad", "k", moment)
            assert letter.properties["a"] == "b"
            assert letter.properties["REAL_TOPIC"] == topic
            assert letter.properties["REAL_SUBSCRIPTION"] == "s"
            entry = str(getattr(sent, "entry", sent))
            assert letter.properties["ORIGIN_MESSAGE_ID"].startswith(entry.rsplit(":", 2)[0])
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
@pytest.mark.parametrize("way", ["refused", "put aside"])
def test_a_dead_letter_topic_gets_its_first_subscription_with_the_first_letter(
    place: Place, kind: str, way: str
) -> None:
    async def body() -> None:
        topic, target, retry = (pick_topic(place, kind, segments=1) for _ in range(3))
        policy = DeadLetterPolicy(0, topic=target, initial_subscription="graves", retry_topic=retry)
        async with place.client() as client:
            consumer = await open_queue(client, topic, nack_delay=0.05, dead_letter=policy)
            producer = await open_producer(client, topic)
            await producer.send(b"bad")
            [message] = await take(consumer, 1)
            if way == "refused":
                consumer.negative_acknowledge(message)
                assert await consumer.receive(1) is None
            else:
                await consumer.reconsume_later(message, 1)
            graves = await open_queue(client, target, "graves")
            [letter] = await take(graves, 1)
            assert letter.data == b"bad"

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
def test_a_message_put_aside_comes_again_through_the_retry_topic_then_is_buried(
    place: Place, kind: str
) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        if kind == "scalable":
            for name in ("dead", "retry"):
                place.admin.scalable_topics.create(f"{topic}-{name}")
        policy = DeadLetterPolicy(1, topic=f"{topic}-dead", retry_topic=f"{topic}-retry")
        async with place.client() as client:
            graves = await open_queue(client, f"{topic}-dead")
            consumer = await open_queue(client, topic, dead_letter=policy)
            producer = await open_producer(client, topic)
            await producer.send(b"later", key="k", properties={"a": "b"})
            [first] = await take(consumer, 1)
            await consumer.reconsume_later(first, 0.2)
            [again] = await take(consumer, 1)
            assert again.properties["RECONSUMETIMES"] == "1"
            assert (again.data, again.key, again.properties["a"]) == (b"later", "k", "b")
            assert again.properties["REAL_TOPIC"] == topic
            await consumer.reconsume_later(again, 0.2)
            [letter] = await take(graves, 1)
            assert letter.properties["RECONSUMETIMES"] == "2"

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
def test_putting_aside_without_a_retry_topic_is_refused_with_what_to_write(
    place: Place, kind: str
) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            consumer = await open_queue(client, topic)
            producer = await open_producer(client, topic)
            await producer.send(b"x")
            [message] = await take(consumer, 1)
            with pytest.raises(ConfigurationError, match="retry_topic="):
                await consumer.reconsume_later(message, 1)

    asyncio.run(body())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dead_letter": DeadLetterPolicy(1)}, "type='shared'"),
        ({"nack_dealy": 1}, "did you mean nack_delay"),
        ({"type": "exklusive"}, "there are exclusive, shared"),
        ({"nack_delay": -1}, "must not be below 0"),
        ({"type": "shared", "dead_letter": DeadLetterPolicy(1, topic="a/b")}, "short topic name"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_asked(
    place: Place, options: dict[str, Any], sentence: str
) -> None:
    async def body() -> None:
        async with place.client() as client:
            with pytest.raises(ConfigurationError, match=sentence):
                await client.consumer("t", "s", **options)

    asyncio.run(body())


async def send_batch(client: Any, topic: str, count: int) -> None:
    """All in one batch."""
    producer = await open_producer(client, topic, batching=BatchingPolicy(max_delay=60))
    for number in range(count):
        await producer.submit(b"%d" % number, key="one segment")
    await producer.flush()


@BOTH
def test_what_was_acknowledged_does_not_come_again_with_a_refused_message_of_its_batch(
    place: Place, kind: str
) -> None:
    """Acknowledgements that wait to be sent together are sent before the message is asked for."""

    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            consumer = await open_queue(client, topic, ack_group_time=3600)
            await send_batch(client, topic, 20)
            messages = await take(consumer, 20)
            for message in messages[1:]:
                await consumer.acknowledge(message)
            consumer.negative_acknowledge(messages[0], 0.01)
            [again] = await take(consumer, 1)
            assert (again.id, again.redelivery_count) == (messages[0].id, 1)
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


@BOTH
def test_what_waits_of_a_batch_is_not_handed_out_twice_when_one_of_it_is_refused(
    place: Place, kind: str
) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            consumer = await open_queue(client, topic)
            await send_batch(client, topic, 20)
            [first, second] = await take(consumer, 2)
            await consumer.acknowledge(second)
            consumer.negative_acknowledge(first, 0.01)
            await asyncio.sleep(SILENCE_S)  # the batch is back
            received = [second.value]
            for message in await take(consumer, 19):
                received.append(message.value)
                await consumer.acknowledge(message)
            assert sorted(received) == sorted(b"%d" % number for number in range(20))
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_a_single_consumer_that_starts_over_has_told_what_is_done(place: Place) -> None:
    async def body() -> None:
        topic = pick_topic(place, "classic")
        async with place.client() as client:
            consumer = await client.consumer(topic, "s", ack_group_time=3600)
            await send_batch(client, topic, 10)
            messages = await take(consumer, 10)
            for message in messages[1:]:
                await consumer.acknowledge(message)
            consumer.negative_acknowledge(messages[0], 0.01)
            [again] = await take(consumer, 1)
            assert again.id == messages[0].id
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())
