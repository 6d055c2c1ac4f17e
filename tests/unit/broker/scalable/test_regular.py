from __future__ import annotations

import pytest
from msgspec.structs import replace

from magnetar.broker.administration.registry import FUNCTIONS
from magnetar.errors import NotScalable, fault_of
from magnetar.model.position import EARLIEST
from magnetar.model.scalable import SubscriptionKind
from magnetar.model.segment import SegmentId
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.group_place import segments_of, soon
from tests.unit.broker.scalable.migration_place import (
    NAME,
    REGULAR,
    TOPIC,
    Follower,
    live,
    make_regular,
    migrate,
    parts,
)


def topics_of(assignment: object) -> list[str]:
    return sorted(each.segment_topic for each in assignment.segments)  # type: ignore[attr-defined]


def test_a_stream_consumer_reads_all_partitions_of_a_regular_topic() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 3)
        response = await Follower(place).register("a", consumer_id=1, topic=REGULAR)
        assert topics_of(response.assignment) == parts(REGULAR, 3)

    run(body)


def test_stream_consumers_share_the_partitions_of_a_regular_topic() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 4)
        client, other = Follower(place), Follower(place)
        await client.register("a", consumer_id=1, topic=REGULAR)
        response = await other.register("b", consumer_id=1, topic=REGULAR)
        share = segments_of(response.assignment)
        assert len(share) == 2
        assert sorted(client.assigned(1)[-1] + share) == [0, 1, 2, 3]
        client.leave_group(1)
        await until(lambda: other.assigned(1)[-1] == [0, 1, 2, 3])

    run(body)


def test_more_partitions_are_told_to_watchers_and_shared_out() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        client = Follower(place)
        client.look_up(7, REGULAR)
        await client.register("a", consumer_id=1, topic=REGULAR)
        await place.service.resources.partitioned.update(
            NAME, lambda each: replace(each, partitions=3)
        )
        await until(lambda: len(client.layouts(7)) == 2)
        grown = client.layouts(7)[-1]
        assert [each.legacy_topic_name for each in grown.dag.segments] == parts(REGULAR, 3)
        await until(lambda: client.assigned(1)[-1] == [0, 1, 2])

    run(body)


def test_a_topic_that_attaching_would_make_has_stream_consumers_too() -> None:
    async def body(place: Place) -> None:
        client = Follower(place)
        response = await client.register("a", consumer_id=1, topic=REGULAR)
        assert topics_of(response.assignment) == [REGULAR]
        answer = await client.attach_consumer(REGULAR, name="s")
        assert not answer.HasField("error")

    run(body)


def test_a_topic_that_nothing_makes_has_none() -> None:
    async def body(place: Place) -> None:
        response = await Follower(place).register("a", consumer_id=1, topic=REGULAR)
        assert response.HasField("error") and "not found" in response.message

    run(body, allowAutoTopicCreation=False)


def test_groups_that_everyone_has_left_are_forgotten() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        client, regular = Follower(place), place.service.scalable.regular
        await client.register("a", consumer_id=1, topic=REGULAR)
        await regular.drop_idle()
        assert regular.find(TOPIC) is not None
        client.leave_group(1)
        host = regular.find(TOPIC)
        assert host is not None
        await until(lambda: host.groups.coordinators["s"].members.is_empty)
        await regular.drop_idle()
        assert regular.find(TOPIC) is None

    run(body)


def test_split_merge_and_scale_need_a_scalable_topic_and_say_how_to_get_one() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        for name, given in (
            ("split", {"segment": 0, "at": None}),
            ("merge", {"left": 0, "right": 1}),
            ("scale", {"segments": 3, "hold_until_ms": None}),
        ):
            with pytest.raises(NotScalable, match=f"migrate-to-scalable {REGULAR}") as refused:
                await FUNCTIONS[f"scalable_topics.{name}"](place.service, topic=TOPIC, **given)
            assert fault_of(refused.value).status == 412

    run(body)


def test_stream_consumers_go_through_a_migration_with_what_they_have() -> None:
    """They keep the partitions that hold something, and get the children when all is read."""

    async def body(place: Place) -> None:
        await make_regular(place, 2)
        first, second = parts(REGULAR, 2)
        producer = Follower(place)
        await producer.attach_producer(first)
        await producer.send(2)
        client, other = Follower(place), Follower(place)
        await client.register("a", consumer_id=1, topic=REGULAR)
        await other.register("b", consumer_id=1, topic=REGULAR)
        for part in (first, second):
            await (await live(place, part)).subscriptions.create("s", position=EARLIEST)
        await migrate(place)
        controller = await place.service.scalable.controller(TOPIC)
        assert controller.groups.coordinators["s"].members.names == ("a", "b")
        await soon(lambda: sorted(client.assigned(1)[-1] + other.assigned(1)[-1]) == [0])
        await (await live(place, first)).subscriptions["s"].skip_all()
        await soon(lambda: sorted(client.assigned(1)[-1] + other.assigned(1)[-1]) == [2, 3])
        assert controller.subscriptions.registry.records["s"].kind is SubscriptionKind.STREAM
        records = await place.service.scalable.records.groups.load_consumers(TOPIC, "s")
        assert set(records) == {"a", "b"}

    run(body)


def test_children_wait_for_all_parents_even_when_a_split_follows_at_once() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        first, second = parts(REGULAR, 2)
        producer = Follower(place)
        for part, producer_id in ((first, 1), (second, 2)):
            await producer.attach_producer(part, producer_id=producer_id)
            await producer.send(1, producer_id=producer_id)
            await (await live(place, part)).subscriptions.create("s", position=EARLIEST)
        await migrate(place)
        controller = await place.service.scalable.controller(TOPIC)
        await controller.changes.split(SegmentId(2))
        client = Follower(place)
        response = await client.register("a", consumer_id=1)
        assert segments_of(response.assignment) == [0, 1]
        await (await live(place, first)).subscriptions["s"].skip_all()
        await soon(lambda: client.assigned(1)[-1] == [1])
        await (await live(place, second)).subscriptions["s"].skip_all()
        await soon(lambda: client.assigned(1)[-1] == [3, 4, 5])

    run(body)
