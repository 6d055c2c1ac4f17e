"""What is acknowledged survives whatever ends the broker."""

from __future__ import annotations

import time

import pulsar
import pytest

from magnetar.testing.plugin import StartBroker
from tests.interop.official import connect, make_admin, path_of

TOPIC = "persistent://public/default/kept"
NUMBERS = [b"%d" % number for number in range(50)]


@pytest.mark.parametrize("end", ["crash", "stop"])
def test_messages_cursors_and_topics_are_there_after_a_restart(
    magnetar_broker_factory: StartBroker, end: str
) -> None:
    broker = magnetar_broker_factory()
    client = connect(broker)
    consumer = client.subscribe(TOPIC, "s")
    producer = client.create_producer(TOPIC, batching_enabled=False)
    for value in NUMBERS:
        producer.send(value)
    for _ in range(20):
        consumer.acknowledge(consumer.receive(20_000))
    consumer.close()  # acknowledgements are flushed by the client
    if end == "crash":
        time.sleep(0.5)  # acknowledgements without a receipt are written behind
        broker.crash()
    else:
        assert broker.stop() == 0
    broker.restart()
    again = client.subscribe(TOPIC, "s")
    received = [again.receive(20_000).data() for _ in range(30)]
    assert received == NUMBERS[20:]
    assert TOPIC in make_admin(broker)("GET", "persistent/public/default")
    client.close()


def test_an_acknowledgement_with_a_receipt_survives_a_crash_at_once(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory()
    client = connect(broker)
    consumer = client.subscribe(TOPIC, "s")
    producer = client.create_producer(TOPIC, batching_enabled=False)
    for value in NUMBERS[:5]:
        producer.send(value)
    admin = make_admin(broker)
    for _ in range(5):
        consumer.acknowledge(consumer.receive(20_000))
    consumer.close()
    admin("POST", f"{path_of(TOPIC)}/subscription/s/skip_all")
    broker.crash()
    broker.restart()
    again = client.subscribe(TOPIC, "s")
    with pytest.raises(pulsar.Timeout):
        again.receive(700)
    client.close()


def test_a_delayed_message_survives_a_restart(magnetar_broker_factory: StartBroker) -> None:
    broker = magnetar_broker_factory()
    client = connect(broker)
    client.subscribe(TOPIC, "s", pulsar.ConsumerType.Shared).close()
    producer = client.create_producer(TOPIC)
    due_ms = int(time.time() * 1000) + 2500
    producer.send(b"late", deliver_at=due_ms)
    client.close()
    broker.crash()
    broker.restart()
    client = connect(broker)
    consumer = client.subscribe(TOPIC, "s", pulsar.ConsumerType.Shared)
    assert consumer.receive(20_000).data() == b"late"
    assert int(time.time() * 1000) >= due_ms
    client.close()


def test_deduplication_holds_over_a_crash(magnetar_broker_factory: StartBroker) -> None:
    broker = magnetar_broker_factory(brokerDeduplicationEnabled=True)
    client = connect(broker)
    client.subscribe(TOPIC, "s").close()
    producer = client.create_producer(TOPIC, producer_name="p", batching_enabled=False)
    for number in range(10):
        producer.send(b"%d" % number, sequence_id=number)
    client.close()
    broker.crash()
    broker.restart()
    client = connect(broker)
    producer = client.create_producer(TOPIC, producer_name="p", batching_enabled=False)
    assert producer.last_sequence_id() == 9
    for number in range(5, 15):
        producer.send(b"%d" % number, sequence_id=number)
    consumer = client.subscribe(TOPIC, "s")
    assert [consumer.receive(20_000).data() for _ in range(15)] == [b"%d" % n for n in range(15)]
    with pytest.raises(pulsar.Timeout):
        consumer.receive(700)
    client.close()
