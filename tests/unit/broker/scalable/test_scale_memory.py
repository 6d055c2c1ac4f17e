"""What a topic knows of scaling itself outlives whoever controls it."""

from __future__ import annotations

import pytest

from magnetar.broker.exposition import render_metrics
from magnetar.broker.service import Service
from magnetar.metadata.store import ANY_VERSION
from magnetar.model.scalable import scaling_path
from magnetar.model.scaling import ScaleTally
from magnetar.model.segment import SegmentId
from tests.unit.broker.broker_place import Place, assemble
from tests.unit.broker.scalable.group_place import TOPIC, make_topic
from tests.unit.broker.scalable.test_scaler import (
    COLD,
    HOT,
    HOUR,
    count,
    override,
    play,
    report_all,
    settle,
)

PREFIX = "pulsar_scalable_topic_"
SPLITS, MERGES, SPLITS_CAPPED, MERGES_CAPPED, ACTIVE = (
    f"{PREFIX}{name}"
    for name in (
        "auto_splits_total",
        "auto_merges_total",
        "split_suppressed_max_segments_total",
        "merge_suppressed_max_depth_total",
        "active_segments",
    )
)


async def read_metrics(service: Service, label: str = f'topic="{TOPIC}"') -> dict[str, float]:
    lines = (await render_metrics(service)).splitlines()
    series = [each for each in lines if each.startswith(PREFIX) and label in each]
    return {each.split("{")[0]: float(each.split()[-1]) for each in series}


async def scale_every_way(place: Place) -> None:
    """Two segments become three and fewer again; a split and a merge are forbidden."""
    controller = await make_topic(place, 2)
    await override(controller, maxSegments=3, maxDagDepth=1)
    await report_all(controller, HOT)
    await settle(controller)
    await report_all(controller, HOT)
    place.clock.pass_s(60)
    await settle(controller)
    assert count(controller) == 3
    place.clock.pass_s(HOUR)
    for _ in range(3):
        await report_all(controller, COLD)
        place.clock.pass_s(HOUR)
        await settle(controller)


def test_every_counter_moves() -> None:
    async def body(place: Place) -> None:
        await scale_every_way(place)
        found = await read_metrics(place.service)
        assert found[SPLITS] == 1 and found[MERGES] >= 1
        assert found[ACTIVE] == 3 - found[MERGES]
        assert found[SPLITS_CAPPED] >= 1 and found[MERGES_CAPPED] >= 1
        before = dict(found)
        (controller,) = place.service.scalable.controllers.leading()
        place.clock.pass_s(HOUR)
        await settle(controller)
        found = await read_metrics(place.service)
        assert found[MERGES_CAPPED] == before[MERGES_CAPPED] + 1

    play(body)


def test_counters_and_decisions_survive_idle_times() -> None:
    async def body(place: Place) -> None:
        await scale_every_way(place)
        (controller,) = place.service.scalable.controllers.leading()
        before = await read_metrics(place.service)
        await controller.changes.prune()
        place.clock.pass_s(HOUR)
        await override(controller, enabled=False)
        await settle(controller)
        decided = controller.scaler.describe()
        await place.service.scalable.run_round()
        assert not [*place.service.scalable.controllers.leading()]
        idle = await read_metrics(place.service)  # nobody uses it, nothing is forgotten
        assert len(decided) > 3 and idle.keys() == before.keys()
        assert all(idle[name] >= before[name] for name in before)
        again = await place.service.scalable.controller(controller.topic)
        assert again is not controller
        assert again.scaler.describe() == decided
        assert await read_metrics(place.service) == idle
        await settle(again)
        assert again.scaler.describe()[:-1] == decided[:-1]  # a rest that goes on is one line
        assert again.scaler.describe()[-1]["times"] == decided[-1].get("times", 1) + 1

    play(body)


@pytest.mark.parametrize("is_crash", [False, True])
def test_counters_never_go_back_over_a_restart(is_crash: bool) -> None:
    async def body(place: Place) -> None:
        await scale_every_way(place)
        (controller,) = place.service.scalable.controllers.leading()
        told, topic = controller.scaler.tally, controller.topic
        decided = controller.scaler.describe()
        if not is_crash:
            await place.service.scalable.close()
            told = controller.scaler.tally
            decided = controller.scaler.describe()
        service = place.service
        config = service.config
        next_one = assemble(config, place.clock, service.resources, place.ledgers, term=2)
        try:
            found, _ = await next_one.scalable.records.scaling.load_memory(topic)
            assert found.tally.splits_capped >= told.splits_capped
            assert found.tally.merges_capped >= told.merges_capped
            if not is_crash:
                assert found.tally == told
                assert list(found.decisions[:-1]) == decided[:-1]
                assert found.decisions[-1]["decision"] == decided[-1]["decision"]
        finally:
            await next_one.close()

    play(body)


def test_a_change_that_was_not_counted_before_a_crash_is_counted_from_the_history() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 1)
        await report_all(controller, HOT)
        await settle(controller)
        await controller.changes.split(controller.layout.active[0].id)  # by hand: not counted
        assert controller.scaler.tally.splits == 1
        path = scaling_path(controller.topic)
        stored = await place.service.store.get(path)
        assert stored is not None
        await place.service.store.delete(path, expect=stored.stat.version)
        await controller.scaler.start()
        assert controller.scaler.tally.splits == 1

    play(body)


def test_what_is_remembered_goes_with_the_topic() -> None:
    async def body(place: Place) -> None:
        await scale_every_way(place)
        (controller,) = place.service.scalable.controllers.leading()
        assert await place.service.store.exists(scaling_path(controller.topic))
        await place.service.scalable.delete_topic(controller.topic, force=True)
        assert await place.service.store.children("/topics/shop/eu") == ()
        assert await read_metrics(place.service) == {}
        again = await make_topic(place, 1)
        assert again.scaler.tally == ScaleTally() and again.scaler.describe() == []

    play(body)


def test_what_cannot_be_read_does_not_stop_a_topic() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 1)
        await report_all(controller, HOT)
        await settle(controller)
        await place.service.store.put(scaling_path(controller.topic), b"{", expect=ANY_VERSION)
        await controller.scaler.start()
        assert controller.scaler.tally.splits == 1
        await controller.changes.split(SegmentId(1))
        await settle(controller)

    play(body)


def test_series_of_topics_obey_the_switch() -> None:
    async def body(place: Place) -> None:
        await scale_every_way(place)
        assert await read_metrics(place.service) == {}
        found = await read_metrics(place.service, 'namespace="shop/eu"')
        assert found[SPLITS] == 1 and found[MERGES] >= 1

    play(body, exposeTopicLevelMetricsInPrometheus=False)
