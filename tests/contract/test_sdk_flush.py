"""Sends that fail while nobody waits for each of them."""

from __future__ import annotations

import asyncio
import gc
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from magnetar import InvalidMessageError, Schema, SchemaError, SendFailedError
from tests.contract.sdk_place import Flavour, Place, take
from tests.contract.sdk_regular import KINDS_OF_TOPIC, open_producer, open_queue, pick_topic

BOTH = pytest.mark.parametrize("kind", KINDS_OF_TOPIC)
TOO_LARGE = bytes(6 << 20)


@BOTH
def test_a_flush_tells_how_many_sends_failed_and_why(
    place: Place, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            consumer = await open_queue(client, topic)
            producer = await open_producer(client, topic)
            for value in (TOO_LARGE, b"small", TOO_LARGE):
                await producer.submit(value)
            with pytest.raises(SendFailedError, match="2 messages were not stored on") as error:
                await producer.flush()
            assert error.value.failed == 2
            assert isinstance(error.value.first, InvalidMessageError)
            await producer.flush()  # told once
            [message] = await take(consumer, 1)
            assert message.value == b"small"
            await producer.submit(TOO_LARGE)
            await producer.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
        gc.collect()
    if place.flavour is Flavour.ASYNC:  # the suite makes asyncio futures of the blocking client's
        assert "never retrieved" not in caplog.text
    assert "1 message was not stored on" in caplog.text


@BOTH
def test_the_future_of_a_failed_send_has_the_reason_too(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            producer = await open_producer(client, topic)
            sent: Any = await producer.submit(TOO_LARGE)
            with pytest.raises(SendFailedError):
                await producer.flush()
            assert isinstance(sent.exception(), InvalidMessageError)

    asyncio.run(body())


@BOTH
def test_a_send_that_raised_is_not_told_again_by_flush(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            producer = await open_producer(client, topic)
            with pytest.raises(InvalidMessageError):
                await producer.send(TOO_LARGE)
            await producer.flush()

    asyncio.run(body())


@dataclass
class Order:
    id: int


@BOTH
def test_a_producer_whose_schema_the_topic_refuses_does_not_open(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            first = await open_producer(client, topic, schema=Schema.json(Order))
            await first.send(Order(1))
            with pytest.raises(SchemaError):
                await open_producer(client, topic, schema=Schema.STRING)

    asyncio.run(body())
