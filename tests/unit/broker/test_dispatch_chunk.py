"""Messages in several entries: all of them for one consumer."""

from __future__ import annotations

import pytest

from magnetar.broker.consumer import Consumer
from magnetar.rules.dispatch.shared import Shared
from magnetar.wire.command import BaseCommand, MessageMetadata
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.traffic import EXCLUSIVE, SHARED, TOPIC, Client, settle


async def fill(place: Place, entries: int = 0) -> Client:
    client = Client(place.service)
    await client.produce(TOPIC)
    for index in range(entries):
        await client.publish(f"m{index}")
    return client


async def machine_of(place: Place, name: str = "s") -> Shared[Consumer]:
    dispatcher = (await place.topic(TOPIC)).subscriptions[name].dispatcher
    assert dispatcher is not None and isinstance(dispatcher.machine, Shared)
    return dispatcher.machine


def send_chunk(client: Client, uuid: str, number: int, of: int) -> None:
    metadata = MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        uuid=uuid,
        chunk_id=number,
        num_chunks_from_msg=of,
        total_chunk_msg_size=100,
    )
    client.send_entry(metadata, f"{uuid}{number}".encode(), is_chunk=True)


async def send_chunks(client: Client, *chunks: tuple[str, int, int]) -> None:
    before = client.count(BaseCommand.SEND_RECEIPT)
    for chunk in chunks:
        send_chunk(client, *chunk)
    await until(lambda: client.count(BaseCommand.SEND_RECEIPT) == before + len(chunks))


def test_all_chunks_of_a_message_go_to_one_consumer() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        for consumer_id in (1, 2):
            await client.subscribe(TOPIC, "s", SHARED, consumer_id=consumer_id)
        order = [(uuid, number, 3) for number in range(3) for uuid in "ab"]
        await send_chunks(client, *order)
        await until(lambda: len(client.texts(1)) + len(client.texts(2)) == 6)
        for consumer_id in (1, 2):
            texts = client.texts(consumer_id)
            for uuid in {text[0] for text in texts}:
                assert [t for t in texts if t[0] == uuid] == [f"{uuid}{n}" for n in range(3)]
        assert not len((await machine_of(place))._chunks)

    run(body)


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
def test_chunks_wait_for_their_consumer_and_nobody_else_has_to(cache_bytes: int) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1, permits=1)
        await send_chunks(client, ("a", 0, 3))
        await client.get(1, 1)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=2, permits=10)
        await send_chunks(client, ("a", 1, 3), ("b", 0, 1), ("a", 2, 3))
        await client.publish("plain")
        await client.get(2, 2)
        assert client.texts(2) == ["b0", "plain"]
        client.flow(1, 1)
        await client.get(1, 2)
        client.flow(1, 5)
        await client.get(1, 3)
        assert client.texts(1) == ["a0", "a1", "a2"]
        await client.get(2, 2)

    run(body, cache_bytes=cache_bytes)


def test_chunks_of_a_consumer_that_left_go_to_another_from_the_first() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1, permits=1)
        await send_chunks(client, ("a", 0, 2))
        await client.get(1, 1)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=2, permits=10)
        await send_chunks(client, ("a", 1, 2))
        await settle()
        await client.close_consumer(1)
        await client.get(2, 2)
        assert client.texts(2) == ["a0", "a1"]

    run(body)


def test_messages_that_were_never_finished_do_not_pile_up() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1, permits=5000)
        await send_chunks(client, *((f"u{index}", 0, 2) for index in range(1200)))
        await until(lambda: len(client.messages(1)) == 1200)
        assert len((await machine_of(place))._chunks) <= 1000

    run(body)


# ---------------------------------------------------------------------- the end of a topic


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED])
@pytest.mark.parametrize("is_sealed_first", [True, False], ids=["sealed-first", "read-first"])
def test_chunks_of_a_message_that_was_cut_off_by_the_end_do_not_hold_it(
    kind: int, is_sealed_first: bool
) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 1)
        permits = 0 if is_sealed_first else 100
        await client.subscribe(TOPIC, "s", kind, consumer_id=1, permits=permits)
        whole = [("a", 0, 2), ("a", 1, 2)]
        await send_chunks(client, ("b", 0, 3), ("b", 1, 3), *whole, ("c", 0, 2))
        topic = await place.topic(TOPIC)
        if is_sealed_first:
            await topic.termination.run()
            client.flow(1, 100)
            await until(lambda: len(client.texts(1)) == 6)
        else:
            await until(lambda: len(client.texts(1)) == 6)
            await topic.termination.run()
        await until(lambda: topic.subscriptions["s"].backlog == 3)  # the first message, and a
        assert client.count(BaseCommand.REACHED_END_OF_TOPIC) == 0
        delivered = zip(client.deliveries(1), client.texts(1), strict=True)
        client.ack(1, *(each.position for each, text in delivered if text[0] in "ma"))
        await until(lambda: client.count(BaseCommand.REACHED_END_OF_TOPIC) == 1)
        assert topic.subscriptions["s"].backlog == 0

    run(body)


def test_chunks_that_were_sent_again_do_not_hold_the_end_either() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await send_chunks(client, ("a", 0, 3), ("a", 1, 3), ("a", 0, 3), ("a", 1, 3), ("a", 2, 3))
        topic = await place.topic(TOPIC)
        await until(lambda: len(client.texts(1)) == 5)
        await topic.termination.run()
        await until(lambda: topic.subscriptions["s"].backlog == 3)
        client.ack(1, *(each.position for each in client.deliveries(1)[2:]))
        await until(lambda: client.count(BaseCommand.REACHED_END_OF_TOPIC) == 1)

    run(body)
