"""Producers that lose their broker at bad moments, on virtual time."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.administration.scalable import create_topic
from magnetar.client.checkpoint import Checkpoint
from magnetar.client.client import AsyncPulsarClient
from magnetar.testing.simulation.cluster import Cluster
from tests.sim.play import PATIENCE_S, TOPIC, play, split

MESSAGES = [str(number) for number in range(20)]


@pytest.mark.parametrize("delay_s", [0.002, 0.003, 0.004, 0.005, 0.006, 0.008])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_a_sealed_segment_stored_without_a_receipt_is_not_stored_again(
    delay_s: float, is_restarted: bool
) -> None:
    """The connection is lost with the receipts, and the segment is sealed before the next one: the
    child knows nothing of what its parent has, so the producer asks the parent.
    """

    async def body(cluster: Cluster, client: AsyncPulsarClient) -> None:
        (broker,) = cluster.brokers
        await broker.call(lambda service: create_topic(service.scalable, TOPIC, 1, None))
        producer = await client.producer(TOPIC.full, batching=False, send_timeout=0.0)
        await producer.send(b"first")
        sends = [await producer.submit(each.encode(), key="k") for each in MESSAGES]
        await asyncio.sleep(delay_s)
        cluster.network.part(frozenset({"client"}))
        await asyncio.sleep(10)  # the client has given the connection up
        await broker.call(split)
        if is_restarted:
            broker.kill(power=True)
            broker.start()
        cluster.network.heal()
        await asyncio.gather(*sends)
        reader = await client.checkpoint_consumer(TOPIC.full, start=Checkpoint.EARLIEST)
        await producer.send(b"last", key="k")
        received = []
        while not received or received[-1] != "last":
            message = await reader.receive(timeout=PATIENCE_S)
            assert message is not None
            received.append(message.data.decode())
        assert received == ["first", *MESSAGES, "last"]

    play(body, ["brokerDeduplicationEnabled=true"])
