"""Very many messages in one call: stored as if each was sent, in as few entries as may be."""

from __future__ import annotations

import asyncio

import pytest

from magnetar import BatchingPolicy, InvalidMessageError, Schema, SendFailedError
from tests.contract.sdk_place import Place, take

SMALL = BatchingPolicy(max_messages=100, max_bytes=1_000)
TOO_LARGE = bytes(6 << 20)


def test_all_values_are_stored_in_their_order_between_other_sends(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
            client.producer(topic, schema=Schema.STRING, batching=SMALL) as producer,
        ):
            await producer.submit("before")
            large = "x" * 2_000  # more than a batch may have
            await producer.send_many([*map(str, range(250)), large, *map(str, range(250, 500))])
            after = await producer.send("after")
            values = ["before", *map(str, range(250)), large, *map(str, range(250, 500)), "after"]
            messages = await take(consumer, len(values))
            assert [message.value for message in messages] == values
            assert [message.sequence_id for message in messages] == list(range(len(values)))
            assert messages[-1].id == after
            assert producer.last_sequence_id == len(values) - 1

    asyncio.run(body())


def test_a_batch_takes_as_many_as_the_policy_allows(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s") as consumer,
            client.producer(topic, batching=SMALL) as producer,
        ):
            await producer.send_many(iter([b"x"] * 150 + [b"x" * 400] * 3))
            messages = await take(consumer, 153)
            entries = [message.id.entry_id for message in messages]
            counts = [entries.count(entry) for entry in sorted(set(entries))]
            assert counts == [100, 52, 1]

    asyncio.run(body())


def test_without_batches_each_value_is_an_entry(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s") as consumer,
            client.producer(topic, batching=False) as producer,
        ):
            await producer.send_many([b"1", None, b"2"])
            await producer.send_many([])
            messages = await take(consumer, 3)
            assert [message.value for message in messages] == [b"1", None, b"2"]
            assert len({message.id.entry_id for message in messages}) == 3

    asyncio.run(body())


def test_a_tombstone_among_batches_stays_in_its_place(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s") as consumer,
            client.producer(topic) as producer,
        ):
            await producer.send_many([b"1", b"2", None, b"3"])
            messages = await take(consumer, 4)
            assert [message.value for message in messages] == [b"1", b"2", None, b"3"]

    asyncio.run(body())


def test_what_fails_is_counted_and_the_rest_is_stored(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s") as consumer,
            client.producer(topic) as producer,
        ):
            with pytest.raises(SendFailedError, match="1 message was not stored on") as error:
                await producer.send_many([b"1", TOO_LARGE, b"2"])
            assert isinstance(error.value.first, InvalidMessageError)
            await producer.flush()  # it was told
            assert [each.value for each in await take(consumer, 2)] == [b"1", b"2"]

    asyncio.run(body())


def test_submitted_messages_without_options_keep_their_order_and_ids(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
            client.producer(topic, schema=Schema.STRING, batching=SMALL) as producer,
        ):
            sends = []
            for number in range(100):
                if number % 7 == 3:
                    sends.append(await producer.submit(str(number), key="k"))
                else:
                    sends.append(await producer.submit(str(number)))
            await producer.flush()
            messages = await take(consumer, 100)
            by_key: dict[str | None, list[int]] = {None: [], "k": []}
            for message in messages:
                number = int(message.value)
                by_key[message.key].append(number)
                assert (message.sequence_id, message.id) == (number, await sends[number])
            assert by_key["k"] == list(range(3, 100, 7))
            assert by_key[None] == [number for number in range(100) if number % 7 != 3]

    asyncio.run(body())


def test_submitted_messages_that_a_sealed_segment_refused_go_to_its_children(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
            client.producer(topic, schema=Schema.STRING, batching=SMALL) as producer,
        ):
            splitting = asyncio.ensure_future(place.split(topic, 0))
            sends = []
            while not splitting.done() or len(sends) < 2_000:
                sends.append(await producer.submit(str(len(sends))))
                await asyncio.sleep(0)
            ids = [await each for each in sends]
            assert len(set(ids)) == len(sends) and max(id.segment_id for id in ids) > 0
            found: set[int] = set()
            while len(found) < len(sends):
                found |= {int(message.value) for message in await take(consumer, 1)}
            assert found == set(range(len(sends)))

    asyncio.run(body())


def test_groups_that_a_sealed_segment_refused_go_to_its_children(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with (
            place.client() as client,
            client.queue_consumer(topic, subscription="s", schema=Schema.STRING) as consumer,
            client.producer(topic, schema=Schema.STRING, batching=SMALL) as producer,
        ):
            sending = asyncio.ensure_future(producer.send_many(map(str, range(20_000))))
            await place.split(topic, 0)
            await sending
            found: set[int] = set()
            while len(found) < 20_000:
                found |= {int(message.value) for message in await take(consumer, 1)}
            assert found == set(range(20_000))

    asyncio.run(body())
