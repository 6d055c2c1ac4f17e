"""What an application sees that uses the official client."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pulsar
import pytest

from tests.interop.official import Admin, path_of

EARLIEST = pulsar.InitialPosition.Earliest
RECEIVE_MS = 20_000
SILENCE_MS = 700


def receive_all(consumer: pulsar.Consumer, count: int, *, ack: bool = True) -> list[pulsar.Message]:
    messages = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        messages.append(message)
        if ack:
            consumer.acknowledge(message)
    return messages


def assert_silent(consumer: pulsar.Consumer) -> None:
    with pytest.raises(pulsar.Timeout):
        consumer.receive(SILENCE_MS)


def send_all(client: pulsar.Client, topic: str, values: list[bytes], **options: Any) -> None:
    producer = client.create_producer(topic, **options)
    for value in values:
        producer.send_async(value, None)
    producer.flush()
    producer.close()


NUMBERS = [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("batching", [False, True])
@pytest.mark.parametrize(
    "compression",
    [
        pulsar.CompressionType.NONE,
        pulsar.CompressionType.LZ4,
        pulsar.CompressionType.ZLib,
        pulsar.CompressionType.ZSTD,
        pulsar.CompressionType.SNAPPY,
    ],
)
def test_messages_arrive_in_order_batched_or_not_in_every_compression(
    client: pulsar.Client, topic: str, batching: bool, compression: pulsar.CompressionType
) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client, topic, NUMBERS, batching_enabled=batching, compression_type=compression)
    assert [message.data() for message in receive_all(consumer, 100)] == NUMBERS


def test_key_properties_and_event_time_arrive(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="named")
    producer.send(b"v", {"a": "1"}, partition_key="k", event_timestamp=1234)
    (message,) = receive_all(consumer, 1)
    assert message.properties() == {"a": "1"}
    assert (message.partition_key(), message.event_timestamp()) == ("k", 1234)
    assert message.producer_name() == "named"


def test_what_is_not_acknowledged_comes_again_and_what_is_does_not(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client, topic, NUMBERS[:10])
    messages = receive_all(consumer, 10, ack=False)
    for message in messages[:4]:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s")
    assert [message.data() for message in receive_all(again, 6)] == NUMBERS[4:10]
    assert_silent(again)


def test_a_cumulative_acknowledgement_covers_everything_before_it(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client, topic, NUMBERS[:10])
    messages = receive_all(consumer, 10, ack=False)
    consumer.acknowledge_cumulative(messages[6])
    consumer.close()
    again = client.subscribe(topic, "s")
    assert [message.data() for message in receive_all(again, 3)] == NUMBERS[7:10]


def test_a_second_exclusive_consumer_is_refused(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")


def test_another_kind_of_subscription_in_use_is_refused(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", pulsar.ConsumerType.Failover)


def test_shared_consumers_divide_the_messages(client: pulsar.Client, topic: str) -> None:
    kind = pulsar.ConsumerType.Shared
    consumers = [client.subscribe(topic, "s", kind, receiver_queue_size=5) for _ in range(2)]
    send_all(client, topic, NUMBERS, batching_enabled=False)
    seen: list[bytes] = []
    counts: Counter[int] = Counter()
    deadline = time.monotonic() + 20
    while len(seen) < 100 and time.monotonic() < deadline:
        for index, consumer in enumerate(consumers):
            try:
                message = consumer.receive(50)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            seen.append(message.data())
            counts[index] += 1
    assert sorted(seen) == sorted(NUMBERS)
    assert min(counts.values()) > 20


def test_failover_hands_over_to_the_one_that_is_left(client: pulsar.Client, topic: str) -> None:
    kind = pulsar.ConsumerType.Failover
    first = client.subscribe(topic, "s", kind, consumer_name="a")
    second = client.subscribe(topic, "s", kind, consumer_name="b")
    producer = client.create_producer(topic, batching_enabled=False)
    time.sleep(1.5)  # who is active settles after the configured delay
    producer.send(b"one")
    active, other = first, second
    try:
        message = first.receive(3000)
    except pulsar.Timeout:
        active, other = second, first
        message = second.receive(3000)
    active.acknowledge(message)
    active.close()
    producer.send(b"two")
    assert other.receive(RECEIVE_MS).data() == b"two"


def test_key_shared_keeps_the_order_of_a_key_while_consumers_come(
    client: pulsar.Client, topic: str
) -> None:
    kind = pulsar.ConsumerType.KeyShared
    consumers = [client.subscribe(topic, "s", kind, receiver_queue_size=10)]
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(200):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 10}")
    producer.flush()
    by_key: dict[str, list[int]] = defaultdict(list)
    seen = 0
    deadline = time.monotonic() + 30
    while seen < 200 and time.monotonic() < deadline:
        if seen == 50 and len(consumers) == 1:
            consumers.append(client.subscribe(topic, "s", kind, receiver_queue_size=10))
        for consumer in consumers:
            try:
                message = consumer.receive(50)
            except pulsar.Timeout:
                continue
            by_key[message.partition_key()].append(int(message.data()))
            consumer.acknowledge(message)
            seen += 1
    assert seen == 200
    for numbers in by_key.values():
        assert numbers == sorted(numbers)


def test_a_negative_acknowledgement_brings_the_message_again_with_a_count(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    send_all(client, topic, [b"x"])
    message = consumer.receive(RECEIVE_MS)
    assert message.redelivery_count() == 0
    consumer.negative_acknowledge(message)
    again = consumer.receive(RECEIVE_MS)
    assert (again.data(), again.redelivery_count()) == (b"x", 1)


def test_a_message_of_a_batch_can_be_acknowledged_alone(client: pulsar.Client, topic: str) -> None:
    kind = pulsar.ConsumerType.Shared
    consumer = client.subscribe(topic, "s", kind, batch_index_ack_enabled=True)
    send_all(client, topic, NUMBERS[:10], batching_enabled=True)
    messages = receive_all(consumer, 10, ack=False)
    for message in messages[::2]:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", kind, batch_index_ack_enabled=True)
    assert [message.data() for message in receive_all(again, 5)] == NUMBERS[1:10:2]
    assert_silent(again)


def test_a_reader_starts_where_it_is_told(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(value) for value in NUMBERS[:10]]
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert [reader.read_next(RECEIVE_MS).data() for _ in range(10)] == NUMBERS[:10]
    assert not reader.has_message_available()
    from_middle = client.create_reader(topic, ids[4])
    assert from_middle.read_next(RECEIVE_MS).data() == NUMBERS[5]


def test_seek_by_id_and_by_time_moves_a_subscription(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(value) for value in NUMBERS[:5]]
    time.sleep(0.05)
    middle_ms = int(time.time() * 1000)
    time.sleep(0.05)
    for value in NUMBERS[5:10]:
        producer.send(value)
    receive_all(consumer, 10)
    consumer.seek(ids[2])
    assert consumer.receive(RECEIVE_MS).data() == NUMBERS[3]
    consumer.seek(middle_ms)
    assert consumer.receive(RECEIVE_MS).data() == NUMBERS[5]


def test_a_delayed_message_waits_and_the_others_do_not(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    due_ms = int(time.time() * 1000) + 1500
    producer.send(b"late", deliver_at=due_ms)
    producer.send(b"now")
    assert consumer.receive(RECEIVE_MS).data() == b"now"
    assert consumer.receive(RECEIVE_MS).data() == b"late"
    assert int(time.time() * 1000) >= due_ms


def test_partitions_are_produced_to_and_consumed_as_one_topic(
    client: pulsar.Client, topic: str, admin: Admin
) -> None:
    admin("PUT", f"{path_of(topic)}/partitions", 3)
    assert len(client.get_topic_partitions(topic)) == 3
    consumer = client.subscribe(topic, "s")
    send_all(client, topic, NUMBERS, batching_enabled=False)
    assert sorted(message.data() for message in receive_all(consumer, 100)) == sorted(NUMBERS)


def test_a_non_persistent_topic_delivers_to_whoever_is_there(
    client: pulsar.Client, topic: str
) -> None:
    name = topic.replace("persistent://", "non-persistent://")
    consumer = client.subscribe(name, "s")
    send_all(client, name, NUMBERS[:10])
    assert [message.data() for message in receive_all(consumer, 10)] == NUMBERS[:10]


def test_a_pattern_consumer_finds_topics(client: pulsar.Client, topic: str) -> None:
    for suffix in ("a", "b"):
        send_all(client, f"{topic}-{suffix}", [suffix.encode()])
    consumer = client.subscribe(
        re.compile(f"{topic}-.*"), "s", pulsar.ConsumerType.Shared, initial_position=EARLIEST
    )
    assert sorted(message.data() for message in receive_all(consumer, 2)) == [b"a", b"b"]


def test_an_exclusive_producer_keeps_others_out(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)


def test_two_producers_of_one_name_are_refused(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, producer_name="p")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, producer_name="p")


def test_a_terminated_topic_refuses_producers_and_keeps_its_messages(
    client: pulsar.Client, topic: str, admin: Admin
) -> None:
    send_all(client, topic, NUMBERS[:3])
    last = admin("POST", f"{path_of(topic)}/terminate")
    assert last["entryId"] >= 0
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert [message.data() for message in receive_all(consumer, 3)] == NUMBERS[:3]


def test_a_large_message_travels_in_chunks(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    content = bytes(range(256)) * 50_000
    producer.send(content)
    assert receive_all(consumer, 1)[0].data() == content


def test_a_compacted_topic_keeps_the_last_of_every_key(
    client: pulsar.Client, topic: str, admin: Admin
) -> None:
    producer = client.create_producer(topic, batching_enabled=True)
    for number in range(50):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 5}")
    producer.flush()
    producer.send(b"", partition_key="k0")
    admin("PUT", f"{path_of(topic)}/compaction", {})
    wait_for(lambda: admin("GET", f"{path_of(topic)}/compaction")["status"] == "SUCCESS")
    producer.send(b"after", partition_key="k9")
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    values = {}
    while reader.has_message_available():
        message = reader.read_next(RECEIVE_MS)
        if message.partition_key():  # this client hands out the emptied places of a batch too
            values[message.partition_key()] = message.data()
    assert values == {"k1": b"46", "k2": b"47", "k3": b"48", "k4": b"49", "k9": b"after"}


def test_an_incompatible_schema_is_refused_and_a_compatible_one_is_a_new_version(
    client: pulsar.Client, topic: str, admin: Admin
) -> None:
    from pulsar.schema import AvroSchema, Integer, Record, String

    class First(Record):
        a = String()

    class Second(Record):
        a = String()
        b = Integer(required=False, required_default=True)

    class Wrong(Record):
        a = Integer(required=True)

    client.create_producer(topic, schema=AvroSchema(First)).close()
    client.create_producer(topic, schema=AvroSchema(Second)).close()
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=AvroSchema(Wrong))
    assert admin("GET", path_of(topic).replace("persistent", "schemas") + "/schema")["version"] == 1


def test_a_subscription_can_be_left_for_good(
    client: pulsar.Client, topic: str, admin: Admin
) -> None:
    consumer = client.subscribe(topic, "s")
    assert admin("GET", f"{path_of(topic)}/subscriptions") == ["s"]
    consumer.unsubscribe()
    assert admin("GET", f"{path_of(topic)}/subscriptions") == []


def wait_for(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)
