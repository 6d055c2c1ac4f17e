"""Topics that keep nothing: who gets a message, and who comes and goes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from magnetar.broker.nonpersistent import NonPersistentTopic
from magnetar.model.policy import Policies
from magnetar.rules.dispatch.selector import RingSelector
from magnetar.wire.command import (
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    IntRange,
    KeySharedMeta,
    KeySharedMode,
    ServerError,
)
from tests.unit.broker.broker_place import NAMESPACE, Place, run, run_virtually, until
from tests.unit.broker.traffic import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    Client,
    settle,
)

TOPIC = "non-persistent://shop/eu/ticks"
DEAF = {"connectionLivenessCheckTimeoutMillis": 1}


async def attach(place: Place) -> Client:
    client = Client(place.service)
    await client.produce(TOPIC)
    return client


def topic_of(place: Place) -> NonPersistentTopic:
    topic = place.service.catalog.topics[TOPIC]
    assert isinstance(topic, NonPersistentTopic)
    return topic


async def join(
    client: Client, kind: int, consumer_id: int, *, permits: int = 100, **more: object
) -> BaseCommand:
    return await client.subscribe(
        TOPIC, "s", kind, consumer_id=consumer_id, permits=permits, **more
    )


def test_a_message_goes_to_whoever_is_there_and_can_take_it() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        assert await client.publish("unheard") == (0, 0)
        await join(client, SHARED, 1, permits=2)
        for number in range(4):
            await client.publish(f"m{number}")
        assert client.texts(1) == ["m0", "m1"]
        topic = topic_of(place)
        assert topic.dropped.count == 2
        await client.close_consumer(1)
        assert not topic.subscriptions

    run(body)


def test_keys_are_shared_as_on_persistent_topics() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        ring: RingSelector[int] = RingSelector()
        for consumer_id in (1, 2, 3):
            await join(client, KEY_SHARED, consumer_id)
            ring = ring.add(consumer_id, name=f"s-{consumer_id}")
        keys = [f"k{number}" for number in range(30)]
        for key in keys:
            await client.publish("x", key=key)
        for consumer_id in (1, 2, 3):
            owned = [k for k in keys if ring.owner(ring.slot_of(k.encode())) == consumer_id]
            assert [each.key for each in client.deliveries(consumer_id)] == owned

    run(body)


def test_ranges_and_modes_of_key_shared_must_agree() -> None:
    async def body(place: Place) -> None:
        client, other = await attach(place), Client(place.service)

        def sticky(first: int, last: int) -> KeySharedMeta:
            ranges = [IntRange(start=first, end=last)]
            return KeySharedMeta(keySharedMode=KeySharedMode.STICKY, hashRanges=ranges)

        await join(client, KEY_SHARED, 1, keySharedMeta=sticky(0, 30_000))
        taken = await join(other, KEY_SHARED, 1, keySharedMeta=sticky(0, 10))
        assert taken.error.error == ServerError.ConsumerAssignError
        mixed = await join(other, KEY_SHARED, 2)
        assert mixed.error.error == ServerError.ConsumerBusy
        await client.close_consumer(1)
        asking = KeySharedMeta(
            keySharedMode=KeySharedMode.AUTO_SPLIT, hashRanges=[IntRange(start=0, end=5)]
        )
        dealt = await join(other, KEY_SHARED, 3, keySharedMeta=asking)
        assert dealt.type == BaseCommand.SUCCESS

    run(body)


def test_an_exclusive_holder_is_asked_before_a_newcomer_is_refused() -> None:
    async def body(place: Place) -> None:
        client, other = await attach(place), Client(place.service)
        await join(client, EXCLUSIVE, 1)
        busy = await join(other, EXCLUSIVE, 1)
        assert busy.error.error == ServerError.ConsumerBusy
        client.fall_silent()
        assert (await join(other, EXCLUSIVE, 1)).type == BaseCommand.SUCCESS
        assert client.is_cut_off
        third = await attach(place)
        await third.publish("x")
        assert other.texts(1) == ["x"]

    run_virtually(body, **DEAF)


def test_newcomers_that_wait_for_a_dead_holder_do_not_both_get_in() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await join(client, EXCLUSIVE, 1)
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
        answers = (BaseCommand.SUCCESS, BaseCommand.ERROR)
        await until(lambda: all(sum(map(other.count, answers)) for other in others))
        assert sorted(other.count(BaseCommand.SUCCESS) for other in others) == [0, 1]
        assert len(topic_of(place).subscriptions["s"].consumers) == 1

    run_virtually(body, **DEAF)


def test_failover_consumers_hear_who_is_active() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        for consumer_id in (1, 2):
            await join(client, FAILOVER, consumer_id)
        await settle()
        dispatcher = topic_of(place).subscriptions["s"].dispatcher
        assert dispatcher is not None and dispatcher.machine.active is not None
        active = dispatcher.machine.active.consumer
        told = {
            each.active_consumer_change.consumer_id: each.active_consumer_change.is_active
            for each in client.received(BaseCommand.ACTIVE_CONSUMER_CHANGE)
        }
        assert told == {active.id: True, 3 - active.id: False}
        await client.close_consumer(active.id)
        await client.publish("x")
        assert client.texts(3 - active.id) == ["x"]

    run(body)


def test_an_acknowledgement_is_confirmed_and_changes_nothing() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await join(client, SHARED, 1)
        await client.publish("x")
        ack = CommandAck(consumer_id=1, ack_type=CommandAck.Individual)
        confirmed = await client.ask(ack, BaseCommand.ACK_RESPONSE)
        assert confirmed.type == BaseCommand.ACK_RESPONSE
        client.redeliver(1)
        await settle()
        assert client.texts(1) == ["x"]
        refused = await client.seek(1, time_ms=1)
        assert refused.error.error == ServerError.NotAllowedError

    run(body)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"max_producers_per_topic": 1}, ServerError.ProducerBusy),
        ({"encryption_required": True}, ServerError.NotAllowedError),
    ],
)
def test_the_limits_for_producers_hold_here_too(changes: dict[str, object], code: int) -> None:
    async def body(place: Place) -> None:
        client = await attach(place)

        def change(before: Policies) -> Policies:
            return replace(before, **changes)

        await place.service.resources.namespaces.update(NAMESPACE, change)
        await settle()
        refused = await client.produce(TOPIC, producer_id=2)
        assert refused.error.error == code

    run(body)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"max_consumers_per_topic": 1}, ServerError.ConsumerBusy),
        ({"max_consumers_per_subscription": 1}, ServerError.ConsumerBusy),
        ({"max_subscriptions_per_topic": 1}, ServerError.NotAllowedError),
    ],
)
def test_the_limits_for_consumers_hold_here_too(changes: dict[str, object], code: int) -> None:
    async def body(place: Place) -> None:
        client = await attach(place)

        def change(before: Policies) -> Policies:
            return replace(before, **changes)

        await place.service.resources.namespaces.update(NAMESPACE, change)
        await settle()
        await join(client, SHARED, 1)
        name = "t" if "max_subscriptions_per_topic" in changes else "s"
        refused = await client.subscribe(TOPIC, name, SHARED, consumer_id=2)
        assert refused.error.error == code
        assert list(topic_of(place).subscriptions) == ["s"]

    run(body)


def test_a_topic_that_closes_sends_everybody_away() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await join(client, SHARED, 1)
        topic = topic_of(place)
        await place.service.catalog.delete_topic(topic.name, force=True)
        await until(lambda: client.count(BaseCommand.CLOSE_CONSUMER) == 1)
        assert client.count(BaseCommand.CLOSE_PRODUCER) == 1
        assert TOPIC not in place.service.catalog.topics

    run(body)
