"""No layout is ever written that clients could not open."""

from __future__ import annotations

import pytest

from magnetar.broker.scalable.size import LayoutSize
from magnetar.errors import LayoutTooLarge
from magnetar.metadata.backends.zookeeper import RECORD_BYTES_MAX
from magnetar.model.layout import Layout
from magnetar.model.scalable import BrokerAddress, LayoutView, ScalableTopicMetadata
from magnetar.model.segment import SegmentId
from magnetar.rules.migrate import find_fitting, plan_migration
from magnetar.runtime.configuration import Configuration
from magnetar.wire.command import BaseCommand, ServerError
from magnetar.wire.layout import measure_layout
from magnetar.wire.scalable import encode_topic_record
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.group_place import Client
from tests.unit.broker.scalable.migration_place import (
    NAME,
    REGULAR,
    TOPIC,
    Follower,
    make_regular,
    migrate,
)


@pytest.mark.parametrize(
    ("partitions", "least"),
    [(900, 900), (934, 880), (935, 880), (960, 850), (5000, 140), (10_000, 65)],
)
def test_a_migration_leaves_room_for_hundreds_of_splits(partitions: int, least: int) -> None:
    async def body(place: Place) -> None:
        await place.service.resources.partitioned.create(NAME, partitions, None)
        planner = place.service.scalable.migrations._planner
        survey = await planner.survey(NAME)
        assert least <= survey.segments <= partitions
        layout = (await planner.plan(survey)).layout
        address = place.service.owner.address
        view = LayoutView(layout, {each.id: address for each in layout.active}, address)
        size = measure_layout(view, TOPIC.full)
        assert size < place.service.scalable._size.frame_bytes_max - (256 << 10)
        later = LayoutView(layout.split(layout.active[0].id, now_ms=place.clock.now_ms()))
        assert measure_layout(later, TOPIC.full) < size + 1000

    run(body)


def test_a_topic_of_more_partitions_than_a_client_can_take_gets_fewer_segments() -> None:
    async def body(place: Place) -> None:
        await place.service.resources.partitioned.create(NAME, 1000, None)
        migrations = place.service.scalable.migrations
        found = await migrations.rehearse(NAME)
        assert not found.refusals and 800 < found.new_segments < 1000
        assert f"1000 partitions become {found.new_segments} segments" in found.notes[0]
        wanted = await migrations.rehearse(NAME, segments=5)
        assert (wanted.new_segments, wanted.notes, wanted.refusals) == (5, (), ())
        await migrate(place)
        client = Client(place)
        client.look_up(1, REGULAR)
        await until(lambda: bool(client.layouts(1)))
        dag = client.layouts(1)[0].dag
        assert len(dag.segments) == 1000 + found.new_segments
        controller = await place.service.scalable.controller(TOPIC)
        await controller.changes.split(controller.layout.active[0].id)

    run(body)


@pytest.mark.parametrize(("partitions", "segments"), [(0, 3), (2, 5), (5, 2)])
def test_an_operator_chooses_the_number_of_segments(partitions: int, segments: int) -> None:
    async def body(place: Place) -> None:
        await make_regular(place, partitions)
        await place.service.scalable.migrations.run(NAME, segments=segments)
        layout = (await place.service.scalable.records.require(TOPIC)).layout
        assert len(layout.active) == segments and len(layout.sealed) == max(1, partitions)

    run(body)


@pytest.mark.parametrize("segments", [0, -1, 1001, 100_000])
def test_a_number_that_cannot_be_is_refused_with_what_is_allowed(segments: int) -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        migrations = place.service.scalable.migrations
        with pytest.raises(LayoutTooLarge, match=rf"1 to 1000 segments .* not {segments}:"):
            await migrations.run(NAME, segments=segments)
        found = await migrations.rehearse(NAME, segments=segments)
        assert len(found.refusals) == 1 and not found.segments
        assert not await place.service.scalable.exists(TOPIC)

    run(body)


def test_partitions_whose_names_alone_are_too_much_stay_regular() -> None:
    async def body(place: Place) -> None:
        name = NAME.partition(1).base
        await place.service.resources.partitioned.create(name, 1000, None)
        with pytest.raises(LayoutTooLarge, match="too many partitions of too long a name"):
            await place.service.scalable.migrations.run(name)

    run(body, maxMessageSize=300_000)


def test_a_split_whose_layout_would_be_too_large_is_refused_before_anything_is_written() -> None:
    async def body(place: Place) -> None:
        def fits(count: int) -> bool:
            record = ScalableTopicMetadata(Layout.initial(count, now_ms=place.clock.now_ms()))
            try:
                place.service.scalable._size.check(TOPIC, record)
            except LayoutTooLarge:
                return False
            return True

        most = find_fitting(fits)
        with pytest.raises(LayoutTooLarge):
            await place.service.scalable.create_topic(TOPIC, segments=most + 1)
        await place.service.scalable.create_topic(TOPIC, segments=most)
        controller = await place.service.scalable.controller(TOPIC)
        before = controller.state.record
        with pytest.raises(LayoutTooLarge, match=f"{most + 2} segments with 4 links"):
            await controller.changes.split(SegmentId(0))
        assert controller.state.record == before and before.intent is None
        assert await place.service.scalable.records.require(TOPIC) == before

    run(body, maxMessageSize=20_000, scalableTopicEntryBucketBudget=1)


def test_a_record_that_the_metadata_store_does_not_take_is_refused() -> None:
    def check(segments: int) -> None:
        layout = Layout.initial(segments, now_ms=1_700_000_000_000)
        size.check(TOPIC, ScalableTopicMetadata(layout))

    address = BrokerAddress("pulsar://127.0.0.1:6650")
    size = LayoutSize(
        Configuration(), address, encode_topic_record, record_bytes_max=RECORD_BYTES_MAX
    )
    check(2000)
    with pytest.raises(LayoutTooLarge, match=f"the metadata store takes {RECORD_BYTES_MAX}"):
        check(10_000)


def test_an_embedded_store_keeps_a_layout_of_ten_thousand_segments() -> None:
    async def body(place: Place) -> None:
        layout = Layout.initial(10_000, now_ms=place.clock.now_ms())
        record = ScalableTopicMetadata(layout)
        assert len(encode_topic_record(record)) > RECORD_BYTES_MAX
        place.service.scalable._size.check(TOPIC, record)
        await place.service.scalable.records.create(TOPIC, record)
        assert await place.service.scalable.records.require(TOPIC) == record

    run(body)


def test_a_layout_that_is_too_large_already_is_refused_in_words() -> None:
    """As an earlier version wrote it."""

    async def body(place: Place) -> None:
        record: ScalableTopicMetadata = plan_migration(NAME, 1000, now_ms=1)
        await place.service.scalable.records.create(TOPIC, record)
        client = Follower(place)
        client.look_up(1, TOPIC.full)
        await until(lambda: bool(client.heard(BaseCommand.SCALABLE_TOPIC_UPDATE)))
        (update,) = client.heard(BaseCommand.SCALABLE_TOPIC_UPDATE)
        assert not update.HasField("dag") and update.error == ServerError.Value("NotAllowedError")
        assert f"The layout of {TOPIC} takes" in update.message

    run(body)
