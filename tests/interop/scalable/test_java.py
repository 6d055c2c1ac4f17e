"""Apache Pulsar's Java clients on topics that are regular at first: where their keys go, and that a
V5 client lives through a migration, splits and a crash.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import defaultdict
from collections.abc import Iterator

import pulsar
import pytest

from magnetar import AsyncProducer, AsyncPulsarClient, Schema
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


REGULAR, SCALABLE = (f"{each}://public/default/travelled" for each in ("persistent", "topic"))
KEY_COUNT, ROUNDS, BEFORE, READ_BEFORE = 500, 160, 40, 5_000
OWN_KEYS, OWN_ROUNDS = 50, 60


def use_as_v4(broker: MagnetarBroker) -> dict[str, list[int]]:
    """Send with the official v4 client and read a part; return what was read, key by key."""

    def route(message: pulsar.Message, count: int) -> int:
        return route_partition(message.partition_key(), count, hashing=KeyHash.MURMUR3)

    client = connect(broker)
    text = pulsar.schema.StringSchema()
    consumer = client.subscribe(
        REGULAR, "s", pulsar.ConsumerType.Failover, schema=text, batch_index_ack_enabled=True
    )
    producer = client.create_producer(
        REGULAR,
        schema=text,
        message_router=route,
        message_routing_mode=pulsar.PartitionsRoutingMode.CustomPartition,
        batching_enabled=True,
        block_if_queue_full=True,
    )
    for number in range(BEFORE):
        for key in range(KEY_COUNT):
            producer.send_async(str(number), None, partition_key=f"key-{key}")
    producer.flush()
    received: dict[str, list[int]] = defaultdict(list)
    for _ in range(READ_BEFORE):
        message = consumer.receive(20_000)
        received[message.partition_key()].append(int(message.value()))
        consumer.acknowledge(message)
    consumer.close()
    client.close()
    return received


class Companion(threading.Thread):
    """Our client beside the Java one: a producer with keys of its own, and a stream of everything,
    attached from before the migration to the end.
    """

    def __init__(self, service_url: str, expected: int) -> None:
        super().__init__()
        self._service_url = service_url
        self._expected = expected
        self.is_attached = threading.Event()
        self.received: dict[str, list[int]] = defaultdict(list)
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(asyncio.wait_for(self._live(), 150))
        except BaseException as failure:  # raised in the thread that asks
            self.failure = failure
            self.is_attached.set()

    async def _live(self) -> None:
        async with (
            AsyncPulsarClient(self._service_url) as client,
            client.stream_consumer(REGULAR, subscription="ours") as consumer,
            client.producer(REGULAR, schema=Schema.STRING) as producer,
            asyncio.TaskGroup() as tasks,
        ):
            self.is_attached.set()
            tasks.create_task(self._send(producer))
            count, last, since = 0, None, 0
            while count < self._expected or last is not None:
                message = await consumer.receive(0.3)
                if message is not None:
                    last, since = message, since + 1
                    known = self.received[str(message.key)]
                    if not known or int(message.value) > known[-1]:  # else it comes again
                        known.append(int(message.value))
                        count += 1
                if last is not None and (message is None or since >= 500):
                    await consumer.acknowledge_cumulative(last)
                    last, since = None, 0

    async def _send(self, producer: AsyncProducer[str]) -> None:
        for number in range(OWN_ROUNDS):
            for key in range(OWN_KEYS):
                await producer.submit(str(number), key=f"own-{key}")
            await producer.flush()
            await asyncio.sleep(0.1)  # so that it takes as long as the others' journey


@pytest.mark.parametrize("kind", ["stream", "queue"])
def test_java_and_our_v5_clients_live_through_a_migration_splits_and_a_crash(
    broker: MagnetarBroker, kind: str
) -> None:
    """Official v4 clients send and read before; no key is out of order, nothing comes twice that
    was acknowledged.
    """
    own = OWN_KEYS * OWN_ROUNDS
    total = KEY_COUNT * (BEFORE + ROUNDS) + own
    with AdminClient(broker.admin_url) as admin:
        admin.topics.create_partitioned(REGULAR, 4)
        admin.subscriptions.create(REGULAR, "ours")
        read_before = use_as_v4(broker)
        companion = Companion(broker.service_url, total)
        companion.start()
        companion.is_attached.wait()

        def split() -> None:
            segments = admin.scalable_topics.metadata(SCALABLE)["segments"].values()
            for each in [one for one in segments if one["active"]][:2]:
                admin.scalable_topics.split(SCALABLE, each["segmentId"])

        def migrate() -> None:
            admin.scalable_topics.migrate_to_scalable(REGULAR)
            split()  # at once

        def restart() -> None:
            broker.crash()
            broker.restart()

        acts = {20: migrate, 50: split, 90: restart}
        received: dict[str, list[int]] = {}
        sizes = (KEY_COUNT, ROUNDS, total - READ_BEFORE, BEFORE)
        words = (REGULAR, "s", kind, *map(str, sizes))
        with start_java("Journey", broker.service_url, *words) as process:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("round "):
                    acts.get(int(line[6:]), lambda: None)()
                elif re.match(r"(key|own)-\d+ [\d,]+$", line):
                    key, values = line.split()
                    received[key] = [int(each) for each in values.split(",")]
        assert process.returncode == 0, "".join(said)[-4000:]
        companion.join()
        assert companion.failure is None, companion.failure
        ends = {f"key-{key}": BEFORE + ROUNDS for key in range(KEY_COUNT)}
        ends |= {f"own-{key}": OWN_ROUNDS for key in range(OWN_KEYS)}
        assert received.keys() == companion.received.keys() == ends.keys(), said[-20:]
        for key, end in ends.items():
            values = received[key]  # what was not acknowledged when the broker died comes again
            values = sorted(set(values)) if kind == "queue" else list(dict.fromkeys(values))
            assert read_before.get(key, []) + values == list(range(end)), key
            assert companion.received[key] == list(range(end)), key
        backlogs = admin.scalable_topics.subscriptions(SCALABLE)
        assert {name: each["msgBacklog"] for name, each in backlogs.items()} == {"s": 0, "ours": 0}


def test_java_and_our_v5_clients_open_a_topic_that_had_more_partitions_than_a_layout_can_have(
    broker: MagnetarBroker,
) -> None:
    """As many segments would link each to each of as many: more than a client takes at once."""
    partitions, keys = 1000, 20
    topic = "persistent://public/default/wide"
    with AdminClient(broker.admin_url, timeout=120) as admin:
        admin.topics.create_partitioned(topic, partitions)
        admin.subscriptions.create(topic, "s")

        async def send(value: str) -> None:
            async with (
                AsyncPulsarClient(broker.service_url) as client,
                client.producer(topic, schema=Schema.STRING) as producer,
            ):
                for key in range(keys):
                    await producer.send(value, key=f"key-{key}")

        asyncio.run(send("0"))
        admin.scalable_topics.migrate_to_scalable(topic)
        asyncio.run(send("1"))
    told = run_java(
        "Journey", broker.service_url, topic, "s", "queue", str(keys), "1", str(3 * keys), "2"
    )
    found = dict(line.split(" ") for line in told if line.startswith("key-"))
    assert {key: set(values.strip(",").split(",")) for key, values in found.items()} == {
        f"key-{key}": {"0", "1", "2"} for key in range(keys)
    }
