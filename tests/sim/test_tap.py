"""What is written down at the brokers' ends of connections."""

from __future__ import annotations

from magnetar.broker.administration.scalable import create_topic
from magnetar.client.client import AsyncPulsarClient
from magnetar.testing.simulation.cluster import Cluster
from magnetar.testing.simulation.history import Dispatched, Registered, Requeued
from tests.sim.play import PATIENCE_S, TOPIC, play


def _words(cluster: Cluster) -> list[str]:
    found = []
    for entry in cluster.history.entries:
        match entry.event:
            case Registered(TOPIC.full, "client"):
                found.append("producer")
            case Dispatched(TOPIC.full, "0000-ffff-0", "s", "b1.1" | "b1.2", "client", what):
                found.append(f"dispatched {what.partition(':')[2]}")
            case Requeued(TOPIC.full, "0000-ffff-0", "s", "b1.1" | "b1.2", "client", what, why):
                found.append(" ".join((why, *what.split(":")[1:])))
    return found


def test_what_is_dispatched_and_what_consumers_ask_for_is_written_down() -> None:
    async def body(cluster: Cluster, client: AsyncPulsarClient) -> None:
        (broker,) = cluster.brokers
        await broker.call(lambda service: create_topic(service.scalable, TOPIC, 1, None))
        consumer = await client.queue_consumer(TOPIC.full, subscription="s", nack_delay=0.5)
        producer = await client.producer(TOPIC.full, batching=False)
        for number in range(2):
            await producer.send(str(number).encode())
        for _ in range(2):
            message = await consumer.receive(timeout=PATIENCE_S)
            assert message is not None
        known = ["subscribe", "is answered", "producer", "dispatched 0", "dispatched 1"]
        assert _words(cluster) == known
        consumer.negative_acknowledge(message)
        assert await consumer.receive(timeout=PATIENCE_S) is not None
        known += ["is demanded 1", "dispatched 1"]
        assert _words(cluster) == known

        assert cluster.network.cut_one()
        for _ in range(2):
            assert await consumer.receive(timeout=PATIENCE_S) is not None
        again = _words(cluster)[len(known) :]
        assert [each for each in again if each != "producer"] == [
            "is lost",
            "subscribe",
            "is answered",
            "dispatched 0",
            "dispatched 1",
        ]
        await consumer.close()
        assert _words(cluster)[-2:] == ["close_consumer", "is answered"]

    play(body)
