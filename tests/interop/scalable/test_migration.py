"""A regular topic becomes scalable below live clients: official v4 ones before, V5 ones through it
all. Nothing is lost, nothing comes twice that was acknowledged, no key is out of order.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pulsar
import pytest

from magnetar import AsyncPulsarClient
from magnetar.client.admin import AdminClient
from magnetar.rules.route import KeyHash, route_partition
from magnetar.testing.broker import MagnetarBroker
from tests.interop.official import connect

KEYS = 500
PARTITIONS = 4
PATIENCE_S = 60.0
REGULAR = "persistent://public/default/orders"
SCALABLE = "topic://public/default/orders"


@pytest.fixture
def broker() -> Iterator[MagnetarBroker]:
    settings = {
        "brokerDeduplicationEnabled": True,
        "scalableTopicConsumerSessionGracePeriodSeconds": 2,
        "scalableTopicAutoScaleEnabled": False,
    }
    with MagnetarBroker(set=settings) as running:
        yield running


@pytest.fixture
def admin(broker: MagnetarBroker) -> Iterator[AdminClient]:
    with AdminClient(broker.admin_url) as client:
        yield client


class Book:
    """What was sent and what came, key by key."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = defaultdict(int)
        self.received: dict[str, list[int]] = defaultdict(list)
        self.again = 0

    def next_value(self, number: int) -> tuple[str, str]:
        key = f"key-{number % KEYS}"
        self.sent[key] += 1
        return key, str(self.sent[key])

    def take(self, key: str, value: str) -> None:
        """A message that was not acknowledged may come again, but none before its turn."""
        known = self.received[key]
        if known and int(value) <= known[-1]:
            self.again += 1
        else:
            known.append(int(value))

    @property
    def count(self) -> int:
        return sum(map(len, self.received.values()))

    def check(self) -> None:
        for key, count in self.sent.items():
            assert self.received[key] == list(range(1, count + 1)), key


def use_as_v4(broker: MagnetarBroker, book: Book, *, sent: int, read: int) -> None:
    """Publish, and read a part, with the official client; keys go where V5 clients send them."""

    def route(message: pulsar.Message, partitions: int) -> int:
        return route_partition(message.partition_key(), partitions, hashing=KeyHash.MURMUR3)

    client = connect(broker)
    consumer = client.subscribe(REGULAR, "s", pulsar.ConsumerType.Failover)
    producer = client.create_producer(
        REGULAR,
        message_router=route,
        message_routing_mode=pulsar.PartitionsRoutingMode.CustomPartition,
        batching_enabled=True,
        block_if_queue_full=True,
    )
    for number in range(sent):
        key, value = book.next_value(number)
        producer.send_async(value.encode(), None, partition_key=key)
    producer.flush()
    for _ in range(read):
        message = consumer.receive(20_000)
        book.take(message.partition_key(), message.data().decode())
        consumer.acknowledge(message)
    consumer.close()
    producer.close()
    client.close()


async def publish(
    client: AsyncPulsarClient, book: Book, count: int, acts: dict[int, Callable[[], Any]]
) -> None:
    """Send without waiting for receipts; at some numbers something happens meanwhile."""
    acting: list[asyncio.Task[Any]] = []
    waiting: list[asyncio.Future[Any]] = []
    async with client.producer(REGULAR) as producer:
        for number in range(count):
            if number in acts:
                acting.append(asyncio.create_task(asyncio.to_thread(acts[number])))
            key, value = book.next_value(number)
            waiting.append(await producer.submit(value.encode(), key=key))
            if number % 200 == 0:
                await asyncio.sleep(0)  # what happens meanwhile gets its turn
        await producer.flush()
        await asyncio.gather(*waiting, *acting)


async def read(client: AsyncPulsarClient, book: Book, is_done: Callable[[], bool]) -> None:
    async with client.stream_consumer(REGULAR, subscription="s") as consumer:
        deadline = time.monotonic() + PATIENCE_S
        last, since = None, 0
        while not is_done():
            message = await consumer.receive(0.5)
            if message is not None:
                last, since = message, since + 1
                assert message.key is not None
                book.take(message.key, message.value.decode())
            if last is not None and (message is None or since >= 500):
                await consumer.acknowledge_cumulative(last)
                last, since = None, 0
            assert time.monotonic() < deadline, f"{book.count} of {sum(book.sent.values())}"
        if last is not None:
            await consumer.acknowledge_cumulative(last)


def test_order_and_counts_hold_from_v4_through_migration_splits_and_a_crash(
    broker: MagnetarBroker, admin: AdminClient
) -> None:
    book, v4_sent, v4_read, v5_sent = Book(), 40_000, 10_000, 65_000
    admin.topics.create_partitioned(REGULAR, PARTITIONS)
    use_as_v4(broker, book, sent=v4_sent, read=v4_read)

    def split() -> None:
        segments = admin.scalable_topics.metadata(SCALABLE)["segments"].values()
        for each in [one for one in segments if one["active"]][:2]:
            admin.scalable_topics.split(SCALABLE, each["segmentId"])

    def crash() -> None:
        broker.crash()
        broker.restart()

    def migrate() -> None:
        admin.scalable_topics.migrate_to_scalable(REGULAR)
        split()  # at once

    acts = {10_000: migrate, 25_000: split, 45_000: crash}

    async def body() -> None:
        async with (
            AsyncPulsarClient(broker.service_url) as client,
            asyncio.TaskGroup() as tasks,
        ):
            sending = tasks.create_task(publish(client, book, v5_sent, acts))
            total = v4_sent + v5_sent
            tasks.create_task(read(client, book, lambda: sending.done() and book.count == total))

    asyncio.run(body())
    book.check()
    record = admin.scalable_topics.metadata(SCALABLE)
    assert record["migratedFrom"] == {"topicName": REGULAR, "partitions": PARTITIONS}
    assert sum(each["active"] for each in record["segments"].values()) == PARTITIONS + 4
    left = admin.scalable_topics.subscriptions(SCALABLE)
    assert left["s"]["msgBacklog"] == 0
