"""Moving a subscription: what is read again, who is sent away, who waits."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.wire.command import (
    BaseCommand,
    CommandGetLastMessageId,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    ServerError,
    message_id,
)
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.traffic import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    TOPIC,
    Client,
    settle,
)

KINDS = [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED]


async def fill(place: Place, entries: int = 6) -> tuple[Client, list[Position]]:
    """Messages a second apart, from second 10 on."""
    client = Client(place.service)
    await client.produce(TOPIC)
    positions = [
        await client.publish(f"m{index}", publish_time=10_000 + 1000 * index)
        for index in range(entries)
    ]
    return client, positions


async def last_id(client: Client, consumer_id: int) -> BaseCommand:
    request = CommandGetLastMessageId(consumer_id=consumer_id)
    return await client.ask(request, BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
def test_a_seek_sends_everybody_away_and_forgets_what_was_acknowledged(
    kind: int, cache_bytes: int
) -> None:
    async def body(place: Place) -> None:
        client, positions = await fill(place)
        await client.subscribe(TOPIC, "s", kind, consumer_id=1)
        await client.get(1, 6)
        client.ack(1, *positions[3:5])
        answer = await client.seek(1, positions[2])
        assert answer.type == BaseCommand.SUCCESS
        closed = [each.close_consumer for each in client.received(BaseCommand.CLOSE_CONSUMER)]
        assert [each.consumer_id for each in closed] == [1]
        await client.subscribe(TOPIC, "s", kind, consumer_id=1)
        await until(lambda: len(client.texts(1)) == 10)
        assert client.texts(1)[6:] == ["m2", "m3", "m4", "m5"]
        assert (await place.topic(TOPIC)).subscriptions["s"].backlog == 4

    run(body, cache_bytes=cache_bytes)


@pytest.mark.parametrize(
    ("target", "first"),
    [
        (EARLIEST, 0),
        (LATEST, 6),
        (Position(0, 0), 0),
        (Position(10_000, 3), 6),
        (Position(1, 10_000), 6),
    ],
)
def test_a_seek_to_nowhere_goes_to_the_next_place_there_is(target: Position, first: int) -> None:
    async def body(place: Place) -> None:
        client, _ = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.get(1, 6)
        await client.seek(1, target)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=2)
        await client.get(2, 6 - first)

    run(body)


@pytest.mark.parametrize("publish_time", [2**64 - 1, 2**63])
def test_a_message_from_before_1970_is_before_every_time(publish_time: int) -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await client.produce(TOPIC)
        await client.publish("old", publish_time=publish_time)
        await client.publish("new", publish_time=10_000)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.seek(1, time_ms=5_000)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=2)
        await client.get(2, 1)

    run(body)


@pytest.mark.parametrize(("age_s", "expected"), [(2**64 - 1, 0), (2**63, 0), (2**63 - 1, 6)])
def test_how_long_ago_a_subscription_begins_is_signed(age_s: int, expected: int) -> None:
    """Less than nothing is as nothing: it begins where its initial position says."""

    async def body(place: Place) -> None:
        client, _ = await fill(place)
        request = CommandSubscribe(
            topic=TOPIC,
            subscription="s",
            subType=CommandSubscribe.Exclusive,
            consumer_id=1,
            initialPosition=CommandSubscribe.Latest,
            start_message_rollback_duration_sec=age_s,
        )
        await client.ask(request, BaseCommand.SUCCESS)
        topic = await place.topic(TOPIC)
        assert topic.subscriptions["s"].backlog == expected

    run(body)


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [(0, 6), (12_000, 4), (12_001, 3), (99_000, 0), (2**64 - 5_000, 6), (2**63, 6)],
)
@pytest.mark.parametrize("durable", [True, False])
def test_a_seek_to_a_time_finds_the_first_message_from_then_on(
    time_ms: int, expected: int, durable: bool
) -> None:
    async def body(place: Place) -> None:
        client, _ = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1, durable=durable)
        await client.get(1, 6)
        await client.seek(1, time_ms=time_ms)
        # A reader comes back with the place it began at; the broker remembers better.
        more: dict[str, Any] = {} if durable else {"start_message_id": message_id(EARLIEST)}
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=2, durable=durable, **more)
        await client.get(2, expected)

    run(body)


def test_a_reader_that_does_not_come_back_from_a_seek_is_forgotten() -> None:
    async def body(place: Place) -> None:
        client, _ = await fill(place)
        await client.subscribe(TOPIC, "r", EXCLUSIVE, consumer_id=1, durable=False)
        await client.seek(1, EARLIEST)
        topic = await place.topic(TOPIC)
        place.clock.pass_s(200)
        topic.tick(place.clock.monotonic())
        assert "r" in topic.subscriptions
        place.clock.pass_s(200)
        topic.tick(place.clock.monotonic())
        assert "r" not in topic.subscriptions
        await until(lambda: "r" not in topic.log.cursors)

    run(body)


@pytest.mark.parametrize("durable", [True, False])
def test_who_has_not_noticed_that_a_seek_sent_it_away_may_ask_and_seek_again(durable: bool) -> None:
    """Some clients do both before they subscribe again."""

    async def body(place: Place) -> None:
        client, positions = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1, durable=durable)
        await client.get(1, 6)
        await client.seek(1, positions[0])
        found = (await last_id(client, 1)).getLastMessageIdResponse
        assert found.last_message_id.entryId == positions[5].entry_id
        assert (await client.seek(1, positions[4])).type == BaseCommand.SUCCESS
        assert len(client.received(BaseCommand.CLOSE_CONSUMER)) == 1
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1, durable=durable)
        await until(lambda: len(client.texts(1)) == 8)
        assert client.texts(1)[6:] == ["m4", "m5"]

    run(body)


def test_who_leaves_after_a_seek_has_left() -> None:
    async def body(place: Place) -> None:
        client, positions = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.seek(1, positions[0])
        await client.close_consumer(1)
        assert (await client.seek(1, positions[4])).error.error == ServerError.MetadataError
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=2)
        await client.get(2, 6)

    run(body)


def test_a_seek_inside_a_batch_reads_the_rest_of_it() -> None:
    async def body(place: Place) -> None:
        client, _ = await fill(place, 0)
        position = await client.publish_batch(["a", "b", "c"])
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.get(1, 1)
        client.ack(1, position)
        await client.seek(1, position, remaining=0b110)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=2)
        (again,) = await client.get(2, 1)
        assert again.remaining == 0b110
        subscription = (await place.topic(TOPIC)).subscriptions["s"]
        await subscription.reset_to_position(position, batch_index=2)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=3)
        (again,) = await client.get(3, 1)
        assert again.remaining == 0b100

    run(body)


def test_who_subscribes_during_a_seek_waits_for_its_end() -> None:
    async def body(place: Place) -> None:
        client, positions = await fill(place)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await client.get(1, 6)
        client.say(CommandSeek(consumer_id=1, request_id=71, message_id=message_id(positions[4])))
        client.say(
            CommandSubscribe(
                topic=TOPIC,
                subscription="s",
                subType=CommandSubscribe.Shared,
                consumer_id=2,
                request_id=72,
            )
        )
        await until(lambda: client.count(BaseCommand.SUCCESS) == 3)
        client.flow(2, 100)
        await client.get(2, 2)

    run(body)


def test_a_seek_needs_a_place_and_a_consumer() -> None:
    async def body(place: Place) -> None:
        client, _ = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        assert (await client.seek(1)).error.error == ServerError.MetadataError
        nobody = await client.seek(9, EARLIEST)
        assert nobody.error.error == ServerError.MetadataError

    run(body)


# ---------------------------------------------------------------------- leaving for good


def test_an_unsubscribed_name_begins_anew_also_when_it_is_taken_at_once() -> None:
    async def body(place: Place) -> None:
        client, positions = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.get(1, 6)
        client.ack_through(1, positions[5])
        other = Client(place.service)
        client.say(CommandUnsubscribe(consumer_id=1, request_id=50))
        answer = await other.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        while answer.type == BaseCommand.ERROR:
            assert answer.error.error == ServerError.ServiceNotReady
            answer = await other.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await until(lambda: client.count(BaseCommand.SUCCESS) == 2)
        await other.get(1, 6)
        topic = await place.topic(TOPIC)
        assert topic.log.cursors["s"] is topic.subscriptions["s"].cursor

    run(body)


def test_only_the_last_consumer_may_unsubscribe_unless_it_insists() -> None:
    async def body(place: Place) -> None:
        client, _ = await fill(place)
        for consumer_id in (1, 2):
            await client.subscribe(TOPIC, "s", SHARED, consumer_id=consumer_id)
        refused = await client.ask(CommandUnsubscribe(consumer_id=1), BaseCommand.SUCCESS)
        assert refused.error.error == ServerError.MetadataError
        forced = await client.ask(
            CommandUnsubscribe(consumer_id=1, force=True), BaseCommand.SUCCESS
        )
        assert forced.type == BaseCommand.SUCCESS
        assert "s" not in (await place.topic(TOPIC)).subscriptions
        closed = client.received(BaseCommand.CLOSE_CONSUMER)
        assert [each.close_consumer.consumer_id for each in closed] == [2]

    run(body)


# ---------------------------------------------------------------------- the last message


def test_the_last_message_of_an_empty_a_filled_and_a_trimmed_topic() -> None:
    async def body(place: Place) -> None:
        client, _ = await fill(place, 0)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        nowhere = 2**64 - 1

        async def last() -> tuple[int, int, int]:
            found = (await last_id(client, 1)).getLastMessageIdResponse.last_message_id
            return found.ledgerId, found.entryId, found.batch_index

        assert await last() == (nowhere, nowhere, -1)
        position = await client.publish("one")
        assert await last() == (*position, -1)
        batch = await client.publish_batch(["a", "b", "c"])
        assert await last() == (*batch, 2)
        client.ack_through(1, batch)
        topic = await place.topic(TOPIC)
        await topic.truncate()
        assert topic.log.sequence.total_entries == 0
        assert await last() == (nowhere, nowhere, -1)
        assert (await last_id(client, 7)).error.error == ServerError.MetadataError

    run(body)


def test_topics_close_under_their_subscribers_and_take_them_back() -> None:
    async def body(place: Place) -> None:
        client, _ = await fill(place)
        for consumer_id, kind in enumerate(KINDS):
            await client.subscribe(TOPIC, f"s{kind}", kind, consumer_id=consumer_id)
        await client.subscribe(TOPIC, "reader", EXCLUSIVE, consumer_id=9, durable=False)
        name = (await place.topic(TOPIC)).name
        await place.service.catalog.unload_topic(name)
        await until(lambda: client.count(BaseCommand.CLOSE_CONSUMER) == 5)
        topic = await place.topic(TOPIC)
        assert sorted(topic.subscriptions) == ["s0", "s1", "s2", "s3"]
        await place.service.catalog.delete_topic(name, force=True)
        await client.subscribe(TOPIC, "s0", EXCLUSIVE, consumer_id=0)
        await settle()
        assert (await place.topic(TOPIC)).subscriptions["s0"].backlog == 0

    run(body)
