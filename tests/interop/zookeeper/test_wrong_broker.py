"""A client that knows only the broker that does not hold its topic."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from magnetar import AsyncPulsarClient
from magnetar.testing import MagnetarBroker
from magnetar.testing.zookeeper import shared_zookeeper
from tests.interop.official import make_admin

TOPIC = "topic://public/default/orders"


@pytest.fixture
def wrong_broker() -> Iterator[MagnetarBroker]:
    """The other broker has the namespace, and a scalable topic in it."""
    arguments = ["--metadata", shared_zookeeper().new_url()]
    with MagnetarBroker(arguments=arguments) as home, MagnetarBroker(arguments=arguments) as other:
        make_admin(home)("PUT", "scalable/public/default/orders?numInitialSegments=2")
        yield other


def test_a_scalable_topic_is_used_through_the_wrong_broker(wrong_broker: MagnetarBroker) -> None:
    async def body() -> None:
        sent = {b"%d" % index for index in range(20)}
        async with (
            AsyncPulsarClient(wrong_broker.service_url) as client,
            client.queue_consumer(TOPIC, subscription="queue") as queue,
            client.stream_consumer(TOPIC, subscription="stream") as stream,
            client.producer(TOPIC) as producer,
        ):
            for data in sorted(sent):
                await producer.send(data, key=data.decode())
            for consumer in (queue, stream):
                received = set()
                while received != sent:
                    message = await consumer.receive(timeout=30)
                    assert message is not None
                    received.add(message.data)

    asyncio.run(body())
