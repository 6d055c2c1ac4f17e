"""A sealed segment drains although the acknowledgement of its last message was lost."""

from __future__ import annotations

import pytest

from magnetar import PulsarClient, Schema
from magnetar.client.admin import AdminClient
from magnetar.testing.broker import MagnetarBroker
from tests.interop.ack_proxy import AckProxy
from tests.interop.java_client import start_java

TOPIC = "topic://public/default/drained"
COUNT = 20


@pytest.mark.parametrize("fault", ["cut", "crash"])
def test_the_children_of_a_segment_whose_last_acknowledgement_was_lost_are_read(fault: str) -> None:
    settings = {"scalableTopicAutoScaleEnabled": False, "scalableTopicStalledSegmentSeconds": 1}
    with (
        MagnetarBroker(set=settings) as broker,
        AckProxy(broker.port).running() as proxy,
        AdminClient(broker.admin_url) as admin,
    ):
        admin.scalable_topics.create(TOPIC)
        send(broker, 0)
        proxy.loses_acks = True
        words = (proxy.service_url, TOPIC, "s", str(2 * COUNT))
        with start_java("Drain", *words) as process:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line.strip())
                if line.strip() != f"got {COUNT - 1}" or not proxy.loses_acks:
                    continue
                while proxy.lost.get(timeout=30) < COUNT - 1:  # acknowledgements are grouped
                    pass
                admin.scalable_topics.split(TOPIC, 0)
                send(broker, COUNT)
                if fault == "crash":
                    broker.crash()
                    proxy.loses_acks = False
                    broker.restart()
                else:
                    proxy.loses_acks = False
                    proxy.cut()
        assert process.returncode == 0, said[-20:]
        assert {f"got {number}" for number in range(2 * COUNT)} <= set(said)


@pytest.mark.parametrize("fault", ["cut", "crash"])
def test_our_consumer_acknowledges_again_what_it_gets_again(fault: str) -> None:
    """It needs nothing of the broker for it."""
    settings = {"scalableTopicAutoScaleEnabled": False, "scalableTopicStalledSegmentSeconds": 0}
    with (
        MagnetarBroker(set=settings) as broker,
        AckProxy(broker.port).running() as proxy,
        AdminClient(broker.admin_url) as admin,
    ):
        admin.scalable_topics.create(TOPIC)
        send(broker, 0)
        proxy.loses_acks = True
        with (
            PulsarClient(proxy.service_url) as client,
            client.stream_consumer(
                TOPIC, subscription="s", schema=Schema.STRING, initial_position="earliest"
            ) as consumer,
        ):
            received: set[str] = set()
            while len(received) < 2 * COUNT:
                message = consumer.receive(timeout=30)
                assert message is not None, sorted(received)
                received.add(message.value)
                consumer.acknowledge_cumulative(message)
                if len(received) < COUNT or not proxy.loses_acks:
                    continue
                while proxy.lost.get(timeout=30) < COUNT - 1:
                    pass
                admin.scalable_topics.split(TOPIC, 0)
                send(broker, COUNT)
                if fault == "crash":
                    broker.crash()
                    proxy.loses_acks = False
                    broker.restart()
                else:
                    proxy.loses_acks = False
                    proxy.cut()


def send(broker: MagnetarBroker, first: int) -> None:
    with (
        PulsarClient(broker.service_url) as client,
        client.producer(TOPIC, schema=Schema.STRING) as producer,
    ):
        for number in range(first, first + COUNT):
            producer.send(str(number), key=f"k{number}")
