"""Readers that lose their broker at bad moments, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from magnetar.broker.administration.scalable import create_topic
from magnetar.broker.service import Service
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.policy import BackoffPolicy, ConnectionPolicy
from magnetar.client.scalable.checkpoint import Checkpoint
from magnetar.model.name import parse_topic
from magnetar.testing.simulation.cluster import Cluster
from magnetar.testing.simulation.history import History
from magnetar.testing.simulation.loop import Process, VirtualClock, VirtualLoop

TOPIC = parse_topic("topic://public/default/orders")
PATIENCE_S = 60.0


def play(body: Callable[[Cluster, AsyncPulsarClient], Awaitable[None]]) -> None:
    """One broker and a client, both on virtual time."""
    random = Random(0)
    loop = VirtualLoop(random)
    settings = ("defaultRetentionTimeInMinutes=-1", "defaultRetentionSizeInMB=-1")
    cluster = Cluster(loop, random, History(loop.time), brokers=1, settings=settings)
    process = Process("client")

    async def inside() -> None:
        cluster.start()
        await cluster.wait_ready()
        connection = ConnectionPolicy(
            keep_alive=2.0, backoff=BackoffPolicy(initial=0.1, maximum=1.0)
        )
        clock = VirtualClock(loop, process)
        async with AsyncPulsarClient(
            cluster.service_url, clock=clock, connection=connection
        ) as client:
            await body(cluster, client)

    try:
        loop.run_until_complete(loop.spawn(process, inside(), "client"))
    finally:
        cluster.brokers[0].kill(power=False)
        for each in (*cluster.graves, process):
            loop.bury(each)
        loop.close()


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.02, 0.03, 0.05, 0.08])
def test_a_reader_that_had_read_all_of_a_sealed_segment_goes_on_after_a_restart(
    delay_s: float,
) -> None:
    """The cursor of a reader begins anew with its connection: the broker must be told again that
    the last message was read, or it waits for that and never says that the segment has ended.
    """

    async def body(cluster: Cluster, client: AsyncPulsarClient) -> None:
        (broker,) = cluster.brokers
        await broker.call(lambda service: create_topic(service, TOPIC, 1, None))
        producer = await client.producer(TOPIC.full, batching=False)
        reader = await client.checkpoint_consumer(TOPIC.full, start=Checkpoint.EARLIEST)
        for number in range(3):
            await producer.send(str(number).encode())
        for number in range(3):
            message = await reader.receive(timeout=PATIENCE_S)
            assert message is not None and message.data == str(number).encode()

        async def split(service: Service) -> None:
            controller = await service.scalable.controller(TOPIC)
            await controller.changes.split(controller.layout.active[0].id)

        await broker.call(split)
        await asyncio.sleep(delay_s)
        cluster.network.part(frozenset({"client"}))  # from here on nothing it says arrives
        await asyncio.sleep(1)
        broker.kill(power=True)
        broker.start()
        cluster.network.heal()
        await producer.send(b"after the split")
        message = await reader.receive(timeout=PATIENCE_S)
        assert message is not None and message.data == b"after the split"

    play(body)
