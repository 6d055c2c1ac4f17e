"""Shared: who gets what, what comes again, and what counts as unacknowledged."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from magnetar.broker.consumer import Consumer
from magnetar.broker.log_search import last_message_id, position_at
from magnetar.model.policy import DispatchRate, Policies
from magnetar.model.position import LedgerId
from magnetar.rules.dispatch.shared import Shared
from tests.unit.broker.broker_place import NAMESPACE, Place, run, until
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


async def set_policies(place: Place, **changes: object) -> None:
    def change(before: Policies) -> Policies:
        return replace(before, **changes)

    await place.service.resources.namespaces.update(NAMESPACE, change)
    await settle()


# ---------------------------------------------------------------------- who gets what


def test_consumers_of_one_level_take_turns_and_a_lower_level_waits() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        for consumer_id, level in ((1, 0), (2, 0), (3, 1)):
            await client.subscribe(
                TOPIC, "s", SHARED, consumer_id=consumer_id, permits=30, priority_level=level
            )
        await client.send(60)
        await until(lambda: len(client.messages(1)) + len(client.messages(2)) == 60)
        assert len(client.messages(1)) == len(client.messages(2)) == 30
        await client.send(5)
        await until(lambda: len(client.messages(3)) == 5)

    run(body)


def test_every_entry_goes_to_one_consumer_only() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 50)
        for consumer_id in (1, 2, 3):
            await client.subscribe(TOPIC, "s", SHARED, consumer_id=consumer_id, permits=20)
        await until(lambda: sum(len(client.texts(each)) for each in (1, 2, 3)) == 50)
        await settle()
        assert sorted(text for each in (1, 2, 3) for text in client.texts(each)) == sorted(
            f"m{index}" for index in range(50)
        )

    run(body)


# ---------------------------------------------------------------------- what comes again


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
def test_what_a_consumer_leaves_behind_goes_to_the_others_without_being_counted(
    cache_bytes: int,
) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 6)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        got = await client.get(1, 6)
        client.ack(1, got[1].position, got[4].position)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=2)
        await client.close_consumer(1)
        again = await client.get(2, 4)
        assert [each.payload.decode() for each in again] == ["m0", "m2", "m3", "m5"]
        assert {each.redelivery_count for each in again} == {0}
        machine = await machine_of(place)
        assert machine.unacked == 4 and not len(machine.replay)

    run(body, cache_bytes=cache_bytes)


def test_what_is_given_back_comes_again_and_is_counted() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 3)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        got = await client.get(1, 3)
        client.redeliver(1, got[1].position, (got[0].position[0], 999))
        client.redeliver(1, got[1].position)  # not delivered again yet: nothing to give back
        again = await client.get(1, 4)
        assert again[3].position == got[1].position and again[3].redelivery_count == 1
        client.redeliver(1)
        again = await client.get(1, 7)
        assert [each.redelivery_count for each in again[4:]] == [1, 2, 1]
        machine = await machine_of(place)
        assert machine.unacked == machine.members[0].unacked == 3
        client.ack(1, *(each.position for each in got))
        assert machine.unacked == 0 and not machine.redeliveries

    run(body)


def test_an_acknowledgement_may_come_through_another_consumer() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 4)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        got = await client.get(1, 4)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=2)
        client.ack(2, *(each.position for each in got[:3]))
        machine = await machine_of(place)
        assert [each.unacked for each in machine.members] == [1, 0]
        assert machine.unacked == 1
        client.redeliver(1, got[3].position)
        client.ack(2, got[3].position)  # it waits to be delivered again, but is not any more
        await settle()
        assert len(client.texts(1)) + len(client.texts(2)) == 4
        assert (await place.topic(TOPIC)).subscriptions["s"].backlog == 0

    run(body)


def test_batches_count_by_message_and_come_again_with_what_is_left() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        position = await client.publish_batch(["a", "b", "c", "d"])
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1, permits=10)
        await client.get(1, 1)
        machine = await machine_of(place)
        consumer = machine.members[0]
        assert (consumer.permits, consumer.unacked, machine.unacked) == (6, 4, 4)
        client.ack_part(1, position, 0b1011)
        client.ack_part(1, position, 0b1011)
        assert (consumer.unacked, machine.unacked) == (3, 3)
        client.redeliver(1, position)
        again = await client.get(1, 2)
        assert again[1].remaining == 0b1011 and again[1].redelivery_count == 1
        assert (consumer.permits, consumer.unacked, machine.unacked) == (3, 3, 3)
        client.ack_part(1, position, 0)
        assert (consumer.unacked, machine.unacked) == (0, 0)
        assert (await place.topic(TOPIC)).subscriptions["s"].backlog == 0

    run(body)


def test_a_cumulative_acknowledgement_is_not_heard() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 3)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        got = await client.get(1, 3)
        client.ack_through(1, got[2].position)
        assert (await machine_of(place)).unacked == 3

    run(body)


def test_a_subscription_that_everybody_left_is_read_again_from_the_mark() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 4)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        got = await client.get(1, 4)
        client.redeliver(1, got[0].position)
        await client.get(1, 5)
        client.ack(1, got[2].position)
        await client.close_consumer(1)
        machine = await machine_of(place)
        assert machine.unacked == 0
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=2)
        again = await client.get(2, 3)
        assert [each.payload.decode() for each in again] == ["m0", "m1", "m3"]

    run(body)


# ---------------------------------------------------------------------- limits


def test_a_consumer_with_too_much_unacknowledged_waits_and_its_permits_are_kept() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        await set_policies(place, max_unacked_messages_per_consumer=4)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1, permits=4)
        await client.send(10)
        got = await client.get(1, 4)
        client.flow(1, 4)
        await client.get(1, 4)
        client.ack(1, got[0].position)
        await client.get(1, 4)  # half must be acknowledged
        client.ack(1, got[1].position)
        await client.get(1, 6)
        (consumer,) = (await machine_of(place)).members
        assert (consumer.unacked, consumer.permits) == (4, 2)

    run(body)


def test_a_subscription_with_too_much_unacknowledged_stops_until_half_is_gone() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        await set_policies(place, max_unacked_messages_per_subscription=4)
        for consumer_id in (1, 2):
            await client.subscribe(TOPIC, "s", SHARED, consumer_id=consumer_id, permits=2)
        await client.send(10)
        await until(lambda: len(client.messages(1)) + len(client.messages(2)) == 4)
        client.flow(1, 10)
        await settle()
        assert len(client.messages(1)) + len(client.messages(2)) == 4
        await client.close_consumer(2)
        await client.get(1, 4)  # what the other held, and that is the limit again
        client.ack(1, client.messages(1)[0])
        await client.get(1, 4)
        client.ack(1, client.messages(1)[1])
        await client.get(1, 6)
        machine = await machine_of(place)
        assert machine.blocked and machine.unacked == 4

    run(body)


def test_a_raised_limit_lets_a_blocked_subscription_go_on() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        await set_policies(
            place, max_unacked_messages_per_subscription=4, max_unacked_messages_per_consumer=4
        )
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1, permits=4)
        await client.send(10)
        await client.get(1, 4)
        client.flow(1, 100)
        await client.get(1, 4)
        await set_policies(
            place, max_unacked_messages_per_subscription=0, max_unacked_messages_per_consumer=0
        )
        await client.get(1, 10)

    run(body)


def test_the_dispatch_rate_bounds_what_goes_out_at_once() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 30)
        rate = DispatchRate(
            dispatchThrottlingRateInMsg=10, dispatchThrottlingRateInByte=-1, ratePeriodInSecond=3600
        )
        await set_policies(place, subscriptionDispatchRate={"standalone": rate})
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        got = await client.get(1, 10)
        place.clock.pass_s(720)
        dispatcher = (await place.topic(TOPIC)).subscriptions["s"].dispatcher
        assert dispatcher is not None
        dispatcher.wake()
        await client.get(1, 12)
        place.clock.pass_s(3600)
        client.redeliver(1, *(each.position for each in got))
        await client.get(1, 22)

    run(body)


def test_skipped_and_expired_entries_are_held_by_nobody() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 6)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1, permits=4)
        got = await client.get(1, 4)
        client.redeliver(1, got[0].position, got[1].position)  # no permits: they wait
        machine = await machine_of(place)
        assert len(machine.replay) == 2
        subscription = (await place.topic(TOPIC)).subscriptions["s"]
        await subscription.skip(3)
        assert not len(machine.replay) and not machine.redeliveries
        assert machine.unacked == machine.members[0].unacked == 1
        await subscription.skip_all()
        assert machine.unacked == 0
        client.flow(1, 10)
        await client.get(1, 4)

    run(body)


# ---------------------------------------------------------------------- what cannot be read


def test_an_unreadable_entry_is_skipped_wherever_it_waits() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 3)
        topic = await place.topic(TOPIC)
        await topic.log.roll()
        gone = LedgerId(topic.log.sequence.describe()[0].ledger_id)
        await client.publish("after")
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        got = await client.get(1, 4)
        await place.ledgers.delete(gone)
        client.redeliver(1, got[0].position, got[1].position)
        machine = await machine_of(place)
        await until(lambda: not len(machine.replay))
        await settle()
        assert len(client.texts(1)) == 4
        assert topic.subscriptions["s"].backlog == 1

    run(body, cache_bytes=1, autoSkipNonRecoverableData=True)


def test_an_unreadable_entry_holds_the_subscription_unless_it_may_be_skipped() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 3)
        topic = await place.topic(TOPIC)
        await topic.subscriptions.create("s", position=topic.log.sequence.first_position)
        await topic.log.roll()
        await place.ledgers.delete(LedgerId(topic.log.sequence.describe()[0].ledger_id))
        await client.publish("after")
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await settle()
        assert client.texts(1) == [] and topic.subscriptions["s"].backlog == 4
        reads = place.ledgers.reads
        await client.publish("more")
        client.flow(1, 5)
        await settle()
        assert place.ledgers.reads == reads, "what cannot be read is not read again at once"

    run(body, cache_bytes=1)


def test_an_entry_of_any_bytes_is_delivered_as_it_is() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        topic = await place.topic(TOPIC)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        client.send_bytes(b"\xff\xff\xff\xff nonsense")
        await until(lambda: len(client.messages(1)) == 1)
        assert await position_at(topic.log, 1) == topic.log.sequence.end_position
        place.clock.pass_s(10)
        assert await topic.subscriptions["s"].expiry.expire(5) == 1
        await last_message_id(topic.log, topic.buffer)

    run(body)


def test_a_subscription_stays_at_a_ledger_that_no_store_has_any_more_and_the_log_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 3)
        topic = await place.topic(TOPIC)
        await topic.log.roll()
        gone = LedgerId(topic.log.sequence.describe()[0].ledger_id)
        await client.publish("after")
        before = topic.log.sequence.describe()
        await place.ledgers.delete(gone)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await until(lambda: "entry unreadable" in caplog.text)
        told = [getattr(record, "fields", {}) for record in caplog.records]
        assert any("bring it back, or pass it" in str(each.get("advice")) for each in told)
        assert topic.subscriptions["s"].backlog == 4 and not client.texts(1)
        assert topic.log.sequence.describe() == before
        await client.publish("more")

    run(body, cache_bytes=1)
