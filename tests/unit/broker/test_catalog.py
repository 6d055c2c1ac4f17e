"""The catalog of topics: one load at a time, and nothing that happens meanwhile is missed."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from magnetar.errors import ServiceNotReady, TopicNotFound
from magnetar.metadata.backends.memory import MemoryStore
from magnetar.metadata.store import Stat
from magnetar.model.name import TopicDomain, TopicName, parse_topic
from magnetar.rules.bundle import full_bundle
from tests.unit.broker.broker_place import NAMESPACE, Place, run

TOPIC = parse_topic("persistent://shop/eu/orders")
OTHER = parse_topic("persistent://shop/eu/returns")


class SlowStore(MemoryStore):
    """Other tasks have many turns before a record is written."""

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        for _ in range(20):
            await asyncio.sleep(0)
        return await super().put(path, value, expect=expect, ephemeral=ephemeral)


def test_a_topic_is_loaded_once_for_all_that_ask() -> None:
    async def body(place: Place) -> None:
        catalog = place.service.catalog
        loaded = await asyncio.gather(*(catalog.load_topic(TOPIC, create=True) for _ in range(5)))
        assert all(each is loaded[0] for each in loaded)
        assert catalog.find(TOPIC) is loaded[0]

    run(body)


def test_a_load_waits_for_an_unload_and_opens_the_topic_anew() -> None:
    async def body(place: Place) -> None:
        catalog = place.service.catalog
        before = await catalog.load_topic(TOPIC, create=True)
        _, after = await asyncio.gather(catalog.unload_topic(TOPIC), catalog.load_topic(TOPIC))
        if after is before:  # it was found before the unload began
            after = await catalog.load_topic(TOPIC)
        assert before.closed
        assert not after.closed

    run(body)


def test_a_failed_load_leaves_nothing_behind() -> None:
    async def body(place: Place) -> None:
        catalog = place.service.catalog
        with pytest.raises(TopicNotFound):
            await catalog.load_topic(TOPIC)
        assert catalog.find(TOPIC) is None
        assert place.service.policies.in_force.namespaces_in_use() == set()

    run(body)


def test_loads_beyond_the_limit_are_refused() -> None:
    async def body(place: Place) -> None:
        catalog = place.service.catalog
        refused = pytest.raises(ServiceNotReady, match="Too many topics are being loaded: 1")
        with catalog.loading.counted(), refused:
            await catalog.load_topic(TOPIC, create=True)
        await catalog.load_topic(TOPIC, create=True)

    run(body, maxConcurrentTopicLoadRequest=1)


def test_a_policy_that_changes_while_a_topic_is_loaded_is_in_force() -> None:
    async def body(place: Place) -> None:
        """Each topic is loaded with the change a turn of the loop later."""
        policies, catalog = place.service.policies, place.service.catalog

        async def change(name: TopicName, turns: int) -> bool:
            for _ in range(turns):
                await asyncio.sleep(0)
            is_late = catalog.find(name) is not None
            await policies.update(name, lambda each: replace(each, maxProducerPerTopic=3))
            return is_late

        turns, is_late = 0, False
        while not is_late:
            name = parse_topic(f"persistent://shop/eu/orders-{turns}")
            loading = catalog.load_topic(name, create=True, properties={"a": "b"})
            topic, is_late = await asyncio.gather(loading, change(name, turns))
            assert topic.policy.max_producers == 3, f"after {turns} turns"
            turns += 1
        assert turns > 3

    run(body, make_store=SlowStore, topicPoliciesServiceClassName="metadata-store")


def test_of_two_deletions_the_second_finds_no_topic() -> None:
    async def body(place: Place) -> None:
        catalog = place.service.catalog
        await catalog.load_topic(TOPIC, create=True)
        outcomes = await asyncio.gather(
            catalog.delete_topic(TOPIC), catalog.delete_topic(TOPIC), return_exceptions=True
        )
        assert [type(each) for each in outcomes if each is not None] == [TopicNotFound]
        assert not await catalog.topic_exists(TOPIC)

    run(body)


def test_a_namespace_is_unloaded_and_its_topics_remain() -> None:
    async def body(place: Place) -> None:
        catalog = place.service.catalog
        for name in (TOPIC, OTHER):
            await catalog.load_topic(name, create=True)
        await catalog.unload_bundle(full_bundle(NAMESPACE))
        assert not catalog.topics
        listed = await catalog.list_topics(NAMESPACE, TopicDomain.PERSISTENT)
        assert listed == [TOPIC.full, OTHER.full]

    run(body)


def test_nothing_is_loaded_by_a_broker_that_closes() -> None:
    async def body(place: Place) -> None:
        catalog = place.service.catalog
        catalog.closing = True
        for load in (catalog.load_topic(TOPIC, create=True), catalog.attach_topic(TOPIC)):
            with pytest.raises(ServiceNotReady, match="closing"):
                await load

    run(body)
