"""A small application, as somebody who trusts types would write it. Never run: mypy reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from magnetar import (
    AsyncCheckpointConsumer,
    AsyncProducer,
    AsyncPulsarClient,
    AsyncQueueConsumer,
    AsyncStreamConsumer,
    BackoffPolicy,
    BatchingPolicy,
    Checkpoint,
    ConsumerEncryption,
    ConsumerInterceptor,
    DeadLetterPolicy,
    KeyValue,
    Message,
    MessageId,
    PemKeys,
    Producer,
    ProducerEncryption,
    ProducerInterceptor,
    PulsarClient,
    QueueConsumer,
    Schema,
    SchemaError,
    TableView,
    TokenAuthentication,
)


@dataclass
class Order:
    id: int
    customer: str


class Trace(ProducerInterceptor):
    def on_sent(self, topic: str, id: Any, error: BaseException | None) -> None:
        del topic, id, error


async def produce(client: AsyncPulsarClient) -> None:
    async with client.producer(
        "topic://acme/shop/orders",
        schema=Schema.json(Order),
        name="web-1",
        batching=BatchingPolicy(max_delay=0.005),
        compression="zstd",
        send_timeout=timedelta(seconds=10),
        encryption=ProducerEncryption(PemKeys(public={"k": "public.pem"}), ["k"]),
        interceptors=[Trace()],
    ) as producer:
        assert_type(producer, AsyncProducer[Order])
        order = Order(1, "ada")
        id = await producer.send(order, key=order.customer, deliver_after=timedelta(minutes=5))
        assert_type(id, MessageId)
        sent = await producer.submit(order, event_time=datetime.now(UTC))
        assert_type(sent, asyncio.Future[MessageId])
        await producer.flush()
    plain = await client.producer("orders")
    assert_type(plain, AsyncProducer[bytes])
    await plain.send(b"raw")


async def work(client: AsyncPulsarClient) -> None:
    async with client.queue_consumer(
        namespace="acme/shop",
        property_filters={"kind": "orders"},
        subscription="workers",
        schema=Schema.avro(Order),
        dead_letter=DeadLetterPolicy(max_redeliveries=5),
        nack_backoff=BackoffPolicy(1, 60),
        processing_timeout=30.0,
        encryption=ConsumerEncryption(PemKeys(private={"k": "private.pem"})),
        interceptors=[ConsumerInterceptor()],
    ) as queue:
        assert_type(queue, AsyncQueueConsumer[Order])
        async for message in queue:
            assert_type(message, Message[Order])
            async with queue.processing(message):
                assert_type(message.value, Order)
                assert_type(message.publish_time, datetime)


async def follow(client: AsyncPulsarClient, saved: bytes) -> bytes:
    stream = await client.stream_consumer(
        ["topic://acme/shop/a", "topic://acme/shop/b"],
        subscription="audit",
        schema=Schema.STRING,
        initial_position="earliest",
    )
    assert_type(stream, AsyncStreamConsumer[str])
    assert_type(await stream.receive(), Message[str])
    received = await stream.receive(timeout=1.0)
    assert_type(received, Message[str] | None)
    if received is not None:
        assert_type(received.value, str)
        await stream.acknowledge_cumulative(received)
    async with client.checkpoint_consumer(
        "topic://acme/shop/orders",
        start=Checkpoint.from_bytes(saved),
        schema=Schema.key_value(Schema.STRING, Schema.INT64),
    ) as reader:
        assert_type(reader, AsyncCheckpointConsumer[KeyValue[str, int]])
        batch = await reader.receive_many(500, timeout=1.0)
        total = sum(message.value.value for message in batch)
        assert_type(total, int)
        return bytes(reader.checkpoint())


def sell(url: str, token: str) -> None:
    with (
        PulsarClient(url, authentication=TokenAuthentication(token)) as client,
        client.queue_consumer("orders", subscription="s", schema=Schema.json(Order)) as queue,
    ):
        assert_type(queue, QueueConsumer[Order])
        for message in queue:
            with queue.processing(message) as entered:
                assert_type(entered.value, Order)
        producer = client.producer("prices", schema=Schema.FLOAT64)
        assert_type(producer, Producer[float])
        sent = producer.send_nowait(1.5, key="tea")
        sent.add_done_callback(on_done)
        with client.table_view("prices", schema=Schema.FLOAT64) as table:
            assert_type(table, TableView[float])
            assert_type(table["tea"], float)
        records = client.consumer("log", "s", schema=Schema.json('{"type": "record"}'))
        assert_type(records.receive(), Message[Mapping[str, Any]])
        assert_type(records.receive(timeout=1), Message[Mapping[str, Any]] | None)
        assert_type(records.receive().value, Mapping[str, Any])


def on_done(sent: Future[Any]) -> None:
    try:
        sent.result()
    except SchemaError as error:
        raise SystemExit(error.sentence) from error
