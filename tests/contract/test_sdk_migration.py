"""A regular topic becomes scalable while our producers and consumers are on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar import Checkpoint, NotFoundError, Schema, TopicTerminatedError
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
            async with place.client(operation_timeout=5) as late:
                async with late.producer(topic) as following:  # by the name of old
                    assert (await following.send(b"late")).segment_id >= max(partitions, 1)
                if not place.is_apache:  # whose classic consumers may go on reading
                    with pytest.raises(NotFoundError, match=f"topic://{namespace}/t"):
                        await late.consumer(topic, "late")

    asyncio.run(body())


def test_a_migrated_topic_that_is_deleted_does_not_come_back_as_a_regular_one(
    place: Place,
) -> None:
    if place.is_apache:
        pytest.skip("clients are not told of a deletion")

    async def body() -> None:
        namespace = place.create_namespace()
        topic, admin = f"persistent://{namespace}/t", place.admin
        async with place.client(operation_timeout=5) as client:
            producer = await client.producer(topic, send_timeout=1)
            await producer.send(b"regular")
            stream = await client.stream_consumer(topic, subscription="s")
            queue = await client.queue_consumer(topic, subscription="q")
            await asyncio.to_thread(admin.scalable_topics.migrate_to_scalable, topic)
            await producer.send(b"scalable")
            scalable = f"topic://{namespace}/t"
            # An async client that shares this loop hears of the deletion when all of it is done.
            admin.scalable_topics.delete(scalable, force=True)
            with pytest.raises(NotFoundError):
                await producer.send(b"gone")
            assert await asyncio.to_thread(admin.topics.list, namespace) == []
            assert await asyncio.to_thread(admin.scalable_topics.list, namespace) == []
            for each in (stream, queue):
                await each.close()
        assert await asyncio.to_thread(admin.topics.list, namespace) == []

    asyncio.run(body())


def test_a_classic_call_that_was_refused_does_not_spoil_the_client(place: Place) -> None:
    if place.is_apache:
        pytest.skip("classic consumers may go on reading there")

    async def body() -> None:
        namespace = place.create_namespace()
        topic = f"persistent://{namespace}/t"
        async with place.client(operation_timeout=5) as client:
            async with client.producer(topic) as producer:
                await producer.send(b"old")
            await asyncio.to_thread(place.admin.scalable_topics.migrate_to_scalable, topic)
            for _ in range(2):
                with pytest.raises(NotFoundError, match=f"topic://{namespace}/t"):
                    await client.consumer(topic, "s")
                with pytest.raises(NotFoundError, match=f"topic://{namespace}/t"):
                    await client.reader(topic)
            async with client.checkpoint_consumer(topic, start=Checkpoint.EARLIEST) as reader:
                (message,) = await take(reader, 1)
                assert message.value == b"old"
                with pytest.raises(NotFoundError):  # though its client watches the layout now
                    await client.reader(topic)

    asyncio.run(body())


def test_a_terminated_topic_refuses_a_send_before_its_timeout(place: Place) -> None:
    async def body() -> None:
        topic = f"persistent://{place.create_namespace()}/t"
        async with place.client() as client:
            producer = await client.producer(topic, send_timeout=3)
            await producer.send(b"last")
            await asyncio.to_thread(place.admin.topics.terminate, topic)
            for _ in range(2):
                with pytest.raises(TopicTerminatedError):
                    await producer.send(b"late")

    asyncio.run(body())
