"""A sealed segment drains or is handed out anew, whatever its reader forgot to acknowledge."""

from __future__ import annotations

import asyncio

from magnetar.broker.exposition import render_metrics
from magnetar.broker.scalable.controller import Controller
from magnetar.model.segment import SegmentId
from magnetar.wire.command import CommandFlow
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.group_place import Client, make_topic, segment, soon

WHOLE = "0000-ffff-0"
PATIENCE = {"scalableTopicStalledSegmentSeconds": 0.01}


async def fill(place: Place) -> tuple[Controller, Client]:
    """Ten messages in the one segment of a topic, and a consumer that was handed all of them."""
    controller = await make_topic(place)
    producer, client = Client(place), Client(place)
    await producer.produce(segment(WHOLE))
    await producer.send(10)
    await client.register("a", consumer_id=1)
    await client.read(WHOLE, "a", reader_id=10)
    await until(lambda: len(client.messages(10)) == 10)
    return controller, client


async def come_back(place: Place, client: Client) -> Client:
    """The connection is lost, and with it what was acknowledged on it."""
    client.leave()
    back = Client(place)
    await back.register("a", consumer_id=1)
    await back.read(WHOLE, "a", reader_id=10)
    await until(lambda: len(back.messages(10)) == 10)
    return back


def test_a_reader_that_came_back_and_is_silent_gets_its_sealed_segment_anew() -> None:
    async def body(place: Place) -> None:
        controller, client = await fill(place)
        await controller.changes.split(SegmentId(0))
        client = await come_back(place, client)
        place.clock.pass_s(1)
        await soon(lambda: client.assigned(1)[-1] == [])
        await client.close_consumer(10)
        await soon(lambda: client.assigned(1)[-1] == [0])
        await client.read(WHOLE, "a", reader_id=11)
        await until(lambda: len(client.messages(11)) == 10)
        client.ack(11, *client.messages(11))
        await soon(lambda: client.assigned(1)[-1] == [1, 2])
        metric = 'magnetar_segment_recalls_total{cluster="standalone",broker="localhost:8080"} 1'
        assert metric in await render_metrics(place.service)

    run(body, **PATIENCE)


def test_a_segment_is_recalled_once_for_each_return_of_its_reader() -> None:
    async def body(place: Place) -> None:
        controller, client = await fill(place)
        await controller.changes.split(SegmentId(0))
        client = await come_back(place, client)
        place.clock.pass_s(1)
        await soon(lambda: client.assigned(1)[-1] == [])
        await client.close_consumer(10)
        await soon(lambda: client.assigned(1)[-1] == [0])
        await client.read(WHOLE, "a", reader_id=11)
        place.clock.pass_s(60)
        await asyncio.sleep(0.05)
        assert place.service.scalable.redeliveries == 1
        client = await come_back(place, client)
        place.clock.pass_s(1)
        await soon(lambda: place.service.scalable.redeliveries == 2)

    run(body, **PATIENCE)


def test_a_segment_that_is_sealed_after_its_reader_came_back_is_recalled_too() -> None:
    async def body(place: Place) -> None:
        controller, client = await fill(place)
        client = await come_back(place, client)
        place.clock.pass_s(1)
        await controller.changes.split(SegmentId(0))
        await soon(lambda: client.assigned(1)[-1] == [])

    run(body, **PATIENCE)


def test_a_reader_that_is_back_before_its_consumer_is_watched() -> None:
    async def body(place: Place) -> None:
        controller, client = await fill(place)
        await controller.changes.split(SegmentId(0))
        client.leave()
        client = Client(place)
        group = controller.groups.coordinators["s"]
        await controller.subscriptions.drop_idle_groups()
        await client.read(WHOLE, "a", reader_id=10)
        await group.restore()
        await client.register("a", consumer_id=1)
        place.clock.pass_s(1)
        await soon(lambda: client.assigned(1)[-1] == [])

    run(body, **PATIENCE)


def test_a_first_reader_may_take_its_time() -> None:
    async def body(place: Place) -> None:
        controller, client = await fill(place)
        await controller.changes.split(SegmentId(0))
        place.clock.pass_s(60)
        await asyncio.sleep(0.05)
        assert place.service.scalable.redeliveries == 0
        assert client.assigned(1)[-1] == [0]

    run(body, **PATIENCE)


def test_a_reader_that_acknowledges_after_its_return_keeps_the_segment() -> None:
    async def body(place: Place) -> None:
        controller, client = await fill(place)
        await controller.changes.split(SegmentId(0))
        client = await come_back(place, client)
        client.ack(10, client.messages(10)[0])
        place.clock.pass_s(60)
        await asyncio.sleep(0.05)
        assert place.service.scalable.redeliveries == 0
        client.say(CommandFlow(consumer_id=10, messagePermits=1))
        client.ack(10, *client.messages(10))
        await soon(lambda: client.assigned(1)[-1] == [1, 2])

    run(body, **PATIENCE)


def test_nothing_is_recalled_where_that_is_switched_off() -> None:
    async def body(place: Place) -> None:
        controller, client = await fill(place)
        await controller.changes.split(SegmentId(0))
        client = await come_back(place, client)
        place.clock.pass_s(60)
        await asyncio.sleep(0.05)
        assert place.service.scalable.redeliveries == 0

    run(body, scalableTopicStalledSegmentSeconds=0)
