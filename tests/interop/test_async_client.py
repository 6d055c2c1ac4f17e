"""Our asyncio client against a live broker, together with the official client."""

from __future__ import annotations

import asyncio
import random
import uuid
from datetime import UTC, datetime

import pulsar
import pytest

from magnetar.client.admin import AdminClient
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.consumer import AsyncConsumer
from magnetar.client.error import ConsumerBusyError, NotFoundError, ProducerBusyError
from magnetar.client.message import Message
from magnetar.client.message_id import EARLIEST_ID
from magnetar.testing.broker import MagnetarBroker
from magnetar.testing.plugin import StartBroker

WAIT_S = 20.0


async def take(consumer: AsyncConsumer, count: int) -> list[Message]:
    messages = []
    for _ in range(count):
        message = await consumer.receive(WAIT_S)
        assert message is not None, f"only {len(messages)} of {count} messages came"
        messages.append(message)
    return messages


def test_a_message_arrives_with_everything_it_was_sent_with(
    magnetar_broker: MagnetarBroker, topic: str
) -> None:
    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            consumer = await client.consumer(topic, "s")
            producer = await client.producer(topic, name="mine")
            id = await producer.send(
                b"v",
                key=b"\x00k",
                ordering_key=b"o",
                properties={"a": "b"},
                event_time=datetime.fromtimestamp(0.005, UTC),
            )
            tombstone = await producer.send(None, key="k")
            first, second = await take(consumer, 2)
            assert (first.id, first.data, first.key_bytes) == (id, b"v", b"\x00k")
            assert (first.ordering_key, first.properties) == (b"o", {"a": "b"})
            assert (first.event_time_ms, first.producer_name) == (5, "mine")
            assert (second.id, second.data, second.key) == (tombstone, None, "k")

    asyncio.run(body())


@pytest.mark.parametrize("type", ["exclusive", "shared", "failover", "key_shared"])
def test_every_type_of_subscription_delivers_acknowledges_and_redelivers(
    type: str, magnetar_broker: MagnetarBroker, topic: str
) -> None:
    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            producer = await client.producer(topic, batching=False)
            consumer = await client.consumer(topic, "s", type=type, ack_receipts=True)
            for number in range(4):
                await producer.send(b"%d" % number, key=f"k{number}")
            for message in (await take(consumer, 4))[:2]:
                await consumer.acknowledge(message)
            consumer.redeliver_unacknowledged()
            again = await take(consumer, 2)
            assert sorted(message.data or b"" for message in again) == [b"2", b"3"]

    asyncio.run(body())


def test_shared_consumers_split_the_work_and_a_leaver_hands_over(
    magnetar_broker: MagnetarBroker, topic: str
) -> None:
    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            first = await client.consumer(topic, "s", type="shared", receiver_queue_size=1)
            second = await client.consumer(topic, "s", type="shared", receiver_queue_size=1)
            producer = await client.producer(topic, batching=False)
            for number in range(4):
                await producer.send(b"%d" % number)
            kept = await take(first, 1)
            got = await take(second, 1)
            await first.close()
            got += await take(second, 3)
            assert sorted(message.data or b"" for message in got) == [b"0", b"1", b"2", b"3"]
            assert kept[0].data in {message.data for message in got}

    asyncio.run(body())


def test_a_second_exclusive_consumer_and_a_second_name_are_refused(
    magnetar_broker: MagnetarBroker, topic: str
) -> None:
    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            await client.consumer(topic, "s")
            await client.producer(topic, name="only")
            async with AsyncPulsarClient(magnetar_broker.service_url) as other:
                with pytest.raises(ConsumerBusyError):
                    await other.consumer(topic, "s")
                with pytest.raises(ProducerBusyError):
                    await other.producer(topic, name="only")
                with pytest.raises(NotFoundError):
                    await other.producer("public/no-such-namespace/t")

    asyncio.run(body())


def test_a_large_message_travels_in_chunks_and_is_acknowledged_whole(
    magnetar_broker: MagnetarBroker, topic: str
) -> None:
    async def body() -> None:
        data = random.Random(1).randbytes(11_000_000)
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            consumer = await client.consumer(topic, "s", type="shared", ack_receipts=True)
            producer = await client.producer(topic, chunking=True)
            await producer.send(data)
            [message] = await take(consumer, 1)
            assert message.data == data
            await consumer.acknowledge(message)
            await consumer.close()
        with AdminClient(magnetar_broker.admin_url) as admin:
            assert admin.topics.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0

    asyncio.run(body())


def test_a_reader_goes_to_the_end_and_back(magnetar_broker: MagnetarBroker, topic: str) -> None:
    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            producer = await client.producer(topic)
            ids = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(10)))
            reader = await client.reader(topic, EARLIEST_ID)
            seen = []
            while await reader.has_message_available():
                message = await reader.read(WAIT_S)
                assert message is not None
                seen.append(message.data)
            assert seen == [b"%d" % number for number in range(10)]
            await reader.seek(ids[6])
            message = await reader.read(WAIT_S)
            assert message is not None and message.data == b"6"
            middle = await client.reader(topic, ids[3])
            message = await middle.read(WAIT_S)
            assert message is not None and message.data == b"4"
            at_end = await client.reader(topic)
            assert not await at_end.has_message_available()
            await producer.send(b"new")
            message = await at_end.read(WAIT_S)
            assert message is not None and message.data == b"new"

    asyncio.run(body())


def test_partitions_are_written_by_key_and_read_as_one(
    magnetar_broker: MagnetarBroker, topic: str
) -> None:
    async def body() -> None:
        with AdminClient(magnetar_broker.admin_url) as admin:
            admin.topics.create_partitioned(topic, 3)
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            consumer = await client.consumer(topic, "s", ack_receipts=True)
            producer = await client.producer(topic)
            assert await client.count_partitions(topic) == 3
            sends = (producer.send(b"%d" % n, key=f"k{n % 5}") for n in range(60))
            await asyncio.gather(*sends)
            by_key: dict[str | None, list[int]] = {}
            partitions: dict[str | None, set[int]] = {}
            for message in await take(consumer, 60):
                by_key.setdefault(message.key, []).append(int(message.data or b""))
                partitions.setdefault(message.key, set()).add(message.id.partition)
                await consumer.acknowledge(message)
            assert by_key == {f"k{k}": list(range(k, 60, 5)) for k in range(5)}
            assert all(len(places) == 1 for places in partitions.values())
            assert len(set.union(*partitions.values())) > 1

    asyncio.run(body())


def test_the_official_client_reads_what_ours_wrote_to_partitions(
    magnetar_broker: MagnetarBroker, client: pulsar.Client, topic: str
) -> None:
    async def body() -> None:
        with AdminClient(magnetar_broker.admin_url) as admin:
            admin.topics.create_partitioned(topic, 4)
        official = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
        async with AsyncPulsarClient(magnetar_broker.service_url) as ours:
            producer = await ours.producer(topic, compression="lz4")
            for number in range(8):
                await producer.send(b"%d" % number, key=f"k{number}")
        got = [official.receive(timeout_millis=20_000) for _ in range(8)]
        assert {message.partition_key() for message in got} == {f"k{n}" for n in range(8)}
        assert {message.data() for message in got} == {b"%d" % n for n in range(8)}

    asyncio.run(body())


def test_topics_of_a_namespace_are_listed(magnetar_broker: MagnetarBroker) -> None:
    async def body() -> None:
        namespace = f"public/l-{uuid.uuid4().hex[:8]}"
        with AdminClient(magnetar_broker.admin_url) as admin:
            admin.namespaces.create(namespace)
            admin.topics.create(f"{namespace}/a")
            admin.topics.create_partitioned(f"{namespace}/b", 2)
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            assert sorted(await client.list_topics(namespace)) == [
                f"persistent://{namespace}/a",
                f"persistent://{namespace}/b-partition-0",
                f"persistent://{namespace}/b-partition-1",
            ]

    asyncio.run(body())


def test_an_unloaded_topic_is_found_again_by_both_ends(
    magnetar_broker: MagnetarBroker, topic: str
) -> None:
    async def body() -> None:
        with AdminClient(magnetar_broker.admin_url) as admin:
            async with AsyncPulsarClient(magnetar_broker.service_url) as client:
                consumer = await client.consumer(topic, "s")
                producer = await client.producer(topic)
                for number in range(3):
                    await producer.send(b"%d" % number)
                    [message] = await take(consumer, 1)
                    await consumer.acknowledge_cumulative(message)
                    assert message.data == b"%d" % number
                    await asyncio.to_thread(admin.topics.unload, topic)

    asyncio.run(body())


def test_nothing_confirmed_is_lost_and_order_is_kept_over_a_crash(
    magnetar_broker_factory: StartBroker, topic: str
) -> None:
    async def body(broker: MagnetarBroker) -> None:
        async with AsyncPulsarClient(broker.service_url) as client:
            producer = await client.producer(topic, send_timeout=0)
            consumer = await client.consumer(topic, "s", initial_position="earliest")
            confirmed: list[int] = []

            async def publish() -> None:
                for number in range(300):
                    sent = await producer.submit(b"%d" % number)
                    sent.add_done_callback(lambda _, n=number: confirmed.append(n))
                    await asyncio.sleep(0)
                    if number == 150:
                        await asyncio.to_thread(broker.crash)
                        await asyncio.to_thread(broker.start)
                await producer.flush()

            await publish()
            assert confirmed == list(range(300))
            seen: list[int] = []
            while not seen or seen[-1] != 299:
                [message] = await take(consumer, 1)
                seen.append(int(message.data or b""))
                await consumer.acknowledge(message)
            firsts = list(dict.fromkeys(seen))
            assert firsts == list(range(300))

    asyncio.run(body(magnetar_broker_factory()))
