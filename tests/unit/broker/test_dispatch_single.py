"""Exclusive and Failover: order, permits, who is active, and what is read again."""

from __future__ import annotations

import pytest

from magnetar.broker.stats import topic_stats
from magnetar.model.position import EARLIEST, LATEST
from magnetar.wire.command import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.broker_place import Place, run, run_virtually, until
from tests.unit.broker.traffic import EXCLUSIVE, FAILOVER, SHARED, TOPIC, Client, settle

DEAF = {"connectionLivenessCheckTimeoutMillis": 1}


async def fill(place: Place, entries: int = 10) -> Client:
    client = Client(place.service)
    await client.produce(TOPIC)
    for index in range(entries):
        await client.publish(f"m{index}")
    return client


def texts(first: int, end: int) -> list[str]:
    return [f"m{index}" for index in range(first, end)]


def test_entries_come_in_order_and_only_for_permits() -> None:
    async def body(place: Place) -> None:
        client = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1, permits=3)
        await client.get(1, 3)
        client.flow(1, 4)
        await client.get(1, 7)
        client.flow(1, 100)
        await client.get(1, 10)
        assert client.texts(1) == texts(0, 10)

    run(body)


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER, SHARED])
def test_a_batch_may_overdraw_the_permits_but_a_second_waits(kind: int) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        for _ in range(4):
            await client.publish_batch(["a", "b", "c", "d", "e"])
        await client.subscribe(TOPIC, "s", kind, consumer_id=1, permits=6)
        await client.get(1, 2)
        client.flow(1, 4)  # 4 overdrawn: nothing is left
        await client.get(1, 2)
        client.flow(1, 1)
        await client.get(1, 3)

    run(body)


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
def test_a_new_consumer_goes_on_behind_what_was_acknowledged(cache_bytes: int) -> None:
    async def body(place: Place) -> None:
        client = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        got = await client.get(1, 10)
        client.ack_through(1, got[4].position)
        client.ack(1, got[7].position)
        await client.close_consumer(1)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=2)
        await client.get(2, 4)
        assert client.texts(2) == ["m5", "m6", "m8", "m9"]

    run(body, cache_bytes=cache_bytes)


def test_an_acknowledgement_survives_a_reload_of_the_topic() -> None:
    async def body(place: Place) -> None:
        client = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        got = await client.get(1, 10)
        client.ack_through(1, got[4].position)
        topic = await place.topic(TOPIC)
        await place.service.catalog.unload_topic(topic.name)
        await until(lambda: client.count(BaseCommand.CLOSE_CONSUMER) == 1)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await until(lambda: len(client.texts(1)) == 15)
        assert client.texts(1)[10:] == texts(5, 10)

    run(body)


# ---------------------------------------------------------------------- what clients may say


def test_a_cumulative_acknowledgement_of_the_future_is_not_taken() -> None:
    async def body(place: Place) -> None:
        client = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1, permits=2)
        (first, _) = await client.get(1, 2)
        ledger_id = first.position[0]
        client.ack_through(1, (ledger_id, 10_000))
        client.ack_through(1, (ledger_id + 99, 0))
        client.ack_through(1, (ledger_id, 10_000), remaining=1)
        client.ack(1, (ledger_id, 10_000), (ledger_id + 99, 0), LATEST, EARLIEST)
        subscription = (await place.topic(TOPIC)).subscriptions["s"]
        assert subscription.backlog == 10
        client.ack_through(1, first.position)
        assert subscription.backlog == 9
        assert not client.is_cut_off

    run(body)


def test_what_is_acknowledged_of_a_batch_is_masked_and_costs_no_permits() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        position = await client.publish_batch(["a", "b", "c", "d"])
        await client.publish("after")
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.get(1, 2)
        client.ack_part(1, position, 0b1010)
        client.ack_through(1, position, remaining=0b1110)
        await client.close_consumer(1)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=2, permits=3)
        again = await client.get(2, 2)
        assert [each.remaining for each in again] == [0b1010, None]
        consumer = (await place.topic(TOPIC)).subscriptions["s"].consumers[0]
        assert consumer.member.permits == 0

    run(body)


def test_more_bits_than_a_batch_has_messages_cost_no_more_permits_than_the_batch() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 0)
        position = await client.publish_batch(["a", "b"])
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.get(1, 1)
        client.ack_part(1, position, 2**60 - 1)
        client.redeliver(1)
        await client.get(1, 2)
        consumer = (await place.topic(TOPIC)).subscriptions["s"].consumers[0]
        assert consumer.member.permits == 96

    run(body)


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
def test_redelivery_reads_again_from_the_mark_and_carries_the_new_epoch(cache_bytes: int) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 4)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1, consumer_epoch=0)
        got = await client.get(1, 4)
        assert {each.epoch for each in got} == {0}
        client.ack_through(1, got[0].position)
        client.redeliver(1, got[3].position, epoch=2)
        again = (await client.get(1, 7))[4:]
        assert [each.payload.decode() for each in again] == texts(1, 4)
        assert {each.epoch for each in again} == {2}
        assert {each.redelivery_count for each in again} == {0}

    run(body, cache_bytes=cache_bytes)


def test_a_consumer_that_waits_keeps_the_epoch_it_asked_for() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 3)
        for consumer_id in (1, 2):
            await client.subscribe(TOPIC, "s", FAILOVER, consumer_id=consumer_id, consumer_epoch=0)
        dispatcher = (await place.topic(TOPIC)).subscriptions["s"].dispatcher
        assert dispatcher is not None
        active = topic_stats(await place.topic(TOPIC))["subscriptions"]["s"]["activeConsumerName"]
        first, second = (1, 2) if active == "s-1" else (2, 1)
        await client.get(first, 3)
        client.redeliver(second, epoch=5)
        await client.close_consumer(first)
        got = await client.get(second, 3)
        assert {each.epoch for each in got} == {5}

    run(body)


def test_delivery_pauses_while_the_peer_does_not_read() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 2)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.get(1, 2)
        client.stop_reading()
        other = Client(place.service)
        await other.produce(TOPIC)
        await other.publish("late")
        await client.get(1, 2)
        client.resume_reading()
        await client.get(1, 3)

    run(body)


# ---------------------------------------------------------------------- who may attach


def test_a_second_exclusive_consumer_is_refused_while_the_first_lives() -> None:
    async def body(place: Place) -> None:
        client, other = await fill(place), Client(place.service)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        refused = await other.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        assert refused.error.error == ServerError.ConsumerBusy
        again = await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=2)
        assert again.error.error == ServerError.ConsumerBusy
        other_kind = await client.subscribe(TOPIC, "s", SHARED, consumer_id=3)
        assert other_kind.error.error == ServerError.ConsumerBusy
        await client.get(1, 10)

    run(body)


@pytest.mark.parametrize("durable", [True, False])
def test_a_holder_that_is_gone_without_a_word_makes_room(durable: bool) -> None:
    async def body(place: Place) -> None:
        client, other = await fill(place), Client(place.service)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1, permits=1, durable=durable)
        client.fall_silent()
        answer = await other.subscribe(
            TOPIC, "s", EXCLUSIVE, consumer_id=1, permits=50, durable=durable
        )
        assert answer.type == BaseCommand.SUCCESS
        await other.get(1, 10)
        assert client.is_cut_off
        topic = await place.topic(TOPIC)
        assert len(topic.subscriptions["s"].consumers) == 1
        other.leave()
        assert ("s" in topic.subscriptions) is durable

    run_virtually(body, **DEAF)


def test_newcomers_that_wait_for_the_same_dead_holder_do_not_both_get_in() -> None:
    async def body(place: Place) -> None:
        client = await fill(place)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        client.fall_silent()
        others = [Client(place.service) for _ in range(2)]
        for other in others:
            other.say(
                CommandSubscribe(
                    topic=TOPIC,
                    subscription="s",
                    subType=CommandSubscribe.Exclusive,
                    consumer_id=1,
                    request_id=1,
                )
            )
        await until(
            lambda: all(o.count(BaseCommand.SUCCESS) + o.count(BaseCommand.ERROR) for o in others)
        )
        assert sorted(other.count(BaseCommand.SUCCESS) for other in others) == [0, 1]
        assert len((await place.topic(TOPIC)).subscriptions["s"].consumers) == 1

    run_virtually(body, **DEAF)


def test_a_seek_while_a_newcomer_waits_does_not_leave_it_with_a_dead_dispatcher() -> None:
    async def body(place: Place) -> None:
        client, other = await fill(place), Client(place.service)
        await client.subscribe(TOPIC, "s", EXCLUSIVE, consumer_id=1)
        await client.get(1, 10)
        client.fall_silent()
        request = CommandSubscribe(
            topic=TOPIC,
            subscription="s",
            subType=CommandSubscribe.Exclusive,
            consumer_id=1,
            request_id=1,
        )
        other.say(request)
        await until(lambda: client.count(BaseCommand.PING) == 1)
        await (await place.topic(TOPIC)).subscriptions["s"].seek(EARLIEST)
        await until(lambda: other.count(BaseCommand.SUCCESS) == 1)
        other.flow(1, 100)
        await other.get(1, 10)

    run_virtually(body, connectionLivenessCheckTimeoutMillis=30)


# ---------------------------------------------------------------------- Failover


def test_the_next_consumer_gets_what_the_active_one_left_unacknowledged() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 4)
        await client.subscribe(TOPIC, "s", FAILOVER, consumer_id=1)
        got = await client.get(1, 4)
        await client.subscribe(TOPIC, "s", FAILOVER, consumer_id=2)
        client.ack_through(1, got[1].position)
        await client.close_consumer(1)
        await until(lambda: client.texts(2)[-2:] == texts(2, 4))
        changes = [
            c.active_consumer_change for c in client.received(BaseCommand.ACTIVE_CONSUMER_CHANGE)
        ]
        assert changes[-1].consumer_id == 2 and changes[-1].is_active

    run(body)


def test_partitions_are_dealt_out_anew_when_a_consumer_that_waits_leaves() -> None:
    async def body(place: Place) -> None:
        await place.service.resources.partitioned.create(
            (await place.topic(TOPIC)).name.base, 2, {}
        )
        partition = "persistent://shop/eu/orders-partition-1"
        client = Client(place.service)
        for consumer_id in (1, 2, 3):
            await client.subscribe(partition, "s", FAILOVER, consumer_id=consumer_id)
        topic = await place.topic(partition)

        def active() -> str:
            name: str = topic_stats(topic)["subscriptions"]["s"]["activeConsumerName"]
            return name

        assert active() == "s-2"
        await client.close_consumer(1)
        assert active() == "s-3"

    run(body)


# ---------------------------------------------------------------------- the end of a topic


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER, SHARED])
def test_everybody_hears_once_that_a_terminated_topic_is_read_through(kind: int) -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 2)
        ids = (1,) if kind == EXCLUSIVE else (1, 2)
        for consumer_id in ids:
            await client.subscribe(TOPIC, "s", kind, consumer_id=consumer_id)
        topic = await place.topic(TOPIC)
        await until(lambda: sum(len(client.texts(each)) for each in ids) == 2)
        await topic.termination.run()
        await settle()
        assert client.count(BaseCommand.REACHED_END_OF_TOPIC) == 0
        positions = [each.position for consumer in ids for each in client.deliveries(consumer)]
        client.ack(1, *positions)
        client.ack(1, *positions)
        await settle()
        told = [
            c.reachedEndOfTopic.consumer_id
            for c in client.received(BaseCommand.REACHED_END_OF_TOPIC)
        ]
        assert sorted(told) == list(ids)

    run(body)


def test_a_terminated_topic_still_delivers_its_backlog() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, 3)
        topic = await place.topic(TOPIC)
        await topic.termination.run()
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await client.get(1, 3)
        refused = await client.produce(TOPIC, producer_id=9)
        assert refused.error.error == ServerError.TopicTerminatedError

    run(body)
