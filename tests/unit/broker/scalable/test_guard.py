from __future__ import annotations

import re
from typing import Any

import pytest

from magnetar.broker.administration import lookup, partition, topic
from magnetar.broker.administration.subscription import delete_subscription
from magnetar.broker.administration.topic_part import find_topic_parts
from magnetar.broker.exposition import render_metrics
from magnetar.broker.stats import topic_internal_stats
from magnetar.errors import Conflict, TopicMigrated, TopicNotFound, fault_of
from magnetar.model.name import parse_topic
from magnetar.wire.command import (
    BaseCommand,
    CommandGetTopicsOfNamespace,
    CommandLookupTopicResponse,
    CommandSubscribe,
    CommandWatchTopicList,
    FeatureFlags,
)
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.migration_place import (
    NAME,
    REGULAR,
    TOPIC,
    Follower,
    ask_owner,
    ask_partitions,
    make_regular,
    migrate,
    parts,
)
from tests.unit.broker.traffic import Client as Writer

NOT_FOUND, TERMINATED = 11, 15
CONNECT, FAILED = CommandLookupTopicResponse.Connect, CommandLookupTopicResponse.Failed


V4, JAVA_5 = "Pulsar-CPP-v4.2.0", "Pulsar-Java-v5.0.0-M1"


def stranger(place: Place, version: str = JAVA_5) -> Follower:
    """A client behind the same address as all others, of which nothing else is known."""
    return Follower(place, version)


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_v4_client_is_refused_at_its_first_question_and_at_every_other(partitions: int) -> None:
    async def body(place: Place) -> None:
        await make_regular(place, partitions)
        await migrate(place)
        watching = stranger(place)  # another client of the same host
        watching.look_up(1, REGULAR)
        await until(lambda: bool(watching.layouts(1)))
        for name in {REGULAR, *parts(REGULAR, partitions)}:
            client = stranger(place, V4)
            looked_up = await ask_owner(client, name)
            assert (looked_up.response, looked_up.error) == (FAILED, NOT_FOUND)
            assert str(TOPIC) in looked_up.message
            found = await ask_partitions(client, name)
            assert (found.error, str(TOPIC) in found.message) == (NOT_FOUND, True)
            await check_attach(client, name)

    run(body)


async def check_attach(client: Follower, name: str) -> None:
    """Whatever the questions before were answered, nothing can be attached."""
    answer = await client.produce(name)
    assert answer.error.error == TERMINATED and str(TOPIC) in answer.error.message
    for durable in (True, False):
        answer = await client.attach_consumer(name, mark=False, durable=durable)
        assert answer.error.error == NOT_FOUND and str(TOPIC) in answer.error.message


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_v4_program_with_a_new_library_can_attach_nothing(partitions: int) -> None:
    """It asks what V5 clients ask, except for the number of partitions of a partitioned topic."""

    async def body(place: Place) -> None:
        await make_regular(place, partitions)
        await migrate(place)
        watching = stranger(place)
        watching.look_up(1, REGULAR)
        await until(lambda: bool(watching.layouts(1)))
        client = stranger(place)
        found = await ask_partitions(client)
        assert bool(found.error) == bool(partitions)
        for name in {REGULAR, *parts(REGULAR, partitions)}:
            await check_attach(client, name)

    run(body)


def test_a_v4_reader_is_counted_beside_a_v5_client_of_the_same_host() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        watching, reader = stranger(place), stranger(place, V4)
        watching.look_up(1, REGULAR)
        await until(lambda: bool(watching.layouts(1)))
        await reader.attach_consumer(REGULAR, name="reader-1", mark=False, durable=False)
        rehearsal = await place.service.scalable.migrations.rehearse(NAME)
        assert [each.subscription for each in rehearsal.clients] == ["reader-1"]
        with pytest.raises(Conflict, match="1 legacy v4 client connection"):
            await migrate(place)

    run(body)


def test_a_v4_client_that_a_migration_sent_away_is_refused_where_it_ends_for_good() -> None:
    """Official C++ clients repeat a lookup that failed as long as they live."""

    async def body(place: Place) -> None:
        await make_regular(place)
        client = stranger(place, V4)
        await client.produce(REGULAR)
        await client.attach_consumer(REGULAR, mark=False)
        await migrate(place, force=True)
        assert (await ask_owner(client)).response == CONNECT
        await check_attach(client, REGULAR)
        assert (await ask_owner(stranger(place, V4))).response == FAILED

    run(body)


def test_a_client_that_announces_scalable_topics_is_believed_and_marks_its_readers() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        await migrate(place)
        client = stranger(place, "Another-1.0")
        assert (await ask_owner(client)).response == FAILED
        features = FeatureFlags(supports_scalable_topics=True)
        client = stranger(place, "Another-1.0")
        client.connection.handshake.features = features
        assert (await ask_owner(client)).response == CONNECT
        client.look_up(1, REGULAR)
        await until(lambda: bool(client.layouts(1)))
        answer = await client.attach_consumer(REGULAR, mark=False, durable=False)
        assert answer.error.error == NOT_FOUND
        answer = await client.attach_consumer(REGULAR, durable=False)
        assert answer.type == BaseCommand.SUCCESS

    run(body)


def test_a_refused_call_marks_nothing_on_the_connection() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        client, part = stranger(place), parts(REGULAR, 2)[0]
        assert (await ask_partitions(client)).error == NOT_FOUND
        assert (await client.attach_consumer(REGULAR, mark=False)).error.error == NOT_FOUND
        client.look_up(1, str(TOPIC))
        await until(lambda: bool(client.layouts(1)))
        assert (await ask_owner(client, part)).response == CONNECT
        assert (await ask_partitions(client, part)).partitions == 0
        assert (await client.attach_consumer(part)).type == BaseCommand.SUCCESS

    run(body)


def test_refused_clients_are_counted_by_door_and_named_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        client = stranger(place, V4)
        await ask_owner(client)
        await ask_partitions(client)
        await ask_partitions(client)
        await check_attach(client, REGULAR)
        metrics = place.service.scalable.refusals.counts
        assert {str(door): count for door, count in metrics.items()} == {
            "lookup": 1,
            "partitions": 2,
            "producer": 1,
            "consumer": 2,
            "rest": 0,
        }
        name = "magnetar_legacy_client_refusals_total"
        assert f'{name}{{cluster="{place.service.cluster}"' in await render_metrics(place.service)

        def lines() -> list[Any]:
            return [each for each in caplog.records if each.name.endswith("scalable.refusal")]

        (line,) = lines()
        told = line.fields
        assert (told["version"], told["topic"], told["door"]) == (V4, REGULAR, "lookup")
        assert told["address"] == "/127.0.0.1:5555" and str(TOPIC) in told["reason"]
        place.clock.pass_s(61)
        await ask_owner(client)
        assert len(lines()) == 2

    run(body)


def test_a_v5_client_may_begin_with_the_old_name_and_read_what_is_left_there() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        client = stranger(place)
        assert (await ask_owner(client)).response == CONNECT
        client.look_up(1, REGULAR)
        await until(lambda: bool(client.layouts(1)))
        assert client.layouts(1)[0].resolved_topic_name == str(TOPIC)
        part = parts(REGULAR, 2)[1]
        assert (await ask_partitions(client, part)).partitions == 0
        assert (await ask_owner(client, part)).response == CONNECT
        answer = await client.attach_consumer(part)
        assert answer.type == BaseCommand.SUCCESS
        reader = await client.attach_consumer(
            part, consumer_id=2, name="reader", mark=False, durable=False
        )
        assert reader.type == BaseCommand.SUCCESS

    run(body)


def test_the_connection_of_a_v5_client_that_only_looks_names_up_is_served() -> None:
    """Its layout session may be at another broker altogether."""

    async def body(place: Place) -> None:
        await make_regular(place)
        await migrate(place)
        asking = stranger(place)
        assert (await ask_owner(asking)).response == CONNECT
        assert (await ask_partitions(asking)).partitions == 0

    run(body)


def test_an_old_partition_is_found_by_the_name_of_its_segment_too() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        old = Writer(place.service)
        await old.produce(parts(REGULAR, 2)[1])
        await old.publish("before")
        old.leave()
        await migrate(place)
        client, segment = stranger(place), "segment://shop/eu/orders/0000-ffff-1"
        assert (await ask_owner(client, segment)).response == CONNECT
        answer = await client.attach_consumer(segment, mark=False)
        assert answer.type == BaseCommand.SUCCESS
        topic = await place.topic(parts(REGULAR, 2)[1])
        assert topic.subscriptions["s"].backlog == 1
        answer = await client.produce(segment)
        assert answer.error.error == TERMINATED
        wrong = "segment://shop/eu/orders/0000-7fff-1"
        answer = await client.attach_consumer(wrong, consumer_id=2, mark=False)
        assert answer.error.error == NOT_FOUND

    run(body)


def test_readers_of_a_checkpoint_group_are_known_by_their_names() -> None:
    """They are on subscriptions of their own, and their layout session is closed by then."""

    async def body(place: Place) -> None:
        await make_regular(place)
        await migrate(place)
        client = stranger(place)
        await client.register("a", consumer_id=1, kind="CHECKPOINT")
        request = CommandSubscribe(
            topic=REGULAR,
            subscription="reader-d63511b4e3",
            subType=CommandSubscribe.Exclusive,
            consumer_id=2,
            consumer_name="a-seg-0",
            durable=False,
        )
        assert (await client.ask(request, BaseCommand.SUCCESS)).type == BaseCommand.SUCCESS

    run(body)


def test_a_new_subscription_on_a_parent_is_one_of_the_whole_topic() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        client = Follower(place)
        await client.attach_consumer(parts(REGULAR, 2)[0], name="late")
        controller = await place.service.scalable.controller(TOPIC)
        assert set(controller.subscriptions.registry.records) == {"late"}
        assert set(await controller.subscriptions.registry.backlog("late")) == {0, 1, 2, 3}

    run(body)


def test_the_name_of_a_topic_that_was_never_regular_is_refused_with_its_address() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC)
        for name in (REGULAR, f"{REGULAR}-partition-0"):
            old, new = stranger(place, V4), stranger(place)
            assert (await ask_owner(old, name)).error == NOT_FOUND
            assert (await ask_owner(new, name)).response == CONNECT
            for client in (old, new):
                found = await ask_partitions(client, name)
                assert (found.error, str(TOPIC) in found.message) == (NOT_FOUND, True)
                answers = [
                    await client.produce(name),
                    await client.attach_consumer(name, mark=False),
                    await client.attach_consumer(name, mark=False, durable=False),
                ]
                for answer in answers:
                    assert (answer.error.error, str(TOPIC) in answer.error.message) == (11, True)
            with pytest.raises(TopicNotFound, match=re.escape(str(TOPIC))):
                await topic.find_topic(place.service, parse_topic(name))
            calls = (
                lookup.find_broker(place.service, parse_topic(name)),
                partition.get_partitioned_metadata(place.service, parse_topic(name), True),
            )
            for call in calls:
                with pytest.raises(TopicMigrated, match=re.escape(str(TOPIC))) as refused:
                    await call
                assert fault_of(refused.value).status == 410

    run(body)


def test_administrators_cannot_bring_the_old_names_back_or_take_them_away() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        service, part = place.service, NAME.partition(0)
        parts = find_topic_parts(service)
        calls = {
            "create": topic.create_topic(service, NAME),
            "create partitioned": partition.create_partitioned(service, parts, NAME, 5),
            "create partition": topic.create_topic(service, part),
            "create missed": partition.create_missed_partitions(service, parts, NAME),
            "grow": partition.update_partitioned(service, parts, NAME, 5, force=True),
            "delete": topic.delete_topic(service, part, force=True),
            "delete partitioned": partition.delete_partitioned(service, parts, NAME, force=True),
            "terminate": topic.terminate_topic(service, part),
            "truncate": topic.truncate_topic(service, part),
            "unsubscribe": delete_subscription(service, NAME, "s", force=True),
            "look up": lookup.find_broker(service, NAME),
            "count partitions": partition.get_partitioned_metadata(service, NAME, True),
            "stats": topic.find_topic(service, NAME),
        }
        for what, call in calls.items():
            with pytest.raises(TopicMigrated, match=re.escape(str(TOPIC))) as refused:
                await call
            assert (what, fault_of(refused.value).status) == (what, 410)
        stats = topic_internal_stats(await topic.find_topic(service, part))
        assert stats["state"] == "Terminated"

    run(body)


def test_who_looks_for_topics_by_a_pattern_does_not_find_what_is_scalable() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await place.topic(f"{REGULAR}-2")
        client = stranger(place)
        everything = "shop/eu/.*"
        watch = CommandWatchTopicList(watcher_id=1, namespace="shop/eu", topics_pattern=everything)
        await client.ask(watch, BaseCommand.WATCH_TOPIC_LIST_SUCCESS)
        await migrate(place)
        told = client.heard(BaseCommand.WATCH_TOPIC_UPDATE)
        assert [n for each in told for n in each.deleted_topics] == parts(REGULAR, 2)
        request = CommandGetTopicsOfNamespace(namespace="shop/eu")
        answer = await client.ask(request, BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE)
        assert list(answer.getTopicsOfNamespaceResponse.topics) == [f"{REGULAR}-2"]

    run(body)


def test_another_topic_of_a_similar_name_is_not_touched() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        other = f"{REGULAR}-2"
        answer = await place.connect().produce(other)
        assert answer.type == BaseCommand.PRODUCER_SUCCESS
        assert await place.service.catalog.topic_exists(parse_topic(other))

    run(body)


def test_consumers_of_a_group_are_known_by_their_names_though_they_do_not_say_so() -> None:
    """Published stream consumers do not mark what they attach to a regular topic."""

    async def body(place: Place) -> None:
        await make_regular(place)
        client = stranger(place)
        await client.register("a", consumer_id=1, topic=REGULAR)
        await attach(client, "a-seg-0", consumer_id=2)
        await migrate(place)  # nobody is in the way
        other = stranger(place)
        answer = await attach(other, "b-seg-0", consumer_id=2)
        assert answer.error.error == NOT_FOUND
        await client.close_consumer(2)
        answer = await attach(client, "a-seg-0", consumer_id=3)
        assert answer.type == BaseCommand.SUCCESS

    run(body)


async def attach(client: Follower, name: str, *, consumer_id: int) -> BaseCommand:
    request = CommandSubscribe(
        topic=REGULAR,
        subscription="s",
        subType=CommandSubscribe.Exclusive,
        consumer_id=consumer_id,
        consumer_name=name,
    )
    return await client.ask(request, BaseCommand.SUCCESS)
