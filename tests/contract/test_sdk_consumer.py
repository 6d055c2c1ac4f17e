"""Regular topics: producers, the four types of subscriptions, readers and tables."""

from __future__ import annotations

import asyncio
import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from magnetar import (
    BatchingPolicy,
    ConfigurationError,
    ConsumerInterceptor,
    InvalidMessageError,
    Message,
    ProducerInterceptor,
    QueueFullError,
    Schema,
)
from tests.contract.sdk_place import PATIENCE_S, SILENCE_S, Place, take, until_equal
from tests.contract.sdk_regular import (
    KINDS_OF_TOPIC,
    new_name,
    open_producer,
    open_queue,
    pick_topic,
)


async def read_one(client: Any, topic: str, start: Any, **options: Any) -> Any:
    async with client.reader(topic, start, **options) as reader:
        return await reader.read(PATIENCE_S)


async def keep(view: Any, key: str, expected: Any) -> None:
    async def observe() -> Any:
        found = view.get(key)
        return await found if asyncio.iscoroutine(found) else found

    await until_equal(observe, expected)


def test_a_reader_starts_where_it_was_told_and_sees_what_is_left(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client() as client:
            producer = await client.producer(topic, schema=Schema.INT32)
            ids = [await producer.send(number) for number in range(4)]
            async with client.reader(topic, "earliest", schema=Schema.INT32) as reader:
                values = []
                while await reader.has_message_available():
                    message = await reader.read(PATIENCE_S)
                    values.append(message.value)
                assert values == [0, 1, 2, 3]
                await reader.seek(ids[2])
                assert (await reader.read(PATIENCE_S)).value == 2
                await reader.seek("earliest")
                assert (await reader.read(PATIENCE_S)).value == 0
                await reader.seek(datetime(1990, 1, 1, tzinfo=UTC))
                assert (await reader.read(PATIENCE_S)).value == 0
            saved = type(ids[1]).from_bytes(bytes(ids[1]))
            async with client.reader(topic, saved, schema=Schema.INT32) as reader:
                assert (await reader.read(PATIENCE_S)).value == 2
            async with client.reader(topic, ids[1], start_included=True) as reader:
                assert (await reader.read(PATIENCE_S)).id == ids[1]
            message = await read_one(client, topic, ids[1], start_included=True)
            assert (await read_one(client, topic, message)).id == ids[2]
            async with client.reader(topic, "latest") as reader:
                assert await reader.read(timedelta(seconds=SILENCE_S)) is None
                assert await reader.read(-1) is None
                with pytest.raises(ConfigurationError, match="timeout is seconds or a timedelta"):
                    await reader.read("1s")

    asyncio.run(body())


@pytest.mark.parametrize("partitions", [0, 3])
def test_a_table_view_holds_the_latest_value_of_each_key(place: Place, partitions: int) -> None:
    async def body() -> None:
        topic = new_name()
        if partitions:
            place.admin.topics.create_partitioned(topic, partitions)
        async with place.client() as client:
            producer = await client.producer(topic, schema=Schema.INT32)
            for number in range(20):
                await producer.send(number, key=f"k{number % 4}")
            await producer.send(None, key="k0")
            await producer.send(7)
            heard: list[tuple[str, int | None]] = []
            async with client.table_view(topic, schema=Schema.INT32) as view:
                found = view.items()
                items = await found if asyncio.iscoroutine(found) else found
                assert dict(items) == {"k1": 17, "k2": 18, "k3": 19}
                listening = view.listen(lambda key, value: heard.append((key, value)))
                if asyncio.iscoroutine(listening):
                    await listening
                await producer.send(99, key="k1")
                await producer.send(None, key="k2")
                await view.refresh()
                await keep(view, "k1", 99)
                await keep(view, "k2", None)
                assert set(heard[:3]) == {("k1", 17), ("k2", 18), ("k3", 19)}
                assert set(heard[3:]) == {("k1", 99), ("k2", None)}

    asyncio.run(body())


@pytest.mark.parametrize("interval", [0.1, 600.0], ids=["by looking", "by push"])
def test_a_pattern_follows_the_topics_of_its_namespace(place: Place, interval: float) -> None:
    async def body() -> None:
        prefix = f"p-{uuid.uuid4().hex[:8]}"
        async with place.client() as client:
            first = await client.producer(f"public/default/{prefix}-a")
            other = await client.producer(f"public/default/x{prefix}-a")
            consumer = await client.consumer(
                None,
                "s",
                pattern=f"public/default/{prefix}-.*",
                pattern_interval=interval,
                initial_position="earliest",
            )
            await first.send(b"1")
            await other.send(b"no")
            [message] = await take(consumer, 1)
            assert message.topic == f"persistent://public/default/{prefix}-a"
            await consumer.acknowledge(message)
            late = await client.producer(f"public/default/{prefix}-b")
            await late.send(b"2")
            [message] = await take(consumer, 1)
            assert (message.data, message.topic) == (b"2", late.topic)
            await consumer.acknowledge(message)
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_a_topic_of_a_pattern_that_is_deleted_stays_so_and_may_come_back(place: Place) -> None:
    async def body() -> None:
        prefix = f"p-{uuid.uuid4().hex[:8]}"
        gone, other = (f"persistent://public/default/{prefix}-{name}" for name in "ab")
        async with place.client() as client:
            producers = [await client.producer(name) for name in (gone, other)]
            consumer = await client.consumer(
                None,
                "s",
                pattern=f"public/default/{prefix}-.*",
                pattern_interval=0.1,
                initial_position="earliest",
            )
            await producers[0].close()
            place.admin.topics.delete(gone, force=True)
            await asyncio.sleep(1)  # time enough to attach again, and so to bring it back
            assert gone not in await client.list_topics("public/default")
            await producers[1].send(b"other")
            [message] = await take(consumer, 1)
            assert message.topic == other
            again = await client.producer(gone)
            await again.send(b"again")
            [message] = await take(consumer, 1)
            assert (message.topic, message.data) == (gone, b"again")

    asyncio.run(body())


@pytest.mark.parametrize(
    ("topic", "options", "sentence"),
    [
        (None, {}, "one of topic and pattern"),
        ("t", {"pattern": "x.*"}, "one of topic and pattern"),
        (None, {"pattern": "public/default/["}, "Not a regular expression"),
        (None, {"pattern": "topic://public/default/x"}, "namespace= follows scalable topics"),
        ("topic://public/default/t", {}, "is a scalable topic; use client.queue_consumer"),
    ],
)
def test_topics_that_cannot_be_are_refused_with_what_to_write(
    place: Place, topic: str | None, options: dict[str, Any], sentence: str
) -> None:
    async def body() -> None:
        async with place.client() as client:
            with pytest.raises(ConfigurationError, match=sentence):
                await client.consumer(topic, "s", **options)

    asyncio.run(body())


def test_partitions_are_one_topic_to_producers_and_consumers(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        place.admin.topics.create_partitioned(topic, 3)
        async with place.client() as client:
            assert await client.count_partitions(topic) == 3
            consumer = await client.consumer(topic, "s")
            producer = await client.producer(topic, schema=Schema.STRING)
            for number in range(30):
                await producer.send(f"{number}", key=f"k{number % 5}")
            messages = await take(consumer, 30)
            by_key: dict[str, list[int]] = {}
            for message in messages:
                by_key.setdefault(message.key, []).append(int(message.data))
            assert all(numbers == sorted(numbers) for numbers in by_key.values())
            assert len({message.topic for message in messages}) > 1

    asyncio.run(body())


def test_non_persistent_topics_reach_who_listens(place: Place) -> None:
    async def body() -> None:
        topic = new_name("non-persistent")
        async with place.client() as client:
            consumer = await client.consumer(topic, "s")
            producer = await client.producer(topic)
            await producer.send(b"x")
            [message] = await take(consumer, 1)
            assert (message.data, message.topic) == (b"x", topic)

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
def test_a_message_larger_than_the_broker_takes_goes_in_pieces(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind, segments=1)
        data = random.Random(1).randbytes(6 * 1024 * 1024)
        async with place.client() as client:
            consumer = await open_queue(client, topic)
            whole = await open_producer(client, topic)
            with pytest.raises(InvalidMessageError, match="chunking=True"):
                await whole.send(data)
            cutting = await open_producer(client, topic, chunking=True)
            await cutting.send(data, key="large")
            await cutting.send(b"small")
            large, small = await take(consumer, 2)
            assert (large.data == data, large.key, small.data) == (True, "large", b"small")
            for message in (large, small):
                await consumer.acknowledge(message)
            await consumer.close()
            again = await open_queue(client, topic)
            assert await again.receive(SILENCE_S) is None

    asyncio.run(body())


def test_batches_by_key_let_key_shared_consumers_part_them(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client() as client:
            consumers = [await client.consumer(topic, "s", type="key_shared") for _ in range(2)]
            policy = BatchingPolicy(max_delay=60, max_messages=100, by_key=True)
            producer = await client.producer(topic, batching=policy)
            sends = [
                await producer.submit(b"%d" % number, key=f"k{number % 10}")
                for number in range(100)
            ]
            ids = [await sent for sent in sends]
            assert {id.batch_size for id in ids} == {10}
            seen: list[dict[str, list[int]]] = [{}, {}]
            for place_of, consumer in zip(seen, consumers, strict=True):
                while (message := await consumer.receive(1)) is not None:
                    place_of.setdefault(message.key, []).append(int(message.data))
            assert not seen[0].keys() & seen[1].keys()
            together = seen[0] | seen[1]
            assert together == {f"k{k}": list(range(k, 100, 10)) for k in range(10)}

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
def test_interceptors_see_every_message_on_its_way(place: Place, kind: str) -> None:
    seen: list[str] = []

    class Outgoing(ProducerInterceptor):
        def before_send(self, topic: str, data: Any, options: Any) -> Any:
            return data + b"!", {**options, "properties": {"traced": "yes"}}

        def on_sent(self, topic: str, id: Any, error: BaseException | None) -> None:
            seen.append(f"sent {topic} {error}")

    class Incoming(ConsumerInterceptor):
        def on_receive(self, message: Message[Any]) -> Any:  # type: ignore[override]
            seen.append("received")
            return message

        def on_acknowledge(self, topic: str, ids: Any, *, is_cumulative: bool) -> None:
            seen.append("acknowledged")

        def on_negative_acknowledge(self, topic: str, id: Any) -> None:
            raise ValueError("what an interceptor raises harms nobody")

    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            consumer = await open_queue(client, topic, interceptors=[Incoming()])
            producer = await open_producer(client, topic, interceptors=[Outgoing()])
            await producer.send(b"x")
            [message] = await take(consumer, 1)
            assert (message.data, message.properties) == (b"x!", {"traced": "yes"})
            consumer.negative_acknowledge(message, 0)
            [message] = await take(consumer, 1)
            await consumer.acknowledge(message)
        assert sorted(seen) == ["acknowledged", "received", "received", f"sent {topic} None"]

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
def test_the_memory_limit_holds_sends_back_and_loses_none(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client(memory_limit="10KB") as client:
            consumer = await open_queue(client, topic)
            producer = await open_producer(client, topic)
            sends = await asyncio.gather(*(producer.send(b"x" * 1000) for _ in range(100)))
            assert len(set(sends)) == 100
            await take(consumer, 100)

    asyncio.run(body())


def test_a_full_memory_refuses_what_may_not_wait(place: Place) -> None:
    async def body() -> None:
        async with place.client(memory_limit=1500) as client:
            producer = await client.producer(new_name(), batching=BatchingPolicy(max_delay=60))
            held = producer.send_nowait(b"x" * 1000)
            with pytest.raises(QueueFullError, match="memory limit"):
                producer.send_nowait(b"x" * 1000)
            await producer.flush()
            assert await held

    asyncio.run(body())


def test_a_paused_consumer_asks_for_nothing_more(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client() as client:
            consumer = await client.consumer(topic, "s", receiver_queue_size=2)
            producer = await client.producer(topic, batching=False)
            consumer.pause()
            for number in range(10):
                await producer.send(b"%d" % number)
            received = 0
            while (await consumer.receive(SILENCE_S)) is not None:
                received += 1
            assert received <= 2  # as many as were asked for before
            consumer.resume()
            await take(consumer, 10 - received)

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
def test_what_does_not_exist_is_refused_with_a_sentence(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            producer = await open_producer(client, topic)
            with pytest.raises(ConfigurationError, match="did you mean deliver_after"):
                await producer.send(b"x", deliver_afer=1)
            with pytest.raises(ConfigurationError, match="transaction"):
                await producer.send(b"x", transaction=object())
            with pytest.raises(ConfigurationError, match="time zone"):
                await producer.send(b"x", event_time=datetime(2020, 1, 1))
            with pytest.raises(ConfigurationError, match="none, lz4, zlib"):
                await open_producer(client, topic, compression="gzip")

    asyncio.run(body())
