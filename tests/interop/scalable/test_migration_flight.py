"""Messages that are on their way when their topic becomes scalable: in chunks, and encrypted."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from magnetar import AsyncPulsarClient, ConsumerEncryption, PemKeys, ProducerEncryption
from magnetar.client.admin import AdminClient
from magnetar.testing.broker import MagnetarBroker
from tests.interop.key_file import write_keys

KEYS, COUNT, CHUNK_BYTES = 7, 105, 64 << 10
REGULAR = "persistent://public/default/parcels"


@pytest.fixture
def keys(tmp_path: Path) -> PemKeys:
    public, private = write_keys(tmp_path)
    return PemKeys(public={"parcels": public}, private={"parcels": private})


def payload(number: int) -> bytes:
    """Every third message takes five chunks."""
    return b"%d " % number + bytes(4 * CHUNK_BYTES + 100 if number % 3 == 0 else 100)


@pytest.mark.parametrize("partitions", [0, 3], ids=["plain", "partitioned"])
def test_chunked_and_encrypted_messages_on_their_way_arrive_whole_once_and_in_order(
    keys: PemKeys, partitions: int
) -> None:
    settings = {"brokerDeduplicationEnabled": True, "scalableTopicAutoScaleEnabled": False}
    received: dict[str, list[int]] = defaultdict(list)

    async def send(client: AsyncPulsarClient, admin: AdminClient) -> None:
        secret = ProducerEncryption(keys, names=["parcels"])
        producer = await client.producer(
            REGULAR, chunking=CHUNK_BYTES, batching=False, encryption=secret
        )
        async with producer, asyncio.TaskGroup() as tasks:
            migrating: asyncio.Task[None] | None = None
            for number in range(COUNT):
                if number == COUNT // 3:  # with chunks and whole messages under way
                    migrate = admin.scalable_topics.migrate_to_scalable
                    migrating = tasks.create_task(asyncio.to_thread(migrate, REGULAR))
                elif number == 2 * COUNT // 3 and migrating is not None:
                    await migrating  # so that some are sent behind it, however long it takes
                await producer.submit(payload(number), key=f"k{number % KEYS}")
                await asyncio.sleep(0.001)
            await producer.flush()

    async def body(broker: MagnetarBroker, admin: AdminClient) -> None:
        async with (
            AsyncPulsarClient(broker.service_url) as client,
            client.stream_consumer(
                REGULAR, subscription="s", encryption=ConsumerEncryption(keys)
            ) as consumer,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(send(client, admin))
            for _ in range(COUNT):
                message = await consumer.receive(20)
                assert message is not None, received
                number = int(message.value.partition(b" ")[0])
                assert message.value == payload(number)
                received[str(message.key)].append(number)
                await consumer.acknowledge_cumulative(message)
            assert await consumer.receive(0.3) is None

    with MagnetarBroker(set=settings) as broker, AdminClient(broker.admin_url) as admin:
        if partitions:
            admin.topics.create_partitioned(REGULAR, partitions)
        else:
            admin.topics.create(REGULAR)
        asyncio.run(body(broker, admin))
        segments = admin.scalable_topics.segments("topic://public/default/parcels").values()
        used = {each["name"].partition(":")[0] for each in segments if each["msgInCounter"]}
        assert used == {"persistent", "segment"}, "before the migration and after it"
    assert received == {f"k{key}": list(range(key, COUNT, KEYS)) for key in range(KEYS)}
