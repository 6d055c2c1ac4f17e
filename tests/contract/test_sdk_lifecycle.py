"""From opening a client to its end: what it says of itself, and what closing does."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from magnetar import AlreadyClosedError, BatchingPolicy, ConfigurationError
from tests.contract.sdk_place import PATIENCE_S, Place, take
from tests.contract.sdk_regular import new_name


def test_closing_a_client_closes_all_it_made_and_again_does_nothing(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            producer = await client.producer(topic)
            consumers = [
                await client.queue_consumer(topic, subscription="q"),
                await client.stream_consumer(topic, subscription="s"),
                await client.checkpoint_consumer(topic),
            ]
            waiting = [asyncio.create_task(each.receive()) for each in consumers]
            await asyncio.sleep(0.05)
            async with asyncio.timeout(PATIENCE_S):
                await client.close()
                for each in waiting:
                    with pytest.raises(AlreadyClosedError):
                        await each
            with pytest.raises(AlreadyClosedError):
                await producer.send(b"x")
            for each in (client, producer, *consumers):
                await each.close()
            await client.close(immediate=True)
            with pytest.raises(AlreadyClosedError):
                await client.producer(topic)

    asyncio.run(body())


def test_a_client_that_ends_at_once_fails_what_is_not_stored(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            producer = await client.producer(topic, batching=BatchingPolicy(max_delay=60))
            await producer.send(b"stored")
            waiting = await producer.submit(b"still here")
            async with asyncio.timeout(PATIENCE_S):
                await client.close(immediate=True)
                await client.close(immediate=True)
                with pytest.raises(AlreadyClosedError):
                    await waiting

    asyncio.run(body())


def test_brokers_list_a_client_by_its_description(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client(description="web shop") as client:
            await client.producer(topic)
            stats: dict[str, Any] = await asyncio.to_thread(place.admin.topics.stats, topic)
            [publisher] = stats["publishers"]
            assert publisher["clientVersion"].startswith("Magnetar-Python-v")
            assert publisher["clientVersion"].endswith("-web shop")

    asyncio.run(body())


def test_what_is_no_transaction_is_refused_wherever_one_could_be_given(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            stream = await client.stream_consumer(
                namespace=topic.removeprefix("topic://").rpartition("/")[0],
                property_filters={"nobody": "has this"},
                subscription="s",
            )
            queue = await client.queue_consumer(topic, subscription="q")
            producer = await client.producer(topic)
            id = await producer.send(b"x")
            for attempt in (
                lambda: stream.acknowledge_cumulative(id, transaction=object()),
                lambda: queue.acknowledge(id, transaction=object()),
                lambda: producer.send(b"y", transaction=object()),
            ):
                with pytest.raises(ConfigurationError, match="transaction is what"):
                    await attempt()
        with pytest.raises(ConfigurationError, match="transaction_timeout"):
            async with place.client(transaction_timeout=0):
                pass

    asyncio.run(body())


def test_what_is_printed_says_topic_state_and_what_is_pending(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(1)
        async with place.client() as client:
            async with client.queue_consumer(topic, subscription="s") as consumer:
                async with client.producer(topic) as producer:
                    await producer.send(b"x")
                    await producer.send(b"y")
                    assert re.search(rf"Producer {topic}, open, 0 pending>$", spell(producer))
                await take(consumer, 2)
                expected = rf"QueueConsumer {topic}, subscription s, open, 0 waiting>$"
                assert re.search(expected, spell(consumer))
            assert ", closed, " in spell(producer) and ", closed, " in spell(consumer)
            assert re.search(r"PulsarClient pulsar://.*, 0 made>$", spell(client))
        assert spell(client).endswith(", closed>")

    asyncio.run(body())


def test_readers_layouts_and_transactions_say_how_they_are(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        scalable = place.create_topic(1)
        async with place.client() as client:
            producer = await client.producer(topic)
            await producer.send(b"x", key="k")
            async with client.reader(topic, "earliest") as reader:
                assert await reader.read(PATIENCE_S)
                assert spell(reader).endswith(f"Reader {topic}, open, 0 waiting>")
            assert spell(reader).endswith(f"Reader {topic}, closed, 0 waiting>")
            changes = client.layout_changes(scalable)
            assert spell(changes).endswith(f"LayoutChanges {scalable}, open>")
            await anext(changes)
            assert spell(changes).endswith(f"LayoutChanges {scalable}, open>")
            await changes.close()
            assert spell(changes).endswith(f"LayoutChanges {scalable}, closed>")
            async with client.transaction() as transaction:
                assert spell(transaction).endswith(f"Transaction {transaction.id}, open>")
            assert spell(transaction).endswith(f"Transaction {transaction.id}, committed>")

    asyncio.run(body())


def spell(handle: Any) -> str:
    return repr(getattr(handle, "inner", handle))
