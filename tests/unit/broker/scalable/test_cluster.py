"""A scalable topic whose segments, controller and clients are at different brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.broker.administration.bundle import Scalable, clear_backlog, unsubscribe
from magnetar.broker.administration.read_part import find_part_owners
from magnetar.broker.administration.read_plan import (
    cut_read,
    list_holds,
    move_hold,
    plan_read,
    release_hold,
)
from magnetar.broker.administration.scalable_stats import (
    analyze_backlog,
    find_details,
    get_last_sequence_id,
    get_segment_log,
    get_segment_stats,
    peek_segment,
)
from magnetar.broker.administration.topic_part import find_topic_parts
from magnetar.broker.scalable.controller import Controller
from magnetar.errors import NoOwner, PreconditionFailed
from magnetar.model.caller import ANONYMOUS
from magnetar.model.name import TopicName, parse_namespace, parse_topic
from magnetar.model.read_plan import Cut, CutQuery, HoldMove, ReadQuery
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.segment import SegmentId
from magnetar.wire.command import BaseCommand, CommandSubscribe, KeyValue
from tests.unit.broker.scalable.cluster_place import Broker, Cluster, eventually, run_cluster

TOPIC = parse_topic("topic://shop/eu/orders")


async def _open_topic(cluster: Cluster, segments: int = 4) -> Controller:
    """The segments are at every broker, the controller at the first."""
    cluster.place(TOPIC, cluster.brokers[0])
    for index in range(20):
        first, last = index * 65536 // segments, (index + 1) * 65536 // segments - 1
        name = f"segment://shop/eu/orders/{first:04x}-{last:04x}-{index}"
        cluster.place(name, cluster.brokers[index % len(cluster.brokers)])
    plane = cluster.brokers[0].service.scalable
    await plane.create_topic(TOPIC, segments=segments)
    return await plane.controller(TOPIC)


async def _owners(cluster: Cluster) -> dict[SegmentId, Broker]:
    layout = await cluster.layout(TOPIC)
    return {each.id: cluster.owner(each.name_in(TOPIC)) for each in layout.segments}


def test_each_segment_is_made_by_its_owner_and_by_no_other() -> None:
    async def body(cluster: Cluster) -> None:
        await _open_topic(cluster)
        owners = await _owners(cluster)
        assert {each.id for each in owners.values()} == {each.id for each in cluster.brokers}
        for segment in (await cluster.layout(TOPIC)).segments:
            name = segment.name_in(TOPIC).full
            having = [each for each in cluster.brokers if name in each.service.catalog.topics]
            assert having == [owners[segment.id]]

    run_cluster(body)


def test_a_layout_names_the_broker_of_every_segment_and_of_the_controller() -> None:
    async def body(cluster: Cluster) -> None:
        await _open_topic(cluster)
        owners = await _owners(cluster)
        for broker in cluster.brokers:
            layouts = broker.service.scalable.layouts
            _, view = await layouts.resolve(TOPIC, create_if_missing=False)
            served = {number: address.url for number, address in view.brokers.items()}
            assert served == {n: each.service.owner.service_url for n, each in owners.items()}
            assert view.controller == cluster.brokers[0].service.owner.address

    run_cluster(body)


def test_only_the_owner_of_the_name_controls_a_topic() -> None:
    async def body(cluster: Cluster) -> None:
        await _open_topic(cluster)
        for broker in cluster.brokers[1:]:
            try:
                await broker.service.scalable.controller(TOPIC)
            except NoOwner:
                continue
            raise AssertionError("two controllers")

    run_cluster(body)


def test_segments_at_other_brokers_are_split_and_merged_with_every_cursor() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        owners = await _owners(cluster)
        await controller.subscriptions.create("all", _queue())
        far = next(n for n, each in owners.items() if each is not cluster.brokers[0])
        parent = (await cluster.layout(TOPIC)).get(far)
        peer = owners[far].connect()
        await peer.produce(parent.name_in(TOPIC).full)
        await peer.send(5)
        await controller.changes.split(far)
        layout = await cluster.layout(TOPIC)
        children = layout.get(far).children
        assert len(children) == 2
        for number in children:
            live = await cluster.live(TOPIC, layout.get(number))
            assert set(live.subscriptions) == {"all"}
        sealed = await cluster.live(TOPIC, layout.get(far))
        assert sealed.log.record.terminated is not None
        assert await controller.subscriptions.registry.backlog("all") == {
            each.id: 5 if each.id == far else 0 for each in layout.segments
        }
        await controller.changes.merge(*children)
        merged = await cluster.layout(TOPIC)
        assert len(merged.active) == 4
        await controller.subscriptions.clear_backlog("all")
        assert set(await controller.changes.prune()) == {far, *children}
        layout = await cluster.layout(TOPIC)
        assert not layout.sealed
        for broker in cluster.brokers:
            assert not await broker.service.catalog.topic_exists(parent.name_in(TOPIC))

    run_cluster(body)


def _queue() -> Any:
    from magnetar.model.scalable import SubscriptionKind

    return SubscriptionKind.QUEUE


def test_a_subscription_that_a_client_makes_anywhere_is_on_every_segment() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        owners = await _owners(cluster)
        layout = await cluster.layout(TOPIC)
        far = next(n for n, each in owners.items() if each is not cluster.brokers[0])
        peer = owners[far].connect()
        name = layout.get(far).name_in(TOPIC).full
        own = [KeyValue(key="team", value="eu")]
        answer = await peer.subscribe(
            name, "mine", CommandSubscribe.Shared, consumer_id=1, subscription_properties=own
        )
        assert answer.type == BaseCommand.SUCCESS
        await controller.changes.split(far)
        layout = await cluster.layout(TOPIC)
        assert len(layout.segments) == 6
        for segment in layout.segments:
            live = await cluster.live(TOPIC, segment)
            assert live.subscriptions["mine"].properties == {"team": "eu"}

    run_cluster(body)


def test_a_segment_at_another_broker_that_is_missing_is_made_for_its_first_client() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        await controller.subscriptions.create("all", _queue())
        owners = await _owners(cluster)
        layout = await cluster.layout(TOPIC)
        far = next(n for n, each in owners.items() if each is not cluster.brokers[0])
        name = layout.get(far).name_in(TOPIC)
        await owners[far].service.catalog.delete_topic(name, force=True)
        answer = await owners[far].connect().produce(name.full)
        assert answer.type == BaseCommand.PRODUCER_SUCCESS
        assert "all" in (await cluster.live(TOPIC, layout.get(far))).subscriptions

    run_cluster(body)


def test_a_segment_that_a_client_uses_wakes_its_controller_at_another_broker() -> None:
    async def body(cluster: Cluster) -> None:
        await _open_topic(cluster)
        controllers = cluster.brokers[0].service.scalable.controllers
        for each in tuple(controllers.leading()):
            await controllers._close(each)
        owners = await _owners(cluster)
        far = next(n for n, each in owners.items() if each is not cluster.brokers[0])
        name = (await cluster.layout(TOPIC)).get(far).name_in(TOPIC)
        await owners[far].connect().produce(name.full)

        async def leads() -> bool:
            return any(controllers.leading())

        await eventually(leads)

    run_cluster(body)


async def _record(cluster: Cluster, topic: TopicName) -> ScalableTopicMetadata:
    held = await cluster.alive[0].service.scalable.records.load(topic, refresh=True)
    assert held is not None
    return held.value


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5, 6])
def test_a_split_goes_on_at_the_next_broker_when_that_of_the_controller_is_killed(
    writes: int,
) -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        await controller.subscriptions.create("all", _queue())
        owners = await _owners(cluster)
        far = next(n for n, each in owners.items() if each is not cluster.brokers[0])
        seen = await cluster.write_count(writes)
        change = asyncio.create_task(controller.changes.split(far))
        waiting = asyncio.create_task(seen.wait())
        await asyncio.wait({change, waiting}, return_when=asyncio.FIRST_COMPLETED)
        await cluster.kill(cluster.brokers[0])
        change.cancel()
        waiting.cancel()

        async def is_done() -> bool:
            return (await _record(cluster, TOPIC)).intent is None

        await eventually(is_done)
        layout = await cluster.layout(TOPIC)
        assert len(layout.active) == 5
        for segment in layout.active:
            live = await cluster.live(TOPIC, segment)
            assert "all" in live.subscriptions
            assert live.log.record.terminated is None
        successor = cluster.owner(TOPIC)
        assert successor is not cluster.brokers[0]
        found = await successor.service.scalable.controller(TOPIC)
        await found.changes.split(found.layout.active[0].id)
        assert len((await cluster.layout(TOPIC)).active) == 6

    run_cluster(body)


def test_a_segment_is_described_whichever_broker_owns_it() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        await controller.subscriptions.create("all", _queue())
        owners = await _owners(cluster)
        far = next(n for n, each in owners.items() if each is not cluster.brokers[0])
        segment = (await cluster.layout(TOPIC)).get(far)
        peer = owners[far].connect()
        await peer.produce(segment.name_in(TOPIC).full)
        await peer.send(3)
        service = cluster.brokers[0].service
        details = find_details(service)
        stats = await get_segment_stats(service.scalable, details, TOPIC, segment)
        assert stats["msgInCounter"] == 3 and stats["producerCount"] == 1
        log = await get_segment_log(details, TOPIC, segment)
        assert log["numberOfEntries"] == 3
        backlog = await analyze_backlog(details, TOPIC, segment, "all", None)
        assert backlog["entries"] == 3
        seen = await peek_segment(details, TOPIC, segment, "all", 2)
        assert seen.data.endswith(b"x" * 5)
        with pytest.raises(PreconditionFailed):
            await get_last_sequence_id(details, TOPIC, segment, "p")

    run_cluster(body)


def test_calls_about_a_namespace_reach_topics_that_other_brokers_control() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        await controller.subscriptions.create("all", _queue())
        segment = controller.layout.active[0]
        peer = cluster.owner(segment.name_in(TOPIC)).connect()
        await peer.produce(segment.name_in(TOPIC).full)
        await peer.send(3)
        asked, registry = cluster.brokers[1].service, controller.subscriptions.registry
        parts, controls = find_topic_parts(asked), asked.scalable.controls
        await clear_backlog(parts, controls, None, (), Scalable((TOPIC,)))
        assert sum((await registry.backlog("all")).values()) == 0
        await unsubscribe(asked, parts, TOPIC.namespace, "all", None)
        assert not registry.records

    run_cluster(body)


def test_a_hold_names_topics_that_are_gone_and_loads_none_of_them() -> None:
    async def body(cluster: Cluster) -> None:
        service = cluster.brokers[0].service
        owners, allowed = find_part_owners(service), service.authorization
        gone = [f"persistent://shop/eu/gone-{number}" for number in range(100)]
        moves = tuple(HoldMove(each, "5:3") for each in gone)
        found = await move_hold(allowed, owners, service.scalable, "spark-1", moves, ANONYMOUS)
        assert sorted(found) == sorted(gone)

    run_cluster(body, maxConcurrentTopicLoadRequest=1)


def test_a_read_of_segments_at_every_broker_is_planned_and_held_by_any_of_them() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        for count, segment in enumerate(controller.layout.active, 1):
            peer = cluster.owner(segment.name_in(TOPIC)).connect()
            await peer.produce(segment.name_in(TOPIC).full)
            await peer.send(count)
        for broker in cluster.brokers:
            service, hold = broker.service, f"spark-{broker.id}"
            owners, allowed = find_part_owners(service), service.authorization
            plan = await plan_read(
                service, owners, ReadQuery(topics=("shop/eu/orders",)), ANONYMOUS
            )
            [topic] = plan.topics
            assert [part.entries for part in topic.parts] == [1, 2, 3, 4]
            again = ReadQuery(version=plan.version)
            assert (await plan_read(service, owners, again, ANONYMOUS)).is_unchanged
            parts = tuple(Cut(part.name, "-1:-1", part.end) for part in topic.parts)
            query = CutQuery(parts, messages=6)
            reached = await cut_read(allowed, owners, service.clock, query, ANONYMOUS)
            assert sum(each.messages for each in reached) == 6
            moves = tuple(HoldMove(each.name, each.position) for each in reached)
            scalable = service.scalable
            assert await move_hold(allowed, owners, scalable, hold, moves, ANONYMOUS) == []
            backlog = await controller.subscriptions.registry.backlog(hold)
            assert sum(backlog.values()) == 4
            shop, other = parse_namespace("shop/eu"), cluster.brokers[0].service
            others = find_part_owners(other)
            listed = await list_holds(other, others, shop, ANONYMOUS)
            assert listed == {hold: {"topics": [TOPIC.full], "entries": 4}}
            assert await release_hold(service, owners, shop, hold, ANONYMOUS) == 1
            assert hold not in controller.subscriptions.registry.records
            assert await list_holds(other, others, shop, ANONYMOUS) == {}
        await peer.send(1)
        assert not (await plan_read(service, owners, again, ANONYMOUS)).is_unchanged

    run_cluster(body)
