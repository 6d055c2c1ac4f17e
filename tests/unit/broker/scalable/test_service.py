from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from magnetar.errors import (
    Conflict,
    InvalidName,
    NamespaceNotFound,
    NotAllowed,
    PreconditionFailed,
    ResourceBusy,
    TopicNotFound,
)
from magnetar.model.name import TopicDomain, TopicName, parse_namespace, parse_topic
from magnetar.model.policy import AutoTopicCreationOverride
from magnetar.model.scalable import SubscriptionKind
from magnetar.model.segment import HashRange, SegmentId
from magnetar.wire.command import BaseCommand
from tests.unit.broker.broker_place import NAMESPACE, Peer, Place, run, until

TOPIC = parse_topic("topic://shop/eu/orders")
REGULAR = parse_topic("persistent://shop/eu/orders")
SHARED = 1


async def segment_name(place: Place, number: int, topic: TopicName = TOPIC) -> str:
    record = await place.service.scalable.records.require(topic)
    return record.layout.get(SegmentId(number)).name_in(topic).full


# ---------------------------------------------------------------------- making and listing


def test_a_topic_is_made_with_its_segments_and_properties() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC, segments=3, properties={"owner": "alice"})
        record = await scalable.records.require(TOPIC)
        assert [str(each.range) for each in record.layout.active] == [
            "0000-5554",
            "5555-aaa9",
            "aaaa-ffff",
        ]
        assert record.properties == {"owner": "alice"}
        assert await scalable.records.list(NAMESPACE, {"owner": "alice"}) == [TOPIC]
        for segment in record.layout.active:
            assert await place.service.catalog.topic_exists(segment.name_in(TOPIC))
        await scalable.records.update_properties(TOPIC, {"owner": "bob"})
        assert await scalable.records.list(NAMESPACE, {"owner": "alice"}) == []
        assert (await scalable.records.require(TOPIC)).properties == {"owner": "bob"}

    run(body)


def test_new_segments_share_out_the_entry_buckets_of_the_broker() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC, segments=2)
        active = (await place.service.scalable.records.require(TOPIC)).layout.active
        assert [each.bucket_count for each in active] == [3, 3]

    run(body, scalableTopicEntryBucketBudget=7)


@pytest.mark.parametrize("count", [0, -1, 70_000])
def test_a_number_of_segments_that_cannot_be_is_refused(count: int) -> None:
    async def body(place: Place) -> None:
        with pytest.raises(PreconditionFailed, match=str(count)):
            await place.service.scalable.create_topic(TOPIC, segments=count)
        assert not await place.service.scalable.exists(TOPIC)

    run(body)


def test_a_topic_is_not_made_twice_nor_in_a_namespace_that_is_not_there() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC)
        with pytest.raises(Conflict, match="already exists"):
            await scalable.create_topic(TOPIC)
        with pytest.raises(NamespaceNotFound):
            await scalable.create_topic(parse_topic("topic://shop/nowhere/x"))

    run(body)


def test_names_that_would_be_confused_with_others_are_refused() -> None:
    async def body(place: Place) -> None:
        for local in ("orders ", " ", "x-partition-3"):
            with pytest.raises(InvalidName):
                await place.service.scalable.create_topic(
                    TopicName(TopicDomain.TOPIC, NAMESPACE, local)
                )

    run(body)


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_regular_topic_is_not_hidden_behind_a_scalable_one_of_its_name(partitions: int) -> None:
    async def body(place: Place) -> None:
        if partitions:
            await place.service.resources.partitioned.create(REGULAR, partitions)
        else:
            await place.topic(REGULAR.full)
        with pytest.raises(Conflict, match="regular topic"):
            await place.service.scalable.create_topic(TOPIC)
        with pytest.raises(TopicNotFound, match="regular topic"):
            await place.service.scalable.layouts.resolve(TOPIC, create_if_missing=True)
        assert await place.service.scalable.records.list(NAMESPACE) == []

    run(body)


def test_a_scalable_topic_is_not_hidden_behind_a_regular_one_of_its_name() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC)
        with pytest.raises(Conflict, match="scalable topic"):
            await place.service.catalog.load_topic(REGULAR, create=True)
        for name in (REGULAR, parse_topic("persistent://shop/eu/orders-partition-0")):
            with pytest.raises((TopicNotFound, NotAllowed)):
                await place.service.attach_topic(name)
        with pytest.raises(TopicNotFound):
            await place.service.catalog.partitions_of(REGULAR, may_create=True)
        assert await place.service.catalog.list_topics(NAMESPACE, TopicDomain.PERSISTENT) == []

    run(body)


def test_a_switched_off_broker_does_not_guard_regular_names() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC)
        await place.service.attach_topic(REGULAR)

    run(body, scalableTopicsEnabled=False)


def test_the_limit_of_topics_counts_scalable_ones_once_and_not_their_segments() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC, segments=4)
        await place.topic("persistent://shop/eu/other")
        with pytest.raises(PreconditionFailed, match="maximum number of topics"):
            await scalable.create_topic(parse_topic("topic://shop/eu/third"))
        with pytest.raises(PreconditionFailed, match="maximum number of topics"):
            await place.topic("persistent://shop/eu/third")
        await (await scalable.controller(TOPIC)).changes.scale_to(6)

    run(body, maxTopicsPerNamespace=2)


@pytest.mark.parametrize("local", ["a b", "a+b", "a%20b", "ünï", "a/b/c", "q?x=1&y#z"])
def test_names_that_need_escaping_work_everywhere(local: str) -> None:
    async def body(place: Place) -> None:
        topic = TopicName(TopicDomain.TOPIC, NAMESPACE, local)
        scalable = place.service.scalable
        await scalable.create_topic(topic, segments=2)
        assert await scalable.records.list(NAMESPACE) == [topic]
        controller = await scalable.controller(topic)
        peer = place.connect()
        await peer.subscribe(await segment_name(place, 0, topic), "q", SHARED, consumer_id=1)
        await peer.produce(await segment_name(place, 1, topic))
        await peer.send(2)
        await controller.changes.split(SegmentId(1))
        assert await controller.subscriptions.registry.backlog("q") == {0: 0, 1: 2, 2: 0, 3: 0}
        resolved, view = await scalable.layouts.resolve(topic, create_if_missing=False)
        assert resolved == topic and view.layout == controller.layout
        await scalable.delete_topic(topic, force=True)
        assert await place.service.store.children("/topics/shop/eu") == ()
        assert await place.service.store.children("/managed-ledgers/shop/eu") == ()

    run(body)


def test_a_topic_is_deleted_once_nobody_uses_it() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        with pytest.raises(TopicNotFound):
            await scalable.delete_topic(TOPIC)
        await scalable.create_topic(TOPIC)
        peer = place.connect()
        await peer.produce(await segment_name(place, 0))
        with pytest.raises(ResourceBusy):
            await scalable.delete_topic(TOPIC)
        assert await scalable.exists(TOPIC)
        await peer.close_producer()
        await scalable.delete_topic(TOPIC)
        assert not await scalable.exists(TOPIC)
        with pytest.raises(TopicNotFound):
            await scalable.delete_topic(TOPIC)

    run(body)


# ---------------------------------------------------------------------- what clients see


def test_a_view_names_who_serves_each_active_segment_and_who_controls() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC, segments=2)
        await (await scalable.controller(TOPIC)).changes.split(SegmentId(0))
        view = await scalable.layouts.view(TOPIC)
        assert set(view.brokers) == {1, 2, 3}
        assert {address.url for address in view.brokers.values()} == {"pulsar://localhost:6650"}
        assert view.controller is not None
        assert view.controller.url == "pulsar://localhost:6650"

    run(body)


@pytest.mark.parametrize(
    "name", ["topic://shop/eu/orders", "persistent://shop/eu/orders", "segment://…/0000-ffff-0"]
)
def test_every_spelling_of_a_scalable_topic_resolves_to_its_layout(name: str) -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC)
        spelled = parse_topic(name.replace("…", "shop/eu/orders"))
        topic, view = await scalable.layouts.resolve(spelled, create_if_missing=False)
        assert topic == TOPIC
        assert not view.layout.is_synthetic

    run(body)


def test_a_regular_topic_resolves_to_a_layout_made_up_for_it() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        heard: list[int] = []
        cancel = scalable.layouts.watch(REGULAR, lambda: heard.append(1))
        topic, view = await scalable.layouts.resolve(REGULAR, create_if_missing=True)
        assert topic == TOPIC and view.layout.is_synthetic
        assert [each.legacy_topic for each in view.layout.active] == [REGULAR.full]
        await place.service.resources.partitioned.create(REGULAR, 3)
        assert heard
        _, view = await scalable.layouts.resolve(REGULAR, create_if_missing=True)
        names = [REGULAR.partition(index).full for index in range(3)]
        assert [each.legacy_topic for each in view.layout.active] == names
        assert view.brokers == {} and view.controller is None
        cancel()

    run(body)


def test_what_has_no_layout_is_refused_by_its_kind() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        with pytest.raises(NotAllowed):
            await scalable.layouts.resolve(
                parse_topic("non-persistent://shop/eu/x"), create_if_missing=True
            )
        for text in (
            "persistent://shop/eu/x-partition-1",
            "topic://shop/eu/x-partition-1",
            "segment://shop/eu/x/0000-ffff-0",
        ):
            with pytest.raises(TopicNotFound):
                await scalable.layouts.resolve(parse_topic(text), create_if_missing=True)
        with pytest.raises(TopicNotFound):
            await scalable.layouts.resolve(TOPIC, create_if_missing=False)
        assert await scalable.records.list(NAMESPACE) == []

    run(body)


def test_a_missing_topic_is_made_by_looking_it_up_once_however_many_do() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        found = await asyncio.gather(
            *(scalable.layouts.resolve(TOPIC, create_if_missing=True) for _ in range(5))
        )
        assert {topic for topic, _ in found} == {TOPIC}
        assert len((await scalable.records.require(TOPIC)).layout.active) == 1

    run(body)


def test_a_missing_topic_is_made_only_where_the_policy_allows_it() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        with pytest.raises(TopicNotFound):
            await scalable.layouts.resolve(TOPIC, create_if_missing=True)
        override = AutoTopicCreationOverride(allowAutoTopicCreation=True)
        await place.service.resources.namespaces.update(
            NAMESPACE, lambda each: structs.replace(each, autoTopicCreationOverride=override)
        )
        await scalable.layouts.resolve(TOPIC, create_if_missing=True)

    run(body, allowAutoTopicCreation=False)


# ---------------------------------------------------------------------- segments


def test_an_active_segment_without_a_topic_is_made_by_whoever_attaches_first() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC, segments=2)
        name = await segment_name(place, 0)
        await place.service.catalog.delete_topic(parse_topic(name))
        answer = await place.connect().produce(name)
        assert answer.type == BaseCommand.PRODUCER_SUCCESS

    run(body, allowAutoTopicCreation=False)


@pytest.mark.parametrize(
    "name",
    [
        "segment://shop/eu/orders/0000-ffff-9",
        "segment://shop/eu/orders/0000-7fff-0",
        "segment://shop/eu/unknown/0000-ffff-0",
        "segment://shop/eu/orders/0000-ffff",
        "topic://shop/eu/orders",
    ],
)
def test_what_the_layout_does_not_name_cannot_be_attached_to(name: str) -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC)
        answer = await place.connect().produce(name)
        assert answer.type == BaseCommand.ERROR
        assert await place.service.scalable.records.list(NAMESPACE) == [TOPIC]
        stored = await place.service.store.children("/managed-ledgers/shop/eu/segment")
        assert stored == ("orders",)

    run(body)


def test_a_segment_has_one_name_however_its_descriptor_is_spelled() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC)
        answer = await place.connect().produce("segment://shop/eu/orders/0-FFFF-00")
        assert answer.type == BaseCommand.PRODUCER_SUCCESS
        live = place.service.catalog.topics["segment://shop/eu/orders/0000-ffff-0"]
        assert len(live.producers) == 1

    run(body)


def test_segments_have_the_policies_that_were_set_for_their_topic() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC, segments=2)
        first = await place.topic(await segment_name(place, 0))
        await place.service.policies.update(
            TOPIC, lambda each: structs.replace(each, messageTTLInSeconds=77)
        )
        assert first.policy.message_ttl_s == 77
        controller = await scalable.controller(TOPIC)
        await controller.changes.split(SegmentId(0))
        child = await place.topic(await segment_name(place, 2))
        assert child.policy.message_ttl_s == 77
        await place.service.catalog.unload_topic(first.name)
        await place.service.policies.update(
            TOPIC, lambda each: structs.replace(each, messageTTLInSeconds=78)
        )
        assert child.policy.message_ttl_s == 78
        await scalable.delete_topic(TOPIC, force=True)
        assert await place.service.policies.get(TOPIC) is None

    run(body)


# ---------------------------------------------------------------------- controllers


def test_a_topic_that_only_has_a_producer_or_a_queue_consumer_has_a_controller() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC)
        assert scalable.controllers.find(TOPIC) is None
        peer = place.connect()
        await peer.produce(await segment_name(place, 0))
        await until(lambda: is_controlled(place))

    run(body)


def is_controlled(place: Place) -> bool:
    controller = place.service.scalable.controllers.find(TOPIC)
    return controller is not None and controller.leadership.is_leading


def test_a_controller_stays_while_there_is_a_client_or_a_backlog_and_goes_afterwards() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC)
        peer = place.connect()
        await peer.subscribe(await segment_name(place, 0), "q", SHARED, consumer_id=1)
        await peer.produce(await segment_name(place, 0))
        await peer.send(2)
        await scalable.run_round()
        assert is_controlled(place)
        peer.leave()
        await scalable.run_round()
        assert is_controlled(place)  # there is a backlog
        again = place.connect()
        await again.subscribe(await segment_name(place, 0), "q", SHARED, consumer_id=1)
        await until(lambda: len(again.messages(1)) == 2)
        again.ack(1, *again.messages(1))
        again.leave()
        await scalable.run_round()
        assert scalable.controllers.find(TOPIC) is None
        assert await place.service.store.get("/topics/shop/eu/orders/controller") is None

    run(body)


def test_a_round_prunes_what_is_drained() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC)
        await (await scalable.controller(TOPIC)).changes.split(SegmentId(0))
        await scalable.run_round()
        layout = (await scalable.records.require(TOPIC)).layout
        assert [each.id for each in layout.segments] == [1, 2]

    run(body)


def test_what_nobody_uses_is_not_taken_away_from_single_segments() -> None:
    """A segment without clients belongs to a topic that may have some, and so do its cursors."""

    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC, segments=2)
        controller = await scalable.controller(TOPIC)
        peer = place.connect()
        await peer.subscribe(await segment_name(place, 0), "q", SHARED, consumer_id=1)
        place.clock.pass_s(3_600)
        upkeep = place.service.upkeep
        await upkeep.delete_inactive_topics()
        await upkeep.delete_inactive_topics()
        await upkeep.delete_unused_subscriptions()
        assert set(await controller.subscriptions.registry.backlog("q")) == {0, 1}

    run(
        body,
        brokerDeleteInactiveTopicsMaxInactiveDurationSeconds=1,
        subscriptionExpirationTimeMinutes=1,
    )


def test_a_consumer_and_a_split_at_the_same_time_leave_no_segment_without_a_cursor() -> None:
    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC, segments=2)
        controller = await scalable.controller(TOPIC)
        peers = [place.connect() for _ in range(4)]
        name = await segment_name(place, 0)

        async def attach(index: int, peer: Peer) -> None:
            await peer.subscribe(name, f"q{index}", SHARED, consumer_id=1)

        await asyncio.gather(
            attach(0, peers[0]),
            controller.changes.split(SegmentId(0)),
            attach(1, peers[1]),
            controller.changes.split(SegmentId(1)),
            *(attach(index, peers[index]) for index in (2, 3)),
        )
        for index in range(4):
            assert set(await controller.subscriptions.registry.backlog(f"q{index}")) == set(
                controller.layout.by_id
            )
        records = controller.subscriptions.registry.records
        assert {each.kind for each in records.values()} == {SubscriptionKind.QUEUE}

    run(body)


def test_a_cursor_without_a_record_is_a_stream_once_a_consumer_reads_it_in_order() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC)
        registry = (await place.service.scalable.controller(TOPIC)).subscriptions.registry
        for kind, shown in (
            (SubscriptionKind.QUEUE, SubscriptionKind.QUEUE),
            (SubscriptionKind.STREAM, SubscriptionKind.STREAM),
            (SubscriptionKind.QUEUE, SubscriptionKind.STREAM),
        ):
            await registry.register("s", kind)
            assert registry.records["s"].kind is shown

    run(body)


def test_namespaces_do_not_see_each_others_topics() -> None:
    async def body(place: Place) -> None:
        other = parse_namespace("shop/us")
        policies = await place.service.resources.namespaces.require(NAMESPACE)
        await place.service.resources.namespaces.create(other, policies)
        twin = TopicName(TopicDomain.TOPIC, other, TOPIC.local)
        for topic in (TOPIC, twin):
            await place.service.scalable.create_topic(topic)
        assert await place.service.scalable.records.list(NAMESPACE) == [TOPIC]
        assert await place.service.scalable.records.list(other) == [twin]
        await place.service.scalable.delete_topic(twin)
        layout = (await place.service.scalable.records.require(TOPIC)).layout
        assert layout.active[0].range == HashRange(0, 0xFFFF)

    run(body)
