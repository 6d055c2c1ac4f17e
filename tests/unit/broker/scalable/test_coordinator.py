"""Consumers of one subscription are told what to read, in an order that keeps every key's order."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.model.layout import Layout
from magnetar.model.name import parse_topic
from magnetar.model.scalable import ConsumerKind, ScalableTopicMetadata
from magnetar.model.segment import SegmentId
from magnetar.wire.command import BaseCommand, CommandFlow, CommandSubscribe
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.group_place import (
    TOPIC,
    Client,
    make_topic,
    segment,
    segments_of,
    soon,
)

GRACE = "scalableTopicConsumerSessionGracePeriodSeconds"
NEWER = "Pulsar-Java-v5.0.0-M2"


async def fill(client: Client, descriptor: str, count: int, *, producer_id: int = 1) -> None:
    await client.produce(segment(descriptor), producer_id=producer_id)
    await client.send(count, producer_id=producer_id)


async def read(client: Client, descriptor: str, consumer: str, *, reader_id: int) -> None:
    answer = await client.read(descriptor, consumer, reader_id=reader_id)
    assert answer.type == BaseCommand.SUCCESS, answer


async def acknowledge(client: Client, reader_id: int, count: int) -> None:
    await until(lambda: len(client.messages(reader_id)) == count)
    client.ack(reader_id, *client.messages(reader_id))


# ---------------------------------------------------------------------- sharing out


def test_a_newcomer_takes_its_share_and_nobody_else_moves() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 6)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await client.register("b", consumer_id=2)
        before = [set(client.assigned(1)[-1]), set(client.assigned(2)[-1])]
        await client.register("c", consumer_id=3)
        after = [set(client.assigned(number)[-1]) for number in (1, 2, 3)]
        assert [len(each) for each in after] == [2, 2, 2]
        assert after[0] < before[0] and after[1] < before[1]

    run(body)


def test_a_newcomer_is_told_once_before_its_answer_and_with_the_same_words() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 2)
        client = Client(place)
        response = await client.register("a", consumer_id=1)
        pushes = client.heard(BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE)
        assert [push.assignment for push in pushes] == [response.assignment]
        assert [each.segment_topic for each in response.assignment.segments] == [
            segment("0000-7fff-0"),
            segment("8000-ffff-1"),
        ]
        kinds = client.kinds()
        update, answer = (
            BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE,
            BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE,
        )
        assert kinds.index(update) < kinds.index(answer)

    run(body)


def test_whoever_keeps_its_segments_is_told_nothing() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 3)
        client = Client(place)
        for number, name in enumerate("abc"):
            await client.register(name, consumer_id=number)
        told = [len(client.assigned(number)) for number in range(3)]
        await client.close_consumer(2)  # its one segment goes to one of the others
        await until(
            lambda: sum(len(client.assigned(number)) for number in range(2)) > sum(told[:2])
        )
        assert sum(len(client.assigned(number)) for number in range(2)) == sum(told[:2]) + 1

    run(body)


def test_more_consumers_than_segments_leave_some_idle() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 1)
        client = Client(place)
        await client.register("a", consumer_id=1)
        second = await client.register("b", consumer_id=2)
        assert segments_of(second.assignment) == [] and not second.HasField("error")
        assert client.assigned(1) == [[0]]

    run(body)


def test_newer_clients_share_a_segment_by_entry_buckets_and_older_ones_never_hear_of_them() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 1)
        newer, older = Client(place, NEWER), Client(place)
        first = await newer.register("a", consumer_id=1)
        assert not first.assignment.segments[0].bucket_ranges
        await newer.register("b", consumer_id=2)
        pushes = newer.heard(BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE)
        for consumer_id in (1, 2):
            (share,) = [p for p in pushes if p.consumer_id == consumer_id][-1].assignment.segments
            ranges = [(each.start, each.end) for each in share.bucket_ranges]
            assert ranges == [(0, 16383), (16384, 32767), (32768, 49151), (49152, 65535)]
        third = await older.register("c", consumer_id=3)
        assert segments_of(third.assignment) == []

    run(body)


def test_a_checkpoint_group_gets_sealed_and_active_segments_at_once() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await fill(client, "0000-ffff-0", 3)
        await controller.changes.split(SegmentId(0))
        response = await client.register("a", consumer_id=1, kind="CHECKPOINT")
        assert segments_of(response.assignment) == [0, 1, 2]

    run(body)


def test_a_checkpoint_group_is_no_subscription_and_leaves_no_cursors() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1, kind="CHECKPOINT")
        await controller.changes.split(SegmentId(0))
        assert dict(controller.subscriptions.registry.records) == {}
        for descriptor in ("0000-7fff-1", "8000-ffff-2"):
            assert not (await place.topic(segment(descriptor))).subscriptions

    run(body)


# ---------------------------------------------------------------------- draining


def test_children_are_handed_out_with_the_last_acknowledgement_and_no_poll() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await read(client, "0000-ffff-0", "a", reader_id=10)
        await fill(client, "0000-ffff-0", 3)
        await controller.changes.split(SegmentId(0))
        await until(lambda: len(client.assigned(1)) == 2)
        assert client.assigned(1) == [[0], [0]]
        await acknowledge(client, 10, 3)  # the clock of this place stands: nothing could be polled
        await soon(lambda: len(client.assigned(1)) == 3)
        assert client.assigned(1)[-1] == [1, 2]

    run(body)


def test_a_grandchild_waits_for_a_grandparent_that_is_not_drained() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await read(client, "0000-ffff-0", "a", reader_id=10)
        await fill(client, "0000-ffff-0", 2)
        await controller.changes.split(SegmentId(0))
        await fill(client, "0000-7fff-1", 1, producer_id=2)
        await controller.changes.split(SegmentId(1))
        await until(lambda: len(client.assigned(1)) == 3)
        assert client.assigned(1)[-1] == [0]
        await acknowledge(client, 10, 2)
        await soon(lambda: client.assigned(1)[-1] != [0])
        assert client.assigned(1)[-1] == [1, 2]  # 3 and 4 came out of 1, which holds a message
        await read(client, "0000-7fff-1", "a", reader_id=11)
        await acknowledge(client, 11, 1)
        await soon(lambda: client.assigned(1)[-1] != [1, 2])
        assert client.assigned(1)[-1] == [2, 3, 4]

    run(body)


def test_a_drained_parent_takes_nobodys_place_among_the_children() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await client.register("b", consumer_id=2)
        await read(client, "0000-ffff-0", "a", reader_id=10)
        await controller.changes.split(SegmentId(0))
        await soon(lambda: client.assigned(1)[-1] != [0])
        assert sorted([client.assigned(1)[-1], client.assigned(2)[-1]]) == [[1], [2]]

    run(body)


def test_a_seek_gives_drained_segments_back_and_withholds_what_came_out_of_them() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await read(client, "0000-ffff-0", "a", reader_id=10)
        await fill(client, "0000-ffff-0", 2)
        await acknowledge(client, 10, 2)
        await controller.changes.split(SegmentId(0))
        await soon(lambda: client.assigned(1)[-1] == [1, 2])
        await controller.subscriptions.seek("s", 0)
        await soon(lambda: client.assigned(1)[-1] != [1, 2])
        assert client.assigned(1)[-1] == [0]

    run(body)


def test_a_sealed_segment_whose_data_is_gone_withholds_nothing() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        await controller.changes.split(SegmentId(0))
        await place.service.catalog.delete_topic(parse_topic(segment("0000-ffff-0")), force=True)
        response = await Client(place).register("a", consumer_id=1)
        assert segments_of(response.assignment) == [1, 2]

    run(body)


def test_a_new_subscription_reads_the_past_first() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        await controller.changes.split(SegmentId(0))
        client = Client(place)
        response = await client.register("a", consumer_id=1)
        assert segments_of(response.assignment) == [0]
        await read(client, "0000-ffff-0", "a", reader_id=10)  # there is nothing in it
        await soon(lambda: client.assigned(1)[-1] == [1, 2])

    run(body)


def test_what_was_a_regular_topic_is_read_under_its_old_name_and_before_all_else() -> None:
    async def body(place: Place) -> None:
        old = "persistent://shop/eu/orders"
        client = Client(place)
        await client.produce(old)
        await client.send(2)
        await (await place.topic(old)).termination.run()
        layout = Layout.migrated([old], now_ms=place.clock.now_ms())
        scalable, name = place.service.scalable, parse_topic(TOPIC)
        await scalable.records.create(name, ScalableTopicMetadata(layout))
        response = await client.register("a", consumer_id=1)
        assert [each.segment_topic for each in response.assignment.segments] == [old]
        request = CommandSubscribe(
            topic=old,
            subscription="s",
            subType=CommandSubscribe.Exclusive,
            consumer_id=10,
            consumer_name="a-seg-0",
            initialPosition=CommandSubscribe.Earliest,
        )
        await client.ask(request, BaseCommand.SUCCESS)
        client.say(CommandFlow(consumer_id=10, messagePermits=100))
        await acknowledge(client, 10, 2)
        await soon(lambda: client.assigned(1)[-1] == [1])

    run(body)


def test_what_a_segment_waits_for_is_said_in_a_sentence() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await read(client, "0000-ffff-0", "a", reader_id=10)
        await fill(client, "0000-ffff-0", 17)
        await controller.changes.split(SegmentId(0))
        await until(lambda: len(client.assigned(1)) == 2)
        group = controller.groups.coordinators["s"]
        assert group.assigner.explain() == [
            "segment 1 waits for 17 unacked messages of consumer a on segment 0",
            "segment 2 waits for 17 unacked messages of consumer a on segment 0",
        ]
        assert group.stats()["waiting"] == group.assigner.explain()

    run(body)


# ---------------------------------------------------------------------- coming and going


def test_a_consumer_that_comes_back_in_time_keeps_its_segments() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 4)
        first, other = Client(place), Client(place)
        mine = segments_of((await first.register("a", consumer_id=1)).assignment)
        assert mine == [0, 1, 2, 3]
        await other.register("b", consumer_id=2)
        kept = first.assigned(1)[-1]
        first.leave()
        again = Client(place)
        back = await again.register("a", consumer_id=9)
        assert segments_of(back.assignment) == kept == again.assigned(9)[-1]
        assert len(other.assigned(2)) == 1

    run(body)


def test_a_consumer_that_stays_away_gives_its_segments_to_the_others() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        first, other = Client(place), Client(place)
        await first.register("a", consumer_id=1)
        await other.register("b", consumer_id=2)
        first.leave()
        await soon(lambda: other.assigned(2)[-1] == [0, 1])
        assert controller.groups.coordinators["s"].members.names == ("b",)
        records = await controller.records.load_consumers(controller.topic, "s")
        assert set(records) == {"b"}

    run(body, **{GRACE: 0})


def test_a_consumer_that_closes_leaves_at_once() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 2)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await client.register("b", consumer_id=2)
        await client.close_consumer(1)
        assert client.assigned(2)[-1] == [0, 1]

    run(body)


def test_an_old_client_that_closes_its_reader_has_left_without_another_word() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 2)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await client.register("b", consumer_id=2)
        number = client.assigned(1)[-1][0]
        await read(client, ("0000-7fff-0", "8000-ffff-1")[number], "a", reader_id=10)
        await client.close_consumer(10)
        await soon(lambda: client.assigned(2)[-1] == [0, 1])

    run(body)


def test_closing_the_reader_of_a_segment_that_is_read_to_its_end_is_no_leave() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await read(client, "0000-ffff-0", "a", reader_id=10)
        await fill(client, "0000-ffff-0", 2)
        await controller.changes.split(SegmentId(0))
        await acknowledge(client, 10, 2)
        await client.close_consumer(10)  # before anyone could have noticed that it is drained
        await soon(lambda: client.assigned(1)[-1] == [1, 2])
        assert controller.groups.coordinators["s"].members.names == ("a",)

    run(body)


def test_closing_the_reader_of_a_segment_that_was_taken_away_is_no_leave() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 2)
        client = Client(place)
        await client.register("a", consumer_id=1)
        for number, descriptor in enumerate(("0000-7fff-0", "8000-ffff-1")):
            await read(client, descriptor, "a", reader_id=10 + number)
        place.clock.pass_s(1)
        await client.register("b", consumer_id=2)
        (kept,) = client.assigned(1)[-1]
        await client.close_consumer(10 + (1 - kept))
        assert controller.groups.coordinators["s"].members.names == ("a", "b")

    run(body)


def test_the_late_end_of_an_old_connection_leaves_the_new_one_alone() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        old, new = Client(place), Client(place)
        await old.register("a", consumer_id=1)
        await new.register("a", consumer_id=1)
        old.leave()
        stats = controller.groups.coordinators["s"].stats()
        assert stats["consumers"]["a"] == {"connected": True, "segments": [0]}

    run(body)


def test_a_connection_lost_before_the_answer_does_not_count_as_connected() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        client.begin_register("a", consumer_id=1)
        client.leave()
        await soon(lambda: "s" in controller.groups.coordinators)
        group = controller.groups.coordinators["s"]
        await soon(lambda: group.members.names == ("a",))
        assert not group.stats()["consumers"]["a"]["connected"]

    run(body)


def test_a_lost_connection_does_not_take_the_name_from_a_living_one() -> None:
    """Both register at once, and the one that is lost meanwhile is the last to be recorded."""

    async def body(place: Place) -> None:
        controller = await make_topic(place)
        living, lost = Client(place), Client(place)
        await living.register("a", consumer_id=1)
        group = controller.groups.coordinators["s"]
        lost.leave()
        await group.register("a", ConsumerKind.STREAM, 2, lost.connection)
        assert group.stats()["consumers"]["a"] == {"connected": True, "segments": [0]}
        assert group.members.find(living.connection, 1) is not None

    run(body)


def test_a_stream_subscription_outlives_its_last_consumer() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await client.close_consumer(1)
        assert controller.groups.coordinators["s"].members.names == ()
        assert set(controller.subscriptions.registry.records) == {"s"}
        await controller.changes.split(SegmentId(0))
        child = await place.topic(segment("0000-7fff-1"))
        assert set(child.subscriptions) == {"s"}

    run(body)


def test_a_new_leader_gives_everyone_the_segments_they_had() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place, 5)
        client = Client(place)
        for number, name in enumerate("cab"):
            await client.register(name, consumer_id=number)
        before = controller.groups.coordinators["s"].stats()["consumers"]
        successor = controller.groups._make(controller, "s")
        await successor.restore()
        after = successor.stats()["consumers"]
        assert {name: each["segments"] for name, each in after.items()} == {
            name: each["segments"] for name, each in before.items()
        }
        assert not any(each["connected"] for each in after.values())
        await successor.close()

    run(body)


def test_a_new_leader_keeps_order_from_its_first_moment() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await read(client, "0000-ffff-0", "a", reader_id=10)
        await fill(client, "0000-ffff-0", 2)
        await controller.changes.split(SegmentId(0))
        successor = controller.groups._make(controller, "s")
        await successor.restore()
        assert successor.stats()["consumers"]["a"]["segments"] == [0]
        await successor.close()

    run(body)


def test_a_change_of_leader_cuts_consumers_off_so_that_they_find_the_new_one() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await controller.leadership.run(controller.resign)
        assert client.connection.closed

    run(body)


def test_consumers_of_a_deleted_topic_are_told_that_nothing_is_left_to_read() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await place.service.scalable.delete_topic(controller.topic, force=True)
        await soon(lambda: client.assigned(1)[-1] == [])
        assert not client.connection.closed

    run(body)


def test_consumers_of_a_deleted_subscription_are_told_that_nothing_is_left_to_read() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await client.register("a", consumer_id=1)
        await controller.subscriptions.delete("s", force=True)
        assert client.assigned(1)[-1] == []
        assert await controller.records.load_consumers(controller.topic, "s") == {}

    run(body)


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("request_of", "settings", "error"),
    [
        ({"topic": "topic://shop/eu/missing"}, {}, "UnknownError"),
        ({"topic": "non-persistent://shop/eu/orders"}, {}, "InvalidTopicName"),
        ({"topic": "topic://shop"}, {}, "InvalidTopicName"),
        ({"subscription": ""}, {}, "UnknownError"),
        ({}, {"scalableTopicsEnabled": False}, "NotAllowedError"),
    ],
)
def test_a_consumer_that_cannot_register_hears_why(
    request_of: dict[str, Any], settings: dict[str, Any], error: str
) -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        response = await Client(place).register("a", consumer_id=1, **request_of)
        assert (
            response.DESCRIPTOR.fields_by_name["error"]
            .enum_type.values_by_number[response.error]
            .name
            == error
        )
        assert response.message

    run(body, **settings)


def test_a_checkpoint_consumer_of_a_regular_topic_is_told_how_to_make_it_scalable() -> None:
    async def body(place: Place) -> None:
        name = "persistent://shop/eu/orders"
        await place.topic(name)
        response = await Client(place).register("a", consumer_id=1, topic=name, kind="CHECKPOINT")
        assert response.error == 22  # NotAllowedError
        assert f"scalable-topics migrate-to-scalable {name}" in response.message

    run(body)


def test_the_regular_spelling_of_a_scalable_topic_registers_too() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        name = "persistent://shop/eu/orders"
        response = await Client(place).register("a", consumer_id=1, topic=name)
        assert segments_of(response.assignment) == [0]

    run(body)
