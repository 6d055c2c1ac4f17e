"""Apache Pulsar's Java clients on topics that are regular at first: where their keys go, and that a
V5 client lives through a migration, splits and a crash.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator

import pulsar
import pytest

from magnetar import AsyncPulsarClient
from magnetar.client.admin import AdminClient
from magnetar.rules.route import KeyHash, route_partition
from magnetar.testing.broker import MagnetarBroker
from tests.interop.java_client import run_java, start_java
from tests.interop.official import connect

KEYS = 3000
SETTINGS = {
    "brokerDeduplicationEnabled": True,
    "scalableTopicConsumerSessionGracePeriodSeconds": 2,
    "scalableTopicAutoScaleEnabled": False,
}


@pytest.fixture
def broker() -> Iterator[MagnetarBroker]:
    with MagnetarBroker(set=SETTINGS) as running:
        yield running


def test_keys_go_to_the_partitions_that_java_clients_choose(broker: MagnetarBroker) -> None:
    """V4 ones with the same hash function, V5 ones, and ours."""
    partitions = 7
    topic = "persistent://public/default/routed"
    with AdminClient(broker.admin_url) as admin:
        admin.topics.create_partitioned(topic, partitions)
    run_java("Route", broker.service_url, topic, str(KEYS))

    async def send() -> None:
        async with (
            AsyncPulsarClient(broker.service_url) as client,
            client.producer(topic) as producer,
        ):
            for number in range(KEYS):
                await producer.submit(b"ours", key=f"k-{number}")
            await producer.flush()

    asyncio.run(send())
    places: dict[str, set[int]] = defaultdict(set)
    senders: dict[str, int] = defaultdict(int)
    client = connect(broker)
    for partition in range(partitions):
        reader = client.create_reader(f"{topic}-partition-{partition}", pulsar.MessageId.earliest)
        while reader.has_message_available():
            message = reader.read_next(10_000)
            places[message.partition_key()].add(partition)
            senders[message.data().decode()] += 1
    client.close()
    assert senders == {"v4": KEYS, "v5": KEYS, "ours": KEYS}
    for number in range(KEYS):
        key = f"k-{number}"
        assert places[key] == {route_partition(key, partitions, hashing=KeyHash.MURMUR3)}


@pytest.mark.parametrize("kind", ["stream", "queue"])
def test_a_java_v5_client_lives_through_a_migration_splits_and_a_crash(
    broker: MagnetarBroker, kind: str
) -> None:
    regular, scalable = (f"{each}://public/default/travelled" for each in ("persistent", "topic"))
    partitions, keys, rounds, before = 4, 500, 160, 40

    def route(message: pulsar.Message, count: int) -> int:
        return route_partition(message.partition_key(), count, hashing=KeyHash.MURMUR3)

    with AdminClient(broker.admin_url) as admin:
        admin.topics.create_partitioned(regular, partitions)
        client = connect(broker)
        producer = client.create_producer(
            regular,
            schema=pulsar.schema.StringSchema(),
            message_router=route,
            message_routing_mode=pulsar.PartitionsRoutingMode.CustomPartition,
            batching_enabled=True,
            block_if_queue_full=True,
        )
        for number in range(before):
            for key in range(keys):
                producer.send_async(str(number), None, partition_key=f"key-{key}")
        producer.flush()
        client.close()

        def split() -> None:
            segments = admin.scalable_topics.metadata(scalable)["segments"].values()
            for each in [one for one in segments if one["active"]][:2]:
                admin.scalable_topics.split(scalable, each["segmentId"])

        def restart() -> None:
            broker.crash()
            broker.restart()

        acts = {
            20: lambda: admin.scalable_topics.migrate_to_scalable(regular),
            50: split,
            90: restart,
        }
        received: dict[str, list[int]] = {}
        total = keys * (before + rounds)
        words = (regular, "s", kind, str(keys), str(rounds), str(total), str(before))
        with start_java("Journey", broker.service_url, *words) as process:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("round "):
                    acts.get(int(line[6:]), lambda: None)()
                elif re.match(r"key-\d+ [\d,]+$", line):
                    key, values = line.split()
                    received[key] = [int(each) for each in values.split(",")]
        assert process.returncode == 0, "".join(said)[-4000:]
        assert len(received) == keys, "".join(said)[-4000:]
        for key, values in received.items():
            if kind == "queue":  # what was not acknowledged when the broker died comes again
                values = sorted(set(values))
            else:
                values = list(dict.fromkeys(values))
            assert values == list(range(before + rounds)), key
        assert admin.scalable_topics.subscriptions(scalable)["s"]["msgBacklog"] == 0
