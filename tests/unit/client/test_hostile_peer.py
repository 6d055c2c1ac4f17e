"""Brokers that die in mid-frame, point into nothing or send bytes that are none."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import (
    ConnectError,
    PulsarError,
    PulsarTimeoutError,
    SendFailedError,
)
from magnetar.client.policy import BackoffPolicy, ConnectionPolicy
from magnetar.wire.batch import encode_batch
from magnetar.wire.command import (
    CommandConnected,
    CommandLookupTopicResponse,
    CommandMessage,
    CompressionType,
    FeatureFlags,
    MessageIdData,
    MessageMetadata,
    SingleMessageMetadata,
    encode_payload_command,
    make_command,
)
from magnetar.wire.compression import compress
from magnetar.wire.entry import encode_entry
from tests.unit.client.peer import Line, ScriptedBroker, Type, scripted_broker

QUICK = ConnectionPolicy(backoff=BackoffPolicy(0.001, 0.01))


def connect(broker: ScriptedBroker, timeout: float = 5) -> AsyncPulsarClient:
    return AsyncPulsarClient(broker.url, operation_timeout=timeout, connection=QUICK)


def metadata(**fields: Any) -> MessageMetadata:
    return MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)


def damaged() -> bytes:
    entry = bytearray(encode_entry(metadata(), b"payload"))
    entry[-1] ^= 1
    return bytes(entry)


def poisoned() -> bytes:
    batch = encode_batch([(SingleMessageMetadata(), b"a"), (SingleMessageMetadata(), b"b")])
    return encode_entry(metadata(num_messages_in_batch=1000), batch)


def bomb() -> bytes:
    """A megabyte that says it is one byte."""
    packed = compress(CompressionType.ZLIB, b"\0" * 1_000_000)
    return encode_entry(metadata(compression=CompressionType.ZLIB, uncompressed_size=1), packed)


def large_bomb() -> bytes:
    """A few bytes that say they are gigabytes."""
    packed = compress(CompressionType.ZSTD, b"\0" * 1000)
    size = 2**31
    return encode_entry(metadata(compression=CompressionType.ZSTD, uncompressed_size=size), packed)


@pytest.mark.parametrize("make", [damaged, poisoned, bomb, large_bomb])
def test_an_entry_that_cannot_be_read_is_passed_over_and_the_next_one_comes(make: Any) -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:

            def on_flow(line: Line, flow: Any, _: bytes) -> None:
                if flow.messagePermits == 10:
                    line.deliver(flow.consumer_id, 1, 0, make())
                    line.deliver(flow.consumer_id, 1, 1, encode_entry(metadata(), b"good"))

            broker.on[Type.FLOW] = on_flow
            consumer = await client.consumer("t", "s", receiver_queue_size=10)
            message = await consumer.receive(5)
            assert message is not None and message.data == b"good"
            [ack] = await broker.until(Type.ACK, 1)
            assert ack.HasField("validation_error") and ack.message_id[0].entryId == 0

    asyncio.run(body())


def test_a_connection_cut_in_the_middle_of_a_frame_is_made_again_and_nothing_is_lost() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, connect(broker) as client:
            cut: list[Line] = []

            def on_flow(line: Line, flow: Any, _: bytes) -> None:
                command = CommandMessage(
                    consumer_id=flow.consumer_id, message_id=MessageIdData(ledgerId=1, entryId=0)
                )
                entry = encode_entry(metadata(), b"whole")
                frame = encode_payload_command(make_command(command), entry)
                if cut:
                    line.write(frame)
                else:
                    cut.append(line)
                    line.write(frame[:-3])
                    line.cut()

            broker.on[Type.FLOW] = on_flow
            consumer = await client.consumer("t", "s")
            message = await consumer.receive(5)
            assert message is not None and message.data == b"whole" and cut

    asyncio.run(body())


TOPIC = "topic://public/default/t"
QUESTIONS: dict[str, Callable[[AsyncPulsarClient], Awaitable[Any]]] = {
    "producer": lambda client: client.producer(TOPIC).open(),
    "queue_consumer": lambda client: client.queue_consumer(TOPIC, subscription="s").open(),
    "stream_consumer": lambda client: client.stream_consumer(TOPIC, subscription="s").open(),
    "of a namespace": lambda client: client.queue_consumer(
        namespace="public/default", subscription="s"
    ).open(),
    "checkpoint_consumer": lambda client: client.checkpoint_consumer(TOPIC).open(),
    "layout_changes": lambda client: anext(client.layout_changes(TOPIC)),
    "create_producer": lambda client: client.producer("t").open(),
    "subscribe": lambda client: client.consumer("t", "s").open(),
    "pattern": lambda client: client.consumer(None, "s", pattern="public/default/.*").open(),
    "reader": lambda client: client.reader("t").open(),
    "table_view": lambda client: client.table_view("t").open(),
    "count_partitions": lambda client: client.count_partitions("t"),
    "list_topics": lambda client: client.list_topics("public/default"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_broker_that_never_answers_is_a_timeout_to_whoever_asks(name: str) -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            connected = CommandConnected(
                server_version="mute",
                protocol_version=21,
                feature_flags=FeatureFlags(supports_scalable_topics=True),
            )
            broker.on = {Type.CONNECT: lambda line, body, _: line.say(connected)}
            async with asyncio.timeout(10), connect(broker, 0.1) as client:
                with pytest.raises(PulsarTimeoutError):
                    await QUESTIONS[name](client)

    asyncio.run(body())


def test_nobody_hangs_on_a_broker_that_falls_silent() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:

            def on_flow(line: Line, flow: Any, _: bytes) -> None:
                line.deliver(flow.consumer_id, 1, 0, encode_entry(metadata(), b"x"))

            broker.on[Type.FLOW] = on_flow
            async with asyncio.timeout(20), connect(broker, 0.1) as client:
                producer = await client.producer("t", send_timeout=0.1)
                consumer = await client.consumer("t", "s", ack_receipts=True)
                message = await consumer.receive(5)
                assert message is not None
                broker.on.clear()
                for attempt in (
                    lambda: producer.send(b"x"),
                    lambda: consumer.acknowledge(message),
                    lambda: consumer.seek("earliest"),
                    lambda: consumer.last_message_ids(),
                    lambda: consumer.is_behind(),
                    lambda: consumer.unsubscribe(),
                ):
                    with pytest.raises((PulsarTimeoutError, ConnectError)):
                        await attempt()
                waiting = await producer.submit(b"y")
                with pytest.raises(SendFailedError):
                    await producer.flush()  # ends with its messages, well or not
                assert isinstance(waiting.exception(), PulsarTimeoutError)
                assert await consumer.receive(0.01) is None

    asyncio.run(body())


def test_a_lookup_that_points_at_nobody_is_an_error_in_time_and_leaves_the_client_usable() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        dead = f"pulsar://127.0.0.1:{nobody.getsockname()[1]}"

        async def body() -> None:
            async with scripted_broker() as broker, connect(broker, 0.3) as client:
                usual = broker.on.get(Type.LOOKUP)

                def on_lookup(line: Line, lookup: Any, _: bytes) -> None:
                    line.say(
                        CommandLookupTopicResponse(
                            request_id=lookup.request_id,
                            response=CommandLookupTopicResponse.Connect,
                            brokerServiceUrl=dead,
                            authoritative=True,
                        )
                    )

                broker.on[Type.LOOKUP] = on_lookup
                for attempt in (
                    lambda: client.producer("t"),
                    lambda: client.consumer("t", "s"),
                ):
                    with pytest.raises(PulsarError) as refused:
                        await attempt()
                    assert isinstance(refused.value, ConnectError)
                if usual is None:
                    del broker.on[Type.LOOKUP]
                else:
                    broker.on[Type.LOOKUP] = usual
                await client.producer("t")

        asyncio.run(body())
