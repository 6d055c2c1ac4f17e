from __future__ import annotations

import re

import pytest

from magnetar.broker.api import BrokerApi
from magnetar.broker.api.partition import PartitionCount
from magnetar.errors import TopicMigrated, fault_of
from magnetar.model.name import parse_topic
from magnetar.wire.command import (
    BaseCommand,
    CommandGetTopicsOfNamespace,
    CommandLookupTopicResponse,
    CommandSubscribe,
    CommandWatchTopicList,
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

NOT_FOUND, TERMINATED = 11, 15
CONNECT, FAILED = CommandLookupTopicResponse.Connect, CommandLookupTopicResponse.Failed


def stranger(place: Place) -> Follower:
    """A client of its own host, of which nothing is known."""
    client = Follower(place)
    client.connection.host = "10.0.0.9"
    return client


def test_a_v4_client_is_refused_at_its_first_question_and_at_every_other() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        for name in (REGULAR, *parts(REGULAR, 2)):
            client = stranger(place)
            found = await ask_partitions(client, name)
            assert (found.error, str(TOPIC) in found.message) == (NOT_FOUND, True)
            looked_up = await ask_owner(client, name)
            assert (looked_up.response, looked_up.error) == (FAILED, NOT_FOUND)
            assert str(TOPIC) in looked_up.message
            answer = await client.produce(name)
            assert answer.error.error == TERMINATED and str(TOPIC) in answer.error.message
            for durable in (True, False):
                answer = await client.attach_consumer(name, mark=False, durable=durable)
                assert answer.error.error == NOT_FOUND and str(TOPIC) in answer.error.message

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


def test_a_v5_client_is_known_by_its_host_when_it_asks_over_another_connection() -> None:
    async def body(place: Place) -> None:
        await make_regular(place)
        await migrate(place)
        watching, asking = stranger(place), stranger(place)
        watching.look_up(1, REGULAR)
        await until(lambda: bool(watching.layouts(1)))
        assert (await ask_partitions(asking)).partitions == 0

    run(body)


def test_a_new_subscription_on_a_parent_is_one_of_the_whole_topic() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        client = Follower(place)
        await client.attach_consumer(parts(REGULAR, 2)[0], name="late")
        controller = await place.service.scalable.controller(TOPIC)
        assert set(await controller.subscriptions()) == {"late"}
        assert set(await controller.backlog("late")) == {0, 1, 2, 3}

    run(body)


def test_a_topic_that_was_never_regular_is_just_not_there_for_v4() -> None:
    async def body(place: Place) -> None:
        await place.service.scalable.create_topic(TOPIC)
        found = await ask_partitions(stranger(place))
        assert found.error == NOT_FOUND and "migrated" not in found.message

    run(body)


def test_administrators_cannot_bring_the_old_names_back_or_take_them_away() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, 2)
        await migrate(place)
        api, part = BrokerApi(place.service), NAME.partition(0)
        count = PartitionCount(partitions=5)
        calls = {
            "create": api.topics.create(NAME, {}),
            "create partitioned": api.partitions.create(NAME, count),
            "create partition": api.topics.create(part, {}),
            "create missed": api.partitions.create_missed(NAME),
            "grow": api.partitions.grow(NAME, 5, force=True),
            "delete": api.topics.delete(part, force=True),
            "delete partitioned": api.partitions.delete(NAME, force=True),
            "terminate": api.topics.terminate(part),
            "truncate": api.topics.truncate(part),
            "unsubscribe": api.subscriptions.delete(NAME, "s", force=True),
            "look up": api.lookup.find_broker(NAME, None),
        }
        for what, call in calls.items():
            with pytest.raises(TopicMigrated, match=re.escape(str(TOPIC))) as refused:
                await call
            assert (what, fault_of(refused.value).status) == (what, 410)
        stats = await api.topics.internal_stats(part)
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
        assert [list(each.deleted_topics) for each in told] == [[n] for n in parts(REGULAR, 2)]
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
        assert await place.service.topic_exists(parse_topic(other))

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
