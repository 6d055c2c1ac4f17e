"""The tables of a connection: which producers and consumers are attached, coming or gone."""

from __future__ import annotations

import pytest

from magnetar.broker.attached import Consumers, Producers
from magnetar.broker.consumer import Consumer
from magnetar.errors import ProtocolViolation
from magnetar.model.subscription import SubscriptionType
from magnetar.wire.command import BaseCommand
from tests.unit.broker.broker_place import Peer, Place, StillClock, run, until
from tests.unit.broker.traffic import Client

TOPIC = "persistent://shop/eu/orders"
GRACE_S = 30


async def attach_consumer(client: Client, consumer_id: int) -> Consumer:
    await client.subscribe(TOPIC, "s", SubscriptionType.SHARED, consumer_id=consumer_id)
    found = client._connection.consumers.get(consumer_id)
    assert found is not None
    return found


def test_a_creation_that_was_given_up_attaches_nothing() -> None:
    async def body(place: Place) -> None:
        consumer = await attach_consumer(Client(place.service), 7)
        table = Consumers()
        creation = table.expect(7)
        assert table.is_coming(7) and not table
        assert table.pop(7) is None
        assert not table.is_coming(7)
        assert not table.attach(consumer, creation)
        later = table.expect(7)
        table.give_up(7, creation)
        assert table.is_coming(7), "another creation with the same id goes on"
        assert table.attach(consumer, later)
        assert table.get(7) is consumer and not table.is_coming(7)

    run(body)


def test_a_table_takes_out_the_one_it_is_asked_to_and_no_other_of_its_id() -> None:
    async def body(place: Place) -> None:
        client, other = Client(place.service), Client(place.service)
        first, second = await attach_consumer(client, 7), await attach_consumer(other, 7)
        table = Consumers()
        assert table.attach(first, table.expect(7))
        assert not table.discard(second)
        assert list(table) == [first]
        assert table.discard(first) and not table

    run(body)


def test_closing_a_table_detaches_what_is_in_it_and_ends_what_is_coming() -> None:
    async def body(place: Place) -> None:
        consumer = await attach_consumer(Client(place.service), 7)
        table = Consumers()
        assert table.attach(consumer, table.expect(7))
        table.away.add(consumer, now=0)
        creation = table.expect(8)
        table.close()
        assert consumer.closed and not table and not list(table.away)
        assert not table.attach(consumer, creation)

    run(body)


def test_sends_to_a_producer_that_the_broker_closed_are_dropped_for_a_while() -> None:
    async def body(place: Place) -> None:
        peer = Peer(place.service)
        await peer.produce(TOPIC, producer_id=3)
        producer = peer._connection.producers.get(3)
        assert producer is not None
        clock = StillClock()
        table = Producers(clock)
        with pytest.raises(ProtocolViolation, match="unknown"):
            table.check_stray(3)
        assert table.attach(producer, table.expect(3))
        with pytest.raises(ProtocolViolation, match="waits for its turn"):
            table.check_stray(3)
        assert table.disconnect(producer)
        assert not table.disconnect(producer), "it left already"
        clock.pass_s(GRACE_S - 1)
        table.check_stray(3)
        clock.pass_s(1)
        with pytest.raises(ProtocolViolation, match="unknown"):
            table.check_stray(3)

    run(body)


def test_a_producer_that_came_back_and_left_is_not_remembered_as_closed() -> None:
    async def body(place: Place) -> None:
        peer = Peer(place.service)
        await peer.produce(TOPIC, producer_id=3)
        producer = peer._connection.producers.get(3)
        assert producer is not None
        table = Producers(StillClock())
        assert table.attach(producer, table.expect(3)) and table.disconnect(producer)
        assert table.attach(producer, table.expect(3))
        assert table.pop(3) is producer
        with pytest.raises(ProtocolViolation, match="unknown"):
            table.check_stray(3)

    run(body)


def test_a_seek_keeps_its_consumers_known_until_they_subscribe_again() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        consumer = await attach_consumer(client, 1)
        table = client._connection.consumers
        consumer.disconnect(returns=True)
        assert not table and list(table.away) == [consumer]
        await until(lambda: client.count(BaseCommand.CLOSE_CONSUMER) == 1)
        await attach_consumer(client, 1)
        assert not list(table.away)

    run(body)
