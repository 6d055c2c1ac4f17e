"""Markers: entries that brokers write for each other, found in the logs of other brokers."""

from __future__ import annotations

import pytest

from magnetar.model.position import EARLIEST
from magnetar.wire.command import BaseCommand, CommandGetLastMessageId, MessageMetadata, message_id
from magnetar.wire.entry import count_messages, encode_entry
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.traffic import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TOPIC, Client

MARKER = encode_entry(
    MessageMetadata(producer_name="pulsar.marker", publish_time=1, sequence_id=0, marker_type=12),
    b"snapshot",
)


async def fill(place: Place) -> Client:
    client = Client(place.service)
    await client.produce(TOPIC)
    topic = await place.topic(TOPIC)
    for text in ("a", "b"):
        await topic.log.append_entry(MARKER)
        await client.publish(text, key=text)
    await topic.log.append_entry(MARKER)
    return client


def test_a_marker_counts_for_no_message() -> None:
    assert count_messages(MARKER) == 0


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
def test_markers_are_not_delivered_and_count_as_acknowledged(kind: int) -> None:
    async def body(place: Place) -> None:
        client = await fill(place)
        await client.subscribe(TOPIC, "s", kind, consumer_id=1)
        got = await client.get(1, 2)
        assert [each.payload for each in got] == [b"a", b"b"]
        cursor = (await place.topic(TOPIC)).log.cursors["s"]
        await until(lambda: cursor.backlog == 2)
        for each in got:
            client.ack_part(1, each.position, 0)
        await until(lambda: cursor.backlog == 0)

    run(body, cache_bytes=1)


def test_the_last_message_is_before_a_marker() -> None:
    async def body(place: Place) -> None:
        client = await fill(place)
        await client.subscribe(
            TOPIC,
            "r",
            EXCLUSIVE,
            consumer_id=1,
            durable=False,
            start_message_id=message_id(EARLIEST),
        )
        (_, last) = await client.get(1, 2)
        request = CommandGetLastMessageId(consumer_id=1)
        answer = await client.ask(request, BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
        found = answer.getLastMessageIdResponse.last_message_id
        assert (found.ledgerId, found.entryId) == last.position

    run(body, cache_bytes=1)


def test_compaction_keeps_no_marker() -> None:
    async def body(place: Place) -> None:
        await fill(place)
        topic = await place.topic(TOPIC)
        await topic.compactor.start()
        await until(lambda: topic.compactor.status()["status"] == "SUCCESS")
        assert topic.compactor.compacted is not None
        assert len(topic.compactor.compacted.positions) == 2

    run(body, cache_bytes=1)
