"""From opening a client to its end: what it says of itself, and what closing does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar import AlreadyClosedError, BatchingPolicy, FeatureNotSupportedError
from tests.contract.sdk_place import PATIENCE_S, Place
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
            await client.classic.create_producer(topic)
            stats: dict[str, Any] = await asyncio.to_thread(place.admin.topics.stats, topic)
            [publisher] = stats["publishers"]
            assert publisher["clientVersion"].startswith("Magnetar-Python-v")
            assert publisher["clientVersion"].endswith("-web shop")

    asyncio.run(body())


def test_transactions_are_refused_wherever_one_could_ask_for_them(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            with pytest.raises(FeatureNotSupportedError):
                client.transaction()
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
                with pytest.raises(FeatureNotSupportedError, match="ransactions"):
                    await attempt()
        with pytest.raises(FeatureNotSupportedError, match="ransactions"):
            async with place.client(transaction_timeout=5.0):
                pass

    asyncio.run(body())
