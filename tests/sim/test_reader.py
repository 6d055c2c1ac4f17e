"""Readers that lose their broker at bad moments, on virtual time."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.administration.scalable import create_topic
from magnetar.client.checkpoint import Checkpoint
from magnetar.client.client import AsyncPulsarClient
from magnetar.testing.simulation.cluster import Cluster
from tests.sim.play import PATIENCE_S, TOPIC, play, split


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.02, 0.03, 0.05, 0.08])
def test_a_reader_that_had_read_all_of_a_sealed_segment_goes_on_after_a_restart(
    delay_s: float,
) -> None:
    """The cursor of a reader begins anew with its connection: the broker must be told again that
    the last message was read, or it waits for that and never says that the segment has ended.
    """

    async def body(cluster: Cluster, client: AsyncPulsarClient) -> None:
        (broker,) = cluster.brokers
        await broker.call(lambda service: create_topic(service.scalable, TOPIC, 1, None))
        producer = await client.producer(TOPIC.full, batching=False)
        reader = await client.checkpoint_consumer(TOPIC.full, start=Checkpoint.EARLIEST)
        for number in range(3):
            await producer.send(str(number).encode())
        for number in range(3):
            message = await reader.receive(timeout=PATIENCE_S)
            assert message is not None and message.data == str(number).encode()

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
