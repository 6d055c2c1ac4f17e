"""A broker dies at each single write of a migration, before it and after it, once and twice in a
row.

Whoever comes next finds a regular topic on which nothing has changed, or a scalable one whose
parents are sealed; never anything between.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from magnetar.broker.persistent import PersistentTopic
from magnetar.model.migration import PREPARATIONS, legacy_names
from magnetar.model.name import TopicDomain, parse_topic
from magnetar.model.position import EARLIEST
from magnetar.model.segment import scalable_name
from magnetar.wire.command import BaseCommand, MessageMetadata
from magnetar.wire.entry import encode_entry
from tests.crash.world import World
from tests.unit.broker.broker_place import NAMESPACE
from tests.unit.broker.scalable.migration_place import settle

REGULAR = parse_topic("persistent://shop/eu/orders")
TOPIC = scalable_name(REGULAR)
PARTS = legacy_names(REGULAR, 2)
NAMES = ("read", "unread")
WRITES_MAX = 300


@dataclass
class Promise:
    """What subscriptions have not acknowledged."""

    unread: dict[str, set[str]] = field(default_factory=dict)


async def furnish() -> tuple[World, Promise]:
    """Two partitions with a backlog, of which one subscription has read a part."""
    world = await World.create()
    await world.service.resources.partitioned.create(REGULAR, 2, None)
    promise = Promise({name: set() for name in NAMES})
    for index, name in enumerate(PARTS):
        part = await partition(world, index)
        for subscription in NAMES:
            await part.subscriptions.create(subscription, position=EARLIEST)
        for number in range(3):
            await write(part, f"{name.partition_index}/{number}", promise)
    await (await partition(world, 0)).subscriptions["read"].skip(2)
    promise.unread["read"] -= {"0/0", "0/1"}
    return world, promise


async def partition(world: World, index: int) -> PersistentTopic:
    part = await world.service.catalog.load_topic(PARTS[index], create=True)
    assert isinstance(part, PersistentTopic)
    return part


async def write(topic: PersistentTopic, payload: str, promise: Promise) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    await topic.log.append_entry(encode_entry(metadata, payload.encode()))
    for unread in promise.unread.values():
        unread.add(payload)


async def migrate(world: World) -> None:
    await world.service.scalable.migrations.run(REGULAR)
    await settle(world.service, TOPIC)


async def check(world: World, promise: Promise) -> bool:
    """Return whether the topic is scalable."""
    store = world.service.store
    for tenant in await store.children(PREPARATIONS):
        assert await store.children(f"{PREPARATIONS}/{tenant}/{NAMESPACE.local}") == ()
    if not await world.service.scalable.exists(TOPIC):
        await check_regular(world)
        return False
    record = await world.service.scalable.records.require(TOPIC)
    assert record.intent is None
    for index in range(2):
        assert (await partition(world, index)).log.record.terminated is not None
    for number, segment in enumerate(record.layout.active):
        await write(await world.segment(TOPIC, segment), f"new/{number}", promise)
    controller = await world.service.scalable.controller(TOPIC)
    assert set(controller.subscriptions.registry.records) == set(NAMES)
    for name, unread in promise.unread.items():
        assert set(await world.unread(TOPIC, name)) == unread
    return True


async def check_regular(world: World) -> None:
    assert await world.stored_segments(TOPIC.namespace, TOPIC.local) == ()
    assert await world.service.scalable.records.list(NAMESPACE) == []
    assert await world.service.policies.get(TOPIC) is None
    peer = world.place.connect()
    for index, name in enumerate(PARTS):
        answer = await peer.produce(name.full, producer_id=index)
        assert answer.type == BaseCommand.PRODUCER_SUCCESS
        await peer.close_producer(index)
    listed = await world.service.catalog.list_topics(NAMESPACE, TopicDomain.PERSISTENT)
    assert listed == sorted(name.full for name in PARTS)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_write_leaves_a_regular_topic_or_a_scalable_one(after: bool) -> None:
    outcomes: list[bool] = []

    async def body(number: int) -> bool:
        world, promise = await furnish()
        world.doom.arm(number, after=after)
        died = await world.until_death(lambda: migrate(world))
        if died:
            await world.crash()
            await world.boot()
        outcomes.append(await check(world, promise))
        if not outcomes[-1]:
            await migrate(world)
            assert await check(world, promise)
        await world.crash()
        return died

    numbers = iter(range(1, WRITES_MAX))
    while asyncio.run(body(next(numbers))):
        pass
    assert outcomes == sorted(outcomes), "from the commit on there is only forward"
    assert outcomes.count(False) >= 4 and outcomes.count(True) > 4


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_while_a_crash_is_repaired_does_no_harm_either(after: bool) -> None:
    async def body(first_number: int, number: int) -> tuple[bool, bool]:
        world, promise = await furnish()
        world.doom.arm(first_number, after=after)
        if not await world.until_death(lambda: migrate(world)):
            await world.crash()
            return False, False
        await world.crash()
        await world.boot_doomed(number, after=after)
        died = world.doom.died.is_set()
        if died:
            await world.crash()
            await world.boot()
        if not await check(world, promise):
            await migrate(world)
            assert await check(world, promise)
        await world.crash()
        return True, died

    for first_number in range(1, WRITES_MAX):
        for number in range(1, WRITES_MAX):
            first_died, died = asyncio.run(body(first_number, number))
            if not died:
                break
        if not first_died:
            return
