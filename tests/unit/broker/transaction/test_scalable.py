"""Transactions that span splits, merges and migrations: layout changes wait for none of them."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.scalable.controller import Controller
from magnetar.model.segment import SegmentId
from magnetar.model.transaction import TransactionId
from magnetar.wire.command import BaseCommand, CommandProducer, CommandSubscribe, ServerError
from tests.unit.broker.scalable.migration_place import (
    MARK,
    REGULAR,
    TOPIC,
    make_regular,
    migrate,
    parts,
)
from tests.unit.broker.transaction.transaction_place import (
    Place,
    TransactionClient,
    participant,
    run_enabled,
    settle,
    until,
)


async def open_topic(place: Place, segments: int) -> tuple[Controller, TransactionClient]:
    await place.service.scalable.create_topic(TOPIC, segments=segments)
    return await place.service.scalable.controller(TOPIC), TransactionClient(place.service)


def name_of(controller: Controller, number: int) -> str:
    """Of a segment; one that was a regular topic has that one's name."""
    return controller.layout.get(SegmentId(number)).name_in(TOPIC).full


async def attach_producer(client: TransactionClient, topic: str, producer_id: int) -> None:
    """As a client that follows a topic to its segments."""
    request = CommandProducer(topic=topic, producer_id=producer_id, metadata=MARK)
    await client.ask(request, BaseCommand.PRODUCER_SUCCESS)


async def write(client: TransactionClient, id_: TransactionId, topic: str, number: int) -> None:
    """The number is that of the producer, too."""
    await attach_producer(client, topic, number)
    assert await client.add_topic(id_, topic) is None
    assert not isinstance(await client.write(id_, f"m{number}", producer_id=number), int)


async def read(client: TransactionClient, topic: str, consumer_id: int) -> None:
    request = CommandSubscribe(
        topic=topic,
        subscription="s",
        subType=CommandSubscribe.Shared,
        consumer_id=consumer_id,
        initialPosition=CommandSubscribe.Earliest,
        metadata=MARK,
    )
    await client.ask(request, BaseCommand.SUCCESS)
    client.flow(consumer_id, 100)


def texts(client: TransactionClient, consumers: int) -> list[str]:
    return sorted(text for at in range(1, consumers + 1) for text in client.texts(at))


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_spans_a_split_and_a_merge(is_commit: bool) -> None:
    async def body(place: Place) -> None:
        controller, client = await open_topic(place, 1)
        id_ = await client.begin()
        await write(client, id_, name_of(controller, 0), 10)
        await controller.changes.split(SegmentId(0))
        for number in (1, 2):
            await write(client, id_, name_of(controller, number), 10 + number)
        await controller.changes.merge(SegmentId(1), SegmentId(2))
        await write(client, id_, name_of(controller, 3), 13)
        for number in range(4):
            await read(client, name_of(controller, number), number + 1)
        await settle()
        assert texts(client, 4) == []
        assert not client.count(BaseCommand.REACHED_END_OF_TOPIC), "nothing is drained"
        assert await client.end(id_, commit=is_commit) is None
        if is_commit:
            await until(lambda: texts(client, 4) == ["m10", "m11", "m12", "m13"])
            for number in range(3):
                for delivery in await client.get(number + 1, 1):
                    client.ack(number + 1, delivery.position)
        await until(lambda: client.count(BaseCommand.REACHED_END_OF_TOPIC) == 3)
        assert len(texts(client, 4)) == (4 if is_commit else 0)

    run_enabled(body)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("steps", range(0, 40, 8))
def test_a_split_on_the_way_of_an_outcome_loses_nothing(is_commit: bool, steps: int) -> None:
    """It begins when the commit or the abort is so many steps old."""

    async def body(place: Place) -> None:
        controller, client = await open_topic(place, 1)
        await read(client, name_of(controller, 0), 1)
        id_ = await client.begin()
        for number in range(3):
            await write(client, id_, name_of(controller, 0), 10 + number)
        ending = asyncio.ensure_future(client.end(id_, commit=is_commit))
        for _ in range(steps):
            await asyncio.sleep(0)
        await controller.changes.split(SegmentId(0))
        assert await ending is None
        expected = ["m10", "m11", "m12"] if is_commit else []
        await until(lambda: texts(client, 1) == expected)
        for delivery in await client.get(1, len(expected)):
            client.ack(1, delivery.position)
        await until(lambda: client.count(BaseCommand.REACHED_END_OF_TOPIC) == 1)
        later = await client.begin()
        for number in (1, 2):
            await write(client, later, name_of(controller, number), 20 + number)
            await read(client, name_of(controller, number), number + 1)
        await client.commit(later)
        await until(lambda: texts(client, 3) == [*expected, "m21", "m22"])

    run_enabled(body)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("steps", range(0, 40, 8))
def test_a_merge_on_the_way_of_an_outcome_loses_nothing(is_commit: bool, steps: int) -> None:
    async def body(place: Place) -> None:
        controller, client = await open_topic(place, 2)
        id_ = await client.begin()
        for number in (0, 1):
            await read(client, name_of(controller, number), number + 1)
            await write(client, id_, name_of(controller, number), 10 + number)
        ending = asyncio.ensure_future(client.end(id_, commit=is_commit))
        for _ in range(steps):
            await asyncio.sleep(0)
        await controller.changes.merge(SegmentId(0), SegmentId(1))
        assert await ending is None
        expected = ["m10", "m11"] if is_commit else []
        await until(lambda: texts(client, 2) == expected)
        later = await client.begin()
        await read(client, name_of(controller, 2), 3)
        await write(client, later, name_of(controller, 2), 22)
        await client.commit(later)
        await until(lambda: texts(client, 3) == [*expected, "m22"])

    run_enabled(body)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("steps", range(0, 40, 8))
def test_a_migration_on_the_way_of_an_outcome_loses_nothing(is_commit: bool, steps: int) -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 0)
        client = TransactionClient(place.service)
        [regular] = parts(REGULAR, 0)
        await read(client, regular, 1)
        id_ = await client.begin()
        await write(client, id_, regular, 10)
        ending = asyncio.ensure_future(client.end(id_, commit=is_commit))
        for _ in range(steps):
            await asyncio.sleep(0)
        await migrate(place)
        assert await ending is None
        reader = TransactionClient(place.service)
        await read(reader, regular, 1)
        controller = await place.service.scalable.controller(TOPIC)
        [child, *_] = (each.id for each in controller.layout.active)
        await read(reader, name_of(controller, child), 2)
        later = await client.begin()
        await write(client, later, name_of(controller, child), 22)
        await client.commit(later)
        await until(lambda: "m22" in reader.texts(2))
        seen = {*texts(client, 1), *texts(reader, 2)}
        assert seen == ({"m10", "m22"} if is_commit else {"m22"})

    run_enabled(body)


def test_a_segment_that_a_transaction_left_open_drains_at_its_time_out() -> None:
    async def body(place: Place) -> None:
        controller, client = await open_topic(place, 1)
        await read(client, name_of(controller, 0), 1)
        id_ = await client.begin(timeout_ms=30_000)
        await write(client, id_, name_of(controller, 0), 10)
        await controller.changes.split(SegmentId(0))
        assert [each.id for each in controller.layout.active] == [1, 2], "it waited for nothing"
        await settle()
        assert not client.count(BaseCommand.REACHED_END_OF_TOPIC)
        place.clock.pass_s(31)
        assert await client.end(id_, commit=True) == ServerError.InvalidTxnStatus
        await until(lambda: client.count(BaseCommand.REACHED_END_OF_TOPIC) == 1)
        assert texts(client, 1) == []

    run_enabled(body)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("partitions", [0, 2])
def test_a_transaction_spans_a_migration(is_commit: bool, partitions: int) -> None:
    """It ends on the sealed topic that it began to write to, and on a segment that came later."""

    async def body(place: Place) -> None:
        await make_regular(place, partitions)
        client = TransactionClient(place.service)
        regular = parts(REGULAR, partitions)
        await read(client, regular[0], 1)
        await attach_producer(client, regular[0], 1)
        first = await client.publish("plain")
        await client.get(1, 1)
        id_ = await client.begin()
        await write(client, id_, regular[0], 10)
        assert await client.add_subscription(id_, "s", regular[0]) is None
        assert await client.ack_in(id_, 1, first) is None
        await migrate(place)
        controller = await place.service.scalable.controller(TOPIC)
        [child, *_] = (each.id for each in controller.layout.active)
        await write(client, id_, name_of(controller, child), 11)
        await read(client, name_of(controller, child), 2)
        await place.service.catalog.unload_topic((await place.topic(regular[0])).name)
        await read(client, regular[0], 3)
        await settle()
        assert client.texts(2) == client.texts(3) == [], "neither written nor acknowledged"
        assert id_ in (await participant(place, regular[0])).open_ids
        assert await client.end(id_, commit=is_commit) is None
        if is_commit:
            await until(lambda: client.texts(2) + client.texts(3) == ["m11", "m10"])
        else:
            await until(lambda: client.texts(3) == ["plain"])
            assert client.texts(2) == []
        [delivery] = await client.get(3, 1)
        client.ack(3, delivery.position)
        await until(lambda: client.count(BaseCommand.REACHED_END_OF_TOPIC) == 1)

    run_enabled(body)
