"""More stream consumers than segments: they share the entry buckets of one, and no key is split."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from magnetar import Schema
from tests.contract.sdk_place import PATIENCE_S, SILENCE_S, Place, until

OPTIONS: dict[str, Any] = {"subscription": "s", "schema": Schema.INT64}


@pytest.fixture
def topic(place: Place) -> str:
    if place.is_apache:
        pytest.skip("entry buckets came after 5.0.0-M1")
    made = place.create_topic()
    place.admin.scalable_topics.set_auto_scale_policy(made, {"enabled": False})
    return made


async def send(producer: Any, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await producer.submit(number, key=f"k{number % 20}")
    await producer.flush()


class Crowd:
    """Receives with any number of consumers at once, and remembers who got what, in order."""

    def __init__(self) -> None:
        self.by_key: dict[str, list[int]] = defaultdict(list)
        self.keys: dict[str, set[str]] = defaultdict(set)
        self.count = 0

    async def drain(self, consumer: Any, wanted: int, *, pause_s: float = 0.0) -> None:
        while self.count < wanted:
            message = await consumer.receive(SILENCE_S)
            if message is None:
                continue
            self.count += 1
            self.by_key[message.key].append(message.value)
            self.keys[consumer.name].add(message.key)
            await asyncio.sleep(pause_s)
            await consumer.acknowledge_cumulative(message)

    def check(self, numbers: range) -> None:
        """Everything came once, each key in order."""
        assert sorted(n for found in self.by_key.values() for n in found) == list(numbers)
        assert all(found == sorted(found) for found in self.by_key.values())


def is_shared(topic: str, *consumers: Any) -> bool:
    return all(each.stats.segments[topic] == (0,) for each in consumers)


@pytest.mark.parametrize("pause_s", [0.0, 0.005])
def test_two_consumers_share_one_segment_by_keys(place: Place, topic: str, pause_s: float) -> None:
    async def body() -> None:
        async with (
            place.client() as client,
            client.stream_consumer(topic, name="a", **OPTIONS) as first,
            client.stream_consumer(topic, name="b", **OPTIONS) as second,
            client.producer(topic, schema=Schema.INT64) as producer,
        ):
            await until(lambda: is_shared(topic, first, second))
            await send(producer, 0, 199)
            crowd = Crowd()
            async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
                for each in (first, second):
                    tasks.create_task(crowd.drain(each, 200, pause_s=pause_s))
            crowd.check(range(200))
            assert crowd.keys["a"] and crowd.keys["b"]
            assert not crowd.keys["a"] & crowd.keys["b"]
            for each in (first, second):
                assert await each.receive(SILENCE_S) is None

    asyncio.run(body())


def test_one_that_joins_leaves_and_comes_back_under_traffic_breaks_no_order(
    place: Place, topic: str
) -> None:
    async def body() -> None:
        async with (
            place.client() as client,
            client.stream_consumer(topic, name="a", **OPTIONS) as first,
            client.producer(topic, schema=Schema.INT64) as producer,
        ):
            crowd = Crowd()
            total = 400
            async with asyncio.timeout(2 * PATIENCE_S), asyncio.TaskGroup() as tasks:
                tasks.create_task(crowd.drain(first, total))
                for part in range(4):
                    await send(producer, part * 100, part * 100 + 99)
                    if part % 2 == 0:
                        guest = await client.stream_consumer(topic, name="b", **OPTIONS)
                        leaving = asyncio.Event()
                        work = tasks.create_task(serve(crowd, guest, leaving))
                    else:
                        leaving.set()
                        await work
                        await guest.close()
            crowd.check(range(total))

    asyncio.run(body())


async def serve(crowd: Crowd, consumer: Any, leaving: asyncio.Event) -> None:
    while not leaving.is_set():
        message = await consumer.receive(0.05)
        if message is not None:
            crowd.count += 1
            crowd.by_key[message.key].append(message.value)
            await consumer.acknowledge_cumulative(message)


async def join(client: Any, topic: str) -> Any:
    return await client.stream_consumer(topic, name="b", **OPTIONS)


def test_a_bucket_moves_once_what_was_received_of_it_is_acknowledged(
    place: Place, topic: str
) -> None:
    async def body() -> None:
        async with (
            place.client() as client,
            client.stream_consumer(topic, name="a", **OPTIONS) as first,
            client.producer(topic, schema=Schema.INT64) as producer,
        ):
            await send(producer, 0, 39)
            held = [await first.receive(PATIENCE_S) for _ in range(40)]
            joining = asyncio.create_task(join(client, topic))
            await send(producer, 40, 79)
            await asyncio.sleep(SILENCE_S)
            assert not joining.done()  # its keys are still at work
            await first.acknowledge_cumulative(held[-1])
            async with await joining as second:
                crowd = Crowd()
                async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
                    for each in (first, second):
                        tasks.create_task(crowd.drain(each, 40))
                crowd.check(range(40, 80))

    asyncio.run(body())
