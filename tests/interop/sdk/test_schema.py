"""Records that the official client writes, ours reads, and the other way round."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum

import pulsar
import pytest
from pulsar.schema import (
    AvroSchema,
    Boolean,
    CustomEnum,
    Double,
    JsonSchema,
    Long,
    Record,
    String,
    StringSchema,
)

from magnetar import AsyncPulsarClient, Schema
from magnetar.testing.broker import MagnetarBroker


class Colour(Enum):
    RED = 1
    BLUE = 2


class OfficialOrder(Record):
    id = Long(required=True)
    item = String(required=True)
    price = Double(required=True)
    is_paid = Boolean(required=True)
    note = String()


OfficialOrder.__name__ = "Order"


class OfficialPaint(Record):
    colour = CustomEnum(Colour, required=True)


@dataclass
class Order:
    id: int
    item: str
    price: float
    is_paid: bool
    note: str | None = None


@pytest.mark.parametrize("official", [JsonSchema, AvroSchema])
def test_records_cross_in_both_directions(
    client: pulsar.Client,
    magnetar_broker: MagnetarBroker,
    topic: str,
    official: type[JsonSchema] | type[AvroSchema],
) -> None:
    schema = Schema.json(Order) if official is JsonSchema else Schema.avro(Order)
    official_producer = client.create_producer(topic, schema=official(OfficialOrder))
    official_consumer = client.subscribe(topic, "official", schema=official(OfficialOrder))

    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as mine:
            consumer = await mine.consumer(topic, "ours", schema=schema)
            official_producer.send(OfficialOrder(id=1, item="tea", price=1.5, is_paid=True))
            received = await consumer.receive(20)
            assert received is not None and received.value == Order(1, "tea", 1.5, True, None)
            producer = await mine.producer(topic, schema=schema)
            await producer.send(Order(2, "milk", 0.5, False, "cold"))

    asyncio.run(body())
    official_consumer.receive(timeout_millis=20_000)
    order = official_consumer.receive(timeout_millis=20_000).value()
    assert (order.id, order.item, order.price, order.is_paid) == (2, "milk", 0.5, False)
    assert order.note == "cold"


def test_text_crosses_in_both_directions(
    client: pulsar.Client, magnetar_broker: MagnetarBroker, topic: str
) -> None:
    official_consumer = client.subscribe(topic, "official", schema=StringSchema())
    official_producer = client.create_producer(topic, schema=StringSchema())

    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as mine:
            consumer = await mine.consumer(topic, "ours", schema=Schema.STRING)
            official_producer.send("Zoë")
            received = await consumer.receive(20)
            assert received is not None and received.value == "Zoë"
            producer = await mine.producer(topic, schema=Schema.STRING)
            await producer.send("Ærø")

    asyncio.run(body())
    assert official_consumer.receive(timeout_millis=20_000).value() == "Zoë"
    assert official_consumer.receive(timeout_millis=20_000).value() == "Ærø"


def test_ours_reads_official_records_without_knowing_them(
    client: pulsar.Client, magnetar_broker: MagnetarBroker, topic: str
) -> None:
    producer = client.create_producer(topic, schema=AvroSchema(OfficialPaint))

    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as mine:
            consumer = await mine.consumer(topic, "ours", schema=Schema.auto())
            producer.send(OfficialPaint(colour=Colour.BLUE))
            received = await consumer.receive(20)
            assert received is not None and received.value["colour"] == "BLUE"

    asyncio.run(body())


def test_large_messages_cross_in_both_directions(
    client: pulsar.Client, magnetar_broker: MagnetarBroker, topic: str
) -> None:
    data = bytes(range(256)) * 24_000
    official_consumer = client.subscribe(topic, "official")

    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as mine:
            consumer = await mine.consumer(topic, "ours")
            official = client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
            official.send(data)
            received = await consumer.receive(20)
            assert received is not None and received.data == data
            producer = await mine.producer(topic, chunking=True)
            await producer.send(data[::-1])

    asyncio.run(body())
    assert official_consumer.receive(timeout_millis=20_000).data() == data
    assert official_consumer.receive(timeout_millis=20_000).data() == data[::-1]
