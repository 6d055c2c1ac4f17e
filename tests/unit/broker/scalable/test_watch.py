"""Clients see which scalable topics a namespace has, and which come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.model.name import parse_topic
from magnetar.wire.command import (
    BaseCommand,
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsClose,
    CommandWatchScalableTopicsUpdate,
    KeyValue,
)
from magnetar.wire.topiclist import hash_topics
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.group_place import Client, soon

A, B, C = (f"topic://shop/eu/{name}" for name in "abc")


async def create(place: Place, name: str, **properties: str) -> None:
    await place.service.scalable.create_topic(parse_topic(name), properties=properties)


async def delete(place: Place, name: str) -> None:
    await place.service.scalable.delete_topic(parse_topic(name))


def watch(client: Client, watch_id: int = 1, namespace: str = "shop/eu", **more: Any) -> None:
    filters = [KeyValue(key=key, value=value) for key, value in more.pop("filters", {}).items()]
    client.say(
        CommandWatchScalableTopics(
            watch_id=watch_id, namespace=namespace, property_filters=filters, **more
        )
    )


def updates(client: Client) -> list[Any]:
    return client.heard(BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE)


async def until_heard(client: Client, count: int) -> list[Any]:
    for _ in range(100):
        if len(updates(client)) >= count:
            return updates(client)
        await asyncio.sleep(0.01)
    raise AssertionError(f"heard {updates(client)}")


def test_all_topics_come_first_and_then_what_changes() -> None:
    async def body(place: Place) -> None:
        await create(place, B)
        await create(place, A)
        client = Client(place)
        watch(client)
        (first,) = await until_heard(client, 1)
        assert list(first.snapshot.topics) == [A, B]
        await create(place, C)
        await delete(place, A)
        _, change = await until_heard(client, 2)
        assert (list(change.diff.added), list(change.diff.removed)) == ([C], [A])

    run(body)


def test_an_empty_namespace_is_said_to_be_empty() -> None:
    async def body(place: Place) -> None:
        client = Client(place)
        watch(client)
        (first,) = await until_heard(client, 1)
        assert first.HasField("snapshot") and not first.snapshot.topics

    run(body)


def test_every_filter_must_match_and_changed_properties_count() -> None:
    async def body(place: Place) -> None:
        await create(place, A, team="red", tier="1")
        await create(place, B, team="red")
        client = Client(place)
        watch(client, filters={"team": "red", "tier": "1"})
        (first,) = await until_heard(client, 1)
        assert list(first.snapshot.topics) == [A]
        properties = {"team": "red", "tier": "1"}
        await place.service.scalable.records.update_properties(parse_topic(B), properties)
        _, change = await until_heard(client, 2)
        assert list(change.diff.added) == [B]
        await place.service.scalable.records.update_properties(parse_topic(A), {})
        await until_heard(client, 3)
        assert list(updates(client)[-1].diff.removed) == [A]

    run(body)


def test_a_topic_that_comes_and_goes_at_once_is_not_spoken_of() -> None:
    async def body(place: Place) -> None:
        client = Client(place)
        watch(client)
        await until_heard(client, 1)
        client.connection.pause_writing()  # however long the three take, nothing is told meanwhile
        await create(place, A)
        await delete(place, A)
        await create(place, B)
        [watcher] = client.connection.attached(ConnectionRegistry).namespaces.values()
        await until(lambda: not (watcher._changed or watcher._is_reading or watcher._timer))
        client.connection.resume_writing()
        _, change = await until_heard(client, 2)
        assert (list(change.diff.added), list(change.diff.removed)) == ([B], [])

    run(body)


def test_a_watcher_that_knows_the_list_is_told_changes_only() -> None:
    async def body(place: Place) -> None:
        await create(place, A)
        client = Client(place)
        watch(client, current_hash=hash_topics([A]))
        await soon(lambda: 1 in client.connection.attached(ConnectionRegistry).namespaces)
        await create(place, B)
        (change,) = await until_heard(client, 1)
        assert list(change.diff.added) == [B]

    run(body)


def test_a_closed_watcher_hears_nothing() -> None:
    async def body(place: Place) -> None:
        client, other = Client(place), Client(place)
        watch(client)
        watch(other)
        await until_heard(client, 1)
        await until_heard(other, 1)
        client.say(CommandWatchScalableTopicsClose(watch_id=1))
        client.say(CommandWatchScalableTopicsClose(watch_id=42))
        await create(place, A)
        await until_heard(other, 2)
        assert len(updates(client)) == 1 and not client.connection.closed

    run(body)


@pytest.mark.parametrize(
    ("namespace", "settings", "error"),
    [
        ("shop", {}, "InvalidTopicName"),
        ("shop/eu", {"scalableTopicsEnabled": False}, "NotAllowedError"),
    ],
)
def test_a_watch_that_cannot_be_is_refused(
    namespace: str, settings: dict[str, Any], error: str
) -> None:
    async def body(place: Place) -> None:
        client = Client(place)
        watch(client, namespace=namespace)
        (refusal,) = await until_heard(client, 1)
        field = CommandWatchScalableTopicsUpdate.DESCRIPTOR.fields_by_name["error"]
        assert field.enum_type is not None
        assert field.enum_type.values_by_number[refusal.error].name == error
        assert refusal.message and not client.connection.attached(ConnectionRegistry).namespaces

    run(body, **settings)
