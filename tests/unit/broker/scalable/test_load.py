"""What brokers report of the segments they serve."""

from __future__ import annotations

from dataclasses import replace

from magnetar.broker.scalable.load import Count, Meter
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.model.name import parse_topic
from magnetar.model.scalable import SegmentLoad, load_path, parse_load_path
from magnetar.model.segment import SegmentId
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.group_place import TOPIC, make_topic
from tests.unit.broker.scalable.pair_place import Pair, run_pair

NAME = parse_topic(TOPIC)
ZERO = SegmentId(0)


async def stored(records: ScalableRecords, segment: int = 0) -> tuple[SegmentLoad, int] | None:
    return await records.scaling.get_load(NAME, SegmentId(segment))


async def carry(place: Place, messages: int, *, seconds: float = 10, segment: int = 0) -> None:
    """Some traffic into a segment, then a round of the reporter."""
    controller = await place.service.scalable.controller(NAME)
    name = controller.layout.get(SegmentId(segment)).name_in(NAME)
    topic = await place.service.catalog.load_topic(name)
    topic.rate_in.add(messages, messages * 100)
    place.clock.pass_s(seconds)
    await place.service.scalable.reporter.report()


def test_a_meter_rises_at_once_and_falls_late() -> None:
    meter = Meter(Count(0.0))
    first = meter.measure(Count(10.0, 100))
    assert first is not None and first.rate_in_per_s == 10.0
    burst = meter.measure(Count(20.0, 1_100))
    assert burst is not None and burst.rate_in_per_s == 100.0
    quiet = [meter.measure(Count(30.0 + 10 * n, 1_100)) for n in range(7)]
    rates = [each.rate_in_per_s for each in quiet if each is not None]
    assert rates[0] == 1_100 / 30, "the longer window still knows of it"
    assert rates == sorted(rates, reverse=True) and rates[-1] == 0.0


def test_a_meter_says_nothing_without_time_and_survives_counters_that_go_back() -> None:
    meter = Meter(Count(0.0, 500))
    assert meter.measure(Count(0.0, 600)) is None
    again = meter.measure(Count(10.0, 50))
    assert again is not None and again.rate_in_per_s == 5.0


def test_the_first_measurement_is_reported_even_when_nothing_goes_on() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 2)
        records = place.service.scalable.records
        await place.service.scalable.reporter.report()
        assert await stored(records) is None, "no time has passed"
        place.clock.pass_s(10)
        await place.service.scalable.reporter.report()
        for segment in (0, 1):
            assert await stored(records, segment) == (SegmentLoad(), place.clock.now_ms())

    run(body)


def test_only_what_changed_enough_is_written_and_nothing_twice() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        reporter, records = place.service.scalable.reporter, place.service.scalable.records
        await carry(place, 10_000)
        assert await stored(records) == (SegmentLoad(1_000, 100_000), place.clock.now_ms())
        at_ms = place.clock.now_ms()
        for messages in (10_000, 11_000, 9_000):
            await carry(place, messages)
        assert (await stored(records) or (None, 0))[1] == at_ms and reporter.writes == 1
        await carry(place, 20_000)
        found = await stored(records)
        assert found is not None and found[0].rate_in_per_s == 2_000 and reporter.writes == 2

    run(body)


def test_a_rate_just_past_the_limit_is_seen() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        await carry(place, 95_000)
        await carry(place, 100_010)
        found = await stored(place.service.scalable.records)
        assert found is not None and found[0].rate_in_per_s == 10_001

    run(body, scalableTopicAutoScaleEnabled=True, scalableTopicMaxSegments=1)


def test_the_limits_are_those_of_the_topic() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        records = place.service.scalable.records
        await carry(place, 30_000)
        limits = {"splitMsgRateInThreshold": 3_200}
        await records.update(NAME, lambda record: replace(record, auto_scale_policy=limits))
        await carry(place, 32_010)
        found = await stored(records)
        assert found is not None and found[0].rate_in_per_s == 3_201

    run(body, scalableTopicAutoScaleEnabled=True, scalableTopicMaxSegments=1)


def test_what_goes_out_counts_also_of_subscriptions_that_are_gone() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        topic = await place.topic(controller.layout.get(ZERO).name_in(NAME).full)
        subscription = await topic.subscriptions.create("s")
        subscription.rate.add(500, 5_000)
        await topic.subscriptions.delete("s", force=True)
        await carry(place, 0)
        found = await stored(place.service.scalable.records)
        assert found is not None
        assert (found[0].rate_out_per_s, found[0].bytes_out_per_s) == (50, 500)

    run(body)


def test_a_new_owner_goes_on_from_what_the_last_one_reported() -> None:
    """Case 35: moves do not rewrite, so the age of the record stays."""

    async def body(place: Place) -> None:
        await make_topic(place)
        records = place.service.scalable.records
        await records.scaling.store_load(NAME, ZERO, SegmentLoad(1_000, 100_000))
        at_ms = place.clock.now_ms()
        await carry(place, 11_000)
        assert await stored(records) == (SegmentLoad(1_000, 100_000), at_ms)
        await carry(place, 20_000)
        assert await stored(records) == (SegmentLoad(2_000, 200_000), place.clock.now_ms())

    run(body)


def test_the_load_goes_with_its_segment() -> None:
    """Case 36."""

    async def body(place: Place) -> None:
        controller = await make_topic(place)
        records = place.service.scalable.records
        await carry(place, 100)
        assert await stored(records) is not None
        await controller.changes.split(ZERO)
        assert await stored(records) is not None
        assert await controller.changes.prune() == (ZERO,)
        assert await stored(records) is None
        await carry(place, 0, segment=1)
        assert await stored(records) is None and await stored(records, 1) is not None

    run(body)


def test_a_sealed_segment_is_not_reported_any_more() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        topic = await place.topic(controller.layout.get(ZERO).name_in(NAME).full)
        await controller.changes.split(ZERO)
        topic.rate_in.add(10**6, 10**6)
        place.clock.pass_s(10)
        await place.service.scalable.reporter.report()
        assert await stored(place.service.scalable.records) is None

    run(body)


def test_a_report_that_comes_too_late_leaves_nothing_behind() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        await carry(place, 100)
        reporter = place.service.scalable.reporter
        await controller.changes.delete(force=True)
        await reporter._store(NAME, ZERO, SegmentLoad(5.0))
        assert await place.service.store.children("/topics/shop/eu") == ()

    run(body)


def test_a_hot_record_of_a_segment_that_nobody_serves_any_more_is_put_right() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        records = place.service.scalable.records
        await records.scaling.store_load(NAME, ZERO, SegmentLoad(rate_in_per_s=9_000))
        for segment in controller.layout.active:
            await place.service.catalog.unload_topic(segment.name_in(NAME))
        place.clock.pass_s(10)
        await place.service.scalable.reporter.report()
        assert await stored(records) == (SegmentLoad(), place.clock.now_ms())
        at_ms = place.clock.now_ms()
        place.clock.pass_s(10)
        await place.service.scalable.reporter.report()
        assert await stored(records) == (SegmentLoad(), at_ms)

    run(body)


def test_a_store_that_is_away_costs_a_report_and_nothing_else() -> None:
    async def body(pair: Pair) -> None:
        await pair.first.scalable.create_topic(NAME)
        controller = await pair.first.scalable.controller(NAME)
        topic = await pair.first.catalog.load_topic(controller.layout.get(ZERO).name_in(NAME))
        reporter, records = pair.first.scalable.reporter, pair.first.scalable.records
        pair.clock.pass_s(10)
        await reporter.report()
        topic.rate_in.add(50_000, 50_000)
        pair.clock.pass_s(10)
        pair.stores[0].disconnect()
        await reporter.report()
        pair.stores[0].reconnect()
        topic.rate_in.add(50_000, 50_000)
        pair.clock.pass_s(10)
        await reporter.report()
        found = await stored(records)
        assert found is not None and found[0].rate_in_per_s == 5_000

    run_pair(body)


def test_listeners_hear_of_the_loads_of_their_topic_only() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        records = place.service.scalable.records
        heard: list[SegmentId | None] = []
        cancel = records.scaling.watch_loads(NAME, heard.append)
        await records.scaling.store_load(NAME, SegmentId(7), SegmentLoad())
        await records.scaling.store_load(parse_topic("topic://shop/eu/other"), ZERO, SegmentLoad())
        await until(lambda: len(heard) > 0)
        assert set(heard) == {SegmentId(7)}
        cancel()
        await records.scaling.store_load(NAME, SegmentId(8), SegmentLoad())
        assert set(heard) == {SegmentId(7)}

    run(body)


def test_a_load_path_is_read_back() -> None:
    assert parse_load_path(load_path(NAME, SegmentId(12))) == ("/topics/shop/eu/orders", 12)
    for path in ("/topics/shop/eu/orders", "/topics/shop/eu/orders/segments/x/load", "/a/b"):
        assert parse_load_path(path) is None
