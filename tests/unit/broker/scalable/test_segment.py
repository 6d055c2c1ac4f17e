from __future__ import annotations

import pytest

from magnetar.broker.scalable.segment import SegmentClient
from magnetar.broker.schema import schema_id
from magnetar.broker.topicpolicy.metadata import topic_policies_path
from magnetar.errors import InvalidName, PreconditionFailed, TopicNotFound
from magnetar.model.log_path import log_path
from magnetar.model.name import TopicDomain, parse_topic
from magnetar.model.position import EARLIEST, LATEST
from magnetar.model.segment import HashRange, SegmentId, SegmentRef
from magnetar.rules.drain import SegmentUse, ToEnd, ToStart
from magnetar.rules.phase import SegmentSeen
from tests.unit.broker.broker_place import NAMESPACE, Place, run

TOPIC = parse_topic("topic://shop/eu/a b/orders")
REF = SegmentRef(SegmentId(3), HashRange(0, 0x7FFF))
FULL = "segment://shop/eu/a b/orders/0000-7fff-3"


def test_a_segment_is_kept_below_its_topic_and_shares_what_belongs_to_the_topic() -> None:
    name = REF.name_in(TOPIC)
    assert name.full == FULL
    assert log_path(name, 1) == "/managed-ledgers/shop/eu/segment/a+b%2Forders/0000-7fff-3"
    assert schema_id(name) == schema_id(TOPIC) == "shop/eu/a+b%2Forders"
    path = "/admin/topic-policies/local/shop/eu/topic/a+b%2Forders"
    assert topic_policies_path(name, is_global=False) == path
    assert topic_policies_path(TOPIC, is_global=False) == path


def test_a_segment_looks_the_same_loaded_and_not_loaded() -> None:
    async def body(place: Place) -> None:
        segments = place.service.scalable.segments_of(TOPIC)
        assert await segments.see(REF) is None
        await segments.create(REF, ("a", "b"))
        await segments.create(REF, ("b", "c"))
        seen = SegmentSeen(False, frozenset("abc"))
        assert await segments.see(REF) == seen
        await place.service.catalog.unload_topic(REF.name_in(TOPIC))
        assert await segments.see(REF) == seen
        assert FULL not in place.service.catalog.topics
        await segments.seal(REF)
        await segments.seal(REF)
        assert await segments.see(REF) == SegmentSeen(True, frozenset("abc"))
        await place.service.catalog.unload_topic(REF.name_in(TOPIC))
        assert await segments.see(REF) == SegmentSeen(True, frozenset("abc"))

    run(body)


def test_subscriptions_of_a_segment_have_their_properties_loaded_and_not_loaded() -> None:
    async def body(place: Place) -> None:
        segments = place.service.scalable.segments_of(TOPIC)
        await segments.create(REF, ("a", "b"), {"b": {"team": "eu"}})
        await segments.create_subscription(REF, "c", EARLIEST, {"team": "us"})
        own = {"b": {"team": "eu"}, "c": {"team": "us"}}
        assert await segments.see(REF) == SegmentSeen(False, frozenset("abc"), own)
        await place.service.catalog.unload_topic(REF.name_in(TOPIC))
        assert await segments.see(REF) == SegmentSeen(False, frozenset("abc"), own)
        live = await place.service.catalog.load_topic(REF.name_in(TOPIC))
        assert {name: dict(each.properties) for name, each in live.subscriptions.items()} == {
            "a": {},
            **own,
        }

    run(body)


def test_what_the_broker_keeps_for_itself_is_no_subscription_of_a_segment() -> None:
    async def body(place: Place) -> None:
        segments = place.service.scalable.segments_of(TOPIC)
        await segments.create(REF, ("a",))
        assert await segments.subscriptions(REF) == {"a"}
        await place.service.catalog.unload_topic(REF.name_in(TOPIC))
        assert await segments.subscriptions(REF) == {"a"}

    run(body, brokerDeduplicationEnabled=True)


def test_a_limit_on_subscriptions_does_not_keep_a_child_from_its_cursors() -> None:
    async def body(place: Place) -> None:
        segments = place.service.scalable.segments_of(TOPIC)
        await segments.create(REF, ("a", "b", "c"))
        assert await segments.subscriptions(REF) == {"a", "b", "c"}

    run(body, maxSubscriptionsPerTopic=2)


def test_a_subscription_without_a_cursor_has_no_backlog_to_tell() -> None:
    async def body(place: Place) -> None:
        segments = place.service.scalable.segments_of(TOPIC)
        assert await segments.backlog(REF, "a") is None
        assert await segments.move(REF, "a", ToEnd()) is False
        assert await segments.expire(REF, "a", 5) is False
        await segments.delete_subscription(REF, "a")
        assert await segments.use(REF) == SegmentUse()
        await segments.delete(REF)
        with pytest.raises(TopicNotFound):
            await segments.create_subscription(REF, "a")
        await segments.create(REF, ())
        assert await segments.backlog(REF, "a") is None

    run(body)


def test_cursors_begin_and_move_where_they_are_told() -> None:
    async def body(place: Place) -> None:
        segments = place.service.scalable.segments_of(TOPIC)
        await segments.create(REF, ("first",))
        await place.topic(FULL)
        peer = place.connect()
        await place.service.scalable.create_topic(TOPIC)
        await peer.produce("segment://shop/eu/a b/orders/0000-ffff-0")
        live = await place.topic("segment://shop/eu/a b/orders/0000-ffff-0")
        await peer.send(3)
        ref = SegmentRef(SegmentId(0), HashRange(0, 0xFFFF))
        await segments.create_subscription(ref, "early", EARLIEST)
        await segments.create_subscription(ref, "late", LATEST)
        assert await segments.backlog(ref, "early") == 3
        assert await segments.backlog(ref, "late") == 0
        assert await segments.move(ref, "early", ToEnd())
        assert await segments.backlog(ref, "early") == 0
        assert await segments.move(ref, "late", ToStart())
        assert await segments.backlog(ref, "late") == 3
        use = await segments.use(ref)
        assert use == SegmentUse(live.log.sequence.total_bytes, ("late",))
        stats = await segments.stats(ref)
        assert stats.clients == tuple(SegmentClient(each.name) for each in live.producers)

    run(body)


def test_a_segment_that_nobody_reads_is_measured_without_loading_it() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC)
        peer = place.connect()
        await peer.produce("segment://shop/eu/a b/orders/0000-ffff-0")
        await peer.send(3)
        ref = SegmentRef(SegmentId(0), HashRange(0, 0xFFFF))
        segments = place.service.scalable.segments_of(TOPIC)
        use = await segments.use(ref)
        assert use.size_bytes > 0
        await place.service.catalog.unload_topic(ref.name_in(TOPIC))
        assert await segments.use(ref) == use
        assert ref.name_in(TOPIC).full not in place.service.catalog.topics
        await segments.create_subscription(ref, "s")
        await place.service.catalog.unload_topic(ref.name_in(TOPIC))
        assert await segments.use(ref) == SegmentUse(use.size_bytes, ("s",))

    run(body)


def test_what_was_a_regular_topic_keeps_its_name_and_is_never_made_again() -> None:
    async def body(place: Place) -> None:
        old = "persistent://shop/eu/old-partition-1"
        ref = SegmentRef(SegmentId(0), HashRange(0, 0xFFFF), old)
        segments = place.service.scalable.segments_of(parse_topic("topic://shop/eu/old"))
        with pytest.raises(TopicNotFound):
            await segments.seal(ref)
        topic = await place.topic(old)
        await topic.subscriptions.create("s", position=EARLIEST)
        await segments.seal(ref)
        assert topic.log.record.terminated is not None
        assert await segments.see(ref) == SegmentSeen(True, frozenset("s"))
        assert await segments.backlog(ref, "s") == 0

    run(body)


def test_segments_are_not_listed_among_regular_topics() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC, segments=4)
        assert await place.service.catalog.list_topics(NAMESPACE, TopicDomain.PERSISTENT) == []

    run(body)


def test_a_name_that_is_no_segment_cannot_be_loaded_as_one() -> None:
    async def body(place: Place) -> None:
        for text in (
            "segment://shop/eu/x",
            "segment://shop/eu/x/0000-ffff",
            "segment://shop/eu/x/y",
        ):
            with pytest.raises(InvalidName):
                await place.service.catalog.load_topic(parse_topic(text), create=True)

    run(body)


def test_a_segment_that_the_layout_names_is_not_removed_by_an_outdated_controller() -> None:
    async def body(place: Place) -> None:
        plane = place.service.scalable
        await plane.create_topic(TOPIC)
        controller = await plane.controller(TOPIC)
        await controller.changes.split(SegmentId(0))
        parent, child, _ = controller.layout.segments
        for kept in (parent, child):
            with pytest.raises(PreconditionFailed):
                await plane.segments_of(TOPIC).delete(kept.ref)
            assert await place.service.catalog.topic_exists(kept.name_in(TOPIC))
        other = SegmentRef(SegmentId(7), child.range)
        await plane.segments_of(TOPIC).create(other, ())
        await plane.segments_of(TOPIC).delete(other)
        assert not await place.service.catalog.topic_exists(other.name_in(TOPIC))

    run(body)
