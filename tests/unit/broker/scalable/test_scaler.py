"""Topics that scale themselves, with loads reported by hand and a clock that stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from magnetar.broker.scalable.controller import Controller
from magnetar.broker.scalable.decision import ENTRIES_MAX, Trigger
from magnetar.errors import NoOwner, SegmentSealed
from magnetar.model.name import parse_topic
from magnetar.model.scalable import ChangeKind, ScaleHold, SegmentLoad, SubscriptionKind
from magnetar.model.segment import SegmentId, tile
from magnetar.rules.route import segment_hash
from tests.unit.broker.broker_place import NAMESPACE, Peer, Place, run, until
from tests.unit.broker.scalable.group_place import TOPIC, Client, make_topic
from tests.unit.broker.scalable.pair_place import Pair, eventually, run_pair

HOUR = 3600
HOT = SegmentLoad(rate_in_per_s=20_000.0)
MILD = SegmentLoad(rate_in_per_s=5_000.0)
COLD = SegmentLoad(rate_in_per_s=1.0)
FAST = {
    "scalableTopicAutoScaleEnabled": True,
    "scalableTopicSplitCooldownSeconds": 0,
    "scalableTopicMergeCooldownSeconds": 0,
    "scalableTopicMergeWindowSeconds": 0,
}


def play(body: Callable[[Place], Coroutine[Any, Any, None]], **settings: Any) -> None:
    run(body, **{**FAST, **settings})


async def report(controller: Controller, segment: int, load: SegmentLoad) -> None:
    await controller.state.records.scaling.store_load(controller.topic, SegmentId(segment), load)


async def report_all(controller: Controller, load: SegmentLoad) -> None:
    for segment in controller.layout.active:
        await report(controller, segment.id, load)


async def settle(controller: Controller) -> None:
    """Let everything that was set off come to its end."""
    await controller.scaler.evaluate()


def count(controller: Controller) -> int:
    return len(controller.layout.active)


async def override(controller: Controller, **fields: Any) -> None:
    await controller.state.records.update(
        controller.topic, lambda record: replace(record, auto_scale_policy=fields)
    )
    await until(lambda: controller.state.record.auto_scale_policy == fields)


async def override_namespace(place: Place, **fields: Any) -> None:
    await place.service.resources.namespaces.update(
        NAMESPACE, lambda policies: structs.replace(policies, scalableTopicAutoScalePolicy=fields)
    )


async def mark_deleted(place: Place, deleted: bool) -> None:
    await place.service.resources.namespaces.update(
        NAMESPACE, lambda policies: structs.replace(policies, deleted=deleted)
    )


# ---------------------------------------------------------------------- the proposal's cases


@pytest.mark.parametrize(
    ("segments", "load", "settings", "expected"),
    [
        pytest.param(2, HOT, {}, 3, id="20 hot"),
        pytest.param(2, SegmentLoad(100.0), {}, 2, id="21 warm beside an unmeasured one"),
        pytest.param(
            2,
            SegmentLoad(1e6),
            {"scalableTopicAutoScaleEnabled": False},
            2,
            id="22 disabled",
        ),
    ],
)
def test_one_segment_with_a_load_decides(
    segments: int, load: SegmentLoad, settings: dict[str, Any], expected: int
) -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, segments)
        await report(controller, 0, load)
        await settle(controller)
        assert count(controller) == expected

    play(body, **settings)


def test_cold_neighbours_merge_one_pair_at_a_time() -> None:
    """Case 23."""

    async def body(place: Place) -> None:
        controller = await make_topic(place, 4)
        controller.scaler._loads.stop()  # reports by hand come one by one: do not act on each
        await report_all(controller, COLD)
        await settle(controller)
        assert count(controller) == 3
        assert controller.state.record.history[-1].reason == "cold"

    play(body)


@pytest.mark.parametrize("consumers", [2, 4])
def test_consumers_get_segments_of_their_own_without_any_tick(consumers: int) -> None:
    """Cases 24 and 25."""

    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        for number in range(consumers):
            await client.register(f"c{number}", consumer_id=number + 1)
        await eventually(lambda: count(controller) == consumers)
        assert {event.reason for event in controller.state.record.history} == {"consumer-count"}

    play(body)


def test_checkpoint_consumers_count_too() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        for number in (1, 2):
            await client.register(f"c{number}", consumer_id=number, kind="CHECKPOINT")
        await eventually(lambda: count(controller) == 2)

    play(body)


@pytest.mark.parametrize(
    ("namespace", "topic", "expected"),
    [
        pytest.param({"enabled": False}, {}, 2, id="26 namespace says no"),
        pytest.param({"enabled": False}, {"enabled": True}, 3, id="27 topic says yes"),
        pytest.param({}, {"maxSegments": 2}, 2, id="28 topic has enough"),
    ],
)
def test_overrides_decide_field_by_field(
    namespace: dict[str, Any], topic: dict[str, Any], expected: int
) -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await override_namespace(place, **namespace)
        await override(controller, **topic)
        await report(controller, 0, HOT)
        await settle(controller)
        assert count(controller) == expected

    play(body)


def test_an_override_survives_the_split_it_allowed() -> None:
    """Case 29."""

    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await override(controller, maxSegments=3)
        for _ in range(2):
            await report_all(controller, HOT)
            await settle(controller)
        assert count(controller) == 3
        assert controller.state.record.auto_scale_policy == {"maxSegments": 3}
        last = controller.scaler.decisions.last
        assert last is not None and last.decision.held_by == ("max-segments",)
        place.clock.pass_s(60)  # it is told once it is stored
        await settle(controller)
        assert controller.scaler.tally.splits_capped >= 1

    play(body)


def test_limits_in_contradiction_change_nothing_and_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Case 30."""

    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await override_namespace(place, mergeMsgRateInThreshold=5_000)
        await override(controller, splitMsgRateInThreshold=2_000)
        await report(controller, 0, HOT)
        for _ in range(3):
            await settle(controller)
        assert count(controller) == 2
        told = [each for each in caplog.records if "does not scale itself" in each.getMessage()]
        assert len(told) == 1
        assert "splitMsgRateInThreshold must be >" in (await controller.scaler.explain())[1]
        await override(controller)
        await settle(controller)
        assert count(controller) == 3

    play(body)


def test_a_stored_override_of_the_wrong_kind_changes_nothing() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await override(controller, maxSegments="many")
        await report(controller, 0, HOT)
        await settle(controller)
        last = controller.scaler.decisions.last
        assert count(controller) == 2
        assert last is not None and "maxSegments" in last.decision.problem

    play(body)


def test_the_cooldown_outlives_the_leader() -> None:
    """Cases 31 and 32, with the parents pruned: the record still knows when they were split."""

    async def body(pair: Pair) -> None:
        service = pair.first
        service.config.update_dynamic("scalableTopicSplitCooldownSeconds", str(HOUR))
        pair.second.config.update_dynamic("scalableTopicSplitCooldownSeconds", str(HOUR))
        name = parse_topic(TOPIC)
        await service.scalable.create_topic(name, segments=2)
        first = await service.scalable.controller(name)
        await report_all(first, HOT)
        await settle(first)
        assert count(first) == 3
        assert await first.changes.prune()
        await report_all(first, HOT)
        await settle(first)
        assert count(first) == 3
        with pytest.raises(NoOwner):
            await pair.second.scalable.controller(name)
        second = pair.second.scalable.controllers.find(name)
        assert second is not None
        pair.stores[0].disconnect()
        pair.stores[0].expire()
        await until(lambda: second.leadership.is_leading)
        await report_all(second, HOT)
        await settle(second)
        assert count(second) == 3
        pair.clock.pass_s(HOUR)
        await settle(second)
        assert count(second) == 4

    run_pair(body)


def test_a_split_that_fails_does_not_start_the_cooldown() -> None:
    """Case 33."""

    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await mark_deleted(place, True)  # no topic can be made in the namespace
        await report(controller, 0, HOT)
        await settle(controller)
        assert count(controller) == 2
        last = controller.scaler.decisions.last
        assert last is not None and "is being deleted" in last.failure
        assert controller.state.record.intent is None
        await mark_deleted(place, False)
        await settle(controller)
        assert count(controller) == 3
        assert controller.scaler.tally.splits == 1

    play(body, scalableTopicSplitCooldownSeconds=HOUR)


# ---------------------------------------------------------------------- better than that


def test_a_load_that_is_reported_hot_splits_at_once() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        await report(controller, 0, HOT)
        await until(lambda: count(controller) == 2)
        last = controller.scaler.decisions.last
        assert last is not None and last.trigger is Trigger.LOAD

    play(body)


def test_a_topic_without_any_group_scales_too() -> None:
    """Producers and queue consumers alone give a topic a controller."""

    async def body(place: Place) -> None:
        name = parse_topic(TOPIC)
        await place.service.scalable.create_topic(name)
        peer = Peer(place.service)
        await peer.produce("segment://shop/eu/orders/0000-ffff-0")
        await until(lambda: place.service.scalable.controllers.find(name) is not None)
        controller = await place.service.scalable.controller(name)
        await report(controller, 0, HOT)
        await place.service.scalable.controllers.evaluate()
        assert count(controller) == 2

    play(body)


def test_a_hot_report_from_before_the_broker_started_is_not_believed() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        place.service.scalable.reporter.started_ms = place.clock.now_ms() + 5_000
        await report(controller, 0, HOT)
        place.clock.pass_s(10)
        await settle(controller)
        assert count(controller) == 1
        assert (await controller.scaler.explain())[-1].startswith("No load")
        await place.service.scalable.reporter.report()  # it has no load any more
        await settle(controller)
        assert count(controller) == 1
        assert "msgRateIn 0/s" in (await controller.scaler.explain())[-1]

    play(body)


def test_a_report_from_before_the_broker_started_holds_again_once_it_is_measured() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        place.service.scalable.reporter.started_ms = place.clock.now_ms() + 5_000
        await report(controller, 0, SegmentLoad(20_000, 2_000_000))
        topic = await place.topic(controller.layout.active[0].name_in(controller.topic).full)
        topic.rate_in.add(200_000, 20_000_000)
        place.clock.pass_s(10)
        await place.service.scalable.reporter.report()
        assert place.service.scalable.reporter.writes == 0
        await settle(controller)
        assert count(controller) == 2

    play(body)


def test_a_manual_split_starts_the_cooldown() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        await controller.changes.split(SegmentId(0))
        await report_all(controller, HOT)
        await settle(controller)
        assert count(controller) == 2
        assert (await controller.scaler.explain())[1].startswith("It would split, but the last")
        place.clock.pass_s(60)
        await settle(controller)
        assert count(controller) == 3

    play(body, scalableTopicSplitCooldownSeconds=60)


def test_a_manual_merge_starts_the_cooldown() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 4)
        await controller.changes.merge(SegmentId(0), SegmentId(1))
        await report_all(controller, COLD)
        await settle(controller)
        assert count(controller) == 3
        place.clock.pass_s(300)
        await settle(controller)
        assert count(controller) == 2

    play(body, scalableTopicMergeCooldownSeconds=300)


def test_what_the_cooldown_held_back_is_asked_again_when_it_is_over() -> None:
    """Without a tick: the interval of looks is that of a test, for ever."""

    async def body(place: Place) -> None:
        controller = await make_topic(place)
        await controller.changes.split(SegmentId(0))
        place.clock.pass_s(0.98)
        await report(controller, 1, HOT)
        await until(lambda: controller.scaler.decisions.last is not None)
        assert count(controller) == 2
        place.clock.pass_s(0.02)
        await eventually(lambda: count(controller) == 3)
        last = controller.scaler.decisions.last
        assert last is not None and last.decision.reason in ("msgRateIn", "unmeasured")

    play(body, scalableTopicSplitCooldownSeconds=1)


def test_two_hundred_consumers_at_once_are_a_few_questions() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        clients = [Client(place) for _ in range(200)]
        await asyncio.gather(
            *(client.register(f"c{n}", consumer_id=1) for n, client in enumerate(clients))
        )
        await eventually(lambda: count(controller) == 8)
        await settle(controller)
        assert count(controller) == 8
        assert controller.scaler.tally.splits == 7
        assert len(list(controller.scaler.decisions)) <= ENTRIES_MAX
        coordinator = controller.groups.coordinators["s"]
        assert len(coordinator.members.names) == 200

    play(body, scalableTopicMaxSegments=8)


def test_a_joining_consumer_sets_off_no_merge_and_a_leaving_one_may() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        controller.scaler._loads.stop()
        await report_all(controller, COLD)
        client = Client(place)
        await client.register("c1", consumer_id=1)
        await until(lambda: controller.scaler.decisions.last is not None)
        last = controller.scaler.decisions.last
        assert last is not None and last.decision.held_by == ("joining",)
        assert count(controller) == 2
        client.leave_group(1)
        await until(lambda: count(controller) == 1)

    play(body)


def test_segments_that_consumers_need_do_not_go_back_and_forth() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 3)
        client = Client(place)
        for number in (1, 2, 3):
            await client.register(f"c{number}", consumer_id=number)
        await report_all(controller, COLD)
        for _ in range(5):
            await settle(controller)
        assert count(controller) == 3 and not controller.state.record.history

    play(body)


def test_the_window_of_a_cold_segment_is_not_restarted_by_a_trembling_load() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await report_all(controller, COLD)
        await settle(controller)
        for rate in (3.0, 1.0, 4.0):
            place.clock.pass_s(40)
            await report_all(controller, SegmentLoad(rate_in_per_s=rate))
            await settle(controller)
        assert count(controller) == 1, "cold for 120 s"

    play(body, scalableTopicMergeWindowSeconds=100)


def test_a_load_in_between_restarts_the_window() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        for load in (COLD, MILD, COLD):
            await report_all(controller, load)
            await settle(controller)
            place.clock.pass_s(60)
        await settle(controller)
        assert count(controller) == 2
        place.clock.pass_s(41)
        await settle(controller)
        assert count(controller) == 1

    play(body, scalableTopicMergeWindowSeconds=100)


def test_a_clock_that_goes_back_delays_by_one_cooldown_at_most() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        place.clock.pass_s(10 * HOUR)
        await controller.changes.split(SegmentId(0))
        steady = place.clock.monotonic
        start_s, start_ms = steady(), place.clock.time_ms
        # People's clock is set back by ten hours; the steady one goes on.
        place.clock.time_ms -= 10 * HOUR * 1000

        def monotonic() -> float:
            return start_s + (place.clock.time_ms - (start_ms - 10 * HOUR * 1000)) / 1000

        place.clock.monotonic = monotonic  # type: ignore[method-assign]
        await controller.resign()
        await controller.scaler.start()
        await report_all(controller, HOT)
        await settle(controller)
        assert count(controller) == 2
        place.clock.pass_s(60)
        await settle(controller)
        assert count(controller) == 3

    play(body, scalableTopicSplitCooldownSeconds=60)


def test_an_answer_for_another_layout_is_not_carried_out() -> None:
    """Somebody splits by hand between the question and the answer."""

    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        controller.scaler._loads.stop()
        await report(controller, 0, HOT)
        manual = asyncio.create_task(controller.changes.split(SegmentId(0)))
        automatic = asyncio.create_task(controller.scaler.evaluate())
        await asyncio.gather(manual, automatic)
        await settle(controller)
        kinds = [(event.kind, event.segments) for event in controller.state.record.history]
        assert kinds.count((ChangeKind.SPLIT, (SegmentId(0),))) == 1
        assert sum(segment.range.size for segment in controller.layout.active) == 65_536

    play(body)


def test_changes_by_hand_in_the_middle_of_automatic_ones_keep_the_layout_whole() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        await controller.subscriptions.create("s", SubscriptionKind.QUEUE)
        for turn in range(25):
            await report_all(controller, HOT if turn % 3 else COLD)
            active = controller.layout.active
            chosen = active[turn % len(active)].id
            by_hand = [controller.changes.split(chosen), controller.changes.scale_to(1 + turn % 5)]
            outcomes = await asyncio.gather(
                *by_hand, controller.scaler.evaluate(), return_exceptions=True
            )
            refused = [each for each in outcomes if isinstance(each, BaseException)]
            assert all(isinstance(each, SegmentSealed) for each in refused), refused
        layout = controller.layout
        assert controller.state.record.intent is None
        assert sum(segment.range.size for segment in layout.active) == 65_536
        for segment in layout.active:
            seen = await controller.segments.see(segment.ref)
            assert seen is not None and not seen.is_sealed and "s" in seen.cursors
        assert controller.scaler.tally.splits > 0

    play(body)


def test_a_leader_that_was_deposed_does_not_carry_out_what_it_decided() -> None:
    async def body(pair: Pair) -> None:
        name = parse_topic(TOPIC)
        await pair.first.scalable.create_topic(name, segments=2)
        first = await pair.first.scalable.controller(name)
        with pytest.raises(NoOwner):
            await pair.second.scalable.controller(name)
        second = pair.second.scalable.controllers.find(name)
        assert second is not None
        await report(first, 0, HOT)
        pair.stores[0].disconnect()
        pair.stores[0].expire()
        await settle(first)
        await until(lambda: second.leadership.is_leading)
        assert count(second) == 2
        await settle(second)
        assert count(second) == 3
        assert [event.segments for event in second.state.record.history] == [(SegmentId(0),)]

    run_pair(body)


def test_a_store_that_is_away_delays_and_nothing_else() -> None:
    async def body(pair: Pair) -> None:
        name = parse_topic(TOPIC)
        await pair.first.scalable.create_topic(name, segments=2)
        first = await pair.first.scalable.controller(name)
        await report(first, 0, MILD)
        await settle(first)
        pair.stores[0].disconnect()
        first.scaler._loads._on_load(SegmentId(0))
        await settle(first)
        assert count(first) == 2
        pair.stores[0].reconnect()
        await until(lambda: first.leadership.is_leading)
        await report(first, 0, HOT)
        await eventually(lambda: count(first) == 3)

    run_pair(body)


def test_segments_asked_for_ahead_of_a_peak_stay_until_it_is_over() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        until_ms = place.clock.now_ms() + HOUR * 1000
        await controller.changes.scale_to(4, hold_until_ms=until_ms)
        stored = await controller.state.records.load(controller.topic, refresh=True)
        assert stored is not None and stored.value.scale_hold == ScaleHold(4, until_ms)
        await report_all(controller, COLD)
        await settle(controller)
        assert count(controller) == 4
        last = controller.scaler.decisions.last
        assert last is not None and last.decision.held_by == ("scale-hold",)
        place.clock.pass_s(HOUR)
        await settle(controller)
        assert count(controller) == 3
        await controller.changes.scale_to(2)
        assert controller.state.record.scale_hold is None

    play(body)


def test_a_topic_at_rest_fills_one_entry_of_its_log() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        await report_all(controller, MILD)
        await settle(controller)
        for _ in range(300):
            place.clock.pass_s(60)
            await settle(controller)
        (entry,) = [each for each in controller.scaler.decisions if each.times > 100]
        shown = entry.format()
        assert shown["decision"] == "stay" and shown["reason"] == "balanced"
        assert shown["times"] >= 300 and shown["firstAtMs"] < shown["atMs"]
        assert shown["loads"]["0"]["msgRateIn"] == 5_000.0

    play(body)


def test_a_topic_that_will_merge_later_keeps_its_controller() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 3)
        await report_all(controller, COLD)
        await settle(controller)
        assert controller.is_needed and controller.scaler.is_waiting
        place.clock.pass_s(HOUR)
        await settle(controller)
        assert count(controller) == 2

    play(body, scalableTopicMergeWindowSeconds=HOUR)


# ---------------------------------------------------------------------- keys


def keys_of(span_index: int, spans: int, number: int) -> list[str]:
    """Some keys whose hashes fall into one of equal parts of the ring."""
    span = tile(spans)[span_index]
    found = (f"k{n}" for n in range(1_000_000))
    return [key for key in found if segment_hash(key) in span][:number]


async def publish(place: Place, controller: Controller, keys: list[str]) -> None:
    peer = place.connect()
    await peer.produce(controller.layout.get(SegmentId(0)).name_in(controller.topic).full)
    await peer.send(len(keys), keys=lambda index: keys[index])
    peer.leave()


def test_a_segment_is_split_where_its_load_halves() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        hot_corner = keys_of(0, 16, 60)
        await publish(place, controller, hot_corner * 4 + keys_of(8, 16, 4))
        await report(controller, 0, HOT)
        await eventually(lambda: count(controller) == 2)
        lower = controller.layout.active[0]
        assert lower.range.last < tile(16)[0].last
        inside = [segment_hash(key) in lower.range for key in hot_corner]
        assert 20 <= sum(inside) <= 40

    play(body, scalableTopicKeySamplingEnabled=True)


def test_without_samples_it_is_split_in_the_middle() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        await publish(place, controller, keys_of(0, 16, 60) * 4)
        await report(controller, 0, HOT)
        await eventually(lambda: count(controller) == 2)
        assert controller.layout.active[0].range.last == 0x7FFF

    play(body)


def test_one_hot_key_does_not_split_a_topic_endlessly() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        await publish(place, controller, (["celebrity"] * 5 + ["k"]) * 20)
        await report(controller, 0, HOT)
        await settle(controller)
        assert count(controller) == 1
        last = controller.scaler.decisions.last
        assert last is not None and last.decision.held_by == ("hot-key",)
        assert "One key carries 83%" in last.sentences[1]

    play(body, scalableTopicKeySamplingEnabled=True)
