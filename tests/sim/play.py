"""A broker and a client on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from random import Random

from magnetar.broker.service import Service
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.policy import BackoffPolicy, ConnectionPolicy
from magnetar.model.name import parse_topic
from magnetar.testing.simulation.cluster import Cluster
from magnetar.testing.simulation.history import History
from magnetar.testing.simulation.loop import Process, VirtualClock, VirtualLoop

TOPIC = parse_topic("topic://public/default/orders")
PATIENCE_S = 60.0


def play(
    body: Callable[[Cluster, AsyncPulsarClient], Awaitable[None]], settings: Iterable[str] = ()
) -> None:
    """One broker and a client, both on virtual time."""
    random = Random(0)
    loop = VirtualLoop(random)
    settings = ("defaultRetentionTimeInMinutes=-1", "defaultRetentionSizeInMB=-1", *settings)
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
        loop.bury((*cluster.graves, process))
        loop.close()


async def split(service: Service) -> None:
    controller = await service.scalable.controller(TOPIC)
    await controller.changes.split(controller.layout.active[0].id)
