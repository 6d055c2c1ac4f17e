"""Topics of a namespace with buckets are made and deleted whole, whenever the process dies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from magnetar.broker.administration.namespace import remove_namespace
from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import NamespaceNotFound, TopicNotFound
from magnetar.model.log_path import LOGS
from magnetar.model.name import TopicDomain, parse_topic
from magnetar.model.position import EARLIEST
from tests.crash.world import World
from tests.unit.broker.broker_place import NAMESPACE

BUCKETS = 3
WRITES_MAX = 200
TOPIC = parse_topic(f"persistent://{NAMESPACE}/nptopic1")
OTHER = parse_topic(f"persistent://{NAMESPACE}/nptopic2")
SCALABLE = parse_topic(f"topic://{NAMESPACE}/orders")

Act: TypeAlias = Callable[[World], Awaitable[None]]


async def make(world: World) -> None:
    topic = await world.service.catalog.load_topic(TOPIC, create=True)
    assert isinstance(topic, PersistentTopic)
    await topic.subscriptions.create("s", position=EARLIEST, properties={})


async def delete(world: World) -> None:
    await world.service.catalog.delete_topic(TOPIC, force=True)


async def delete_namespace(world: World) -> None:
    await remove_namespace(world.service, NAMESPACE, force=True)


async def furnish(world: World) -> None:
    await world.service.catalog.load_topic(OTHER, create=True)
    await make(world)
    await world.service.scalable.create_topic(SCALABLE, segments=2)


async def check_places(world: World) -> None:
    """Nothing but buckets stands below a domain, and every topic in its own."""
    store = world.service.store
    for domain in (TopicDomain.PERSISTENT, TopicDomain.SEGMENT):
        parent = f"{LOGS}/{NAMESPACE}/{domain.value}"
        assert set(await store.children(parent)) <= {"$0", "$1", "$2"}
    for full in await world.service.catalog.list_topics(NAMESPACE, TopicDomain.PERSISTENT):
        assert await world.service.catalog.topic_exists(parse_topic(full))


def for_each_death(act: Act, verify: Act, *, furnished: bool, after: bool) -> int:
    """How many writes there were to die at."""

    async def body(number: int) -> bool:
        world = await World.create(buckets=BUCKETS)
        if furnished:
            await furnish(world)
        world.doom.arm(number, after=after)
        died = await world.until_death(lambda: act(world))
        if died:
            await world.crash()
            await world.boot()
        await check_places(world)
        await verify(world)
        await world.crash()
        return died

    for number in range(1, WRITES_MAX):
        if not asyncio.run(body(number)):
            return number - 1
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_topic_half_made_is_made_whole_by_the_next_who_comes(after: bool) -> None:
    async def verify(world: World) -> None:
        topic = await world.service.catalog.load_topic(TOPIC, create=True)
        assert isinstance(topic, PersistentTopic)
        if "s" not in topic.subscriptions:
            await topic.subscriptions.create("s", position=EARLIEST, properties={})
        assert await world.service.store.children(f"{LOGS}/{NAMESPACE}/persistent") == ("$2",)
        await delete(world)
        assert not await world.service.catalog.topic_exists(TOPIC)

    # The number of buckets, the topic's log and its cursor at the least.
    assert for_each_death(make, verify, furnished=False, after=after) >= 3


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_topic_half_deleted_can_be_deleted(after: bool) -> None:
    async def verify(world: World) -> None:
        try:
            await delete(world)
        except TopicNotFound:
            pass
        assert not await world.service.catalog.topic_exists(TOPIC)
        left = await world.service.catalog.list_topics(NAMESPACE, TopicDomain.PERSISTENT)
        assert left == [OTHER.full]

    assert for_each_death(delete, verify, furnished=True, after=after) >= 2


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_namespace_half_deleted_can_be_deleted(after: bool) -> None:
    async def verify(world: World) -> None:
        try:
            await delete_namespace(world)
        except NamespaceNotFound:
            pass
        assert not await world.service.store.exists(f"{LOGS}/{NAMESPACE}")
        assert await world.service.resources.namespaces.get(NAMESPACE) is None

    assert for_each_death(delete_namespace, verify, furnished=True, after=after) >= 8
