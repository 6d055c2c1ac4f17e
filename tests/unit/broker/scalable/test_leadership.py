from __future__ import annotations

import asyncio
import json

import pytest

from magnetar.errors import NoOwner, TopicNotFound
from magnetar.model.name import parse_topic
from magnetar.model.scalable import SubscriptionKind
from magnetar.model.segment import SegmentId
from magnetar.rules.layout import begin, plan_split
from tests.unit.broker.broker_place import until
from tests.unit.broker.scalable.pair_place import Pair, run_pair

TOPIC = parse_topic("topic://shop/eu/orders")


def test_the_lock_holds_the_id_of_the_broker_as_a_json_string() -> None:
    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(TOPIC)
        await pair.first.scalable.controller(TOPIC)
        stored = await pair.stores[1].get("/topics/shop/eu/orders/controller")
        assert stored is not None and stored.stat.ephemeral
        assert stored.value == b'"broker-1:8080"'

    run_pair(body)


def test_one_broker_controls_a_topic_and_the_other_says_who() -> None:
    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(TOPIC)
        first = await pair.first.scalable.controller(TOPIC)
        assert first.leadership.is_leading and first.leadership.term > 0
        with pytest.raises(NoOwner, match="broker-1:8080"):
            await pair.second.scalable.controller(TOPIC)
        second = pair.second.scalable.controllers.find(TOPIC)
        assert second is not None and not second.leadership.is_leading
        with pytest.raises(NoOwner):
            await second.changes.split(SegmentId(0))

    run_pair(body)


def test_a_follower_that_wins_leadership_later_leads_and_finishes_what_was_begun() -> None:
    """It is not enough to hold the lock: the whole start is run each time leadership comes."""

    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(TOPIC)
        first = await pair.first.scalable.controller(TOPIC)
        await first.subscriptions.create("s", SubscriptionKind.STREAM)
        with pytest.raises(NoOwner):
            await pair.second.scalable.controller(TOPIC)
        second = pair.second.scalable.controllers.find(TOPIC)
        assert second is not None
        first_term = first.leadership.term
        pair.stores[0].disconnect()
        intent = plan_split(first.layout, SegmentId(0), now_ms=pair.clock.now_ms())
        await pair.second.scalable.records.update(TOPIC, lambda record: begin(record, intent))
        assert not second.leadership.is_leading
        pair.stores[0].expire()
        await until(lambda: second.leadership.is_leading)
        assert second.leadership.term > first_term
        assert [each.id for each in second.layout.active] == [1, 2]
        assert set(await second.subscriptions.registry.backlog("s")) == {0, 1, 2}
        await second.changes.merge(SegmentId(1), SegmentId(2))
        assert len(second.layout.active) == 1

    run_pair(body)


def test_a_deposed_leader_knows_that_it_is_none_and_reads_all_anew_when_it_leads_again() -> None:
    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(TOPIC)
        first = await pair.first.scalable.controller(TOPIC)
        with pytest.raises(NoOwner):
            await pair.second.scalable.controller(TOPIC)
        second = pair.second.scalable.controllers.find(TOPIC)
        assert second is not None
        pair.stores[0].disconnect()
        pair.stores[0].expire()  # its session is over; it is still cut off
        await until(lambda: second.leadership.is_leading)
        assert not first.leadership.is_leading
        await second.subscriptions.create("while away", SubscriptionKind.QUEUE)
        with pytest.raises(NoOwner):
            await first.changes.split(SegmentId(0))
        pair.stores[0].reconnect()
        await second.changes.split(SegmentId(0))
        await pair.second.scalable.close()
        await until(lambda: first.leadership.is_leading)
        assert len(first.layout.active) == 2
        assert set(first.subscriptions.registry.records) == {"while away"}

    run_pair(body)


def test_a_call_that_waits_for_a_controller_which_ends_is_sent_elsewhere_at_once() -> None:
    """As when the bundle of its topic is unloaded while the metadata store is away."""

    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(TOPIC)
        first = await pair.first.scalable.controller(TOPIC)
        pair.stores[0].disconnect()
        pair.stores[0].expire()
        waiting = asyncio.ensure_future(first.leadership.ready())
        await asyncio.sleep(0)
        await first.leadership.close()
        async with asyncio.timeout(10):
            with pytest.raises(NoOwner, match="controlled by no broker"):
                await waiting
        pair.stores[0].reconnect()

    run_pair(body)


def test_a_change_by_somebody_else_is_taken_in() -> None:
    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(TOPIC)
        first = await pair.first.scalable.controller(TOPIC)
        told: list[object] = []
        first.state.listeners.append(lambda record: told.append(record and dict(record.properties)))
        await pair.second.scalable.records.update_properties(TOPIC, {"owner": "bob"})
        await until(lambda: told == [{"owner": "bob"}])
        assert first.state.record.properties == {"owner": "bob"}
        await first.changes.split(SegmentId(0))
        assert first.state.record.properties == {"owner": "bob"}

    run_pair(body)


def test_a_change_that_somebody_else_began_is_carried_out() -> None:
    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(TOPIC)
        first = await pair.first.scalable.controller(TOPIC)
        intent = plan_split(first.layout, SegmentId(0), now_ms=pair.clock.now_ms())
        await pair.second.scalable.records.update(TOPIC, lambda record: begin(record, intent))
        await until(lambda: len(first.layout.active) == 2)
        assert first.is_idle

    run_pair(body)


def test_a_topic_that_another_broker_deletes_has_no_controller_here() -> None:
    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(TOPIC)
        await pair.first.scalable.controller(TOPIC)
        await pair.second.scalable.records.delete(TOPIC)
        await until(lambda: pair.first.scalable.controllers.find(TOPIC) is None)
        with pytest.raises(TopicNotFound):
            await pair.first.scalable.controller(TOPIC)
        await until(lambda: not pair.tree.exists("/topics/shop/eu/orders/controller"))

    run_pair(body)


def test_clients_are_told_the_controller_that_is_known() -> None:
    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(TOPIC)
        assert (await pair.first.scalable.layouts.view(TOPIC)).controller is None
        await pair.first.scalable.controller(TOPIC)
        view = await pair.first.scalable.layouts.view(TOPIC)
        assert view.controller is not None
        assert view.controller.url == "pulsar://broker-1:6650"
        lock = await pair.second.scalable.records.load_controller(TOPIC)
        assert lock is not None and json.loads(lock) == "broker-1:8080"

    run_pair(body)
