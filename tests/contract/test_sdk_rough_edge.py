"""Where the reference client has rough edges: what it ignores, leaks, hides or waits for.

Order across seals, watches, registrations, vectors and checkpoints have suites of their own.
"""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from magnetar import (
    BackoffPolicy,
    Checkpoint,
    ConsumerEncryption,
    DeadLetterPolicy,
    EncryptionKey,
    PemKeys,
    ProducerEncryption,
    PulsarError,
    Schema,
    SchemaError,
)
from magnetar.rules.route import KeyHash, route_partition
from tests.contract.sdk_place import PATIENCE_S, SILENCE_S, Place, take
from tests.contract.sdk_regular import new_name


@pytest.mark.parametrize("form", ["persistent://{}", "{}", "short"])
def test_any_form_of_a_name_finds_the_scalable_topic(place: Place, form: str) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        path = topic.removeprefix("topic://")
        name = path.rpartition("/")[2] if form == "short" else form.format(path)
        async with place.client() as client:
            stream = await client.stream_consumer(
                name, subscription="s", initial_position="earliest"
            )
            group = await client.checkpoint_consumer(name, start=Checkpoint.EARLIEST, group="g")
            producer = await client.producer(name)
            await producer.send(b"x", key="k")
            for consumer in (stream, group):
                [message] = await take(consumer, 1)
                assert message.topic == topic == producer.topic

    asyncio.run(body())


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for command in (
        "openssl genrsa -out private.pem 2048",
        "openssl rsa -in private.pem -pubout -out public.pem",
    ):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


class SlowKeys:
    """A provider that has to ask somebody."""

    def __init__(self, folder: Path) -> None:
        self._pem = PemKeys({"k": folder / "public.pem"}, {"k": folder / "private.pem"})

    async def public_key(self, name: str) -> EncryptionKey:
        await asyncio.sleep(0.01)
        return await self._pem.public_key(name)

    async def private_key(self, name: str, metadata: Any) -> EncryptionKey:
        await asyncio.sleep(0.01)
        return await self._pem.private_key(name, metadata)


def test_a_checkpoint_consumer_decrypts_with_keys_that_take_their_time(
    place: Place, keys: Path
) -> None:
    async def body() -> None:
        topic = place.create_topic()
        provider = SlowKeys(keys)
        async with place.client() as client:
            out = await client.producer(topic, encryption=ProducerEncryption(provider, ["k"]))
            await out.send(b"secret")
            reader = await client.checkpoint_consumer(
                topic, start=Checkpoint.EARLIEST, encryption=ConsumerEncryption(provider)
            )
            [message] = await take(reader, 1)
            assert message.data == b"secret"

    asyncio.run(body())


def test_a_namespace_queue_buries_what_was_delivered_too_often(place: Place) -> None:
    async def body() -> None:
        namespace = place.create_namespace()
        topic = place.create_topic(namespace=namespace, properties={"kind": "work"})
        place.create_topic_named(f"{topic}-DLQ")
        async with place.client() as client:
            graves = await client.queue_consumer(f"{topic}-DLQ", subscription="g")
            queue = await client.queue_consumer(
                namespace=namespace,
                property_filters={"kind": "work"},
                subscription="s",
                nack_backoff=BackoffPolicy.fixed(0.05),
                dead_letter=DeadLetterPolicy(1),
            )
            await (await client.producer(topic)).send(b"x", key="k")
            for attempt in range(2):
                [message] = await take(queue, 1)
                assert message.redelivery_count == attempt
                queue.negative_acknowledge(message)
            [letter] = await take(graves, 1)
            assert (letter.data, letter.key) == (b"x", "k")
            assert letter.properties["REAL_TOPIC"] == topic

    asyncio.run(body())


def test_a_large_message_is_cut_although_small_ones_are_batched(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        large = bytes(range(256)) * 30_000
        async with place.client() as client:
            queue = await client.queue_consumer(topic, subscription="s")
            producer = await client.producer(topic, chunking=True)
            await producer.submit(b"small")
            await producer.submit(large)
            await producer.submit(b"small again")
            await producer.flush()
            assert [each.data for each in await take(queue, 3)] == [b"small", large, b"small again"]

    asyncio.run(body())


def test_a_producer_has_a_name_and_its_messages_tell_it(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            queue = await client.queue_consumer(topic, subscription="s")
            producer = await client.producer(topic)
            assert producer.name
            await producer.send(b"x")
            [message] = await take(queue, 1)
            assert message.producer_name.startswith(producer.name)

    asyncio.run(body())


def test_many_are_received_as_soon_as_there_is_one(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            queue = await client.queue_consumer(topic, subscription="s")
            await (await client.producer(topic)).send(b"x")
            async with asyncio.timeout(PATIENCE_S):
                assert len(await queue.receive_many(100, timeout=10 * PATIENCE_S)) == 1

    asyncio.run(body())


def test_what_a_broker_refuses_is_an_error_of_its_own_kind(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            await (await client.producer(topic, schema=Schema.INT64)).send(1)
            with pytest.raises(SchemaError):
                await (await client.producer(topic, schema=Schema.STRING)).send("x")
            with pytest.raises(PulsarError):
                await client.producer("topic://nobody/nowhere/x")

    asyncio.run(body())


def test_keys_may_go_where_classic_producers_put_them(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        await asyncio.to_thread(place.admin.topics.create_partitioned, topic, 4)
        words = [f"key-{number}" for number in range(20)]
        async with place.client() as client:
            consumer = await client.consumer(topic, "s", initial_position="earliest")
            producer = await client.producer(topic, partition_hash="java-string")
            for word in words:
                await producer.send(b"x", key=word)
            for message in await take(consumer, len(words)):
                part = route_partition(message.key, 4, hashing=KeyHash.JAVA_STRING)
                assert message.topic.endswith(f"-partition-{part}")
            assert await consumer.receive(SILENCE_S) is None

    asyncio.run(body())
