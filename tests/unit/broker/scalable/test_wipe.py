"""Data of a segment that its layout still names is thrown away by force."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from magnetar.errors import NamespaceNotFound, TopicNotFound
from magnetar.model.name import parse_topic
from magnetar.model.position import EARLIEST
from magnetar.model.scalable import ChangeKind, HealIntent, SegmentLoad, SubscriptionKind
from magnetar.model.segment import SegmentId
from magnetar.wire.command import BaseCommand
from tests.unit.broker.broker_place import NAMESPACE, Place, run, until
from tests.unit.broker.scalable.group_place import TOPIC, Client, make_topic, segment, segments_of

NAME = parse_topic(TOPIC)
ZERO, ONE = SegmentId(0), SegmentId(1)
LOWER, UPPER = segment("0000-7fff-0"), segment("8000-ffff-1")
WHOLE = segment("0000-ffff-0")
SHARED = 1


def test_a_wiped_active_segment_is_empty_and_has_every_subscription_before_the_first_write() -> (
    None
):
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await controller.subscriptions.create("s", SubscriptionKind.STREAM)
        await controller.subscriptions.adopt("q", EARLIEST)
        client = Client(place)
        for number, name in enumerate((LOWER, UPPER)):
            await client.produce(name, producer_id=number)
            await client.send(3, producer_id=number)
        await controller.changes.wipe(ZERO, reason="forced")
        assert client.count(BaseCommand.CLOSE_PRODUCER) == 1
        assert await controller.subscriptions.registry.backlog("s") == {1: 3}
        assert LOWER not in place.service.catalog.topics
        writers = [Client(place) for _ in range(4)]
        await asyncio.gather(*(each.produce(LOWER, producer_id=7) for each in writers))
        kinds = [event.kind for event in controller.state.record.history]
        assert kinds == [ChangeKind.WIPE, ChangeKind.HEAL]
        for writer in writers:
            await writer.send(1, producer_id=7)
        for name in ("s", "q"):
            assert await controller.subscriptions.registry.backlog(name) == {0: 4, 1: 3}

    run(body)


def test_nobody_is_let_in_while_subscriptions_of_a_missing_segment_are_being_made() -> None:
    """The record says so, whoever wrote it: a broker that died may have left it there."""

    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await controller.subscriptions.create("s", SubscriptionKind.STREAM)
        await (await place.topic(LOWER)).subscriptions.delete("s")
        ref = controller.layout.get(ZERO).ref
        await place.service.scalable.records.update(
            NAME, lambda record: replace(record, intent=HealIntent((ref,), 5))
        )
        client = Client(place)
        await client.produce(LOWER)
        await client.send(2)
        assert (await controller.subscriptions.registry.backlog("s"))[ZERO] == 2
        assert controller.state.record.intent is None

    run(body)


def test_a_consumer_goes_on_to_the_children_of_a_segment_whose_data_was_wiped() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await client.read("0000-ffff-0", "a", reader_id=2)
        await client.produce(WHOLE)
        await client.send(3)
        await controller.changes.split(ZERO)
        assert client.assigned(1)[-1] == [0]
        await controller.changes.wipe(ZERO, reason="forced")
        await until(lambda: client.assigned(1)[-1] == [1, 2])
        assert controller.groups.coordinators["s"].assigner.explain() == []
        late = await Client(place).register("b", consumer_id=3)
        assert len(segments_of(late.assignment)) == 1
        assert await controller.changes.prune() == (ZERO,)

    run(body)


def test_a_sealed_segment_whose_data_was_wiped_is_not_made_again() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.produce(WHOLE)
        await client.send(3)
        await controller.changes.split(ZERO)
        await controller.changes.wipe(ZERO, reason="forced")
        with pytest.raises(TopicNotFound):
            await place.service.scalable.attach_segment(parse_topic(WHOLE))
        refused = await client.read("0000-ffff-0", "a", reader_id=2, subscription="q")
        assert refused.type == BaseCommand.ERROR
        # Everything that acts on the whole topic goes on without it.
        await client.subscribe(segment("0000-7fff-1"), "q", SHARED, consumer_id=5)
        await controller.subscriptions.create("s", SubscriptionKind.STREAM)
        for name in ("q", "s"):
            await controller.subscriptions.seek(name, 0)
            await controller.subscriptions.clear_backlog(name)
            assert set(await controller.subscriptions.registry.backlog(name)) == {1, 2}
        assert not await place.service.catalog.topic_exists(parse_topic(WHOLE))

    run(body)


def test_a_wiped_active_segment_can_be_split_and_merged() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await controller.subscriptions.create("s", SubscriptionKind.STREAM)
        client = Client(place)
        await client.register("a", consumer_id=1)
        for each in (ZERO, ONE):
            await controller.changes.wipe(each, reason="forced")
        await controller.changes.split(ZERO)
        await controller.changes.merge(SegmentId(3), ONE)
        for number, name in ((2, "0000-3fff-2"), (4, "4000-ffff-4")):
            await client.produce(segment(name), producer_id=number)
            await client.send(1, producer_id=number)
            assert (await controller.subscriptions.registry.backlog("s"))[SegmentId(number)] == 1

    run(body)


def test_what_was_reported_of_a_segment_goes_with_its_data() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        records = place.service.scalable.records
        await records.scaling.store_load(NAME, ZERO, SegmentLoad(1.0, 2.0, 3.0, 4.0))
        await controller.changes.wipe(ZERO, reason="forced")
        assert await records.scaling.get_load(NAME, ZERO) is None

    run(body)


def test_a_segment_that_cannot_be_made_again_is_in_nobodys_way() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await controller.changes.wipe(ZERO, reason="forced")
        await place.service.resources.namespaces.delete(NAMESPACE)
        with pytest.raises(NamespaceNotFound):
            await place.service.scalable.attach_segment(parse_topic(LOWER))
        assert controller.state.record.intent is None
        await controller.changes.delete()
        assert await place.service.scalable.records.list(NAMESPACE) == []

    run(body)


def test_a_controller_that_starts_makes_what_is_missing_if_it_can() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await controller.subscriptions.create("s", SubscriptionKind.STREAM)
        await controller.changes.wipe(ZERO, reason="forced")
        await controller.begin()
        assert await controller.subscriptions.registry.backlog("s") == {0: 0, 1: 0}
        await controller.changes.wipe(ZERO, reason="forced")
        await place.service.resources.namespaces.delete(NAMESPACE)
        await controller.begin()
        assert controller.state.record.intent is None
        assert await controller.subscriptions.registry.backlog("s") == {1: 0}

    run(body)
