"""The programs that someone new to the client writes first: blocking and with asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from magnetar import (
    AsyncPulsarClient,
    BackoffPolicy,
    Checkpoint,
    DeadLetterPolicy,
    MagnetarError,
    Message,
    PulsarClient,
    Schema,
)
from magnetar.testing import MagnetarBroker
from tests.contract.sdk_regular import new_name


@dataclass
class Order:
    id: int
    item: str


@pytest.fixture
def client(magnetar_broker: MagnetarBroker) -> Iterator[PulsarClient]:
    with PulsarClient(magnetar_broker.service_url) as client:
        yield client


@pytest.fixture
def url(magnetar_broker: MagnetarBroker) -> str:
    return magnetar_broker.service_url


@pytest.fixture
def topic() -> str:
    return new_name().replace("persistent", "topic")


def test_send_a_message_and_receive_it(client: PulsarClient, topic: str) -> None:
    with (
        client.queue_consumer(topic, subscription="hello") as consumer,
        client.producer(topic) as producer,
    ):
        producer.send(b"hello")
        message = consumer.receive()
        assert message.data == b"hello"
        consumer.acknowledge(message)


def test_the_same_with_asyncio(url: str, topic: str) -> None:
    async def main() -> None:
        async with (
            AsyncPulsarClient(url) as client,
            client.queue_consumer(topic, subscription="hello") as consumer,
            client.producer(topic) as producer,
        ):
            await producer.send(b"hello")
            message = await consumer.receive()
            assert message.data == b"hello"
            await consumer.acknowledge(message)

    asyncio.run(main())


def test_values_with_a_type(client: PulsarClient, topic: str) -> None:
    schema = Schema.avro(Order)
    consumer = client.queue_consumer(topic, subscription="orders", schema=schema)
    client.producer(topic, schema=schema).send(Order(1, "lamp"), key="customer-1")
    message = consumer.receive()
    assert (message.value, message.key) == (Order(1, "lamp"), "customer-1")


def test_send_many_from_several_threads(client: PulsarClient, topic: str) -> None:
    consumer = client.queue_consumer(topic, subscription="all", schema=Schema.STRING)
    producer = client.producer(topic, schema=Schema.STRING)

    def send(name: str) -> None:
        for number in range(100):
            producer.submit(f"{name}{number}")

    threads = [threading.Thread(target=send, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush()
    received: list[str] = []
    while len(received) < 300:
        batch = consumer.receive_many(100, timeout=20)
        received += [message.value for message in batch]
        consumer.acknowledge(batch)
    assert len(set(received)) == 300


def test_send_many_with_asyncio(url: str, topic: str) -> None:
    async def main() -> None:
        async with (
            AsyncPulsarClient(url) as client,
            client.stream_consumer(topic, subscription="sum", schema=Schema.INT64) as consumer,
            client.producer(topic, schema=Schema.INT64) as producer,
        ):
            for number in range(100):
                await producer.submit(number)
            await producer.flush()
            total = count = 0
            async for message in consumer:
                total, count = total + message.value, count + 1
                if count == 100:
                    await consumer.acknowledge_cumulative(message)
                    break
            assert total == sum(range(100))

    asyncio.run(main())


def test_a_worker_with_threads(client: PulsarClient, topic: str) -> None:
    done: Counter[str] = Counter()
    consumer = client.queue_consumer(
        topic, subscription="work", schema=Schema.STRING, nack_delay=0.05
    )
    producer = client.producer(topic, schema=Schema.STRING, batching=False)

    def work(message: Message[str]) -> None:
        done[message.value] += 1
        if message.value == "hard" and message.redelivery_count == 0:
            raise RuntimeError("try again")
        if len(done) == 3 and done["hard"] == 2:
            consumer.close()

    for job in ("hard", "easy", "easier"):
        producer.send(job)
    consumer.run(work, concurrency=3)
    assert done["hard"] == 2


def test_a_worker_with_tasks_and_a_dead_letter_topic(url: str, topic: str) -> None:
    async def main() -> None:
        async with (
            AsyncPulsarClient(url) as client,
            client.queue_consumer(f"{topic}-DLQ", subscription="look") as graves,
            client.queue_consumer(
                topic,
                subscription="work",
                nack_backoff=BackoffPolicy(initial=0.05, maximum=1.0),
                dead_letter=DeadLetterPolicy(max_redeliveries=1),
            ) as consumer,
            client.producer(topic) as producer,
        ):

            async def work(message: Message[bytes]) -> None:
                raise RuntimeError("never works")

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(consumer.run(work, concurrency=4))
                await producer.send(b"impossible")
                letter = await graves.receive()
                assert letter.data == b"impossible"
                await consumer.close()

    asyncio.run(main())


def test_a_job_that_keeps_its_own_place(client: PulsarClient, topic: str) -> None:
    with client.producer(topic, schema=Schema.STRING) as producer:
        for word in ("a", "b", "c"):
            producer.send(word)
    with client.checkpoint_consumer(
        topic, schema=Schema.STRING, start=Checkpoint.EARLIEST
    ) as reader:
        assert reader.receive().value == "a"
        saved = bytes(reader.checkpoint())
    with client.checkpoint_consumer(
        topic, schema=Schema.STRING, start=Checkpoint.from_bytes(saved)
    ) as reader:
        assert [reader.receive().value for _ in range(2)] == ["b", "c"]


def test_read_transform_and_write_as_one(url: str, topic: str) -> None:
    async def main() -> None:
        async with (
            AsyncPulsarClient(url) as client,
            client.queue_consumer(topic, subscription="shout", schema=Schema.STRING) as source,
            client.queue_consumer(f"{topic}-loud", subscription="s") as loud,
            client.producer(topic, schema=Schema.STRING) as quiet,
            client.producer(f"{topic}-loud", schema=Schema.STRING) as sink,
        ):
            await quiet.send("hello")
            message = await source.receive()
            async with client.transaction() as transaction:
                await sink.send(message.value.upper(), transaction=transaction)
                await source.acknowledge(message, transaction)
            assert (await loud.receive()).data == b"HELLO"

    asyncio.run(main())


def test_what_goes_wrong_has_one_root_and_a_sentence(client: PulsarClient, topic: str) -> None:
    with pytest.raises(MagnetarError, match="did you mean batching"):
        client.producer(topic, batchin=True)  # type: ignore[call-overload]
    producer = client.producer(topic)
    producer.close()
    with pytest.raises(MagnetarError, match="is closed"):
        producer.send(b"late")
