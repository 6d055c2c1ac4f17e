"""Producers of scalable topics: routing, order, sequence ids, access, refusals."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest

from magnetar import (
    AlreadyClosedError,
    BatchingPolicy,
    Checkpoint,
    ConfigurationError,
    FeatureNotSupportedError,
    MessageId,
    NotFoundError,
    ProducerBusyError,
    ProducerFencedError,
    PulsarTimeoutError,
    QueueFullError,
    Schema,
    SchemaError,
    SendFailedError,
)
from tests.contract.sdk_place import PATIENCE_S, SILENCE_S, Place, take, until


async def read_all(place: Place, client: Any, topic: str, count: int) -> dict[str, list[int]]:
    """Numbers by key, in the order they are read, each once: a resent message may come twice."""
    seen: dict[str, list[int]] = defaultdict(list)
    found: set[int] = set()
    async with client.checkpoint_consumer(topic, start=Checkpoint.EARLIEST) as reader:
        while len(found) < count:
            batch = await reader.receive_many(1000, PATIENCE_S)
            assert batch, f"{len(found)} of {count} messages are there"
            for message in batch:
                number = int(message.value)
                if number not in found:
                    found.add(number)
                    seen[message.key].append(number)
    return seen


async def flushed(producer: Any, value: bytes) -> Any:
    sent = await producer.submit(value)
    await producer.flush()
    return sent


def test_what_is_sent_is_received_with_all_that_was_said_about_it(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
            client.producer(topic, schema=Schema.STRING, name="web") as producer,
        ):
            moment = datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
            id = await producer.send("hello", key="k", properties={"a": "b"})
            assert isinstance(id, MessageId) and id.segment_id == 0
            [message] = await take(consumer, 1)
            assert (message.value, message.key, message.properties) == ("hello", "k", {"a": "b"})
            assert message.topic == topic == producer.topic == consumer.topic
            assert message.id == id
            assert message.producer_name.startswith("web") and producer.name == "web"
            assert message.publish_time.tzinfo is not None and message.event_time is None
            assert (message.sequence_id, message.redelivery_count, message.size) == (0, 0, 5)
            assert message.replicated_from is None
            await producer.send("later", event_time=moment)
            [message] = await take(consumer, 1)
            assert (message.key, message.properties, message.event_time) == (None, {}, moment)

    asyncio.run(body())


def test_sends_that_are_not_awaited_keep_their_order_and_are_done_after_flush(
    place: Place,
) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s") as consumer,
            client.producer(topic) as producer,
        ):
            sends = [await producer.submit(b"%d" % number) for number in range(20)]
            await producer.flush()
            ids = await asyncio.gather(*sends)
            assert len({bytes(id) for id in ids}) == 20
            assert [message.value for message in await take(consumer, 20)] == [
                b"%d" % number for number in range(20)
            ]
            assert producer.stats.sent == 20 and producer.stats.pending == 0

    asyncio.run(body())


def test_keys_are_spread_over_the_segments_and_each_stays_in_order(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        async with place.client() as client, client.producer(topic) as producer:
            for number in range(100):
                await producer.submit(b"%d" % number, key=f"k{number % 5}")
            await producer.flush()
            seen = await read_all(place, client, topic, 100)
            assert {len(numbers) for numbers in seen.values()} == {20}
            assert all(numbers == sorted(numbers) for numbers in seen.values())

    asyncio.run(body())


def test_the_low_half_of_the_hash_chooses_the_segment_here_and_a_setting_the_high(
    place: Place,
) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        keys = ("a", "key-0", "key-1", "order-42", "customer-99")
        async with place.client() as client:
            async with client.producer(topic) as producer:
                low = [(await producer.send(b"", key=key)).segment_id for key in keys]
            async with client.producer(topic, segment_hash="high") as producer:
                high = [(await producer.send(b"", key=key)).segment_id for key in keys]
        assert low == [0, 1, 0, 1, 1]
        assert high == [0, 1, 1, 0, 1]

    asyncio.run(body())


def test_pipelined_sends_keep_every_key_in_order_across_splits_and_merges(place: Place) -> None:
    """The reference retries each message on its own: later ones overtake."""

    async def body() -> None:
        namespace = place.create_namespace()
        topic = place.create_topic(2, namespace=namespace)
        place.admin.scalable_topics.create_subscription(topic, "keeps-sealed-segments")
        async with place.client() as client, client.producer(topic) as producer:
            sends: list[Any] = []
            is_over = asyncio.Event()

            async def load() -> None:
                while not is_over.is_set():
                    for _ in range(10):
                        number = len(sends)
                        value = b"%d" % number
                        sends.append(await producer.submit(value, key=f"k{number % 64}"))
                    await asyncio.sleep(0.002)

            loading = asyncio.create_task(load())
            for change in ((0,), (1,), (2, 3), (4, 5), (6, 7)):
                seen_before = len(sends)
                await until(lambda before=seen_before: len(sends) > before + 100)
                if len(change) == 1:
                    await place.split(topic, *change)
                else:
                    await place.merge(topic, *change)
            is_over.set()
            await loading
            await producer.flush()
            await asyncio.gather(*sends)
            await place.unfence(namespace)
            seen = await read_all(place, client, topic, len(sends))
            assert all(numbers == sorted(numbers) for numbers in seen.values())

    asyncio.run(body())


def test_a_send_right_after_a_split_succeeds(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client, client.producer(topic) as producer:
            first = [await producer.send(b"%d" % number, key=str(number)) for number in range(10)]
            await place.split(topic, 0)
            second = [
                await producer.send(b"%d" % number, key=str(number)) for number in range(10, 20)
            ]
            assert {id.segment_id for id in first} == {0}
            assert {id.segment_id for id in second} == {1, 2}
            await read_all(place, client, topic, 20)

    asyncio.run(body())


def test_sequence_ids_count_up_from_where_they_are_told(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            async with client.producer(topic, name="a") as producer:
                assert producer.last_sequence_id == -1
                for _ in range(5):
                    await producer.send(b"x")
                assert producer.last_sequence_id == 4
                await producer.send(b"x", sequence_id=123)
                assert producer.last_sequence_id == 123
            async with client.producer(topic, name="b", initial_sequence_id=99) as producer:
                assert producer.last_sequence_id == 99
                await producer.send(b"x")
                assert producer.last_sequence_id == 100

    asyncio.run(body())


def test_a_sequence_id_that_was_stored_is_not_stored_again(place: Place) -> None:
    async def body() -> None:
        namespace = place.create_namespace()
        place.admin.namespaces.set_policy(namespace, "deduplication", True)
        topic = place.create_topic(namespace=namespace)
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s") as consumer,
            client.producer(topic, name="once", batching=False) as producer,
        ):
            await producer.send(b"first", sequence_id=10)
            await producer.send(b"again", sequence_id=10)
            await producer.send(b"last", sequence_id=11)
            found = [message.data for message in await take(consumer, 2)]
            assert found == [b"first", b"last"]
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())


def test_producers_that_share_a_topic_do_not_mind_each_other(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with (
            place.client() as client,
            client.producer(topic, access_mode="shared") as first,
            client.producer(topic, access_mode="shared") as second,
        ):
            ids = [await each.send(b"x", key="k") for each in (first, second, first)]
            assert len(set(ids)) == 3 and first.name != second.name

    asyncio.run(body())


def test_a_second_exclusive_producer_is_refused_while_the_first_works(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with (
            place.client() as client,
            client.producer(topic, access_mode="exclusive") as first,
        ):
            with pytest.raises((ProducerFencedError, ProducerBusyError)):
                await client.producer(topic, access_mode="exclusive")
            await first.send(b"x", key="k")

    asyncio.run(body())


def test_a_producer_that_waits_to_be_alone_takes_over_and_follows_a_split(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            first = await client.producer(topic, access_mode="exclusive")

            async def wait() -> Any:
                return await client.producer(topic, access_mode="wait_for_exclusive")

            waiting = asyncio.create_task(wait())
            await first.send(b"x", key="k")
            await asyncio.sleep(SILENCE_S)
            assert not waiting.done()
            await first.close()
            async with asyncio.timeout(PATIENCE_S), await waiting as second:
                await second.send(b"y", key="k")
                await place.split(topic, 0)
                await place.split(topic, 1)
                assert (await second.send(b"z", key="k")).segment_id >= 2

    asyncio.run(body())


@pytest.mark.parametrize(
    "options",
    [
        {"batching": False},
        {"batching": BatchingPolicy(max_delay=0.005, max_messages=5)},
        {"batching": True, "compression": "none"},
        *({"compression": codec} for codec in ("zstd", "lz4", "zlib", "snappy")),
        {"compression": "zlib", "batching": False},
    ],
)
def test_batched_or_compressed_everything_arrives(place: Place, options: dict[str, Any]) -> None:
    async def body() -> None:
        topic = place.create_topic(3)
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
            client.producer(topic, schema=Schema.STRING, **options) as producer,
        ):
            values = {f"{number}-{'x' * 5000}" for number in range(20)}
            for value in values:
                await producer.submit(value)
            await producer.flush()
            assert {message.value for message in await take(consumer, 20)} == values

    asyncio.run(body())


def test_a_missing_topic_is_made_where_the_broker_does_that(place: Place) -> None:
    async def body() -> None:
        topic = place.name_topic()
        async with place.client() as client:
            if place.is_apache:
                with pytest.raises(NotFoundError):
                    await client.producer(topic)
            else:
                async with client.producer(topic) as producer:
                    assert (await producer.send(b"x")).segment_id == 0

    asyncio.run(body())


def test_a_missing_topic_is_not_found_where_the_namespace_makes_none(place: Place) -> None:
    async def body() -> None:
        namespace = place.create_namespace()
        forbidden = {"allowAutoTopicCreation": False}
        place.admin.namespaces.set_policy(namespace, "auto-topic-creation", forbidden)
        topic = place.name_topic(namespace)
        async with place.client(operation_timeout=5) as client:
            for attempt in (
                lambda: client.queue_consumer(topic, subscription="s"),
                lambda: client.stream_consumer(topic, subscription="s"),
                lambda: client.checkpoint_consumer(topic),
            ):
                with pytest.raises(NotFoundError):
                    await attempt()
        assert topic not in place.admin.scalable_topics.list(namespace)

    asyncio.run(body())


def test_a_closed_producer_sends_nothing_more(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            producer = await client.producer(topic, batching=BatchingPolicy(max_delay=60))
            waiting = await producer.submit(b"x")
            await producer.close()
            assert (await waiting).segment_id == 0
            await producer.close()
            with pytest.raises(AlreadyClosedError):
                await producer.send(b"y")

    asyncio.run(body())


def test_one_that_may_not_wait_for_room_is_told_that_there_is_none(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        slow = BatchingPolicy(max_delay=60)
        async with (
            place.client() as client,
            client.producer(
                topic, batching=slow, max_pending_messages=2, block_if_queue_full=False
            ) as producer,
        ):
            await (await flushed(producer, b"the segment's producer is open after this"))
            sends = [await producer.submit(b"x"), await producer.submit(b"y")]
            with pytest.raises(QueueFullError):
                await (await producer.submit(b"z"))
            await producer.flush()
            await asyncio.gather(*sends)
            await (await flushed(producer, b"z"))

    asyncio.run(body())


def test_a_send_that_is_given_up_leaves_the_producer_as_it_was(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        slow = BatchingPolicy(max_delay=60)
        async with (
            place.client() as client,
            client.producer(topic, batching=slow, max_pending_messages=1) as producer,
        ):
            await (await flushed(producer, b"the segment's producer is open after this"))
            first = await producer.submit(b"x")
            if place.flavour == "async":
                for _ in range(3):
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.01):
                            await producer.send(b"given up")
            await producer.flush()
            await first
            second = await flushed(producer, b"y")
            assert (await second) != (await first)

    asyncio.run(body())


def test_a_send_without_a_receipt_in_time_says_so(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        slow = BatchingPolicy(max_delay=60)
        async with (
            place.client() as client,
            client.producer(topic, batching=slow, send_timeout=1.0) as producer,
        ):
            await (await flushed(producer, b"the segment's producer is open after this"))
            waiting = await producer.submit(b"x")  # for others, longer than it may
            with pytest.raises(PulsarTimeoutError):
                await waiting
            with pytest.raises(SendFailedError, match="1 message was not stored"):
                await producer.flush()

    asyncio.run(body())


def test_a_send_that_is_awaited_does_not_wait_for_others(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        slow = BatchingPolicy(max_delay=60)
        async with place.client() as client, client.producer(topic, batching=slow) as producer:
            async with asyncio.timeout(PATIENCE_S):
                await producer.send(b"alone")

    asyncio.run(body())


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("persistent://public/default/x-partition-3", "persistent://public/default/x,"),
        ("segment://public/default/x/0000-ffff-0", "topic://"),
        ("nonsense://public/default/x", "nonsense"),
        ("topic://public/x", "tenant/namespace"),
    ],
)
def test_names_that_cannot_be_are_refused_with_what_to_write(
    place: Place, topic: str, hint: str
) -> None:
    async def body() -> None:
        async with place.client() as client:
            for attempt in (
                lambda: client.queue_consumer(topic, subscription="s"),
                lambda: client.stream_consumer(topic, subscription="s"),
                lambda: client.checkpoint_consumer(topic),
            ):
                with pytest.raises(ConfigurationError, match=hint):
                    await attempt()

    asyncio.run(body())


def test_what_keeps_nothing_is_not_supported_as_a_scalable_topic(place: Place) -> None:
    async def body() -> None:
        topic = "non-persistent://public/default/x"
        async with place.client() as client:
            for attempt in (
                lambda: client.queue_consumer(topic, subscription="s"),
                lambda: client.stream_consumer(topic, subscription="s"),
                lambda: client.checkpoint_consumer(topic),
            ):
                with pytest.raises(FeatureNotSupportedError, match=r"client\.consumer"):
                    await attempt()

    asyncio.run(body())


def test_arguments_that_cannot_be_are_refused_at_once(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            with pytest.raises(ConfigurationError, match="did you mean compression"):
                await client.producer(topic, compresion="zstd")
            with pytest.raises(ConfigurationError, match="there are none, lz4"):
                await client.producer(topic, compression="rar")
            with pytest.raises(ConfigurationError, match="segment_hash"):
                await client.producer(topic, segment_hash="middle")
            with pytest.raises(ConfigurationError, match="one of topic and namespace"):
                await client.queue_consumer(subscription="s")
            with pytest.raises(ConfigurationError, match="subscription"):
                await client.queue_consumer(topic, subscription="")
            with pytest.raises(ConfigurationError, match="timeout"):
                await client.transaction(timeout=0)
            async with client.producer(topic) as producer:
                with pytest.raises(ConfigurationError, match="time zone"):
                    await producer.send(b"x", event_time=datetime(2026, 1, 1))
                with pytest.raises(SchemaError, match=r"Schema\.STRING"):
                    await producer.send("text")
                with pytest.raises(ConfigurationError, match="transaction"):
                    await producer.send(b"x", transaction=object())

    asyncio.run(body())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"key": 5}, "key is text or bytes"),
        ({"key": "half \ud800"}, "whole Unicode text"),
        ({"ordering_key": "text"}, "ordering_key is bytes"),
        ({"properties": {"a": 1}}, "text to text, not of 'a' to 1"),
        ({"properties": {"a": "half \ud800"}}, "whole Unicode text"),
        ({"sequence_id": -1}, "from 0 on"),
        ({"sequence_id": "7"}, "from 0 on"),
        ({"event_time": datetime(1950, 1, 1, tzinfo=UTC)}, "after 1970"),
        ({"replication_clusters": "east"}, "a list of names"),
        ({"keyy": "k"}, "did you mean key"),
    ],
)
def test_what_cannot_be_written_on_a_message_harms_no_other(
    place: Place, options: dict[str, Any], sentence: str
) -> None:
    """One that is found only when its batch is encoded takes the others down with it."""

    async def body() -> None:
        topic = place.create_topic()
        slow = BatchingPolicy(max_delay=60)
        async with place.client() as client, client.producer(topic, batching=slow) as producer:
            await (await flushed(producer, b"the segment's producer is open after this"))
            before = await producer.submit(b"before")
            with pytest.raises(ConfigurationError, match=sentence):
                await producer.submit(b"wrong", **options)
            after = await producer.submit(b"after")
            async with asyncio.timeout(PATIENCE_S):
                await producer.flush()
            assert (await before) != (await after)
            assert (producer.stats.sent, producer.stats.failed) == (3, 0)

    asyncio.run(body())
