"""Topic policies that act on what clients do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from magnetar.broker.admission import Admission
from magnetar.errors import NotAllowed
from magnetar.model.name import parse_topic
from magnetar.model.policy import PersistencePolicies, RateLimit, SubscribeRate
from magnetar.model.subscription import DEDUP_CURSOR
from magnetar.wire.command import (
    BaseCommand,
    CommandSubscribe,
    MessageMetadata,
    ServerError,
)
from tests.unit.broker.broker_place import Place, until
from tests.unit.broker.broker_place import run as run_place
from tests.unit.broker.traffic import Client

TOPIC = "persistent://shop/eu/orders"


Run: TypeAlias = Callable[..., None]


@pytest.fixture(params=["system-topic", "metadata-store"])
def run(request: pytest.FixtureRequest) -> Run:
    """Each test over both of what keeps policies."""

    def with_backend(body: Callable[[Place], Coroutine[Any, Any, None]], **settings: Any) -> None:
        run_place(body, topicPoliciesServiceClassName=request.param, **settings)

    return with_backend


async def set_policy(place: Place, topic: str = TOPIC, **fields: Any) -> None:
    await place.service.policies.update(parse_topic(topic), lambda each: replace(each, **fields))


def test_a_consumer_that_comes_too_often_is_refused_by_its_own_count(run: Run) -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        rate = SubscribeRate(subscribeThrottlingRatePerConsumer=2, ratePeriodInSecond=30)
        await set_policy(place, subscribeRate=rate)
        peer = place.connect()

        async def attach(number: int) -> int:
            answer = await peer.subscribe(
                TOPIC, "s", CommandSubscribe.Shared, consumer_id=number, permits=0
            )
            if answer.type == BaseCommand.SUCCESS:
                await peer.close_consumer(number)
            return int(answer.type)

        assert [await attach(1) for _ in range(3)] == [
            BaseCommand.SUCCESS,
            BaseCommand.SUCCESS,
            BaseCommand.ERROR,
        ]
        assert await attach(2) == BaseCommand.SUCCESS
        place.clock.pass_s(15)
        assert await attach(1) == BaseCommand.SUCCESS
        assert await attach(1) == BaseCommand.ERROR
        await set_policy(place, subscribeRate=None)
        assert topic.policy.subscribe_rate is None
        assert await attach(1) == BaseCommand.SUCCESS

    run(body)


def test_consumers_that_were_away_for_long_are_not_remembered_for_ever() -> None:
    admission, rate = Admission(), RateLimit(1, 0, 30)
    for number in range(10_001):
        admission.check(rate, ("host", "name", number), now=0.0)
    admission.check(rate, ("host", "name", 0), now=0.0)
    with pytest.raises(NotAllowed):
        admission.check(rate, ("host", "name", 10_000), now=0.0)


def test_a_message_delayed_for_too_long_is_refused(run: Run) -> None:
    async def body(place: Place) -> None:
        await place.topic(TOPIC)
        await set_policy(place, delayedDeliveryMaxDelayInMillis=5000)
        peer = Client(place.service)
        await peer.produce(TOPIC)

        def send(sequence: int, delay_ms: int | None) -> None:
            metadata = MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1000)
            if delay_ms is not None:
                metadata.deliver_at_time = 1000 + delay_ms
            peer.send_entry(metadata, b"x", sequence=sequence, num_messages=1)

        for sequence, delay_ms in enumerate((None, 5000, 5001)):
            send(sequence, delay_ms)
        await until(lambda: peer.count(BaseCommand.SEND_RECEIPT) == 2)
        await until(lambda: peer.count(BaseCommand.SEND_ERROR) == 1)
        error = peer.received(BaseCommand.SEND_ERROR)[0].send_error
        assert error.error == ServerError.NotAllowedError
        assert error.message == "Exceeds max allowed delivery delay of 5000 milliseconds"
        await set_policy(place, delayedDeliveryMaxDelayInMillis=None)
        send(3, 10**9)
        await until(lambda: peer.count(BaseCommand.SEND_RECEIPT) == 3)

    run(body)


def test_what_was_accepted_is_noted_after_the_interval_of_the_topic(run: Run) -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        await set_policy(place, deduplicationEnabled=True, deduplicationSnapshotIntervalSeconds=60)
        await until(lambda: topic.dedup is not None)
        peer = place.connect()
        await peer.produce(TOPIC, producer_name="p")
        await peer.send(3)
        upkeep = place.service.upkeep

        def noted() -> dict[str, int]:
            return dict(topic.log.cursors[DEDUP_CURSOR].properties)

        place.clock.pass_s(59)
        await upkeep.tick()
        assert noted() == {}
        place.clock.pass_s(2)
        await upkeep.tick()
        assert noted() == {"p": 2}

    run(body)


def test_the_mark_delete_rate_bounds_how_often_cursors_are_written(run: Run) -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        assert topic.log.policy.cursor_writes_per_s <= 0
        persistence = PersistencePolicies(
            bookkeeperEnsemble=1,
            bookkeeperWriteQuorum=1,
            bookkeeperAckQuorum=1,
            managedLedgerMaxMarkDeleteRate=0.5,
        )
        await set_policy(place, persistence=persistence)
        assert topic.log.policy == dataclasses.replace(topic.log.policy, cursor_writes_per_s=0.5)

    run(body)


def test_the_policies_of_a_scalable_topic_reach_its_segments_at_once(run: Run) -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(parse_topic("topic://shop/eu/sales"), segments=2)
        segments = [
            await place.service.attach_topic(parse_topic(f"segment://shop/eu/sales/{part}"))
            for part in ("0000-7fff-0", "8000-ffff-1")
        ]
        await set_policy(place, "topic://shop/eu/sales", maxProducerPerTopic=3)
        assert [segment.policy.max_producers for segment in segments] == [3, 3]
        await place.service.policies.delete(parse_topic("topic://shop/eu/sales"))
        assert [segment.policy.max_producers for segment in segments] == [0, 0]

    run(body)


def test_a_topic_that_goes_because_nobody_uses_it_takes_its_policies_along() -> None:
    async def body(place: Place) -> None:
        service = place.service
        await place.topic(TOPIC)
        await set_policy(place, maxProducerPerTopic=3)
        name = parse_topic("persistent://shop/eu/parted")
        await service.resources.partitioned.create(name, 1)
        await place.topic(name.partition(0).full)
        await set_policy(place, name.full, maxProducerPerTopic=4)
        place.clock.pass_s(3600)
        await service.upkeep.delete_inactive_topics()
        for each in (parse_topic(TOPIC), name):
            assert await service.policies.get(each) is None
        events = parse_topic("persistent://shop/eu/__change_events")
        assert await service.catalog.topic_exists(events)

    run_place(body, brokerDeleteInactivePartitionedTopicMetadataEnabled=True)
