"""Clients see the layout of a topic, and every change of it."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.broker.scalable.session import encode_refusal
from magnetar.errors import BrokerError, RecordUnreadable, ServiceNotReady, StoreUnavailable
from magnetar.model.name import parse_topic
from magnetar.model.segment import SegmentId
from magnetar.wire.command import CommandScalableTopicUpdate
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.group_place import TOPIC, Client, make_topic, soon

REGULAR = "persistent://shop/eu/orders"


def error_of(update: Any) -> str:
    field = CommandScalableTopicUpdate.DESCRIPTOR.fields_by_name["error"]
    name: str = field.enum_type.values_by_number[update.error].name  # type: ignore[union-attr]
    return name


def epochs(client: Client, session_id: int = 1) -> list[int]:
    return [update.dag.epoch for update in client.layouts(session_id)]


async def first_layout(client: Client, topic: str = TOPIC, **more: Any) -> Any:
    client.look_up(1, topic, **more)
    await soon(lambda: len(client.layouts(1)) == 1)
    return client.layouts(1)[0]


@pytest.mark.parametrize(
    "name", [TOPIC, REGULAR, "segment://shop/eu/orders/0000-7fff-0", "shop/eu/orders"]
)
def test_every_spelling_shows_the_layout_and_the_one_true_name(name: str) -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 2)
        update = await first_layout(Client(place), name)
        assert update.resolved_topic_name == TOPIC
        assert [each.segment_id for each in update.dag.segments] == [0, 1]
        assert [each.broker_url for each in update.dag.segment_brokers] == [
            "pulsar://localhost:6650"
        ] * 2
        assert update.dag.controller_broker_url == "pulsar://localhost:6650"

    run(body)


def test_changes_are_pushed_in_order_and_none_twice() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await first_layout(client)
        for number in (0, 1, 2):
            await controller.changes.split(SegmentId(number))
            await soon(lambda: epochs(client)[-1] == controller.layout.epoch)
        await client.register("a", consumer_id=5)  # records below the topic's own change
        assert epochs(client) == [0, 1, 2, 3]

    run(body)


def test_changes_that_come_while_a_client_does_not_read_are_told_as_one() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await first_layout(client)
        client.connection.pause_writing()
        for number in (0, 1, 2):
            await controller.changes.split(SegmentId(number))
        client.connection.resume_writing()
        await soon(lambda: epochs(client)[-1] == 3)
        assert epochs(client) == [0, 3]

    run(body)


def test_a_topic_that_is_deleted_is_told_and_ends_the_session() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        client = Client(place)
        await first_layout(client)
        await place.service.scalable.delete_topic(parse_topic(TOPIC))
        await soon(lambda: len(client.layouts(1)) == 2)
        assert error_of(client.layouts(1)[-1]) == "TopicNotFound"
        assert not client.layouts(1)[-1].HasField("resolved_topic_name")
        await make_topic(place)
        assert len(client.layouts(1)) == 2

    run(body)


def test_a_regular_topic_has_a_legacy_segment_for_each_partition_and_growth_is_pushed() -> None:
    async def body(place: Place) -> None:
        name = parse_topic(REGULAR)
        client = Client(place)
        update = await first_layout(client, REGULAR)
        assert [each.legacy_topic_name for each in update.dag.segments] == [REGULAR]
        assert update.resolved_topic_name == TOPIC and not update.dag.segment_brokers
        await place.service.resources.partitioned.create(name, 2)
        await soon(lambda: len(client.layouts(1)) == 2)
        assert [each.legacy_topic_name for each in client.layouts(1)[1].dag.segments] == [
            f"{REGULAR}-partition-0",
            f"{REGULAR}-partition-1",
        ]

    run(body)


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        ("non-persistent://shop/eu/orders", {}, "NotAllowedError"),
        ("persistent://shop/eu/orders-partition-1", {}, "TopicNotFound"),
        ("topic://shop/eu/orders-partition-1", {}, "TopicNotFound"),
        ("segment://shop/eu/orders/0000-ffff-0", {}, "TopicNotFound"),
        ("topic://nobody/eu/orders", {}, "TopicNotFound"),
        ("topic://shop", {}, "TopicNotFound"),
        (TOPIC, {"scalableTopicsEnabled": False}, "NotAllowedError"),
        (TOPIC, {"allowAutoTopicCreation": False}, "TopicNotFound"),
    ],
)
def test_a_layout_that_cannot_be_seen_is_refused_and_the_connection_lives(
    name: str, settings: dict[str, Any], error: str
) -> None:
    async def body(place: Place) -> None:
        client = Client(place)
        update = await first_layout(client, name, create_if_missing=True)
        assert error_of(update) == error and update.message
        assert not client.connection.closed
        assert not client.connection.attached(ConnectionRegistry).layouts

    run(body, **settings)


@pytest.mark.parametrize("wish", [{"create_if_missing": True}, {}])
def test_a_missing_topic_is_made_unless_the_client_does_not_want_it(wish: dict[str, bool]) -> None:
    """Clients of the first release cannot say what they want."""

    async def body(place: Place) -> None:
        scalable, client = place.service.scalable, Client(place)
        refused = await first_layout(client, create_if_missing=False)
        assert error_of(refused) == "TopicNotFound"
        assert not await scalable.exists(parse_topic(TOPIC))
        client.look_up(2, **wish)
        await soon(lambda: len(client.layouts(2)) == 1)
        assert [each.segment_id for each in client.layouts(2)[0].dag.segments] == [0]
        assert await scalable.exists(parse_topic(TOPIC))

    run(body)


@pytest.mark.parametrize("settings", [{}, {"allowAutoTopicCreation": False}])
def test_clients_of_the_first_release_do_not_bring_a_deleted_topic_back(
    settings: dict[str, Any],
) -> None:
    async def body(place: Place) -> None:
        scalable, client = place.service.scalable, Client(place)
        await make_topic(place)
        await first_layout(client)
        await scalable.delete_topic(parse_topic(TOPIC), force=True)
        await soon(lambda: len(client.layouts(1)) == 2)
        client.look_up(2)
        await soon(lambda: len(client.layouts(2)) == 1)
        assert error_of(client.layouts(2)[0]) == "TopicNotFound"
        place.clock.pass_s(61)
        client.look_up(3)
        await soon(lambda: len(client.layouts(3)) == 1)
        assert client.layouts(3)[0].HasField("dag") == (not settings)

    run(body, **settings)


def test_a_closed_session_hears_nothing_and_closing_what_is_not_open_is_fine() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        client = Client(place)
        await first_layout(client)
        client.close_layout(1)
        client.close_layout(77)
        await controller.changes.split(SegmentId(0))
        assert epochs(client) == [0] and not client.connection.closed

    run(body)


def test_a_session_id_used_again_is_another_session() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        other = await make_topic(place, topic="topic://shop/eu/bills")
        client = Client(place)
        client.look_up(1)
        client.look_up(1, "topic://shop/eu/bills")
        await soon(lambda: len(client.layouts(1)) >= 1)
        await other.changes.split(SegmentId(0))
        await soon(lambda: epochs(client)[-1] == 1)
        assert {each.resolved_topic_name for each in client.layouts(1)} == {"topic://shop/eu/bills"}

    run(body)


def test_a_connection_that_ends_leaves_no_watcher_behind() -> None:
    async def body(place: Place) -> None:
        controller = await make_topic(place)
        records = place.service.scalable.records
        client = Client(place)
        await first_layout(client)
        assert records.is_watched(controller.topic)
        client.leave()
        assert not records.is_watched(controller.topic)
        late = Client(place)
        late.look_up(1)
        late.leave()
        await controller.changes.split(SegmentId(0))
        assert not records.is_watched(controller.topic)

    run(body)


def test_a_broker_says_whether_it_serves_scalable_topics() -> None:
    for enabled in (True, False):

        async def body(place: Place, enabled: bool = enabled) -> None:
            client = Client(place)
            await until(lambda: bool(client.kinds()))
            assert client.flags().supports_scalable_topics is enabled

        run(body, scalableTopicsEnabled=enabled)


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (StoreUnavailable("ZooKeeper did not answer"), "MetadataError"),
        (ServiceNotReady("no controller yet"), "ServiceNotReady"),
        (RecordUnreadable("the record is damaged"), "TopicNotFound"),
    ],
)
def test_a_client_is_told_what_passes_so_that_it_asks_again(
    refusal: BrokerError, told: str
) -> None:
    update = encode_refusal(1, refusal)
    assert (error_of(update), update.message) == (told, refusal.sentence)
