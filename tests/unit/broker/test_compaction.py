"""Compaction: what is left of a topic, and what its readers see while that changes."""

from __future__ import annotations

import struct

import pytest

from magnetar.errors import Conflict, StorageFailed
from magnetar.model.position import EARLIEST, LATEST, Position, Term
from magnetar.wire.batch import decode_batch
from magnetar.wire.command import BaseCommand, CommandGetLastMessageId, message_id
from magnetar.wire.compacted import decode_compacted
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.traffic import EXCLUSIVE, FAILOVER, SHARED, TOPIC, Client, settle


async def fill(place: Place, *pairs: str) -> Client:
    """Messages given as "key=value"; an empty value deletes the key."""
    client = Client(place.service)
    await client.produce(TOPIC)
    await publish(client, *pairs)
    return client


async def publish(client: Client, *pairs: str) -> None:
    for pair in pairs:
        key, _, value = pair.partition("=")
        await client.publish(value, key=key)


async def compact(place: Place) -> None:
    topic = await place.topic(TOPIC)
    await topic.compactor.start()
    await until(lambda: topic.compactor.status()["status"] != "RUNNING")
    assert topic.compactor.status()["status"] == "SUCCESS"


async def read_compacted(
    client: Client, consumer_id: int, *, start: Position = EARLIEST, permits: int = 100
) -> None:
    await client.subscribe(
        TOPIC,
        f"reader-{consumer_id}",
        EXCLUSIVE,
        consumer_id=consumer_id,
        permits=permits,
        durable=False,
        read_compacted=True,
        start_message_id=message_id(start),
    )


async def trim_all(place: Place) -> None:
    """Let go of the log as far as it is compacted."""
    topic = await place.topic(TOPIC)
    await topic.log.roll()
    await topic.log.trim()
    assert topic.log.sequence.total_entries == 0


def pairs(client: Client, consumer_id: int) -> list[str]:
    return [f"{each.key}={each.payload.decode()}" for each in client.deliveries(consumer_id)]


def test_the_last_value_of_every_key_is_left_in_its_place() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a=1", "b=1", "a=2", "c=1", "b=", "c=2", "=loose")
        await compact(place)
        await read_compacted(client, 1)
        await client.get(1, 2)
        assert pairs(client, 1) == ["a=2", "c=2"]
        raw = await client.subscribe(TOPIC, "raw", EXCLUSIVE, consumer_id=2)
        assert raw.type == BaseCommand.SUCCESS
        await client.get(2, 7)

    run(body)


def test_what_came_after_the_compaction_follows_it() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a=1", "a=2")
        await compact(place)
        await publish(client, "a=3", "b=1")
        await read_compacted(client, 1)
        await client.get(1, 3)
        assert pairs(client, 1) == ["a=2", "a=3", "b=1"]
        await compact(place)
        await read_compacted(client, 2)
        await client.get(2, 2)
        assert pairs(client, 2) == ["a=3", "b=1"]

    run(body)


def test_messages_inside_a_batch_are_taken_out_one_by_one() -> None:
    async def body(place: Place) -> None:
        client = await fill(place)
        await client.publish_batch(["1", "2", "3"], key="a")
        await compact(place)
        await read_compacted(client, 1)
        (got,) = await client.get(1, 1)
        messages = decode_batch(got.payload, 3)
        assert [each.metadata.compacted_out for each in messages] == [True, True, False]
        assert messages[2].payload == b"3"

    run(body)


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
def test_compacted_messages_outlive_the_log_and_come_once(cache_bytes: int) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a=1", "b=1", "a=2", "c=1", "b=2")
        await compact(place)
        await trim_all(place)
        await publish(client, "d=1")
        await read_compacted(client, 1, permits=2)
        await client.get(1, 2)
        client.flow(1, 100)
        await client.get(1, 4)
        assert pairs(client, 1) == ["a=2", "c=1", "b=2", "d=1"]
        await client.close_consumer(1)
        await compact(place)  # what is compacted is read through the view, log or not
        await trim_all(place)
        await read_compacted(client, 2)
        await client.get(2, 4)

    run(body, cache_bytes=cache_bytes)


def test_a_reader_from_the_end_sees_nothing_of_the_past() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a=1", "b=1")
        await compact(place)
        await trim_all(place)
        await read_compacted(client, 1, start=LATEST)
        await client.get(1, 0)
        await publish(client, "c=1")
        await client.get(1, 1)

    run(body)


def test_a_subscription_goes_on_where_it_was_also_when_the_log_before_it_is_gone() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a=1", "b=1")
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1, read_compacted=True)
        got = await client.get(1, 2)
        client.ack_through(1, got[1].position)
        await compact(place)
        await trim_all(place)
        await publish(client, "c=1")
        await client.get(1, 3)
        await client.close_consumer(1)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=2, read_compacted=True)
        await client.get(2, 1)
        assert pairs(client, 2) == ["c=1"]

    run(body)


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
def test_a_reader_goes_on_in_the_new_ledger_when_its_old_one_is_replaced(cache_bytes: int) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, *(f"k{index}=1" for index in range(8)))
        await compact(place)
        await trim_all(place)
        await read_compacted(client, 1, permits=3)
        await client.get(1, 3)
        await publish(client, "k7=2", "k0=2")
        await compact(place)
        client.flow(1, 1)  # a read in the old ledger must not be taken for damage
        await client.get(1, 4)
        client.flow(1, 100)
        await client.get(1, 9)
        assert pairs(client, 1)[3:] == ["k3=1", "k4=1", "k5=1", "k6=1", "k7=2", "k0=2"]

    run(body, cache_bytes=cache_bytes, autoSkipNonRecoverableData=True)


def test_the_view_and_the_last_message_survive_a_reload() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a=1", "b=1", "a=2")
        await compact(place)
        topic = await place.topic(TOPIC)
        second = topic.log.sequence.last_position
        await trim_all(place)
        await place.service.catalog.unload_topic(topic.name)
        await read_compacted(client, 1)
        await client.get(1, 2)
        request = CommandGetLastMessageId(consumer_id=1)
        answer = await client.ask(request, BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
        found = answer.getLastMessageIdResponse.last_message_id
        assert (found.ledgerId, found.entryId) == second

    run(body)


def test_the_last_message_of_a_topic_whose_keys_are_all_gone() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a=1", "a=")
        await compact(place)
        await read_compacted(client, 1)
        await client.get(1, 0)
        request = CommandGetLastMessageId(consumer_id=1)
        answer = await client.ask(request, BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
        assert answer.getLastMessageIdResponse.last_message_id.ledgerId == 2**64 - 1

    run(body)


def test_read_compacted_needs_one_reader_at_a_time() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a=1", "a=2")
        refused = await client.subscribe(TOPIC, "s", SHARED, consumer_id=1, read_compacted=True)
        assert refused.type == BaseCommand.ERROR
        await compact(place)
        await client.subscribe(TOPIC, "f", FAILOVER, consumer_id=2, read_compacted=True)
        await client.get(2, 1)

    run(body)


def test_one_compaction_at_a_time_and_a_failed_one_leaves_no_ledger() -> None:
    async def body(place: Place) -> None:
        await fill(place, "a=1", "a=2")
        topic = await place.topic(TOPIC)
        before = await place.ledgers.ledgers()
        await topic.compactor.start()
        with pytest.raises(Conflict):
            await topic.compactor.start()
        place.ledgers.fail_next_create(StorageFailed("full"))
        await until(lambda: topic.compactor.status()["status"] == "ERROR")
        await topic.compactor.start()
        place.ledgers.fail_next(StorageFailed("full"))
        await until(lambda: topic.compactor.status()["status"] == "ERROR")
        left = set(await place.ledgers.ledgers()) - set(before)
        cursor = topic.log.cursors["__compaction"]
        assert left <= {cursor.ledger_id}
        await compact(place)

    run(body)


def test_closing_a_topic_ends_its_compaction() -> None:
    async def body(place: Place) -> None:
        await fill(place, *(f"k{index}=1" for index in range(50)))
        topic = await place.topic(TOPIC)
        await topic.compactor.start()
        await settle()
        await place.service.catalog.unload_topic(topic.name)
        assert topic.compactor.status()["status"] != "RUNNING"
        await compact(place)

    run(body, cache_bytes=1)


def test_deleting_a_topic_deletes_its_compacted_ledger() -> None:
    async def body(place: Place) -> None:
        await fill(place, "a=1", "a=2")
        await compact(place)
        topic = await place.topic(TOPIC)
        await place.service.catalog.delete_topic(topic.name, force=True)
        assert await place.ledgers.ledgers() == ()

    run(body)


def test_a_compacted_ledger_of_a_former_version_is_read() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a=1", "b=1", "a=2")
        await compact(place)
        topic = await place.topic(TOPIC)
        view = topic.compactor.compacted
        assert view is not None
        present = await place.ledgers.read(view.ledger_id, 0, entries_max=9, bytes_max=1 << 20)
        former = await place.ledgers.create(
            term=Term(1), properties={"kind": "compacted", "topic": topic.name.full}
        )
        for each in present:
            position, entry = decode_compacted(each)
            former.append([struct.pack(">QQ", *position) + entry], lambda error: None)
        await former.seal()
        cursor = topic.log.cursors["__compaction"]
        await cursor.set_properties({"CompactedTopicLedger": former.id})
        await place.service.catalog.unload_topic(topic.name)
        await read_compacted(client, 1)
        await client.get(1, 2)
        assert pairs(client, 1) == ["b=1", "a=2"]

    run(body)
