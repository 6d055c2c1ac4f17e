"""Topics of a namespace: listed, filtered, hashed, watched."""

from __future__ import annotations

import pytest

from magnetar.broker.topiclist import TopicPattern
from magnetar.errors import InvalidName, NotAllowed
from magnetar.model.log_path import log_path
from magnetar.model.name import NamespaceName, parse_topic
from magnetar.model.policy import Policies
from magnetar.wire.command import (
    BaseCommand,
    CommandGetTopicsOfNamespace,
    CommandSubscribe,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    ServerError,
)
from magnetar.wire.topiclist import hash_topics
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.traffic import Client, settle

BASE = "persistent://shop/eu/"
ALL = "shop/eu/.*"


def full(*names: str) -> list[str]:
    return [BASE + name for name in names]


async def watch(
    client: Client, pattern: str = ALL, *, watcher_id: int = 1, known: str = ""
) -> BaseCommand:
    request = CommandWatchTopicList(
        watcher_id=watcher_id, namespace="shop/eu", topics_pattern=pattern
    )
    if known:
        request.topics_hash = known
    return await client.ask(request, BaseCommand.WATCH_TOPIC_LIST_SUCCESS)


async def delete(place: Place, name: str) -> None:
    await place.service.catalog.delete_topic(parse_topic(BASE + name), force=True)


def updates(client: Client) -> list[tuple[list[str], list[str]]]:
    return [
        (
            list(command.watchTopicUpdate.new_topics),
            list(command.watchTopicUpdate.deleted_topics),
        )
        for command in client.received(BaseCommand.WATCH_TOPIC_UPDATE)
    ]


# ---------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("shop/eu/a.*", "persistent://shop/eu/abc", True),
        ("persistent://shop/eu/a.*", "persistent://shop/eu/abc", True),
        ("shop/eu/a", "persistent://shop/eu/abc", False),  # the whole name
        ("shop/eu/a", "persistent://shop/eu/a-partition-3", True),
        ("non-persistent://shop/eu/a", "non-persistent://shop/eu/a", True),
    ],
)
def test_a_pattern_is_held_against_the_bare_name(pattern: str, name: str, matches: bool) -> None:
    assert TopicPattern(pattern, length_max=50).matches(name) is matches


def test_a_pattern_has_a_length_and_a_grammar() -> None:
    with pytest.raises(NotAllowed):
        TopicPattern("x" * 51, length_max=50)
    with pytest.raises(InvalidName):
        TopicPattern("(", length_max=50)


# ---------------------------------------------------------------------- once


def test_topics_are_listed_filtered_and_spared_when_nothing_changed() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        for name in ("a1", "a2", "b", "__change_events"):
            await place.topic(BASE + name)
        await client.produce("non-persistent://shop/eu/fleeting")

        async def ask(**fields: object) -> BaseCommand:
            request = CommandGetTopicsOfNamespace(namespace="shop/eu", **fields)  # type: ignore[arg-type]
            return await client.ask(request, BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE)

        found = (await ask()).getTopicsOfNamespaceResponse
        assert list(found.topics) == full("a1", "a2", "b") and not found.filtered
        everything = await ask(mode=CommandGetTopicsOfNamespace.ALL)
        assert len(everything.getTopicsOfNamespaceResponse.topics) == 4
        some = (await ask(topics_pattern="shop/eu/a.*")).getTopicsOfNamespaceResponse
        assert list(some.topics) == full("a1", "a2") and some.filtered
        again = await ask(topics_pattern="shop/eu/a.*", topics_hash=some.topics_hash)
        same = again.getTopicsOfNamespaceResponse
        assert not same.changed and not same.topics
        long = (await ask(topics_pattern="shop/eu/a.*" + "|x" * 40)).getTopicsOfNamespaceResponse
        assert not long.filtered and len(long.topics) == 3

    run(body)


# ---------------------------------------------------------------------- watched


def test_a_watcher_hears_of_what_comes_and_goes() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await place.topic(BASE + "a1")
        await place.topic(BASE + "b1")
        first = (await watch(client, "shop/eu/a.*")).watchTopicListSuccess
        assert list(first.topic) == full("a1")
        for name in ("a2", "b2", "__change_events"):
            await place.topic(BASE + name)
        await delete(place, "a1")
        await delete(place, "b1")
        await until(lambda: len(updates(client)) == 2)
        await settle()
        assert updates(client) == [(full("a2"), []), ([], full("a1"))]
        last = client.received(BaseCommand.WATCH_TOPIC_UPDATE)[-1].watchTopicUpdate
        assert last.topics_hash == hash_topics(full("a2"))

    run(body)


def test_system_topics_are_not_told_to_watchers() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await watch(client)
        await place.topic(BASE + "__change_events")
        await place.topic(BASE + "a")
        await until(lambda: len(updates(client)) == 1)
        assert updates(client) == [(full("a"), [])]

    run(body)


def test_what_happens_while_the_list_is_read_is_in_it_or_told_after_it() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await place.topic(BASE + "a")
        client.say(
            CommandWatchTopicList(
                watcher_id=1, request_id=1, namespace="shop/eu", topics_pattern=ALL
            )
        )
        await place.topic(BASE + "b")
        await delete(place, "a")
        await until(lambda: client.count(BaseCommand.WATCH_TOPIC_LIST_SUCCESS) == 1)
        await settle()
        (answer,) = client.received(BaseCommand.WATCH_TOPIC_LIST_SUCCESS)
        names = set(answer.watchTopicListSuccess.topic)
        for new, gone in updates(client):
            names = (names | set(new)) - set(gone)
        assert names == set(full("b"))
        kinds = [command.type for command in client._wire.received]
        if BaseCommand.WATCH_TOPIC_UPDATE in kinds:
            assert kinds.index(BaseCommand.WATCH_TOPIC_LIST_SUCCESS) < kinds.index(
                BaseCommand.WATCH_TOPIC_UPDATE
            )

    run(body)


def test_a_watch_may_be_refreshed_and_spares_a_list_that_is_known() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await place.topic(BASE + "a")
        first = (await watch(client)).watchTopicListSuccess
        again = (await watch(client, known=first.topics_hash)).watchTopicListSuccess
        assert not again.topic and again.topics_hash == first.topics_hash
        await place.topic(BASE + "b")
        await until(lambda: len(updates(client)) == 1)
        await settle()
        assert len(updates(client)) == 1
        assert len(place.service.topic_lists) == 1

    run(body)


def test_watches_end_when_they_are_closed_refused_or_their_connection_is_lost() -> None:
    async def body(place: Place) -> None:
        client, other = Client(place.service), Client(place.service)
        await watch(client)
        await watch(other)
        await client.ask(CommandWatchTopicListClose(watcher_id=1), BaseCommand.SUCCESS)
        await client.ask(CommandWatchTopicListClose(watcher_id=9), BaseCommand.SUCCESS)
        other.leave()
        assert len(place.service.topic_lists) == 0
        bad = await watch(client, "(")
        assert bad.error.error == ServerError.InvalidTopicName
        long = await watch(client, "x" * 51)
        assert long.error.error == ServerError.NotAllowedError
        assert len(place.service.topic_lists) == 0
        await place.topic(BASE + "a")
        await settle()
        assert updates(client) == []

    run(body)


# ---------------------------------------------------------------------- buckets


def test_clients_see_the_same_names_in_a_namespace_with_buckets() -> None:
    async def body(place: Place) -> None:
        namespace = NamespaceName("shop", "many")
        policies = Policies(replication_clusters=("standalone",), numberOfTopicBuckets=7)
        await place.service.resources.namespaces.create(namespace, policies)
        names = [f"persistent://{namespace}/{name}" for name in ("a", "b", "c-partition-0", "d é")]
        for name in names[:3]:
            await place.service.catalog.load_topic(parse_topic(name), create=True)
        client = Client(place.service)
        request = CommandWatchTopicList(
            watcher_id=1, namespace=str(namespace), topics_pattern=f"{namespace}/.*"
        )
        started = await client.ask(request, BaseCommand.WATCH_TOPIC_LIST_SUCCESS)
        assert list(started.watchTopicListSuccess.topic) == names[:3]
        await place.service.catalog.load_topic(parse_topic(names[3]), create=True)
        await place.service.catalog.delete_topic(parse_topic(names[0]), force=True)
        await until(lambda: [names[0]] in [gone for _, gone in updates(client)])
        assert [name for come, _ in updates(client) for name in come] == [names[3]]
        listing = CommandGetTopicsOfNamespace(
            namespace=str(namespace), mode=CommandGetTopicsOfNamespace.PERSISTENT
        )
        answer = await client.ask(listing, BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE)
        assert list(answer.getTopicsOfNamespaceResponse.topics) == names[1:]
        await client.produce(names[1])
        await client.send(2)
        await client.subscribe(names[1], "s", CommandSubscribe.Shared, consumer_id=1)
        await until(lambda: len(client.messages(1)) == 2)

    run(body)


def test_a_client_that_leaves_before_its_watch_begins_leaves_no_list_behind() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        client.say(
            CommandWatchTopicList(
                request_id=1, watcher_id=1, namespace="shop/eu", topics_pattern="shop/eu/.*"
            )
        )
        client.leave()
        await until(lambda: not len(place.service.tasks))
        assert not len(place.service.topic_lists)

    run(body)


def test_a_watcher_learns_of_topics_that_other_brokers_make_and_delete() -> None:
    async def body(place: Place) -> None:
        client = Client(place.service)
        await watch(client, "shop/eu/o.*")
        store = place.service.store
        end = place.service.topic_lists.follow(store)
        path = log_path(parse_topic(f"{BASE}orders ü"), 1)
        for other in (path, f"{path}/cursor", "/managed-ledgers/shop/eu/persistent/%ff"):
            await store.put(other, b"", expect=-1)
        await until(lambda: len(updates(client)) == 1)
        await store.delete(f"{path}/cursor", expect=0)
        await store.delete(path, expect=0)
        await until(lambda: len(updates(client)) == 2)
        assert updates(client) == [(full("orders ü"), []), ([], full("orders ü"))]
        end()

    run(body)
