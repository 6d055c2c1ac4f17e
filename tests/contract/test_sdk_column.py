"""Checkpoint consumers that read columns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar import Checkpoint, ConfigurationError
from tests.contract.sdk_place import PATIENCE_S, Place

COLUMNS = ("segment", "key", "value", "sequence_id")


async def read_rows(reader: Any, count: int, *, at_once: int = 10_000) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        batch = await reader.receive_arrow(at_once, PATIENCE_S)
        assert batch.num_rows, f"{len(rows)} of {count} rows came"
        rows += batch.to_pylist()
    return rows


async def send(producer: Any, first: int, last: int) -> None:
    for number in range(first, last):
        await producer.submit(b"%d" % number, key=f"k{number % 50}")
    await producer.flush()


def numbers_by_key(rows: list[dict[str, Any]]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for row in rows:
        found.setdefault(row["key"], []).append(int(row["value"]))
    return found


def test_columns_are_read_in_order_across_a_split_and_go_on_from_a_checkpoint(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            producer = await client.producer(topic)
            await send(producer, 0, 300)
            await place.split(topic, 0)
            await send(producer, 300, 600)
            start = Checkpoint.EARLIEST
            rows: list[dict[str, Any]] = []
            while len(rows) < 600:
                async with client.checkpoint_consumer(
                    topic, start=start, columns=COLUMNS
                ) as reader:
                    rows += await read_rows(reader, min(250, 600 - len(rows)), at_once=50)
                    start = Checkpoint.from_bytes(bytes(reader.checkpoint()))
            found = numbers_by_key(rows)
            assert all(numbers == sorted(numbers) for numbers in found.values())
            assert sorted(int(row["value"]) for row in rows) == list(range(600))
            assert {row["segment"] for row in rows} == {0, 1, 2, 3}

    asyncio.run(body())


def test_a_checkpoint_inside_a_batch_goes_on_with_the_rest_of_it(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            producer = await client.producer(topic)
            for number in range(20):
                await producer.submit(b"%d" % number)
            await producer.flush()
            async with client.checkpoint_consumer(topic, start=Checkpoint.EARLIEST) as reader:
                assert len(await reader.receive_many(7, PATIENCE_S)) <= 7
                done = int((await reader.receive(PATIENCE_S)).data)
                start = reader.checkpoint()
            async with client.checkpoint_consumer(topic, start=start, columns=["value"]) as reader:
                rows = await read_rows(reader, 19 - done)
            assert [int(row["value"]) for row in rows] == list(range(done + 1, 20))

    asyncio.run(body())


def test_a_reader_of_columns_says_what_it_can_and_cannot(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            with pytest.raises(ConfigurationError, match="there are key, value"):
                await client.checkpoint_consumer(topic, columns=["vlaue"])
            async with client.checkpoint_consumer(topic, columns=["value"]) as reader:
                with pytest.raises(ConfigurationError, match="receive_arrow"):
                    await reader.receive(0)
                assert (await reader.receive_arrow(10, 0.01)).num_rows == 0
            async with client.checkpoint_consumer(topic) as reader:
                with pytest.raises(ConfigurationError, match="columns="):
                    await reader.receive_arrow()

    asyncio.run(body())
