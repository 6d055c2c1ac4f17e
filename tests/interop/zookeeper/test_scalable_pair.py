"""Migration and auto-scale with two brokers, metadata on ZooKeeper and a configuration store of
its own: the brokers know each other's doings by the stores alone.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pulsar
import pytest

from magnetar import AsyncPulsarClient, Schema
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker
from magnetar.testing.zookeeper import shared_zookeeper
from tests.interop.official import connect

REGULAR, SCALABLE = (f"{each}://public/default/orders" for each in ("persistent", "topic"))
PATIENCE_S = 60
SPLITS = "pulsar_scalable_topic_auto_splits_total"


class Pair(NamedTuple):
    home: MagnetarBroker
    """Has the namespace."""
    other: MagnetarBroker


@pytest.fixture
def pair() -> Iterator[Pair]:
    zookeeper = shared_zookeeper()
    arguments = ["--metadata", zookeeper.new_url()]
    settings = {
        "configurationMetadataStoreUrl": zookeeper.new_url(),
        "scalableTopicSplitCooldownSeconds": 0,
        "scalableTopicConsumerSessionGracePeriodSeconds": 2,
    }
    with (
        MagnetarBroker(arguments=arguments, set=settings) as home,
        MagnetarBroker(arguments=arguments, set=settings) as other,
    ):
        with AdminClient(home.admin_url) as admin:
            admin.topics.create("persistent://public/default/first")
            admin.topics.lookup("persistent://public/default/first")
        yield Pair(home, other)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.05)


def test_a_topic_grows_and_is_migrated_under_clients_of_both_brokers(pair: Pair) -> None:
    async def body(admin: AdminClient) -> None:
        await asyncio.to_thread(admin.topics.create_partitioned, REGULAR, 2)
        received: dict[str, list[int]] = defaultdict(list)
        async with (
            AsyncPulsarClient(pair.home.service_url) as near,
            AsyncPulsarClient(pair.other.service_url) as far,
            near.producer(REGULAR, schema=Schema.INT64) as one,
            far.producer(REGULAR, schema=Schema.INT64) as two,
            far.stream_consumer(REGULAR, subscription="s", schema=Schema.INT64) as stream,
        ):
            numbers: dict[str, int] = defaultdict(int)

            async def send(producer: Any, keys: range) -> None:
                for key in keys:
                    name = f"k{key}"
                    await producer.send(numbers[name], key=name)
                    numbers[name] += 1

            async def take(count: int) -> None:
                for _ in range(count):
                    message = await stream.receive(PATIENCE_S)
                    assert message is not None, dict(received)
                    received[message.key].append(message.value)
                    await stream.acknowledge_cumulative(message)

            for _ in range(3):
                await send(one, range(10))
                await send(two, range(10, 20))
            await take(60)  # keys may change their partition when there are more of these
            await asyncio.to_thread(admin.topics.update_partitioned, REGULAR, 4)
            for producer in (one, two):
                await until(lambda each=producer: len(each._producers.layout.active) == 4)
            for _ in range(3):
                await send(one, range(10))
                await send(two, range(10, 20))
            await asyncio.to_thread(admin.scalable_topics.migrate_to_scalable, REGULAR, segments=3)
            for producer in (one, two):
                await until(lambda each=producer: len(each._producers.layout.active) == 3)
            for _ in range(3):
                await send(one, range(10))
                await send(two, range(10, 20))
            await take(120)
            assert received == {f"k{key}": list(range(9)) for key in range(20)}

    with AdminClient(pair.other.admin_url) as admin:  # which sends its callers to the owner
        asyncio.run(body(admin))
    for broker in pair:
        client = connect(broker)
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(REGULAR)
        client.close()


def read_splits(broker: MagnetarBroker) -> float:
    with urllib.request.urlopen(f"{broker.admin_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(each.split()[-1]) for each in lines if each.startswith(f"{SPLITS}{{"))


def test_a_topic_scales_itself_on_one_of_two_brokers_and_remembers_it(pair: Pair) -> None:
    async def body(admin: AdminClient) -> None:
        await asyncio.to_thread(admin.scalable_topics.create, SCALABLE)
        async with (
            AsyncPulsarClient(pair.home.service_url) as near,
            AsyncPulsarClient(pair.other.service_url) as far,
            near.stream_consumer(SCALABLE, subscription="s"),
            far.stream_consumer(SCALABLE, subscription="s"),
            far.producer(SCALABLE) as producer,
        ):
            await until(lambda: len(producer._producers.layout.active) == 2)
            assert (read_splits(pair.home), read_splits(pair.other)) == (1, 0)
        decided = await asyncio.to_thread(admin.scalable_topics.decisions, SCALABLE)
        assert "split" in [each["decision"] for each in decided]

    with AdminClient(pair.other.admin_url) as admin:
        asyncio.run(body(admin))
    pair.home.restart()
    with AdminClient(pair.home.admin_url) as admin:
        decided = admin.scalable_topics.decisions(SCALABLE)
    assert "split" in [each["decision"] for each in decided]
    assert read_splits(pair.home) == 1
