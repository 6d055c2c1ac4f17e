"""Consumers on their way in: what happens when somebody changes their mind, or the topic goes."""

from __future__ import annotations

import pytest

from magnetar.wire.command import (
    BaseCommand,
    CommandCloseConsumer,
    CommandFlow,
    CommandSubscribe,
    ServerError,
)
from tests.unit.broker.broker_place import Peer, Place, run, run_virtually, until
from tests.unit.broker.traffic import EXCLUSIVE, SHARED, TOPIC, Client, settle

SLOW = {"connectionLivenessCheckTimeoutMillis": 30}


def ask(client: Client, request_id: int, *, name: str = "s", kind: int = EXCLUSIVE) -> None:
    client.say(
        CommandSubscribe(
            topic=TOPIC,
            subscription=name,
            subType=kind,  # type: ignore[arg-type]
            consumer_id=1,
            request_id=request_id,
            initialPosition=CommandSubscribe.Earliest,
        )
    )


def answers(client: Client) -> list[tuple[int, int]]:
    found = []
    for command in client._wire.received:
        if command.type == BaseCommand.SUCCESS:
            found.append((command.success.request_id, 0))
        elif command.type == BaseCommand.ERROR:
            found.append((command.error.request_id, command.error.error))
    return found


async def hold(place: Place) -> Client:
    """A topic with one message, whose subscription somebody holds without hearing a thing."""
    holder = Client(place.service)
    await holder.produce(TOPIC)
    await holder.publish("m0")
    await holder.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1, permits=0)
    holder.fall_silent()
    return holder


def test_a_second_request_for_a_consumer_that_is_coming_is_told_to_wait() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        ask(client, 1)
        ask(client, 2)
        await until(lambda: len(answers(client)) == 2)
        ask(client, 3)
        await until(lambda: len(answers(client)) == 3)
        assert answers(client) == [(2, ServerError.ServiceNotReady), (1, 0), (3, 0)]

    run(body)


def test_a_request_that_was_given_up_does_not_come_back_as_the_next_one() -> None:
    async def body(place: Place) -> None:
        holder, client = await hold(place), Client(place.service)
        ask(client, 1)
        await until(lambda: holder.count(BaseCommand.PING) == 1)
        client.say(CommandCloseConsumer(consumer_id=1, request_id=2))
        ask(client, 3, name="other")
        await until(lambda: len(answers(client)) == 2)
        await until(lambda: holder.is_cut_off)
        await settle()  # the way is free now, and nobody wants to go it any more
        assert answers(client) == [(2, 0), (3, 0)]
        topic = await place.topic(TOPIC)
        assert topic.subscriptions["s"].consumers == []
        client.flow(1, 10)
        await client.get(1, 1)

    run_virtually(body, **SLOW)


@pytest.mark.parametrize("end", ["unload", "delete", "leave"])
def test_a_topic_that_goes_while_a_consumer_comes_in_does_not_keep_it(end: str) -> None:
    async def body(place: Place) -> None:
        holder, client = await hold(place), Client(place.service)
        ask(client, 1)
        await until(lambda: holder.count(BaseCommand.PING) == 1)
        topic = await place.topic(TOPIC)
        subscription = topic.subscriptions["s"]
        if end == "unload":
            await place.service.catalog.unload_topic(topic.name)
        elif end == "delete":
            await place.service.catalog.delete_topic(topic.name, force=True)
        else:
            client.leave()
            await until(lambda: holder.is_cut_off)
        await settle()
        await until(lambda: end == "leave" or len(answers(client)) == 1)
        assert subscription.consumers == []
        if end != "leave":
            assert answers(client) == [(1, ServerError.ServiceNotReady)]
            ask(client, 2)
            await until(lambda: len(answers(client)) == 2)
            client.flow(1, 5)
            await client.get(1, 1 if end == "unload" else 0)

    run_virtually(body, **SLOW)


def test_consumers_that_come_while_their_topic_is_loaded_share_the_load() -> None:
    async def body(place: Place) -> None:
        clients = [Client(place.service) for _ in range(5)]
        for client in clients:
            ask(client, 1, kind=SHARED)
        await until(lambda: all(answers(client) for client in clients))
        assert all(answers(client) == [(1, 0)] for client in clients)
        topic = await place.topic(TOPIC)
        assert len(topic.subscriptions["s"].consumers) == 5

    run(body)


def test_permits_of_nobody_and_no_permits_at_all() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        client.flow(9, 5)
        client.ack(9, (1, 1))
        client.redeliver(9)
        await client.close_consumer(9)
        assert not client.is_cut_off
        client.say(CommandFlow(consumer_id=1, messagePermits=0))
        assert client.is_cut_off

    run(body)


def test_a_connection_that_comes_while_the_broker_closes_is_not_served() -> None:
    async def body(place: Place) -> None:
        await place.service.close()
        late = Peer(place.service)
        assert late._wire.closed
        assert not place.service.connections

    run(body)


def test_a_broker_closes_under_all_its_clients() -> None:
    async def body(place: Place) -> None:
        holder = await hold(place)
        client = Client(place.service)
        await client.subscribe(TOPIC, "t", SHARED, consumer_id=1)
        await client.subscribe(TOPIC, "r", EXCLUSIVE, consumer_id=2, durable=False)
        waiting = Client(place.service)
        ask(waiting, 1)
        await until(lambda: holder.count(BaseCommand.PING) == 1)
        await place.service.close()
        assert client.is_cut_off and waiting.is_cut_off and holder.is_cut_off
        assert client.count(BaseCommand.CLOSE_CONSUMER) == 2
        assert not place.service.connections and not len(place.service.tasks)

    run_virtually(body, **SLOW)
