"""Readers: where they start, and that nothing of them stays."""

from __future__ import annotations

import pytest

from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.wire.command import BaseCommand, CommandSubscribe, ServerError, message_id
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.traffic import EXCLUSIVE, TOPIC, Client, settle


async def fill(place: Place, entries: int = 10) -> Client:
    client = Client(place.service)
    await client.produce(TOPIC)
    for index in range(entries):
        await client.publish(f"m{index}")
    return client


def texts(first: int, end: int) -> list[str]:
    return [f"m{index}" for index in range(first, end)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (EARLIEST, texts(0, 6)),
        (LATEST, []),
        (Position(0, 5), texts(2, 6)),  # a ledger that is gone
        (None, texts(4, 6)),  # at an entry: from there on
        (Position(10_000, 0), []),  # beyond the end
    ],
)
def test_a_reader_starts_where_it_asks_to(start: Position | None, expected: list[str]) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 2)
        topic = await place.topic(TOPIC)
        await topic.log.roll()
        if start is not None and start.ledger_id == 0:
            await topic.log.trim()
        positions = [await client.publish(f"m{index}") for index in range(2, 6)]
        request = CommandSubscribe(
            topic=TOPIC,
            subscription="reader-1",
            subType=CommandSubscribe.Exclusive,
            consumer_id=1,
            durable=False,
            start_message_id=message_id(positions[2] if start is None else start),
        )
        await client.ask(request, BaseCommand.SUCCESS)
        client.flow(1, 100)
        await settle()
        assert client.texts(1) == expected

    run(body)


def test_a_reader_leaves_nothing_behind_also_when_it_is_refused() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 2)
        topic = await place.topic(TOPIC)
        await client.subscribe(TOPIC, "r", EXCLUSIVE, consumer_id=1, durable=False)
        await client.get(1, 2)
        clash = await client.subscribe(TOPIC, "r", EXCLUSIVE, consumer_id=2)
        assert clash.error.error == ServerError.NotAllowedError
        await client.close_consumer(1)
        assert "r" not in topic.subscriptions
        await until(lambda: "r" not in topic.log.cursors)
        await client.subscribe(TOPIC, "r", EXCLUSIVE, consumer_id=3, durable=False)
        await client.get(3, 2)

    run(body)
