"""Mistakes that mypy finds: each line with a comment must be an error, and no other."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar import AsyncPulsarClient, PulsarClient, Schema


@dataclass
class Order:
    id: int


async def err(client: AsyncPulsarClient) -> None:
    producer = await client.producer("orders", schema=Schema.json(Order))
    await producer.send("text")  # expect: arg-type
    await producer.send(Order(1), ky="k")  # expect: call-arg
    await client.producer("orders", compresion="lz4")  # expect: call-arg
    plain = await client.producer("orders")
    await plain.send("text")  # expect: arg-type
    queue = await client.queue_consumer("orders", subscription="s", schema=Schema.STRING)
    async for message in queue:
        message.value + 1  # expect: operator
        await queue.acknowledge_cumulative(message)  # expect: attr-defined


def err_too(client: PulsarClient) -> None:
    reader = client.reader("orders", schema=Schema.INT32)
    received = reader.read(timeout=5)
    print(received.value)  # expect: union-attr
    PulsarClient("pulsar://h", operation_timeot=5)  # expect: call-arg
