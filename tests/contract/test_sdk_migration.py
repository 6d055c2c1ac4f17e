"""A regular topic becomes scalable while our producers and consumers are on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar import Checkpoint, PulsarError, Schema
from tests.contract.sdk_place import Place, take


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_producer_goes_on_while_its_topic_becomes_scalable(place: Place, partitions: int) -> None:
    async def body() -> None:
        namespace = place.create_namespace()
        topic = f"persistent://{namespace}/t"
        if partitions:
            await asyncio.to_thread(place.admin.topics.create_partitioned, topic, partitions)
        async with place.client() as client:
            producer = await client.producer(topic, schema=Schema.INT64)
            for number in range(20):
                await producer.send(number, key=f"k{number % 5}")
            sends: list[Any] = []
            migrating = asyncio.create_task(
                asyncio.to_thread(place.admin.scalable_topics.migrate_to_scalable, topic)
            )
            while not migrating.done() or len(sends) < 20:  # many on their way at the switch
                number = 20 + len(sends)
                sends.append(await producer.submit(number, key=f"k{number % 5}"))
                await asyncio.sleep(0.001)
            await migrating
            await producer.flush()
            count = 20 + len(await asyncio.gather(*sends))
            last = await producer.send(count, key="k")
            assert last.segment_id >= max(partitions, 1)  # beyond the partitions of old
            await place.unfence(namespace)
            found: dict[str, list[int]] = {}
            async with client.checkpoint_consumer(
                topic, start=Checkpoint.EARLIEST, schema=Schema.INT64
            ) as reader:
                for message in await take(reader, count + 1):
                    found.setdefault(message.key, []).append(message.value)
            assert sorted(n for each in found.values() for n in each) == list(range(count + 1))
            assert all(numbers == sorted(numbers) for numbers in found.values())
            async with place.client(operation_timeout=2) as late:
                with pytest.raises(PulsarError):
                    await late.classic.create_producer(topic)

    asyncio.run(body())
