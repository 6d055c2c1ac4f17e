"""Whatever happens to a scalable topic, in whatever order, and whenever its broker dies: every
subscription has exactly what it did not acknowledge, and reads each key in the order of writing.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.broker.persistent import PersistentTopic
from magnetar.model.name import parse_topic
from magnetar.model.position import Position
from magnetar.model.scalable import ConsumerKind, SubscriptionKind
from magnetar.model.segment import Segment, SegmentId
from magnetar.wire.command import BaseCommand, CommandSubscribe
from magnetar.wire.entry import decode_entry
from tests.crash.world import World
from tests.unit.broker.scalable.group_place import Client, segments_of

TOPIC = parse_topic("topic://shop/eu/orders")
KEYS = tuple(f"key-{number}" for number in range(6))
STREAM, GROUP = "stream", "checkpoint group"
TURNS = 60
SEGMENTS_MAX = 8


@dataclass(frozen=True)
class Doom:
    write: int
    after: bool


@dataclass(frozen=True)
class Produce:
    key: str
    count: int


@dataclass(frozen=True)
class Split:
    which: int
    doom: Doom | None


@dataclass(frozen=True)
class Merge:
    which: int
    doom: Doom | None


@dataclass(frozen=True)
class Prune:
    doom: Doom | None


@dataclass(frozen=True)
class Attach:
    """A queue consumer comes to one segment."""

    name: str
    which: int
    earliest: bool
    doom: Doom | None


@dataclass(frozen=True)
class Acknowledge:
    """A queue consumer acknowledges the next few messages of a segment."""

    name: str
    which: int
    count: int


@dataclass(frozen=True)
class Read:
    """The stream consumers read and acknowledge what they are given, up to so many messages, from
    any of their segments.
    """

    count: int
    which: int


@dataclass(frozen=True)
class Crash:
    pass


Event = Produce | Split | Merge | Prune | Attach | Acknowledge | Read | Crash

numbers = st.integers(0, 20)
dooms = st.none() | st.builds(Doom, st.integers(1, 14), st.booleans())
queues = st.sampled_from(["q0", "q1"])
events = st.one_of(
    st.builds(Produce, st.sampled_from(KEYS), st.integers(1, 4)),
    st.builds(Produce, st.sampled_from(KEYS), st.integers(1, 4)),
    st.builds(Split, numbers, dooms),
    st.builds(Merge, numbers, dooms),
    st.builds(Prune, dooms),
    st.builds(Attach, queues, numbers, st.booleans(), dooms),
    st.builds(Acknowledge, queues, numbers, st.integers(1, 5)),
    st.builds(Read, st.integers(1, 6), numbers),
    st.just(Crash()),
)


@dataclass
class History:
    """A topic, what was done to it, and what must hold."""

    world: World
    written: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))
    unread: dict[str, set[str]] = field(default_factory=dict)
    client: Client | None = None

    # What happens

    async def play(self, event: Event) -> None:
        match event:
            case Produce(key, count):
                for _ in range(count):
                    await self.produce(key)
            case Split(which, doom):
                await self.split(which, doom)
            case Merge(which, doom):
                await self.merge(which, doom)
            case Prune(doom):
                controller = await self.world.service.scalable.controller(TOPIC)
                await self.risk(controller.changes.prune, doom)
            case Attach():
                await self.attach(event)
            case Acknowledge(name, which, count):
                if name in self.unread:
                    await self.acknowledge(name, which, count)
            case Read(count, which):
                await self.read(count, which)
            case Crash():
                await self.crash()

    async def segments(self) -> tuple[Segment, ...]:
        return (await self.world.service.scalable.records.require(TOPIC)).layout.segments

    async def produce(self, key: str) -> None:
        layout = (await self.world.service.scalable.records.require(TOPIC)).layout
        segment = layout.find_active(zlib.crc32(key.encode()) & 0xFFFF)
        payload = f"{key}/{self.written[key]}"
        await self.world.write(TOPIC, segment, payload)
        self.written[key] += 1
        for unread in self.unread.values():
            unread.add(payload)

    async def split(self, which: int, doom: Doom | None) -> None:
        controller = await self.world.service.scalable.controller(TOPIC)
        active = controller.layout.active
        segment = active[which % len(active)]
        if segment.range.size > 1 and len(active) < SEGMENTS_MAX:
            await self.risk(lambda: controller.changes.split(segment.id), doom)

    async def merge(self, which: int, doom: Doom | None) -> None:
        controller = await self.world.service.scalable.controller(TOPIC)
        active = controller.layout.active
        if len(active) > 1:
            left = which % (len(active) - 1)
            pair = active[left].id, active[left + 1].id
            await self.risk(lambda: controller.changes.merge(*pair), doom)

    async def attach(self, event: Attach) -> None:
        segments = await self.segments()
        name = segments[event.which % len(segments)].name_in(TOPIC).full
        kept = set(await self.stored())

        async def act() -> None:
            begin = CommandSubscribe.Earliest if event.earliest else CommandSubscribe.Latest
            request = CommandSubscribe(
                topic=name,
                subscription=event.name,
                subType=CommandSubscribe.Shared,
                consumer_id=5,
                initialPosition=begin,
            )
            answer = await Client(self.world.place).ask(request, BaseCommand.SUCCESS)
            assert answer.type == BaseCommand.SUCCESS, answer

        died = await self.risk(act, event.doom)
        if event.name not in self.unread and not died:
            self.unread[event.name] = kept if event.earliest else set()
        elif event.name not in self.unread:  # nobody was told that it exists
            controller = await self.world.service.scalable.controller(TOPIC)
            await controller.subscriptions.delete(event.name, force=True)

    async def acknowledge(self, name: str, which: int, count: int) -> None:
        segments = await self.segments()
        await self.world.acknowledge(TOPIC, segments[which % len(segments)], name, count)
        left = set(await self.world.unread(TOPIC, name))
        assert left <= self.unread[name]
        assert len(self.unread[name] - left) <= count
        self.unread[name] = left

    async def read(self, count: int, which: int) -> None:
        """Read only where the coordinator says so; each message must be the next of its key."""
        for turn in range(count):
            given = await self.given()
            ready = [each for each in given if await self.next_of(each) is not None]
            if not ready:
                return
            segment = ready[(which + turn) % len(ready)]
            payload = await self.next_of(segment)
            assert payload is not None
            key, _, number = payload.partition("/")
            earlier = {f"{key}/{n}" for n in range(int(number))}
            assert earlier.isdisjoint(self.unread[STREAM]), f"{payload} came before {earlier}"
            await self.world.acknowledge(TOPIC, segment, STREAM, 1)
            self.unread[STREAM].discard(payload)

    async def given(self) -> list[Segment]:
        """What the two members of the stream subscription may read now."""
        client = await self.connected()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        found: list[int] = []
        for number, name in enumerate(("c1", "c2"), start=1):
            answer = await client.register(name, consumer_id=number, subscription=STREAM)
            found += segments_of(answer.assignment)
        assert len(found) == len(set(found)), "a segment is given twice"
        by_id = {each.id: each for each in await self.segments()}
        return [by_id[SegmentId(number)] for number in sorted(found)]

    async def connected(self) -> Client:
        if self.client is None:
            self.client = Client(self.world.place)
            for number, name in enumerate(("c1", "c2"), start=1):
                await self.client.register(name, consumer_id=number, subscription=STREAM)
        return self.client

    async def next_of(self, segment: Segment) -> str | None:
        live = await self.world.segment(TOPIC, segment)
        cursor = live.subscriptions[STREAM].cursor
        run = await live.log.reader.read(cursor.first_unacked(), 1, 1)
        return None if run is None else decode_entry(run.data[0])[1].decode()

    async def risk(self, act: Callable[[], Awaitable[object]], doom: Doom | None) -> bool:
        if doom is None:
            await act()
            return False
        self.world.doom.arm(doom.write, after=doom.after)
        died = await self.world.until_death(act)
        if died:
            await self.crash()
        return died

    async def crash(self) -> None:
        await self.world.crash()
        self.client = None
        await self.world.boot()

    # What holds

    async def check(self) -> None:
        record = await self.world.service.scalable.records.require(TOPIC)
        assert record.intent is None
        for name, unread in self.unread.items():
            assert sorted(await self.world.unread(TOPIC, name)) == sorted(unread), name

    async def stored(self) -> list[str]:
        """Everything the segments hold, parents before children."""
        found: list[str] = []
        for segment in await self.segments():
            found += await entries_of(await self.world.segment(TOPIC, segment))
        return found

    async def check_checkpoint(self) -> None:
        """A group of readers is given everything at once, and finds every key in order."""
        client = await self.connected()
        answer = await client.register(
            "r1", consumer_id=9, subscription=GROUP, kind=ConsumerKind.CHECKPOINT.value
        )
        segments = await self.segments()
        assert segments_of(answer.assignment) == sorted(each.id for each in segments)
        stored = await self.stored()
        for key in KEYS:
            numbers = [int(each.split("/")[1]) for each in stored if each.startswith(f"{key}/")]
            assert numbers == sorted(set(numbers))
        for unread in self.unread.values():
            assert unread <= set(stored)

    async def drain_stream(self) -> None:
        """Everything comes to be readable as what was before it is read."""
        for turn in range(2_000):
            if not self.unread[STREAM]:
                return
            await self.read(5, turn)
        raise AssertionError(f"never given: {sorted(self.unread[STREAM])}")


async def entries_of(topic: PersistentTopic) -> list[str]:
    found: list[str] = []
    position = topic.log.sequence.first_position
    while (run := await topic.log.reader.read(position, 100, 1 << 20)) is not None:
        found += [decode_entry(entry)[1].decode() for entry in run.data]
        position = Position(run.ledger_id, run.first + len(run))
    return found


async def play(history_events: list[Event], segments: int) -> None:
    history = History(await World.create())
    await history.world.service.scalable.create_topic(TOPIC, segments=segments)
    controller = await history.world.service.scalable.controller(TOPIC)
    await controller.subscriptions.create(STREAM, SubscriptionKind.STREAM)
    history.unread[STREAM] = set()
    for event in history_events:
        await history.play(event)
        await history.check()
    await history.check_checkpoint()
    await history.drain_stream()
    await history.check()
    await history.world.crash()


@settings(max_examples=150)
@given(st.lists(events, max_size=25), st.integers(1, 3))
def test_every_subscription_has_exactly_what_it_did_not_acknowledge_in_order_of_keys(
    history_events: list[Event], segments: int
) -> None:
    asyncio.run(play(history_events, segments))
