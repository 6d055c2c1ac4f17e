from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec import structs

from magnetar.broker.scalable.controller import Controller
from magnetar.errors import (
    NotAllowed,
    PreconditionFailed,
    ResourceBusy,
    SegmentNotFound,
    SegmentSealed,
    StoreUnavailable,
    SubscriptionNameReserved,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.metadata.backends.memory import MemoryStore
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.policy import RetentionPolicies
from magnetar.model.scalable import (
    ChangeKind,
    ScalableTopicMetadata,
    SegmentLoad,
    SubscriptionKind,
)
from magnetar.model.segment import SegmentId
from magnetar.wire.command import BaseCommand, CommandSubscribe
from tests.unit.broker.broker_place import NAMESPACE, Peer, Place, run, until
from tests.unit.broker.scalable.pair_place import eventually

TOPIC = parse_topic("topic://shop/eu/orders")
SHARED = 1


def ids(*numbers: int) -> tuple[SegmentId, ...]:
    return tuple(SegmentId(number) for number in numbers)


async def make(place: Place, segments: int = 1, topic: TopicName = TOPIC) -> Controller:
    await place.service.scalable.create_topic(topic, segments=segments)
    return await place.service.scalable.controller(topic)


def name_of(controller: Controller, number: int) -> str:
    return controller.layout.get(SegmentId(number)).name_in(controller.topic).full


async def publish(peer: Peer, controller: Controller, number: int, count: int) -> None:
    producer_id = 100 + number
    await peer.produce(name_of(controller, number), producer_id=producer_id)
    await peer.send(count, producer_id=producer_id)


def active(controller: Controller) -> list[int]:
    return [segment.id for segment in controller.layout.active]


# ---------------------------------------------------------------------- split and merge


def test_a_split_seals_the_parent_below_two_children_and_is_told_in_order() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        epochs: list[int] = []

        def note(record: ScalableTopicMetadata | None) -> None:
            assert record is not None and record.intent is None
            epochs.append(record.layout.epoch)

        controller.state.listeners.append(note)
        await controller.changes.split(SegmentId(0))
        await controller.changes.split(SegmentId(2), at=0xF000)
        await controller.changes.merge(SegmentId(1), SegmentId(3), reason="cold")
        assert active(controller) == [5, 4]
        assert epochs == [1, 2, 3]
        assert str(controller.layout.get(SegmentId(4)).range) == "f000-ffff"
        kinds = [(event.kind, event.reason) for event in controller.state.record.history]
        assert kinds == [
            (ChangeKind.SPLIT, "manual"),
            (ChangeKind.SPLIT, "manual"),
            (ChangeKind.MERGE, "cold"),
        ]
        for segment in controller.layout.segments:
            topic = await place.topic(segment.name_in(TOPIC).full)
            assert (topic.log.record.terminated is not None) is segment.is_sealed

    run(body)


def test_a_sealed_segment_sends_its_producers_away_and_refuses_them() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        peer = place.connect()
        await publish(peer, controller, 0, 5)
        await controller.changes.split(SegmentId(0))
        await until(lambda: peer.count(BaseCommand.CLOSE_PRODUCER) == 1)
        refusal = await peer.produce(name_of(controller, 0), producer_id=7)
        assert refusal.error.error == 15
        await publish(peer, controller, 1, 1)

    run(body)


def test_everything_a_producer_sent_is_answered_before_a_split_sends_it_away() -> None:
    """A client sends again what it has no receipt for: a message would be there twice."""

    async def body(place: Place) -> None:
        controller = await make(place)
        peer = place.connect()
        await peer.produce(name_of(controller, 0), producer_id=1)
        place.ledgers.hold_creates()
        sending = asyncio.ensure_future(peer.send(4))
        splitting = asyncio.ensure_future(controller.changes.split(SegmentId(0)))
        for _ in range(50):
            await asyncio.sleep(0)
        assert peer.count(BaseCommand.CLOSE_PRODUCER) == 0
        place.ledgers.release_creates()
        await asyncio.gather(sending, splitting)
        kinds = [c.type for c in peer._wire.received]
        assert kinds.count(BaseCommand.SEND_RECEIPT) == 4
        last = max(i for i, kind in enumerate(kinds) if kind == BaseCommand.SEND_RECEIPT)
        assert last < kinds.index(BaseCommand.CLOSE_PRODUCER)
        parent = await place.topic(name_of(controller, 0))
        assert parent.log.sequence.total_entries == 4

    run(body)


@pytest.mark.parametrize(
    ("number", "refusal"), [(9, SegmentNotFound), (0, SegmentSealed)], ids=["unknown", "sealed"]
)
def test_what_cannot_be_changed_is_refused_with_a_sentence_and_stays(
    number: int, refusal: type[Exception]
) -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        await controller.changes.split(SegmentId(0))
        before = controller.state.record
        with pytest.raises(refusal, match=str(number)):
            await controller.changes.split(SegmentId(number))
        with pytest.raises(refusal, match=str(number)):
            await controller.changes.merge(SegmentId(number), SegmentId(1))
        assert controller.state.record == before

    run(body)


def test_the_log_has_the_begin_and_the_end_of_a_change(caplog: pytest.LogCaptureFixture) -> None:
    async def body(place: Place) -> None:
        controller = await make(place, 2)
        caplog.clear()
        await controller.changes.split(SegmentId(0))
        await controller.changes.merge(SegmentId(2), SegmentId(3))

    with caplog.at_level(logging.INFO, "magnetar.broker.scalable.mutation"):
        run(body)
    told = [(each.getMessage(), each.__dict__["fields"]["change"]) for each in caplog.records]
    events = [(event, change.split()[0]) for event, change in told if event.startswith("change")]
    assert events == [
        ("change begins", "split"),
        ("change done", "split"),
        ("change begins", "merge"),
        ("change done", "merge"),
    ]


def test_segments_that_are_not_neighbours_do_not_merge() -> None:
    async def body(place: Place) -> None:
        controller = await make(place, 3)
        for left, right in ((0, 2), (1, 1)):
            with pytest.raises(PreconditionFailed, match="adjacent"):
                await controller.changes.merge(SegmentId(left), SegmentId(right))
        assert controller.layout.epoch == 0

    run(body)


def test_a_range_of_one_hash_does_not_split() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        await controller.changes.split(SegmentId(0), at=1)
        with pytest.raises(PreconditionFailed, match="single hash"):
            await controller.changes.split(SegmentId(1))
        with pytest.raises(PreconditionFailed, match="not at"):
            await controller.changes.split(SegmentId(2), at=0)
        assert controller.state.record.intent is None and controller.layout.epoch == 1

    run(body)


def test_changes_asked_for_at_once_happen_one_after_the_other() -> None:
    """What is created is what is committed: no two changes share the ids of their children."""

    async def body(place: Place) -> None:
        controller = await make(place, 2)
        await controller.subscriptions.create("s", SubscriptionKind.STREAM)
        outcomes = await asyncio.gather(
            controller.changes.split(SegmentId(0)),
            controller.changes.split(SegmentId(0)),
            controller.changes.merge(SegmentId(0), SegmentId(1)),
            controller.changes.split(SegmentId(1)),
            controller.changes.merge(SegmentId(2), SegmentId(3)),
            return_exceptions=True,
        )
        refused = [type(outcome) for outcome in outcomes]
        assert refused == [type(None), SegmentSealed, SegmentSealed, type(None), type(None)]
        assert set(await controller.subscriptions.registry.backlog("s")) == set(
            controller.layout.by_id
        )
        stored = await place.service.store.children("/managed-ledgers/shop/eu/segment/orders")
        assert set(stored) == {f"{s.range}-{s.id}" for s in controller.layout.segments}

    run(body)


def test_a_topic_is_scaled_to_a_number_of_segments_up_and_down() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        await controller.changes.scale_to(5)
        assert len(active(controller)) == 5
        await controller.changes.scale_to(2)
        assert len(active(controller)) == 2
        epoch = controller.layout.epoch
        await controller.changes.scale_to(2)
        for count in (0, -1, 70_000):
            with pytest.raises(PreconditionFailed, match="at least 1"):
                await controller.changes.scale_to(count)
        assert controller.layout.epoch == epoch

    run(body)


def test_a_split_that_fails_before_anything_is_sealed_is_taken_back() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        peer = place.connect()
        await peer.subscribe(name_of(controller, 0), "q", SHARED, consumer_id=1)
        await publish(peer, controller, 0, 1)
        # A namespace that is gone takes no new topics, so the children cannot be made.
        await place.service.resources.namespaces.delete(NAMESPACE)
        with pytest.raises(Exception, match="does not exist"):
            await controller.changes.split(SegmentId(0))
        assert controller.state.record.intent is None
        assert active(controller) == [0]
        stored = await place.service.store.children("/managed-ledgers/shop/eu/segment/orders")
        assert stored == ("0000-ffff-0",)
        await peer.send(1, producer_id=100)

    run(body)


def test_an_active_segment_that_is_terminated_is_replaced_when_a_controller_starts() -> None:
    """Whoever terminated it never said what takes its place: its part of the ring is unwritable."""

    async def body(place: Place) -> None:
        scalable = place.service.scalable
        await scalable.create_topic(TOPIC, segments=2)
        layout = (await scalable.records.require(TOPIC)).layout
        await (await place.topic(layout.active[0].name_in(TOPIC).full)).termination.run()
        controller = await scalable.controller(TOPIC)
        assert active(controller) == [2, 3, 1]
        assert controller.state.record.history[-1].reason == "repair"

    run(body)


# ---------------------------------------------------------------------- subscriptions


def test_a_queue_subscription_made_by_attaching_is_registered_and_is_on_every_segment() -> None:
    async def body(place: Place) -> None:
        controller = await make(place, 3)
        peer = place.connect()
        await peer.subscribe(name_of(controller, 1), "q", SHARED, consumer_id=1)
        records = controller.subscriptions.registry.records
        assert {name: each.kind for name, each in records.items()} == {"q": SubscriptionKind.QUEUE}
        assert set(await controller.subscriptions.registry.backlog("q")) == {0, 1, 2}
        stored = await place.service.store.get("/topics/shop/eu/orders/subscriptions/q")
        assert stored is not None and stored.value == b'{"type":"QUEUE"}'

    run(body)


@pytest.mark.parametrize(("position", "backlog"), [("Earliest", 2), ("Latest", 0)])
def test_the_other_segments_are_read_from_where_the_first_consumer_begins(
    position: str, backlog: int
) -> None:
    async def body(place: Place) -> None:
        controller = await make(place, 2)
        peer = place.connect()
        await publish(peer, controller, 0, 2)
        await publish(peer, controller, 1, 2)
        await attach(peer, name_of(controller, 0), "q", position)
        assert await controller.subscriptions.registry.backlog("q") == {0: backlog, 1: backlog}

    run(body)


async def attach(peer: Peer, topic: str, name: str, position: str, **more: object) -> BaseCommand:
    request = CommandSubscribe(
        topic=topic,
        subscription=name,
        subType=CommandSubscribe.Shared,
        consumer_id=77,
        initialPosition=position,
        **more,  # type: ignore[arg-type]
    )
    return await peer.ask(request, BaseCommand.SUCCESS)


def test_a_reader_leaves_no_subscription_behind() -> None:
    async def body(place: Place) -> None:
        controller = await make(place, 2)
        peer = place.connect()
        await attach(peer, name_of(controller, 0), "reader", "Earliest", durable=False)
        await controller.changes.split(SegmentId(0))
        assert controller.subscriptions.registry.records == {}
        assert await controller.subscriptions.registry.backlog("reader") == {}

    run(body)


def test_children_have_every_cursor_of_their_parents_before_the_first_write() -> None:
    """Also those that no record knows of: nobody's backlog is lost by a split or a merge."""

    async def body(place: Place) -> None:
        controller = await make(place)
        await controller.subscriptions.create("admin", SubscriptionKind.STREAM)
        parent = await place.topic(name_of(controller, 0))
        await parent.subscriptions.create("unregistered")
        peer = place.connect()
        await peer.subscribe(name_of(controller, 0), "q", SHARED, consumer_id=1)
        await controller.changes.split(SegmentId(0))
        for number in (1, 2):
            await publish(peer, controller, number, 2)
        await controller.changes.merge(SegmentId(1), SegmentId(2))
        await publish(peer, controller, 3, 2)
        for name in ("admin", "unregistered", "q"):
            backlog = await controller.subscriptions.registry.backlog(name)
            assert [backlog[SegmentId(number)] for number in (1, 2, 3)] == [2, 2, 2]

    run(body)


def test_a_subscription_stays_when_its_last_consumer_has_left() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        coordinator = await controller.subscriptions.coordinator("s")
        await controller.register_subscription("s", SubscriptionKind.STREAM)
        peer = place.connect()
        await peer.subscribe(name_of(controller, 0), "s", 0, consumer_id=1)
        await coordinator.leave("nobody")
        await controller.subscriptions.drop_idle_groups()
        peer.leave()
        await controller.changes.split(SegmentId(0))
        records = controller.subscriptions.registry.records
        assert records["s"].kind is SubscriptionKind.STREAM
        assert set(await controller.subscriptions.registry.backlog("s")) == {0, 1, 2}

    run(body)


def test_a_subscription_made_by_an_administrator_reads_active_segments_from_their_start() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        peer = place.connect()
        await publish(peer, controller, 0, 3)
        await controller.changes.split(SegmentId(0))
        await publish(peer, controller, 1, 2)
        await controller.subscriptions.create("s", SubscriptionKind.STREAM)
        await controller.subscriptions.create("s", SubscriptionKind.QUEUE)
        assert await controller.subscriptions.registry.backlog("s") == {0: 0, 1: 2, 2: 0}
        assert controller.subscriptions.registry.records["s"].kind is SubscriptionKind.STREAM

    run(body)


def test_a_topic_takes_no_more_subscriptions_than_its_policy_allows() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        for name in ("a", "b"):
            await controller.subscriptions.create(name, SubscriptionKind.QUEUE)
        with pytest.raises(NotAllowed, match="maximum number of subscriptions"):
            await controller.subscriptions.create("c", SubscriptionKind.QUEUE)
        for name in ("", "pulsar.dedup"):
            with pytest.raises(SubscriptionNameReserved):
                await controller.subscriptions.create(name, SubscriptionKind.QUEUE)
        await controller.changes.split(SegmentId(0))
        assert set(await controller.subscriptions.registry.backlog("a")) == {0, 1, 2}

    run(body, maxSubscriptionsPerTopic=2)


def test_a_deleted_subscription_is_gone_from_every_segment() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        peer = place.connect()
        await peer.subscribe(name_of(controller, 0), "q", SHARED, consumer_id=1)
        await controller.changes.split(SegmentId(0))
        with pytest.raises(ResourceBusy):
            await controller.subscriptions.delete("q")
        await controller.subscriptions.delete("q", force=True)
        await controller.subscriptions.delete("never there")
        assert controller.subscriptions.registry.records == {}
        assert await controller.subscriptions.registry.backlog("q") == {}
        assert await place.service.scalable.records.groups.load_groups(TOPIC) == ()

    run(body)


def test_a_seek_goes_over_the_whole_past_of_the_topic() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        await controller.subscriptions.create("s", SubscriptionKind.STREAM)
        peer = place.connect()
        await publish(peer, controller, 0, 3)
        place.clock.pass_s(60)
        await controller.changes.split(SegmentId(0))
        split_at_ms = place.clock.now_ms()
        await publish(peer, controller, 1, 2)
        await controller.subscriptions.clear_backlog("s")
        assert sum((await controller.subscriptions.registry.backlog("s")).values()) == 0
        await controller.subscriptions.seek("s", 0)
        assert await controller.subscriptions.registry.backlog("s") == {0: 3, 1: 2, 2: 0}
        await controller.subscriptions.seek("s", split_at_ms)
        assert await controller.subscriptions.registry.backlog("s") == {0: 0, 1: 2, 2: 0}
        await controller.subscriptions.seek("s", 0)
        await controller.subscriptions.expire("s", 5)
        assert sum((await controller.subscriptions.registry.backlog("s")).values()) == 0
        for move in (
            controller.subscriptions.seek("unknown", 0),
            controller.subscriptions.clear_backlog("unknown"),
            controller.subscriptions.expire("unknown", 1),
        ):
            with pytest.raises(SubscriptionNotFound, match="unknown"):
                await move

    run(body)


# ---------------------------------------------------------------------- pruning


def test_a_sealed_segment_stays_until_every_durable_subscription_has_drained_it() -> None:
    """Those of queue consumers too, whether registered or only there as a cursor."""

    async def body(place: Place) -> None:
        controller = await make(place)
        peer = place.connect()
        await peer.subscribe(name_of(controller, 0), "q", SHARED, consumer_id=1)
        parent = await place.topic(name_of(controller, 0))
        await parent.subscriptions.create("unregistered")
        await publish(peer, controller, 0, 3)
        await place.service.scalable.records.scaling.store_load(TOPIC, SegmentId(0), SegmentLoad())
        await controller.changes.split(SegmentId(0))
        assert await controller.changes.prune() == ()
        assert controller._mutation.kept == {0: "not drained by q, unregistered"}
        peer.ack(1, *peer.messages(1))
        assert await controller.changes.prune() == ()
        assert controller._mutation.kept == {0: "not drained by unregistered"}
        await parent.subscriptions["unregistered"].skip_all()
        assert await controller.changes.prune() == ids(0)
        assert not await place.service.catalog.topic_exists(parent.name)
        assert await place.service.scalable.records.scaling.get_load(TOPIC, SegmentId(0)) is None
        assert [each.id for each in controller.layout.segments] == [1, 2]
        assert await controller.changes.prune() == ()

    run(body)


def test_what_is_retained_for_ever_is_never_pruned_nor_even_looked_at() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        await set_retention(
            place, "topic", RetentionPolicies(retentionTimeInMinutes=-1, retentionSizeInMB=-1)
        )
        await controller.changes.split(SegmentId(0))
        await place.service.catalog.unload_topic(parse_topic(name_of(controller, 0)))
        place.clock.pass_s(86_400)
        assert await controller.changes.prune() == ()
        assert controller._mutation.kept == {0: "retained for ever"}
        assert name_of(controller, 0) not in place.service.catalog.topics

    run(body)


@pytest.mark.parametrize("level", ["topic", "namespace"])
def test_retention_keeps_a_drained_segment_for_its_time_and_up_to_its_size(level: str) -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        policies = RetentionPolicies(retentionTimeInMinutes=10, retentionSizeInMB=-1)
        await set_retention(place, level, policies)
        peer = place.connect()
        await publish(peer, controller, 0, 3)
        await controller.changes.split(SegmentId(0))
        place.clock.pass_s(599)
        assert await controller.changes.prune() == ()
        assert controller._mutation.kept == {0: "retained"}
        place.clock.pass_s(1)
        assert await controller.changes.prune() == ids(0)
        await publish(peer, controller, 1, 3)
        await controller.changes.split(SegmentId(1))
        await set_retention(
            place, level, RetentionPolicies(retentionTimeInMinutes=-1, retentionSizeInMB=1)
        )
        place.clock.pass_s(86_400)
        assert await controller.changes.prune() == ()
        await peer.produce(name_of(controller, 3), producer_id=55)
        await peer.send(3, producer_id=55, size=400_000)
        assert await controller.changes.prune() == ids(1)

    run(body)


async def set_retention(place: Place, level: str, retention: RetentionPolicies) -> None:
    if level == "topic":
        await place.service.policies.update(
            TOPIC, lambda each: structs.replace(each, retentionPolicies=retention)
        )
    else:
        await place.service.resources.namespaces.update(
            NAMESPACE, lambda each: structs.replace(each, retention_policies=retention)
        )


def test_a_subscription_nobody_uses_anywhere_expires_for_the_whole_topic() -> None:
    async def body(place: Place) -> None:
        controller = await make(place, 2)
        peer = place.connect()
        for name in ("used", "idle"):
            await controller.subscriptions.create(name, SubscriptionKind.QUEUE)
        await peer.subscribe(name_of(controller, 1), "used", SHARED, consumer_id=1)
        place.clock.pass_s(3_600)
        await controller.subscriptions.delete_unused()
        assert set(controller.subscriptions.registry.records) == {"used"}
        assert await controller.subscriptions.registry.backlog("idle") == {}
        assert set(await controller.subscriptions.registry.backlog("used")) == {0, 1}

    run(body, subscriptionExpirationTimeMinutes=30)


# ---------------------------------------------------------------------- deleting


def test_a_topic_in_use_is_deleted_by_force_only_and_nothing_of_it_is_left() -> None:
    async def body(place: Place) -> None:
        controller = await make(place, 2)
        told: list[object] = []
        controller.state.listeners.append(told.append)
        peer = place.connect()
        await publish(peer, controller, 0, 3)
        with pytest.raises(ResourceBusy, match="producer"):
            await controller.changes.delete()
        await peer.subscribe(name_of(controller, 1), "q", SHARED, consumer_id=1)
        await controller.changes.split(SegmentId(0))
        with pytest.raises(ResourceBusy, match="subscription q"):
            await controller.changes.delete()
        assert controller.state.record.intent is None
        told.clear()
        await controller.changes.delete(force=True)
        assert told == [None]
        store = place.service.store
        assert await store.children("/topics/shop/eu") == ()
        assert await store.children("/managed-ledgers/shop/eu") == ()
        assert place.service.scalable.controllers.find(TOPIC) is None
        with pytest.raises(TopicNotFound):
            await controller.changes.split(SegmentId(1))
        again = await make(place)
        assert again is not controller
        assert active(again) == [0] and again.subscriptions.registry.records == {}

    run(body)


def test_whoever_asks_during_a_delete_hears_that_the_topic_is_gone() -> None:
    async def body(place: Place) -> None:
        controller = await make(place, 4)
        outcomes = await asyncio.gather(
            controller.changes.delete(force=True),
            controller.changes.split(SegmentId(0)),
            controller.changes.delete(force=True),
            controller.subscriptions.create("s", SubscriptionKind.QUEUE),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [type(None)] + [TopicNotFound] * 3
        await until(lambda: place.service.scalable.controllers.find(TOPIC) is None)
        assert await place.service.store.children("/topics/shop/eu") == ()

    run(body)


def test_a_delete_that_fails_is_finished_later() -> None:
    async def body(place: Place) -> None:
        controller = await make(place)
        peer = place.connect()
        await publish(peer, controller, 0, 1)
        store = place.service.store
        assert isinstance(store, MemoryStore)
        controller.state.listeners.append(
            lambda _: store.disconnect()
        )  # once there is only forward
        with pytest.raises(StoreUnavailable):
            await controller.changes.delete(force=True)
        store.reconnect()
        with pytest.raises(TopicNotFound):
            await place.service.scalable.records.require(TOPIC)
        await eventually(lambda: place.service.scalable.controllers.find(TOPIC) is None)
        assert await place.service.store.children("/topics/shop/eu") == ()

    run(body)
