"""Groups of consumers whose controller is at one broker and whose segments are at others."""

from __future__ import annotations

import asyncio

from magnetar.broker.scalable.controller import Controller
from magnetar.model.name import parse_topic
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import scalable_name
from magnetar.wire.command import BaseCommand
from tests.unit.broker.broker_place import until
from tests.unit.broker.scalable.cluster_place import Broker, Cluster, eventually, run_cluster
from tests.unit.broker.scalable.group_place import TOPIC, Client, segment, segments_of

NAME = parse_topic(TOPIC)
WHOLE = "0000-ffff-0"


def _client(broker: Broker) -> Client:
    return Client(broker, version="Test-1.0")  # type: ignore[arg-type]


async def _open_topic(cluster: Cluster) -> Controller:
    """The controller is at the first broker, the segment and one of its children at the second."""
    first, second, third = cluster.brokers
    cluster.place(TOPIC, first)
    cluster.place(segment(WHOLE), second)
    cluster.place(segment("0000-7fff-1"), third)
    cluster.place(segment("8000-ffff-2"), second)
    await first.service.scalable.create_topic(NAME)
    return await first.service.scalable.controller(NAME)


def test_children_are_assigned_when_their_parent_is_drained_at_another_broker() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        first, second, _ = cluster.brokers
        member, reader = _client(first), _client(second)
        answer = await member.register("c", consumer_id=1)
        assert segments_of(answer.assignment) == [0]
        assert (await reader.read(WHOLE, "c", reader_id=7)).type == BaseCommand.SUCCESS
        writer = second.connect()
        await writer.produce(segment(WHOLE))
        await writer.send(3)
        await until(lambda: len(reader.messages(7)) == 3)
        await controller.changes.split(controller.layout.active[0].id)
        await until(lambda: bool(member.assigned(1)))
        assert member.assigned(1)[-1] == [0]
        reader.ack(7, *reader.messages(7)[:2])
        await asyncio.sleep(0.2)
        assert member.assigned(1)[-1] == [0]
        reader.ack(7, *reader.messages(7)[2:])

        async def has_children() -> bool:
            return member.assigned(1)[-1] == [1, 2]

        await eventually(has_children)

    run_cluster(body)


def test_a_stalled_reader_at_another_broker_gets_its_sealed_segment_anew() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        first, second, _ = cluster.brokers
        member, reader = _client(first), _client(second)
        await member.register("a", consumer_id=1)
        await reader.read(WHOLE, "a", reader_id=10)
        writer = second.connect()
        await writer.produce(segment(WHOLE))
        await writer.send(3)
        await until(lambda: len(reader.messages(10)) == 3)
        await controller.changes.split(controller.layout.active[0].id)
        reader.leave()  # and what it acknowledged was lost with its connection
        back = _client(second)
        await back.read(WHOLE, "a", reader_id=10)
        await until(lambda: len(back.messages(10)) == 3)

        async def is_assigned(*segments: int) -> bool:
            return bool(member.assigned(1)) and member.assigned(1)[-1] == [*segments]

        await eventually(lambda: is_assigned())
        await back.close_consumer(10)
        await eventually(lambda: is_assigned(0))
        await back.read(WHOLE, "a", reader_id=11)
        await until(lambda: len(back.messages(11)) == 3)
        back.ack(11, *back.messages(11))
        await eventually(lambda: is_assigned(1, 2))
        assert first.service.scalable.redeliveries == 1

    run_cluster(body, scalableTopicStalledSegmentSeconds=0.05)


def test_a_reader_waits_at_another_broker_for_the_one_before_it() -> None:
    async def body(cluster: Cluster) -> None:
        await _open_topic(cluster)
        first, second, _ = cluster.brokers
        old, old_reader, new_reader = _client(first), _client(second), _client(second)
        await old.register("a", consumer_id=1)
        assert (await old_reader.read(WHOLE, "a", reader_id=7)).type == BaseCommand.SUCCESS
        stranger = await new_reader.read(WHOLE, "b", reader_id=8)
        assert stranger.type == BaseCommand.ERROR
        new = _client(first)
        await new.register("b", consumer_id=2)
        old.leave_group(1)

        async def has_moved() -> bool:
            return any(each == [0] for each in new.assigned(2))

        await eventually(has_moved)
        attaching = asyncio.create_task(new_reader.read(WHOLE, "b", reader_id=9))
        await asyncio.sleep(0.2)
        assert not attaching.done()
        await old_reader.close_consumer(7)
        assert (await attaching).type == BaseCommand.SUCCESS

    run_cluster(body)


def test_a_consumer_whose_reader_is_closed_at_another_broker_has_left() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        first, second, _ = cluster.brokers
        member, reader = _client(first), _client(second)
        await member.register("a", consumer_id=1)
        await reader.read(WHOLE, "a", reader_id=7)
        await reader.close_consumer(7)

        async def has_left() -> bool:
            return not controller.groups.coordinators["s"].members.names

        await eventually(has_left)

    run_cluster(body)


def test_the_load_of_a_segment_that_its_new_owner_does_not_serve_is_over() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        number = controller.layout.active[0].id
        loads = controller.state.records.scaling
        await loads.store_load(NAME, number, SegmentLoad(1000.0))
        reporter = cluster.brokers[0].service.scalable.reporter
        await reporter.report()
        assert await _rate(controller) == 1000.0  # it is loaded there, and its owner reports it
        second = cluster.brokers[1].service
        await second.catalog.unload_topic(parse_topic(segment(WHOLE)))
        await reporter.report()
        assert await _rate(controller) == 0.0

    run_cluster(body)


async def _rate(controller: Controller) -> float:
    found = await controller.state.records.scaling.get_load(NAME, controller.layout.active[0].id)
    return -1.0 if found is None else found[0].rate_in_per_s


def test_the_load_of_a_segment_at_another_broker_splits_it() -> None:
    async def body(cluster: Cluster) -> None:
        controller = await _open_topic(cluster)
        second = cluster.brokers[1]
        writer = second.connect()
        await writer.produce(segment(WHOLE))
        await writer.send(50)
        loads, number = controller.state.records.scaling, controller.layout.active[0].id

        async def is_reported() -> bool:
            await second.service.scalable.reporter.report()
            found = await loads.get_load(NAME, number)
            return found is not None and found[0].rate_in_per_s > 1

        await eventually(is_reported)
        await controller.scaler.evaluate()

        async def has_split() -> bool:
            return len((await cluster.layout(NAME)).active) > 1

        await eventually(has_split)

    run_cluster(
        body,
        scalableTopicAutoScaleEnabled=True,
        scalableTopicSplitMsgRateInThreshold=1,
        scalableTopicMergeMsgRateInThreshold=0,
        scalableTopicSplitCooldownSeconds=0,
    )


def test_a_broker_that_lost_a_bundle_sends_the_groups_of_its_regular_topics_away() -> None:
    """Else they are stranded there: another broker lets the topic become scalable."""
    name = parse_topic("persistent://public/default/regular")

    async def body(cluster: Cluster) -> None:
        first, second, _ = cluster.brokers
        for topic in (name, scalable_name(name)):
            cluster.place(topic, first)
        member = _client(first)
        await member.register("c", consumer_id=1, topic=name.full)
        for topic in (name, scalable_name(name)):
            cluster.place(topic, second)
        first.ownership.lose(name.namespace)
        await until(lambda: first.service.scalable.regular.find(scalable_name(name)) is None)
        await until(lambda: bool(member.connection.closed))

    run_cluster(body)
