"""Ids that one client saved, the other can use."""

from __future__ import annotations

import asyncio

import pulsar

from magnetar import AsyncPulsarClient
from magnetar.client.message_id import MessageId
from magnetar.testing.broker import MagnetarBroker


def test_a_saved_id_means_the_same_message_to_both(
    client: pulsar.Client, magnetar_broker: MagnetarBroker, topic: str
) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(b"%d" % number) for number in range(5)]

    async def body() -> bytes:
        async with AsyncPulsarClient(magnetar_broker.service_url) as ours:
            start = MessageId.from_bytes(ids[1].serialize())
            async with ours.reader(topic, start) as reader:
                message = await reader.read(20)
                assert message is not None and message.data == b"2"
                return bytes(message.id)

    saved = pulsar.MessageId.deserialize(asyncio.run(body()))
    reader = client.create_reader(topic, saved)
    assert reader.read_next(timeout_millis=20_000).data() == b"3"
    reader.close()
