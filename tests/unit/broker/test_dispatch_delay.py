"""Messages that are not due yet: passed over, and delivered once."""

from __future__ import annotations

from magnetar.broker.consumer import Consumer
from magnetar.model.position import Position
from magnetar.rules.dispatch.shared import Shared
from tests.unit.broker.broker_place import Place, run
from tests.unit.broker.traffic import SHARED, TOPIC, Client, settle


async def fill(place: Place, entries: int = 10) -> Client:
    client = Client(place.service)
    await client.produce(TOPIC)
    for index in range(entries):
        await client.publish(f"m{index}")
    return client


async def machine_of(place: Place, name: str = "s") -> Shared[Consumer]:
    dispatcher = (await place.topic(TOPIC)).subscriptions[name].dispatcher
    assert dispatcher is not None and isinstance(dispatcher.machine, Shared)
    return dispatcher.machine


async def wake(place: Place) -> None:
    dispatcher = (await place.topic(TOPIC)).subscriptions["s"].dispatcher
    assert dispatcher is not None
    dispatcher.wake()


async def publish_late(client: Client, place: Place, text: str, seconds: int) -> Position:
    return await client.publish(text, deliver_at_time=place.clock.now_ms() + seconds * 1000)


def test_a_message_that_is_not_due_is_passed_over_until_it_is() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 1)
        await publish_late(client, place, "late", 60)
        await publish_late(client, place, "later", 120)
        await client.publish("soon")
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await client.get(1, 2)
        machine = await machine_of(place)
        assert len(machine.delayed) == 2
        place.clock.pass_s(61)
        await wake(place)
        await client.get(1, 3)
        place.clock.pass_s(61)
        await wake(place)
        await client.get(1, 4)
        assert client.texts(1) == ["m0", "soon", "late", "later"]

    run(body)


def test_a_message_behind_the_end_of_the_permits_is_not_counted_as_delayed_yet() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        await client.publish_batch(["a", "b", "c"])
        await publish_late(client, place, "late", 60)
        await client.publish("last")
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1, permits=3)
        await client.get(1, 1)
        place.clock.pass_s(61)
        client.flow(1, 10)
        await client.get(1, 3)  # once each
        assert client.texts(1)[1:] == ["late", "last"]

    run(body)


def test_delayed_messages_are_found_again_after_everybody_left() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        position = await publish_late(client, place, "late", 60)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await settle()
        await client.close_consumer(1)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=2)
        await settle()
        machine = await machine_of(place)
        assert len(machine.delayed) == 1
        client.ack(2, position)
        place.clock.pass_s(61)
        await wake(place)
        await settle()
        assert client.texts(2) == [] and not len(machine.replay)

    run(body)
