from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from magnetar.broker.scalable.record import ScalableRecords
from magnetar.errors import Conflict, TopicNotFound, VersionConflict
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName, parse_namespace, parse_topic
from magnetar.model.scalable import (
    ConsumerKind,
    ConsumerRecord,
    ScalableTopicMetadata,
    SegmentLoad,
    SubscriptionKind,
    SubscriptionRecord,
)
from magnetar.model.segment import SegmentId
from magnetar.rules.layout import plan_delete
from tests.unit.broker.broker_place import StillClock

TOPIC = parse_topic("topic://shop/eu/orders")
NAMESPACE = parse_namespace("shop/eu")


class Shelf:
    """A store, and the records of two brokers over it."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.tree = MemoryTree(self.clock)
        self.store = MemoryStore(self.tree)
        self.records = ScalableRecords(self.store, clock=self.clock)
        self.others = ScalableRecords(MemoryStore(self.tree), clock=self.clock)


def run(body: Callable[[Shelf], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        await body(Shelf())

    asyncio.run(inside())


def made(count: int = 1, **properties: str) -> ScalableTopicMetadata:
    return ScalableTopicMetadata(Layout.initial(count, now_ms=1), properties)


def split(record: ScalableTopicMetadata) -> ScalableTopicMetadata:
    return replace(record, layout=record.layout.split(record.layout.active[0].id, now_ms=2))


def test_a_topic_has_one_record_whatever_its_spelling() -> None:
    async def body(shelf: Shelf) -> None:
        await shelf.records.create(TOPIC, made(2))
        for name in (
            "persistent://shop/eu/orders",
            "persistent://shop/eu/orders-partition-3",
            "segment://shop/eu/orders/0000-7fff-0",
        ):
            assert await shelf.records.get(parse_topic(name)) == made(2)
        stored = await shelf.store.get("/topics/shop/eu/orders")
        assert stored is not None
        assert json.loads(stored.value)["nextSegmentId"] == 2

    run(body)


def test_a_name_that_needs_escaping_is_one_component_and_reads_back() -> None:
    async def body(shelf: Shelf) -> None:
        topic = parse_topic("topic://shop/eu/a b/ü+%")
        await shelf.records.create(topic, made())
        assert await shelf.store.children("/topics/shop/eu") == ("a+b%2F%C3%BC%2B%25",)
        assert await shelf.records.list(NAMESPACE) == [topic]
        assert await shelf.records.get(topic) == made()

    run(body)


def test_a_topic_cannot_be_made_twice() -> None:
    async def body(shelf: Shelf) -> None:
        await shelf.records.create(TOPIC, made())
        with pytest.raises(Conflict, match="already exists"):
            await shelf.others.create(TOPIC, made(2))

    run(body)


def test_a_record_is_written_over_the_version_that_was_read_only() -> None:
    async def body(shelf: Shelf) -> None:
        await shelf.records.create(TOPIC, made())
        held = await shelf.records.load(TOPIC)
        assert held is not None
        version = await shelf.others.store(TOPIC, made(2), expect=held.stat.version)
        with pytest.raises(VersionConflict):
            await shelf.records.store(TOPIC, made(3), expect=held.stat.version)
        assert await shelf.records.store(TOPIC, made(3), expect=version) > version

    run(body)


def test_two_brokers_that_change_a_record_at_once_both_have_their_way() -> None:
    async def body(shelf: Shelf) -> None:
        await shelf.records.create(TOPIC, made())

        def add(key: str) -> Callable[[ScalableTopicMetadata], ScalableTopicMetadata]:
            return lambda record: replace(record, properties={**record.properties, key: "x"})

        await asyncio.gather(
            shelf.records.update(TOPIC, add("a")), shelf.others.update(TOPIC, add("b"))
        )
        assert (await shelf.records.require(TOPIC)).properties == {"a": "x", "b": "x"}

    run(body)


def test_what_is_not_there_or_is_going_is_not_found() -> None:
    async def body(shelf: Shelf) -> None:
        with pytest.raises(TopicNotFound):
            await shelf.records.require(TOPIC)
        with pytest.raises(TopicNotFound):
            await shelf.records.update_properties(TOPIC, {})
        record = made()
        going = replace(record, intent=plan_delete(record, now_ms=1, force=True))
        await shelf.records.create(TOPIC, going)
        with pytest.raises(TopicNotFound):
            await shelf.records.require(TOPIC)
        with pytest.raises(TopicNotFound):
            await shelf.records.update_properties(TOPIC, {})
        assert await shelf.records.list(NAMESPACE) == []

    run(body)


def test_topics_are_found_by_all_of_the_properties_asked_for() -> None:
    async def body(shelf: Shelf) -> None:
        a, b, c = (parse_topic(f"topic://shop/eu/{name}") for name in "abc")
        await shelf.records.create(c, made(owner="alice", tier="1"))
        await shelf.records.create(a, made(owner="alice", tier="2"))
        await shelf.records.create(b, made())
        await shelf.records.create(parse_topic("topic://shop/us/d"), made(owner="alice"))
        assert await shelf.records.list(NAMESPACE) == [a, b, c]
        assert await shelf.records.list(NAMESPACE, {"owner": "alice"}) == [a, c]
        assert await shelf.records.list(NAMESPACE, {"owner": "alice", "tier": "1"}) == [c]
        assert await shelf.records.list(NAMESPACE, {"tier": "3"}) == []

    run(body)


def test_a_lock_below_a_topic_that_is_gone_is_no_topic() -> None:
    async def body(shelf: Shelf) -> None:
        await shelf.store.put("/topics/shop/eu/ghost/controller", b'"b"', expect=-1)
        assert await shelf.records.list(NAMESPACE) == []

    run(body)


def test_unfinished_topics_are_those_with_a_change_or_a_past() -> None:
    async def body(shelf: Shelf) -> None:
        calm, grown, going = (parse_topic(f"topic://shop/eu/{name}") for name in "abc")
        await shelf.records.create(calm, made())
        await shelf.records.create(grown, split(made()))
        await shelf.records.create(
            going, replace(made(), intent=plan_delete(made(), now_ms=1, force=True))
        )
        assert await shelf.records.namespaces() == (NAMESPACE,)
        assert set(await shelf.records.load_unfinished(NAMESPACE)) == {grown, going}

    run(body)


def test_listeners_hear_of_topics_and_not_of_what_is_below_them() -> None:
    async def body(shelf: Shelf) -> None:
        told: list[str] = []

        def fail() -> None:
            raise ValueError("a listener's own fault")

        def note(topic: TopicName) -> None:
            told.append(topic.local)

        shelf.others.watch(TOPIC, fail)
        cancel = shelf.others.watch(TOPIC, lambda: told.append("changed"))
        shelf.others.watch_namespace(NAMESPACE, note)
        await shelf.records.create(TOPIC, made())
        await shelf.records.groups.store_subscription(
            TOPIC, "s", SubscriptionRecord(SubscriptionKind.QUEUE)
        )
        assert told == ["changed", "orders"]
        cancel()
        cancel()
        await shelf.records.update(TOPIC, split)
        await shelf.records.delete(TOPIC)
        assert told == ["changed", "orders", "orders", "orders"]

    run(body)


def test_whoever_is_told_of_a_change_reads_what_is_new() -> None:
    async def body(shelf: Shelf) -> None:
        await shelf.records.create(TOPIC, made())
        await shelf.records.get(TOPIC)
        heard = asyncio.Event()
        shelf.records.watch(TOPIC, heard.set)
        await shelf.others.update(TOPIC, split)
        await asyncio.wait_for(heard.wait(), 5)
        assert (await shelf.records.require(TOPIC)).layout.epoch == 1

    run(body)


def test_subscriptions_and_consumers_have_any_name_and_a_group_is_no_subscription() -> None:
    async def body(shelf: Shelf) -> None:
        records = shelf.records
        name = "50% / more"
        await records.groups.store_subscription(
            TOPIC, name, SubscriptionRecord(SubscriptionKind.STREAM)
        )
        stored = await shelf.store.get("/topics/shop/eu/orders/subscriptions/50%25 %2F more")
        assert stored is not None and json.loads(stored.value) == {"type": "STREAM"}
        reader = ConsumerRecord(ConsumerKind.CHECKPOINT, (SegmentId(3),))
        await records.groups.store_consumer(TOPIC, "group", "c/1", reader)
        assert await records.groups.load_consumers(TOPIC, "group") == {"c/1": reader}
        assert set(await records.groups.load_groups(TOPIC)) == {name, "group"}
        assert set(await records.groups.load_subscriptions(TOPIC)) == {name}
        await records.groups.delete_consumer(TOPIC, "group", "c/1")
        await records.groups.delete_consumer(TOPIC, "group", "c/1")
        await records.groups.delete_subscription(TOPIC, name)
        assert await records.groups.load_groups(TOPIC) == ()

    run(body)


def test_the_load_of_a_segment_is_dated_by_the_store() -> None:
    async def body(shelf: Shelf) -> None:
        load = SegmentLoad(1.5, 2.0, 3.0, 4.0)
        assert await shelf.records.scaling.get_load(TOPIC, SegmentId(0)) is None
        await shelf.records.scaling.store_load(TOPIC, SegmentId(0), load)
        assert await shelf.records.scaling.get_load(TOPIC, SegmentId(0)) == (
            load,
            shelf.clock.now_ms(),
        )
        await shelf.records.scaling.delete_load(TOPIC, SegmentId(0))
        await shelf.records.scaling.delete_load(TOPIC, SegmentId(0))
        assert await shelf.records.scaling.get_load(TOPIC, SegmentId(0)) is None

    run(body)
