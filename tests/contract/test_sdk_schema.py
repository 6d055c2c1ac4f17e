"""Schemas over the wire: registered, checked, evolved, and read by who knows nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.type_pb2 import Field
from pydantic import BaseModel

from magnetar import KeyValue, Schema, SchemaError
from tests.contract.sdk_place import Place, take
from tests.contract.sdk_regular import new_name, pick_topic


@dataclass
class Order:
    id: int
    item: str
    note: str | None = None


class Customer(BaseModel):
    name: str
    since: datetime
    age: int = 0


def earlier_order() -> Schema[Any]:
    fields = [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}]
    return Schema.avro({"type": "record", "name": "Order", "fields": fields})


async def open_pair(client: Any, topic: str, schema: Schema[Any]) -> tuple[Any, Any]:
    if topic.startswith("topic://"):
        consumer = await client.queue_consumer(topic, subscription="s", schema=schema)
        return consumer, await client.producer(topic, schema=schema)
    consumer = await client.consumer(topic, "s", schema=schema)
    return consumer, await client.producer(topic, schema=schema)


CUSTOMER = Customer(name="Ada", since=datetime(2020, 5, 17, 1, 2, 3, tzinfo=UTC), age=3)


@pytest.mark.parametrize("kind", ["classic", "scalable"])
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Schema.BYTES, b"\x00\x01"),
        (Schema.STRING, "Zoë"),
        (Schema.BOOL, True),
        (Schema.INT8, -5),
        (Schema.INT16, 300),
        (Schema.INT32, -70_000),
        (Schema.INT64, 2**50),
        (Schema.FLOAT32, 1.5),
        (Schema.FLOAT64, 2.25),
        (Schema.json(Order), Order(1, "tea")),
        (Schema.avro(Order), Order(1, "tea", "soon")),
        (Schema.json(Customer), CUSTOMER),
        (Schema.avro(Customer), CUSTOMER),
        (earlier_order(), {"id": 7, "item": "tea"}),
        (Schema.protobuf(Field), Field(number=7, name="n")),
        (Schema.protobuf_native(Field), Field(number=7, name="n")),
        (Schema.key_value(Schema.STRING, Schema.json(Order)), KeyValue("k", Order(1, "tea"))),
        (Schema.key_value(Schema.STRING, Schema.INT32, "separated"), KeyValue("k", 5)),
    ],
    ids=[
        "bytes", "string", "bool", "int8", "int16", "int32", "int64", "float32", "float64",
        "json", "avro", "json-pydantic", "avro-pydantic", "avro-text",
        "protobuf", "protobuf-native", "key-value", "key-value-separated",
    ],
)  # fmt: skip
def test_a_value_of_every_schema_comes_back(
    place: Place, kind: str, schema: Schema[Any], value: Any
) -> None:
    async def body() -> None:
        async with place.client() as client:
            consumer, producer = await open_pair(client, pick_topic(place, kind), schema)
            await producer.send(value)
            (message,) = await take(consumer, 1)
            assert message.value == value

    asyncio.run(body())


def test_a_separated_pair_is_keyed_by_its_key(place: Place) -> None:
    async def body() -> None:
        schema = Schema.key_value(Schema.STRING, Schema.STRING, "separated")
        async with place.client() as client:
            consumer, producer = await open_pair(client, new_name(), schema)
            await producer.send(KeyValue("k", "v"))
            (message,) = await take(consumer, 1)
            assert (message.key_bytes, message.data) == (b"k", b"v")

    asyncio.run(body())


@pytest.mark.parametrize("kind", ["classic", "scalable"])
def test_old_messages_are_read_with_a_newer_schema(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            _, old = await open_pair(client, topic, earlier_order())
            await old.send({"id": 1, "item": "tea"}, key="k")
            new_schema = Schema.avro(Order)
            new = await client.producer(topic, schema=new_schema)
            if kind == "classic":
                reader = client.consumer(
                    topic, "late", schema=new_schema, initial_position="earliest"
                )
            else:
                reader = client.queue_consumer(
                    topic, subscription="late", schema=new_schema, initial_position="earliest"
                )
            await new.send(Order(2, "milk", "cold"), key="k")
            values = [message.value for message in await take(await reader, 2)]
            assert values == [Order(1, "tea", None), Order(2, "milk", "cold")]

    asyncio.run(body())


def test_a_topic_has_one_history_of_schemas_across_a_split(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        place.admin.scalable_topics.create_subscription(topic, "keeps-sealed-segments")
        async with place.client() as client:
            old = await client.producer(topic, schema=earlier_order())
            await old.send({"id": 1, "item": "tea"}, key="k")
            await place.split(topic, 0)
            await old.send({"id": 2, "item": "tea"}, key="k")
            versions = await asyncio.to_thread(count_versions, place, topic)
            assert versions == 1
            new = await client.producer(topic, schema=Schema.avro(Order))
            await new.send(Order(3, "milk", "cold"), key="k")
            with pytest.raises(SchemaError):
                await client.producer(topic, schema=Schema.INT64)
            assert await asyncio.to_thread(count_versions, place, topic) == 2
            reader = await client.queue_consumer(
                topic, subscription="s", schema=Schema.avro(Order), initial_position="earliest"
            )
            values = [message.value for message in await take(reader, 3)]
            assert sorted(values, key=lambda order: order.id) == [
                Order(1, "tea", None),
                Order(2, "tea", None),
                Order(3, "milk", "cold"),
            ]

    asyncio.run(body())


def count_versions(place: Place, topic: str) -> int:
    return len(place.admin.schemas.get_all(topic.replace("topic://", "persistent://")))


@pytest.mark.parametrize("kind", ["classic", "scalable"])
def test_a_schema_that_does_not_fit_is_refused(place: Place, kind: str) -> None:
    async def body() -> None:
        topic = pick_topic(place, kind)
        async with place.client() as client:
            _, producer = await open_pair(client, topic, Schema.avro(Order))
            await producer.send(Order(1, "tea"))

            async def produce_text() -> None:
                other = await client.producer(topic, schema=Schema.STRING)
                await other.send("tea")

            with pytest.raises(SchemaError):
                await produce_text()

    asyncio.run(body())


def test_a_reader_without_a_schema_of_its_own_reads_each_message_with_its_writers(
    place: Place,
) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client() as client:
            _, old = await open_pair(client, topic, earlier_order())
            await old.send({"id": 1, "item": "tea"})
            new = await client.producer(topic, schema=Schema.avro(Order))
            await new.send(Order(2, "milk", "cold"))
            consumer = await client.consumer(
                topic, "auto", schema=Schema.auto(), initial_position="earliest"
            )
            first, second = await take(consumer, 2)
            assert dict(first.value) == {"id": 1, "item": "tea"}
            assert second.value["note"] == "cold"

    asyncio.run(body())


def test_encoded_bytes_go_out_under_the_topics_newest_schema(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client() as client:
            consumer, producer = await open_pair(client, topic, Schema.json(Order))
            raw = await client.producer(topic, schema=Schema.auto_produce())
            await producer.send(Order(1, "tea"))
            await raw.send(b'{"id": 2, "item": "milk"}')
            messages = await take(consumer, 2)
            assert [message.value.item for message in messages] == ["tea", "milk"]
            assert len({message.schema_version for message in messages}) == 1

    asyncio.run(body())


def test_encoded_bytes_go_out_under_the_schema_they_name(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic()
        async with place.client() as client:
            consumer = await client.queue_consumer(
                topic, subscription="s", schema=Schema.auto(), initial_position="earliest"
            )
            schema = Schema.auto_produce(Schema.avro(Order))
            producer = await client.producer(topic, schema=schema)
            await producer.send(Schema.avro(Order).encode(Order(1, "tea")))
            with pytest.raises(SchemaError):
                await producer.send(b"\xff")
            [message] = await take(consumer, 1)
            assert dict(message.value) == {"id": 1, "item": "tea", "note": None}

    asyncio.run(body())


def test_a_value_that_does_not_fit_is_refused_before_anything_is_sent(place: Place) -> None:
    async def body() -> None:
        async with place.client() as client:
            consumer, producer = await open_pair(client, new_name(), Schema.json(Order))
            with pytest.raises(SchemaError, match=r"Order\.id"):
                await producer.send(Order("one", "tea"))  # type: ignore[arg-type]
            await producer.send(Order(2, "milk"))
            (message,) = await take(consumer, 1)
            assert message.value == Order(2, "milk")

    asyncio.run(body())


def test_bytes_that_are_not_of_the_schema_raise_where_the_value_is_asked_for(place: Place) -> None:
    async def body() -> None:
        topic = new_name()
        async with place.client() as client:
            consumer, producer = await open_pair(client, topic, Schema.json(Order))
            raw = await client.producer(topic)
            await raw.send(b"rubbish")
            await producer.send(Order(1, "tea"))
            bad, good = await take(consumer, 2)
            with pytest.raises(SchemaError):
                _ = bad.value
            assert (bad.data, good.value) == (b"rubbish", Order(1, "tea"))

    asyncio.run(body())
