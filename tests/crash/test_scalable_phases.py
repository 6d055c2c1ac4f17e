"""A broker dies at each single write of each change of a scalable topic, before it and after it.

Whoever comes next finishes the change or takes it back: the ring is writable, no subscription and
no message is lost, nothing is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from magnetar.model.layout import Layout
from magnetar.model.name import parse_topic
from magnetar.model.position import EARLIEST
from magnetar.model.scalable import ChangeKind, SubscriptionKind
from magnetar.model.segment import SegmentId
from tests.crash.world import World

TOPIC = parse_topic("topic://shop/eu/orders")
STREAM, QUEUE = "stream", "queue"
WRITES_MAX = 200


@dataclass
class Promise:
    """What clients were told: written, and not acknowledged by each subscription."""

    unread: dict[str, set[str]] = field(default_factory=dict)
    count: int = 0


async def furnish() -> tuple[World, Promise]:
    """A topic with a past: two active segments of three, backlog on all, two subscriptions."""
    world = await World.create()
    scalable = world.service.scalable
    await scalable.create_topic(TOPIC, segments=2)
    controller = await scalable.controller(TOPIC)
    await controller.subscriptions.create(STREAM, SubscriptionKind.STREAM)
    await controller.subscriptions.adopt(QUEUE, EARLIEST)
    promise = Promise({STREAM: set(), QUEUE: set()})
    await fill(world, promise)
    await controller.changes.split(SegmentId(0))
    await fill(world, promise)
    layout = controller.layout
    await world.acknowledge(TOPIC, layout.get(SegmentId(1)), STREAM, 2)
    promise.unread[STREAM] -= {"1/3", "1/4"}
    return world, promise


async def fill(world: World, promise: Promise) -> None:
    """Three messages to every active segment."""
    layout = (await world.service.scalable.records.require(TOPIC)).layout
    for segment in layout.active:
        for _ in range(3):
            payload = f"{segment.id}/{promise.count}"
            await world.write(TOPIC, segment, payload)
            promise.count += 1
            for unread in promise.unread.values():
                unread.add(payload)


async def drain_first(world: World, promise: Promise) -> None:
    first = (await world.service.scalable.records.require(TOPIC)).layout.get(SegmentId(0))
    for name, unread in promise.unread.items():
        await world.acknowledge(TOPIC, first, name, 3)
        promise.unread[name] = {each for each in unread if not each.startswith("0/")}


async def split(world: World) -> None:
    await (await world.service.scalable.controller(TOPIC)).changes.split(SegmentId(1), at=0xC123)


async def merge(world: World) -> None:
    await (await world.service.scalable.controller(TOPIC)).changes.merge(SegmentId(2), SegmentId(3))


async def prune(world: World) -> None:
    await (await world.service.scalable.controller(TOPIC)).changes.prune()


async def scale(world: World) -> None:
    await (await world.service.scalable.controller(TOPIC)).changes.scale_to(5)


async def delete(world: World) -> None:
    await world.service.scalable.delete_topic(TOPIC, force=True)


async def wipe(world: World) -> None:
    controller = await world.service.scalable.controller(TOPIC)
    await controller.changes.wipe(SegmentId(1), reason="forced")


async def heal(world: World) -> None:
    layout = (await world.service.scalable.records.require(TOPIC)).layout
    await world.service.scalable.attach_segment(layout.get(SegmentId(1)).name_in(TOPIC))


async def lose_second(world: World, promise: Promise) -> None:
    await wipe(world)
    forget_second(promise)


def forget_second(promise: Promise) -> None:
    for name, unread in promise.unread.items():
        promise.unread[name] = {each for each in unread if not each.startswith("1/")}


async def check_wiped(world: World, promise: Promise, allowed: set[int]) -> None:
    """A wipe that nobody was told of may not have begun; one that began has ended, and the segment
    is made again with every subscription.
    """
    controller = await world.service.scalable.controller(TOPIC)
    if ChangeKind.WIPE in {event.kind for event in controller.state.record.history}:
        forget_second(promise)
    await heal(world)
    await check(world, promise, allowed)


async def nothing(world: World, promise: Promise) -> None:
    """Leave it as it is."""


Act = Callable[[World], Awaitable[None]]
Prepare = Callable[[World, Promise], Awaitable[None]]


async def check(world: World, promise: Promise, allowed: set[int]) -> None:
    """`allowed` are the numbers of active segments that there may be."""
    record = await world.service.scalable.records.require(TOPIC)
    layout = record.layout
    assert record.intent is None
    assert len(layout.active) in allowed
    await check_stored(world, layout)
    await check_subscriptions(world, layout)
    for name, unread in promise.unread.items():
        found = await world.unread(TOPIC, name)
        assert sorted(found) == sorted(unread), name
    await fill(world, promise)  # every part of the ring takes writes
    for name, unread in promise.unread.items():
        assert set(await world.unread(TOPIC, name)) == unread


async def check_stored(world: World, layout: Layout) -> None:
    stored = await world.stored_segments(TOPIC.namespace, TOPIC.local)
    assert set(stored) == {f"{each.range}-{each.id}" for each in layout.segments}
    for segment in layout.segments:
        live = await world.segment(TOPIC, segment)
        assert (live.log.record.terminated is not None) is segment.is_sealed


async def check_subscriptions(world: World, layout: Layout) -> None:
    controller = await world.service.scalable.controller(TOPIC)
    records = controller.subscriptions.registry.records
    assert {name: each.kind for name, each in records.items()} == {
        STREAM: SubscriptionKind.STREAM,
        QUEUE: SubscriptionKind.QUEUE,
    }
    for name in records:
        assert set(await controller.subscriptions.registry.backlog(name)) == set(layout.by_id)


async def check_deleted(world: World, promise: Promise, allowed: set[int]) -> None:
    """A delete that nobody was told of may not have begun; one that began has ended."""
    if await world.service.scalable.exists(TOPIC):
        await check(world, promise, allowed)
        return
    assert await world.service.scalable.records.list(TOPIC.namespace) == []
    assert await world.stored_segments(TOPIC.namespace, TOPIC.local) == ()
    assert await world.service.store.children("/topics/shop/eu") == ()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("act", "prepare", "verify", "allowed"),
    [
        (split, nothing, check, {3, 4}),
        (merge, nothing, check, {2, 3}),
        (scale, nothing, check, {3, 4, 5}),
        (prune, drain_first, check, {3}),
        (delete, nothing, check_deleted, {3}),
        (wipe, nothing, check_wiped, {3}),
        (heal, lose_second, check_wiped, {3}),
    ],
    ids=["split", "merge", "scale", "prune", "delete", "wipe", "heal"],
)
def test_a_crash_at_any_write_of_a_change_costs_nothing(
    act: Act,
    prepare: Prepare,
    verify: Callable[[World, Promise, set[int]], Awaitable[None]],
    allowed: set[int],
    after: bool,
) -> None:
    async def body(number: int) -> bool:
        world, promise = await furnish()
        await prepare(world, promise)
        world.doom.arm(number, after=after)
        died = await world.until_death(lambda: act(world))
        if died:
            await world.crash()
            await world.boot()
        await verify(world, promise, allowed)
        await world.crash()
        return died

    numbers = iter(range(1, WRITES_MAX))
    while asyncio.run(body(next(numbers))):
        pass
    assert next(numbers) > 4, "a change is more than a write or two"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_while_a_crash_is_repaired_costs_nothing(after: bool) -> None:
    """The broker that goes on with a split dies at each of its own writes too."""

    async def body(first_number: int, number: int) -> tuple[bool, bool]:
        world, promise = await furnish()
        world.doom.arm(first_number, after=after)
        if not await world.until_death(lambda: split(world)):
            return False, False
        await world.crash()
        await world.boot_doomed(number, after=after)
        died = world.doom.died.is_set()
        if died:
            await world.crash()
            await world.boot()
        await check(world, promise, {3, 4})
        await world.crash()
        return True, died

    for first_number in range(1, WRITES_MAX):
        for number in range(1, WRITES_MAX):
            first_died, died = asyncio.run(body(first_number, number))
            if not died:
                break
        if not first_died:
            return


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_topic_whose_creation_was_cut_short_works_or_is_not_there(after: bool) -> None:
    async def body(number: int) -> bool:
        world = await World.create()
        world.doom.arm(number, after=after)
        create = world.service.scalable.create_topic
        died = await world.until_death(lambda: create(TOPIC, segments=3))
        if died:
            await world.crash()
            await world.boot()
        if await world.service.scalable.exists(TOPIC):
            controller = await world.service.scalable.controller(TOPIC)
            await controller.subscriptions.create(QUEUE, SubscriptionKind.QUEUE)
            promise = Promise({QUEUE: set()})
            await fill(world, promise)
            assert set(await world.unread(TOPIC, QUEUE)) == promise.unread[QUEUE]
        else:
            assert await world.stored_segments(TOPIC.namespace, TOPIC.local) == ()
        await world.crash()
        return died

    numbers = iter(range(1, WRITES_MAX))
    while asyncio.run(body(next(numbers))):
        pass


async def create_subscription(world: World) -> None:
    controller = await world.service.scalable.controller(TOPIC)
    await controller.subscriptions.create("new", SubscriptionKind.STREAM)


async def delete_subscription(world: World) -> None:
    controller = await world.service.scalable.controller(TOPIC)
    await controller.subscriptions.delete(STREAM)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("act", [create_subscription, delete_subscription])
def test_a_subscription_is_on_all_segments_or_on_none_after_a_crash(act: Act, after: bool) -> None:
    async def body(number: int) -> bool:
        world, _ = await furnish()
        world.doom.arm(number, after=after)
        died = await world.until_death(lambda: act(world))
        if died:
            await world.crash()
            await world.boot()
        controller = await world.service.scalable.controller(TOPIC)
        names = set(controller.subscriptions.registry.records)
        assert QUEUE in names
        for name in (STREAM, QUEUE, "new"):
            expected = set(controller.layout.by_id) if name in names else set()
            assert set(await controller.subscriptions.registry.backlog(name)) == expected
        await world.crash()
        return died

    numbers = iter(range(1, WRITES_MAX))
    while asyncio.run(body(next(numbers))):
        pass
