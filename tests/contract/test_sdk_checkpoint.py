"""Checkpoint consumers: reading from anywhere, in order across splits, alone and in groups."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest

from magnetar import Checkpoint, FeatureNotSupportedError, NotFoundError, Schema
from tests.contract.sdk_place import PATIENCE_S, SILENCE_S, Place, take, until, until_equal


class Writer:
    """Sends numbers, counting on."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.count = 0

    async def send(self, count: int) -> None:
        for _ in range(count):
            await self._producer.submit(str(self.count), key=f"k{self.count % 10}")
            self.count += 1
        await self._producer.flush()


async def read(consumer: Any, count: int) -> list[int]:
    """Exactly so many, each key in order, and nothing after them."""
    found: dict[str, list[int]] = defaultdict(list)
    left = count
    while left:
        batch = await consumer.receive_many(left, PATIENCE_S)
        assert batch, f"{left} of {count} did not come"
        for message in batch:
            found[message.key].append(int(message.value))
        left -= len(batch)
    assert await consumer.receive(SILENCE_S) is None
    assert all(numbers == sorted(numbers) for numbers in found.values())
    return sorted(number for numbers in found.values() for number in numbers)


def keep_segments(place: Place, topic: str) -> None:
    place.admin.scalable_topics.create_subscription(topic, "keeps-sealed-segments")


def test_the_start_decides_what_is_read(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            writer = Writer(out)
            await writer.send(10)
            await asyncio.sleep(0.02)
            middle = datetime.now(UTC)
            await asyncio.sleep(0.02)
            await writer.send(10)
            open = client.checkpoint_consumer
            async with open(topic, schema=Schema.STRING) as latest:
                assert await latest.receive(SILENCE_S) is None
                await writer.send(10)
                assert await read(latest, 10) == list(range(20, 30))
                assert latest.topic == topic
            async with open(topic, start=Checkpoint.EARLIEST, schema=Schema.STRING) as earliest:
                assert await read(earliest, 30) == list(range(30))
            async with open(topic, start=Checkpoint.at(middle), schema=Schema.STRING) as timed:
                assert await read(timed, 20) == list(range(10, 30))

    asyncio.run(body())


def test_a_reader_goes_on_where_its_checkpoint_says(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            await Writer(out).send(10)
            options = {"schema": Schema.STRING}
            async with client.checkpoint_consumer(
                topic, start=Checkpoint.EARLIEST, **options
            ) as consumer:
                first = [int(message.value) for message in await take(consumer, 5)]
                saved = consumer.checkpoint()
            for form in (
                Checkpoint.from_bytes(bytes(saved)),
                Checkpoint.from_json(saved.to_json()),
            ):
                assert form == saved
                async with client.checkpoint_consumer(topic, start=form, **options) as consumer:
                    assert consumer.checkpoint() == saved
                    assert sorted(first + await read(consumer, 5)) == list(range(10))

    asyncio.run(body())


def test_a_checkpoint_taken_before_anything_came_is_where_the_reader_started(
    place: Place,
) -> None:
    """The reference forgets segments without new messages and reads them all again."""

    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            writer = Writer(out)
            await writer.send(20)
            async with client.checkpoint_consumer(topic, schema=Schema.STRING) as consumer:
                latest = consumer.checkpoint()
            await writer.send(20)
            async with client.checkpoint_consumer(
                topic, start=latest, schema=Schema.STRING
            ) as consumer:
                assert await read(consumer, 20) == list(range(20, 40))
                end = consumer.checkpoint()
            async with client.checkpoint_consumer(
                topic, start=end, schema=Schema.STRING
            ) as consumer:
                assert await consumer.receive(SILENCE_S) is None
                assert consumer.checkpoint() == end

    asyncio.run(body())


def test_keys_stay_in_order_across_splits_and_merges(place: Place) -> None:
    """The reference reads all segments at once."""

    async def body() -> None:
        topic = place.create_topic(2)
        keep_segments(place, topic)
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            writer = Writer(out)
            async with client.checkpoint_consumer(topic, schema=Schema.STRING) as live:
                await writer.send(50)
                await place.split(topic, 0)
                await writer.send(50)
                await place.merge(topic, 2, 3)
                await writer.send(50)
                assert await read(live, 150) == list(range(150))
            async with client.checkpoint_consumer(
                topic, start=Checkpoint.EARLIEST, schema=Schema.STRING
            ) as replay:
                for _ in range(70):
                    await take(replay, 1)
                middle = replay.checkpoint()
                await replay.seek(Checkpoint.EARLIEST)
                assert await read(replay, 150) == list(range(150))
                assert not await replay.has_message_available()
                await replay.seek(middle)
                assert await replay.has_message_available()
                await read(replay, 80)

    asyncio.run(body())


def test_a_reader_goes_on_through_a_split_and_a_merge_it_was_not_there_for(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        keep_segments(place, topic)
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            writer = Writer(out)
            await writer.send(20)
            async with client.checkpoint_consumer(
                topic, start=Checkpoint.EARLIEST, schema=Schema.STRING
            ) as consumer:
                first = [int(message.value) for message in await take(consumer, 8)]
                saved = bytes(consumer.checkpoint())
            await place.split(topic, 0)
            await writer.send(20)
            await place.merge(topic, 2, 3)
            await writer.send(20)
            async with client.checkpoint_consumer(
                topic, start=Checkpoint.from_bytes(saved), schema=Schema.STRING
            ) as consumer:
                assert sorted(first + await read(consumer, 52)) == list(range(60))

    asyncio.run(body())


def test_readers_do_not_take_from_each_other(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            await Writer(out).send(20)
            options = {"start": Checkpoint.EARLIEST, "schema": Schema.STRING}
            async with (
                client.checkpoint_consumer(topic, **options) as first,
                client.checkpoint_consumer(topic, **options) as second,
            ):
                assert await read(first, 20) == await read(second, 20) == list(range(20))

    asyncio.run(body())


def test_the_members_of_a_group_share_the_segments(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        options = {"group": "g", "start": Checkpoint.EARLIEST, "schema": Schema.STRING}
        async with (
            place.client() as client,
            client.checkpoint_consumer(topic, name="a", **options) as first,
            client.checkpoint_consumer(topic, name="b", **options) as second,
        ):
            await until(lambda: len(first.segments) == len(second.segments) == 2)
            async with client.producer(topic, schema=Schema.STRING) as out:
                await Writer(out).send(100)
            received: list[list[int]] = [[], []]
            while sum(map(len, received)) < 100:
                for numbers, member in zip(received, (first, second), strict=True):
                    batch = await member.receive_many(100, SILENCE_S)
                    numbers += [int(message.value) for message in batch]
            assert received[0] and received[1]
            assert sorted(received[0] + received[1]) == list(range(100))
            merged = first.checkpoint().merge(second.checkpoint())
            assert len(merged.positions) > len(first.checkpoint().positions)
        async with (
            place.client() as client,
            client.checkpoint_consumer(topic, start=merged, schema=Schema.STRING) as alone,
        ):
            assert await alone.receive(SILENCE_S) is None

    asyncio.run(body())


async def drain(members: tuple[Any, ...], count: int) -> list[list[int]]:
    """Exactly so many, by member, and nothing after them."""
    received: list[list[int]] = [[] for _ in members]
    async with asyncio.timeout(3 * PATIENCE_S):
        while sum(map(len, received)) < count:
            for numbers, member in zip(received, members, strict=True):
                batch = await member.receive_many(count, SILENCE_S)
                numbers += [int(message.value) for message in batch]
    for member in members:
        assert await member.receive(SILENCE_S) is None
    return received


def test_a_group_reads_all_generations_of_segments(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        keep_segments(place, topic)
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            writer = Writer(out)
            await writer.send(20)
            await place.split(topic, 0)
            await writer.send(20)
            await place.split(topic, 1)
            await writer.send(20)
            options = {"start": Checkpoint.EARLIEST, "group": "g", "schema": Schema.STRING}
            async with client.checkpoint_consumer(topic, **options) as alone:
                assert await read(alone, 60) == list(range(60))

    asyncio.run(body())


def test_a_member_that_joins_shares_what_comes_from_then_on(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(4)
        options = {"group": "g", "start": Checkpoint.LATEST, "schema": Schema.STRING}
        async with (
            place.client() as client,
            client.producer(topic, schema=Schema.STRING) as out,
            client.checkpoint_consumer(topic, name="a", **options) as first,
        ):
            writer = Writer(out)
            await writer.send(20)
            assert await read(first, 20) == list(range(20))
            async with client.checkpoint_consumer(topic, name="b", **options) as second:
                await until(lambda: len(first.segments) == len(second.segments) == 2)
                await writer.send(40)
                shares = await drain((first, second), 40)
                assert shares[0] and shares[1]
                assert sorted(shares[0] + shares[1]) == list(range(20, 60))

    asyncio.run(body())


def test_a_group_goes_on_from_a_checkpoint_across_a_split_and_a_merge(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        keep_segments(place, topic)
        async with place.client() as client, client.producer(topic, schema=Schema.STRING) as out:
            writer = Writer(out)
            await writer.send(20)
            options = {"group": "g", "name": "only", "schema": Schema.STRING}
            async with client.checkpoint_consumer(
                topic, start=Checkpoint.EARLIEST, **options
            ) as member:
                first = [int(message.value) for message in await take(member, 8)]
                saved = bytes(member.checkpoint())
            await place.split(topic, 0)
            await writer.send(20)
            await place.merge(topic, 2, 3)
            await writer.send(20)
            async with client.checkpoint_consumer(
                topic, start=Checkpoint.from_bytes(saved), **options
            ) as member:
                assert sorted(first + await read(member, 52)) == list(range(60))

    asyncio.run(body())


def test_a_group_whose_members_are_gone_has_none_left_at_the_broker(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)

        async def count() -> int:
            stats = await asyncio.to_thread(place.admin.scalable_topics.stats, topic)
            return int(stats["subscriptions"].get("g", {}).get("consumerCount", 0))

        async with place.client() as client:
            await client.checkpoint_consumer(topic, group="g", name="a")
            await client.checkpoint_consumer(topic, group="g", name="b")
            await until_equal(count, 2)
        async with asyncio.timeout(place.grace_s):
            while await count():
                await asyncio.sleep(0.05)

    asyncio.run(body())


def test_a_regular_topic_has_no_checkpoints_and_the_refusal_names_the_command(
    place: Place,
) -> None:
    async def body() -> None:
        topic = place.name_topic().replace("topic://", "persistent://")
        place.admin.topics.create_partitioned(topic, 2)
        async with place.client() as client:
            with pytest.raises(FeatureNotSupportedError) as refusal:
                await client.checkpoint_consumer(topic)
            command = f"magnetar admin scalable-topics migrate-to-scalable {topic}"
            assert command in str(refusal.value)

    asyncio.run(body())


def test_a_topic_that_is_not_there_is_not_found_or_made(place: Place) -> None:
    async def body() -> None:
        topic = place.name_topic()
        async with place.client() as client:
            if place.is_apache:
                with pytest.raises(NotFoundError):
                    await client.checkpoint_consumer(topic)
            else:
                async with client.checkpoint_consumer(topic) as consumer:
                    assert consumer.segments == (0,)

    asyncio.run(body())
