"""Sends that fail while nobody waits for each of them."""

from __future__ import annotations

import asyncio
import gc
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from magnetar import AlreadyClosedError, InvalidMessageError, Schema, SchemaError, SendFailedError
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
            with pytest.raises(SendFailedError, match="1 message was not stored on"):
                await producer.close()
            await producer.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
        gc.collect()
    if place.flavour is Flavour.ASYNC:  # the suite makes asyncio futures of the blocking client's
        assert "never retrieved" not in caplog.text
    assert "not stored" not in caplog.text


@BOTH
def test_closing_a_client_tells_what_was_not_stored_once_all_of_it_is_closed(
    place: Place, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        topics = [pick_topic(place, kind), pick_topic(place, kind)]
        producers: list[Any] = []

        async def submit() -> None:
            async with place.client() as client:
                producers.extend([await open_producer(client, topic) for topic in topics])
                for producer in producers:
                    await producer.submit(TOO_LARGE)

        with pytest.raises(SendFailedError, match=topics[0]):
            await submit()
        with pytest.raises(AlreadyClosedError):
            await producers[1].send(b"late")

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
    assert caplog.text.count("1 message was not stored on") == 1, "the second is logged"


@BOTH
def test_what_was_not_stored_does_not_hide_why_a_body_ended(
    place: Place, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async def submit(client: Any) -> None:
            async with client.producer(pick_topic(place, kind)) as producer:
                await producer.submit(TOO_LARGE)
                raise KeyError("the body's own")

        async with place.client() as client:
            with pytest.raises(KeyError):
                await submit(client)

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
    assert "1 message was not stored on" in caplog.text


@BOTH
def test_a_client_that_ends_at_once_tells_what_was_not_stored_in_the_log(
    place: Place, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with place.client() as client:
            producer = await open_producer(client, pick_topic(place, kind))
            await producer.submit(TOO_LARGE)
            await client.close(immediate=True)

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
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
