"""What clients of every kind meet when their topic becomes scalable."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pulsar
import pytest

from magnetar import (
    AsyncPulsarClient,
    Checkpoint,
    ConsumerEncryption,
    DeadLetterPolicy,
    FeatureNotSupportedError,
    PemKeys,
)
from magnetar.client.admin import AdminClient
from magnetar.client.error import AdminConflict, AdminError, AdminUnreachable
from magnetar.rules.route import KeyHash, route_partition
from magnetar.testing.broker import MagnetarBroker
from tests.interop.key_file import write_keys
from tests.interop.official import connect

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def broker() -> Iterator[MagnetarBroker]:
    settings = {
        "scalableTopicConsumerSessionGracePeriodSeconds": 2,
        "scalableTopicAutoScaleEnabled": False,
    }
    with MagnetarBroker(set=settings) as running:
        yield running


@pytest.fixture
def admin(broker: MagnetarBroker) -> Iterator[AdminClient]:
    with AdminClient(broker.admin_url) as client:
        yield client


class Names:
    def __init__(self) -> None:
        local = f"orders-{uuid.uuid4().hex[:8]}"
        self.regular = f"persistent://public/default/{local}"
        self.scalable = f"topic://public/default/{local}"


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture(params=[0, 3], ids=["plain", "partitioned"])
def topic(request: pytest.FixtureRequest, admin: AdminClient, names: Names) -> Names:
    if request.param:
        admin.topics.create_partitioned(names.regular, request.param)
    else:
        admin.topics.create(names.regular)
    return names


# ---------------------------------------------------------------------- v4


@pytest.mark.parametrize("hashing", list(KeyHash))
def test_a_key_has_one_partition_whatever_hash_v4_producers_use(
    broker: MagnetarBroker, admin: AdminClient, names: Names, hashing: KeyHash
) -> None:
    """The official client for Python uses Boost's, and no other unless it routes by itself."""

    def route(message: pulsar.Message, count: int) -> int:
        return route_partition(message.partition_key(), count, hashing=hashing)

    options: dict[str, Any] = {}
    if hashing is not KeyHash.BOOST:
        custom = pulsar.PartitionsRoutingMode.CustomPartition
        options = {"message_router": route, "message_routing_mode": custom}
    admin.topics.create_partitioned(names.regular, 4)
    keys = [f"customer-{number}" for number in range(40)]
    client = connect(broker)
    producer = client.create_producer(names.regular, **options)
    for key in keys:
        producer.send(b"v4", partition_key=key)

    async def send() -> None:
        async with (
            AsyncPulsarClient(broker.service_url) as v5,
            v5.producer(names.regular) as ours,
        ):
            for key in keys:
                await ours.send(b"V5", key=key)

    asyncio.run(send())
    places: dict[str, set[int]] = {}
    for index in range(4):
        name = f"{names.regular}-partition-{index}"
        reader = client.create_reader(name, pulsar.MessageId.earliest)
        while reader.has_message_available():
            places.setdefault(reader.read_next(10_000).partition_key(), set()).add(index)
    client.close()
    assert {key: len(found) for key, found in places.items()} == dict.fromkeys(keys, 1)


def test_v4_clients_hold_a_migration_up_and_are_named(
    broker: MagnetarBroker, admin: AdminClient, topic: Names
) -> None:
    client = connect(broker)
    client.create_producer(topic.regular, producer_name="till-7")
    consumer = client.subscribe(topic.regular, "audit", consumer_name="desk-2")
    with pytest.raises(AdminConflict) as refused:
        admin.scalable_topics.migrate_to_scalable(topic.regular)
    said = str(refused.value)
    assert "legacy v4 client connection(s) still attached" in said
    assert "producer till-7" in said and "desk-2" in said and "of audit from /127.0.0.1" in said
    check = admin.scalable_topics.migration_check(topic.regular)
    assert not check["ready"]
    assert {each["clientVersion"].partition("-v")[0] for each in check["v4Clients"]} == {
        "Pulsar-CPP"
    }
    consumer.close()
    client.close()
    admin.scalable_topics.migrate_to_scalable(topic.regular)


def test_v4_clients_fail_for_good_afterwards(
    broker: MagnetarBroker, admin: AdminClient, topic: Names
) -> None:
    """One that tried again and again would end with a timeout instead."""
    attached = connect(broker)
    producer = attached.create_producer(topic.regular)
    consumer = attached.subscribe(topic.regular, "s")
    producer.send(b"before")
    admin.scalable_topics.migrate_to_scalable(topic.regular, force=True)
    with pytest.raises(pulsar.TopicTerminated):
        producer.send(b"after")
    assert consumer.receive(20_000).data() == b"before"  # what is there can be read to its end
    attempts: list[Callable[[pulsar.Client], object]] = [
        lambda client: client.create_producer(topic.regular),
        lambda client: client.subscribe(topic.regular, "other"),
        lambda client: client.create_reader(topic.regular, pulsar.MessageId.earliest),
        lambda client: client.get_topic_partitions(topic.regular),
    ]
    for attempt in attempts:
        fresh = connect(broker)
        with pytest.raises(pulsar.TopicNotFound):
            attempt(fresh)
        fresh.close()


# ---------------------------------------------------------------------- V5


async def migrate(admin: AdminClient, topic: Names) -> None:
    await asyncio.to_thread(admin.scalable_topics.migrate_to_scalable, topic.regular)


def test_a_queue_gets_everything_once(
    broker: MagnetarBroker, admin: AdminClient, topic: Names
) -> None:
    total = 3_000

    async def body() -> list[int]:
        received: list[int] = []
        async with (
            AsyncPulsarClient(broker.service_url) as client,
            client.producer(topic.regular) as producer,
            client.queue_consumer(topic.regular, subscription="q") as consumer,
        ):

            async def send() -> None:
                for number in range(total):
                    await producer.submit(b"%d" % number, key=f"k{number % 50}")
                    if number % 50 == 0:
                        await asyncio.sleep(0)
                await producer.flush()

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(send())
                while len(received) < total:
                    if len(received) == total // 3:
                        tasks.create_task(migrate(admin, topic))
                    message = await consumer.receive(PATIENCE_S)
                    assert message is not None
                    received.append(int(message.value))
                    await consumer.acknowledge(message)
            assert await consumer.receive(0.3) is None
        return received

    assert sorted(asyncio.run(body())) == list(range(total))
    assert admin.scalable_topics.metadata(topic.scalable)["migratedFrom"]["partitions"] in (0, 3)


def test_two_stream_consumers_share_a_topic_before_and_after(
    broker: MagnetarBroker, admin: AdminClient, names: Names
) -> None:
    admin.topics.create_partitioned(names.regular, 4)
    total, keys = 4_000, 40
    received: dict[str, list[int]] = {}

    async def body() -> None:
        async with AsyncPulsarClient(broker.service_url) as client:
            consumers = [
                await client.stream_consumer(names.regular, subscription="s", name=f"c{number}")
                for number in range(2)
            ]
            async with client.producer(names.regular) as producer, asyncio.TaskGroup() as tasks:

                async def read(consumer: object) -> None:
                    while sum(map(len, received.values())) < total:
                        message = await consumer.receive(0.2)  # type: ignore[attr-defined]
                        if message is not None:
                            known = received.setdefault(message.key, [])
                            if not known or int(message.value) > known[-1]:
                                known.append(int(message.value))
                            await consumer.acknowledge_cumulative(message)  # type: ignore[attr-defined]

                for each in consumers:
                    tasks.create_task(read(each))
                for number in range(total):
                    if number == total // 2:
                        await producer.flush()
                        await migrate(admin, names)
                    await producer.submit(b"%d" % (number // keys), key=f"k{number % keys}")
                    if number % 50 == 0:
                        await asyncio.sleep(0)
                await producer.flush()
            for each in consumers:
                await each.close()

    asyncio.run(asyncio.wait_for(body(), 60))
    assert received == {f"k{key}": list(range(total // keys)) for key in range(keys)}


def test_a_checkpoint_needs_a_scalable_topic_and_survives_a_split_of_a_migrated_one(
    broker: MagnetarBroker, admin: AdminClient, topic: Names
) -> None:
    async def take(
        client: AsyncPulsarClient, start: Checkpoint, count: int
    ) -> tuple[Checkpoint, set[int]]:
        async with client.checkpoint_consumer(topic.regular, start=start) as consumer:
            found = set()
            while len(found) < count:
                message = await consumer.receive(PATIENCE_S)
                assert message is not None, found
                found.add(int(message.value))
            return consumer.checkpoint(), found

    async def body() -> None:
        async with (
            AsyncPulsarClient(broker.service_url) as client,
            client.producer(topic.regular) as producer,
        ):
            for number in range(20):
                await producer.send(b"%d" % number, key=f"k{number}")
            with pytest.raises(FeatureNotSupportedError, match="migrate-to-scalable"):
                await client.checkpoint_consumer(topic.regular)
            await migrate(admin, topic)
            for number in range(20, 40):
                await producer.send(b"%d" % number, key=f"k{number}")
            kept, first = await take(client, Checkpoint.EARLIEST, 25)
            segments = admin.scalable_topics.metadata(topic.scalable)["segments"].values()
            active = [each["segmentId"] for each in segments if each["active"]]
            await asyncio.to_thread(admin.scalable_topics.split, topic.scalable, active[0])
            for number in range(40, 50):
                await producer.send(b"%d" % number, key=f"k{number}")
            again = Checkpoint.from_bytes(bytes(kept))
            _, rest = await take(client, again, 50 - len(first))
            assert first | rest == set(range(50)) and not first & rest

    # Nobody keeps a place on the topic, so its retention must keep the messages.
    admin.namespaces.set_policy(
        "public/default", "retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    )
    try:
        asyncio.run(body())
    finally:
        admin.namespaces.remove_policy("public/default", "retention")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_scalable_dead_letter_topic_works_from_both_layouts(
    broker: MagnetarBroker, admin: AdminClient, topic: Names, when: str
) -> None:
    dead = f"{topic.scalable}-dead"
    policy = DeadLetterPolicy(max_redeliveries=0, topic=dead, initial_subscription="d")

    async def body() -> None:
        async with (
            AsyncPulsarClient(broker.service_url) as client,
            client.producer(topic.regular) as producer,
            client.queue_consumer(topic.regular, subscription="q", dead_letter=policy) as consumer,
        ):
            if when == "after":
                await migrate(admin, topic)
            await producer.send(b"bad", key="k")
            message = await consumer.receive(PATIENCE_S)
            assert message is not None
            consumer.negative_acknowledge(message, 0.05)
            async with client.queue_consumer(dead, subscription="d") as letters:
                letter = await letters.receive(PATIENCE_S)
                assert letter is not None and letter.value == b"bad"

    asyncio.run(body())


def test_delayed_and_chunked_messages_of_before_are_delivered_after(
    broker: MagnetarBroker, admin: AdminClient, topic: Names
) -> None:
    client = connect(broker)
    client.subscribe(topic.regular, "q", pulsar.ConsumerType.Shared).close()
    large = bytes(range(256)) * 60_000
    chunking = client.create_producer(topic.regular, chunking_enabled=True)
    chunking.send(large)
    late = client.create_producer(topic.regular)
    late.send(b"late", deliver_after=timedelta(seconds=2))
    client.close()

    async def body() -> None:
        await migrate(admin, topic)
        async with (
            AsyncPulsarClient(broker.service_url) as new,
            new.queue_consumer(topic.regular, subscription="q") as consumer,
        ):
            found = [await consumer.receive(PATIENCE_S) for _ in range(2)]
            assert [each.value if each else None for each in found] == [large, b"late"]

    asyncio.run(body())


def test_encrypted_messages_of_before_are_read_after(
    broker: MagnetarBroker, admin: AdminClient, topic: Names, tmp_path: Path
) -> None:
    public, private = write_keys(tmp_path)
    client = connect(broker)
    client.subscribe(topic.regular, "q", pulsar.ConsumerType.Shared).close()
    reader = pulsar.CryptoKeyReader(str(public), str(private))
    secret = client.create_producer(
        topic.regular, encryption_key="orders", crypto_key_reader=reader
    )
    secret.send(b"secret")
    client.close()

    async def body() -> None:
        await migrate(admin, topic)
        keys = ConsumerEncryption(PemKeys(private={"orders": private}))
        async with (
            AsyncPulsarClient(broker.service_url) as new,
            new.queue_consumer(topic.regular, subscription="q", encryption=keys) as consumer,
        ):
            message = await consumer.receive(PATIENCE_S)
            assert message is not None and message.value == b"secret"

    asyncio.run(body())


# ---------------------------------------------------------------------- faults


@pytest.mark.parametrize("delay_ms", [0, 5, 10, 20, 40])
def test_a_killed_broker_has_migrated_or_has_not(delay_ms: int) -> None:
    names, count = Names(), 32
    with MagnetarBroker() as mortal, AdminClient(mortal.admin_url) as admin:
        admin.topics.create_partitioned(names.regular, count)
        admin.subscriptions.create(names.regular, "s")

        def attempt() -> None:
            try:
                with AdminClient(mortal.admin_url) as operator:
                    operator.scalable_topics.migrate_to_scalable(names.regular)
            except (AdminError, AdminUnreachable):
                pass  # it is told by what is there afterwards

        for _ in range(2):  # twice in a row
            operator = threading.Thread(target=attempt)
            operator.start()
            time.sleep(delay_ms / 1000)
            mortal.crash()
            operator.join()
            mortal.restart()
        if names.scalable not in admin.scalable_topics.list("public/default"):
            admin.scalable_topics.migrate_to_scalable(names.regular)
        segments = admin.scalable_topics.segments(names.scalable)
        assert len(segments) == 2 * count
        assert all(set(each["subscriptions"]) == {"s"} for each in segments.values())


def test_exactly_one_of_two_operators_succeeds(
    broker: MagnetarBroker, admin: AdminClient, names: Names
) -> None:
    admin.topics.create_partitioned(names.regular, 16)
    outcomes: list[str] = []

    def attempt() -> None:
        with AdminClient(broker.admin_url) as operator:
            try:
                operator.scalable_topics.migrate_to_scalable(names.regular)
                outcomes.append("done")
            except AdminConflict:
                outcomes.append("refused")

    operators = [threading.Thread(target=attempt) for _ in range(4)]
    for operator in operators:
        operator.start()
    for operator in operators:
        operator.join()
    assert sorted(outcomes) == ["done", "refused", "refused", "refused"]
