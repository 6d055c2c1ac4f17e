"""Topic policies of a namespace whose topics and events are at different brokers."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from magnetar.errors import PoliciesUnavailable
from magnetar.model.name import parse_topic
from magnetar.model.policy import TopicPolicies
from magnetar.rules.system import change_events_of
from tests.unit.broker.broker_place import NAMESPACE
from tests.unit.broker.scalable.cluster_place import Broker, Cluster, eventually, run_cluster

TOPIC = parse_topic("persistent://shop/eu/orders")
EVENTS = change_events_of(NAMESPACE)


def _place(cluster: Cluster) -> tuple[Broker, Broker, Broker]:
    """The events are at the first broker, the topic at the second."""
    first, second, third = cluster.brokers
    for name in (EVENTS, EVENTS.partition(0)):
        cluster.place(name.full, first)
    cluster.place(TOPIC.full, second)
    return first, second, third


async def _limit(broker: Broker, most: int) -> None:
    await broker.service.policies.update(
        TOPIC, lambda present: replace(present, maxProducerPerTopic=most)
    )


async def _found(broker: Broker) -> TopicPolicies:
    found = await broker.service.policies.get(TOPIC)
    return found or TopicPolicies()


def test_policies_set_at_one_broker_are_in_force_at_the_others() -> None:
    async def body(cluster: Cluster) -> None:
        first, second, third = _place(cluster)
        await second.service.catalog.load_topic(TOPIC, create=True)
        in_force = second.service.policies.in_force
        for most, broker in ((3, third), (4, first), (5, second)):
            await _limit(broker, most)
            assert (await _found(broker)).maxProducerPerTopic == most

            async def is_in_force(most: int = most) -> bool:
                return in_force.get(TOPIC).max_producers == most

            await eventually(is_in_force)
        having = [each for each in cluster.brokers if EVENTS.full in each.service.catalog.topics]
        assert having == [first]

    run_cluster(body)


def test_brokers_that_change_other_settings_of_a_topic_do_not_undo_each_others() -> None:
    async def body(cluster: Cluster) -> None:
        first, second, third = _place(cluster)
        await _limit(second, 3)
        await third.service.policies.update(
            TOPIC, lambda present: replace(present, maxConsumerPerTopic=7)
        )
        await _limit(first, 4)
        for broker in cluster.brokers:

            async def has_both(broker: Broker = broker) -> bool:
                found = await _found(broker)
                return (found.maxProducerPerTopic, found.maxConsumerPerTopic) == (4, 7)

            await eventually(has_both)

    run_cluster(body)


def test_policies_are_read_from_the_next_owner_of_the_events() -> None:
    async def body(cluster: Cluster) -> None:
        first, second, third = _place(cluster)
        await second.service.catalog.load_topic(TOPIC, create=True)
        await _limit(second, 3)
        await cluster.kill(first)
        cluster.place(EVENTS.full, third)
        await _limit(third, 4)

        async def is_in_force() -> bool:
            return second.service.policies.in_force.get(TOPIC).max_producers == 4

        await eventually(is_in_force)

    run_cluster(body)


def test_policies_set_while_a_broker_had_lost_the_metadata_are_in_force_when_it_is_back() -> None:
    """It was not notified of them."""

    async def body(cluster: Cluster) -> None:
        _, second, third = _place(cluster)
        await second.service.catalog.load_topic(TOPIC, create=True)
        in_force = second.service.policies.in_force

        async def is_in_force(most: int) -> bool:
            return in_force.get(TOPIC).max_producers == most

        await _limit(third, 3)
        await eventually(lambda: is_in_force(3))
        second.store.disconnect()
        await _limit(third, 4)
        second.store.reconnect()
        await eventually(lambda: is_in_force(4))

    run_cluster(body)


def test_a_topic_whose_policies_cannot_be_read_is_not_loaded() -> None:
    async def body(cluster: Cluster) -> None:
        first, second, _ = _place(cluster)
        await _limit(first, 3)
        cluster.hide(first)
        with pytest.raises(PoliciesUnavailable):
            await second.service.catalog.load_topic(TOPIC, create=True)
        assert TOPIC.full not in second.service.catalog.topics
        cluster.show(first)
        await second.service.catalog.load_topic(TOPIC, create=True)
        assert second.service.policies.in_force.get(TOPIC).max_producers == 3

    run_cluster(body, topicPoliciesCacheInitTimeoutSeconds=1)


def test_a_deleted_topic_leaves_no_policies_at_any_broker() -> None:
    async def body(cluster: Cluster) -> None:
        _, second, third = _place(cluster)
        await _limit(third, 3)
        await asyncio.gather(*map(_found, cluster.brokers))
        await second.service.policies.delete(TOPIC)
        for broker in cluster.brokers:

            async def is_gone(broker: Broker = broker) -> bool:
                return await broker.service.policies.get(TOPIC) is None

            await eventually(is_gone)

    run_cluster(body)
