"""Clients that break the protocol, stall or flood: they pay, the others do not."""

from __future__ import annotations

import os
import uuid

import pulsar
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from magnetar.errors import WireCode
from magnetar.testing.broker import MagnetarBroker
from magnetar.testing.plugin import StartBroker
from magnetar.wire.command import (
    BaseCommand,
    CommandConnect,
    CommandConnected,
    CommandFlow,
    CommandLookupTopic,
    CommandNewTxn,
    CommandSend,
    CommandSubscribe,
    CommandTcClientConnectRequest,
    CommandWatchTcAssignments,
    encode_command,
    make_command,
    ping,
)
from tests.hostile.raw import RawClient, send_frame, size_prefix

MIB = 1 << 20


def new_topic() -> str:
    return f"persistent://public/default/h-{uuid.uuid4().hex[:12]}"


def assert_still_serves(broker: MagnetarBroker) -> None:
    client = pulsar.Client(
        broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    topic = new_topic()
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"alive")
    assert consumer.receive(20_000).data() == b"alive"
    client.close()


def memory_bytes(broker: MagnetarBroker) -> int:
    with open(f"/proc/{broker.pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    "opening",
    [
        pytest.param(encode_command(ping()), id="a command before CONNECT"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(size_prefix(2**31, 10), id="a frame of two gigabytes"),
        pytest.param(size_prefix(10, 100), id="a command larger than its frame"),
        pytest.param(size_prefix(14, 10) + b"\xff" * 10, id="a command of nonsense"),
        pytest.param(size_prefix(6, 2) + b"\x08\x02", id="a CONNECT without a body"),
    ],
)
def test_a_connection_that_opens_with_nonsense_is_closed(
    magnetar_broker: MagnetarBroker, opening: bytes
) -> None:
    with RawClient(magnetar_broker, connect=False) as raw:
        raw.send_bytes(opening)
        assert raw.is_closed()
    assert_still_serves(magnetar_broker)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(CommandConnect(client_version="again"), id="a second CONNECT"),
        pytest.param(CommandConnected(server_version="no"), id="a command only brokers send"),
        pytest.param(CommandFlow(consumer_id=1, messagePermits=0), id="a FLOW of nothing"),
    ],
)
def test_a_client_that_breaks_the_protocol_is_disconnected(
    magnetar_broker: MagnetarBroker, body: object
) -> None:
    with RawClient(magnetar_broker) as raw:
        raw.send(body)
        assert raw.is_closed()


def test_a_send_for_an_unknown_producer_closes_the_connection(
    magnetar_broker: MagnetarBroker,
) -> None:
    with RawClient(magnetar_broker) as raw:
        raw.send_bytes(send_frame(0, b"x", producer_id=99))
        assert raw.is_closed()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(min_size=1, max_size=200))
def test_arbitrary_bytes_after_connecting_never_harm_the_broker(
    magnetar_broker: MagnetarBroker, data: bytes
) -> None:
    with RawClient(magnetar_broker) as raw:
        raw.send_bytes(data)
        raw.send_bytes(encode_command(ping()))
    with RawClient(magnetar_broker) as another:
        another.send_bytes(encode_command(ping()))
        assert another.receive().type == BaseCommand.PONG


def test_bad_names_are_refused_and_the_connection_lives(magnetar_broker: MagnetarBroker) -> None:
    with RawClient(magnetar_broker) as raw:
        for name in ("nonsense://a/b/c", "persistent://a", "a/b/c/d/e", "persistent://a b/c/d"):
            raw.send(CommandLookupTopic(topic=name, request_id=raw.next_request()))
            answer = raw.receive().lookupTopicResponse
            assert answer.error == WireCode.INVALID_TOPIC_NAME and answer.message
        refusal = raw.create_producer("nonsense://a/b/c")
        assert refusal.error.error == WireCode.INVALID_TOPIC_NAME


def test_a_wrong_checksum_is_answered_and_nothing_is_stored(
    magnetar_broker: MagnetarBroker,
) -> None:
    topic = new_topic()
    with RawClient(magnetar_broker) as raw:
        assert raw.create_producer(topic).type == BaseCommand.PRODUCER_SUCCESS
        frame = bytearray(send_frame(0, b"payload"))
        frame[-1] ^= 1
        raw.send_bytes(bytes(frame))
        answer = raw.receive()
        assert answer.send_error.error == WireCode.CHECKSUM
        raw.send_bytes(send_frame(1, b"good"))
        assert raw.receive().send_receipt.message_id.entryId == 0


def test_a_second_creation_under_one_id_is_told_so(magnetar_broker: MagnetarBroker) -> None:
    topic = new_topic()
    with RawClient(magnetar_broker) as raw:
        first = raw.create_producer(topic).producer_success.producer_name
        assert raw.create_producer(topic).producer_success.producer_name == first


def test_a_frame_that_comes_byte_by_byte_is_understood(magnetar_broker: MagnetarBroker) -> None:
    with RawClient(magnetar_broker) as raw:
        for byte in encode_command(ping()):
            raw.send_bytes(bytes((byte,)))
        assert raw.receive().type == BaseCommand.PONG


def test_transactions_that_are_switched_off_are_refused_and_the_connection_lives(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory(transactionCoordinatorEnabled=False)
    with RawClient(broker) as raw:
        raw.send(CommandTcClientConnectRequest(request_id=1, tc_id=0))
        assert raw.receive().error.error == WireCode.NOT_ALLOWED
        raw.send(CommandNewTxn(request_id=2, tc_id=0))
        assert raw.receive().error.error == WireCode.NOT_ALLOWED
        raw.send(CommandWatchTcAssignments(watch_id=3))
        assert raw.receive().watchTcAssignmentsUpdate.error == WireCode.NOT_ALLOWED


def test_a_thousand_idle_connections_leave_room_for_others(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory()
    before = memory_bytes(broker)
    idle = [RawClient(broker, connect=number % 2 == 0) for number in range(1000)]
    assert_still_serves(broker)
    assert memory_bytes(broker) - before < 100 * MIB
    for raw in idle:
        raw.close()


def test_a_consumer_that_never_reads_does_not_fill_the_memory(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory()
    topic = new_topic()
    client = pulsar.Client(
        broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    with RawClient(broker) as deaf:
        assert deaf.subscribe(topic, permits=1_000_000).type == BaseCommand.SUCCESS
        producer = client.create_producer(topic, block_if_queue_full=True, batching_enabled=False)
        payload = b"x" * (1 << 16)
        before = memory_bytes(broker)
        for _ in range(8000):  # half a gigabyte, more than the cache and the socket hold
            producer.send_async(payload, None)
        producer.flush()
        assert memory_bytes(broker) - before < 450 * MIB
        assert_still_serves(broker)
    client.close()


def test_a_producer_that_never_reads_its_receipts_is_stopped_and_the_others_go_on(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory()
    before = memory_bytes(broker)
    with RawClient(broker, timeout_s=3) as deaf:
        assert deaf.create_producer(new_topic()).type == BaseCommand.PRODUCER_SUCCESS
        burst = b"".join(send_frame(number, b"") for number in range(2000))
        sent = 0
        try:
            while sent < 1 << 30:
                deaf.send_bytes(burst)
                sent += len(burst)
        except TimeoutError:
            pass
        assert sent < 1 << 30, "the broker kept reading although nobody took its answers"
        assert memory_bytes(broker) - before < 400 * MIB
        assert_still_serves(broker)


def test_requests_without_end_are_served_in_bounded_memory(
    magnetar_broker: MagnetarBroker,
) -> None:
    with RawClient(magnetar_broker) as raw:
        count = 3000
        frames = [
            encode_command(
                make_command(
                    CommandLookupTopic(topic=f"persistent://public/default/{n}", request_id=n)
                )
            )
            for n in range(count)
        ]
        raw.send_bytes(b"".join(frames))
        answers = [raw.receive().lookupTopicResponse.request_id for _ in range(count)]
        assert sorted(answers) == list(range(count))


def test_an_unknown_subscription_type_or_field_is_refused_without_harm(
    magnetar_broker: MagnetarBroker,
) -> None:
    subscribe = CommandSubscribe(
        topic=new_topic(),
        subscription="",
        subType=CommandSubscribe.Shared,
        consumer_id=1,
        request_id=7,
    )
    with RawClient(magnetar_broker) as raw:
        raw.send(subscribe)
        refusal = raw.receive()
        assert refusal.type == BaseCommand.ERROR and refusal.error.request_id == 7
        unknown = CommandSend(producer_id=5, sequence_id=1).SerializeToString() + b"\x98\x3f\x01"
        raw.send_bytes(
            size_prefix(len(unknown) + 8, len(unknown) + 4)
            + b"\x08\x06\x32"
            + bytes([len(unknown)])
            + unknown
        )
        assert raw.is_closed()
