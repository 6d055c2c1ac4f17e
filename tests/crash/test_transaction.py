"""A broker dies at each single write of a transaction, before it and after it, or is refused it.

It, or the next broker, finds it committed as a whole or aborted as a whole: on both topics and on
the subscriptions, whatever kind of acknowledgement; and committed when the client was told so.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import NamedTuple

import pytest

from magnetar.errors import MagnetarError, StorageFailed
from magnetar.model.position import Position
from magnetar.model.transaction import Dropped, Finished, TransactionId
from magnetar.testing.simulation.loop import VirtualLoop
from tests.crash.world import World
from tests.unit.broker.broker_place import until
from tests.unit.broker.traffic import EXCLUSIVE, SHARED, TOPIC
from tests.unit.broker.transaction.transaction_place import ENABLED, TransactionClient, participant

OTHER = "persistent://shop/eu/bills"
WRITES_MAX = 80
SLOW_S = 20.0
FAULT = StorageFailed("no disk")


class Fate(NamedTuple):
    """What happens at one of the writes, and which writes are counted."""

    where: str
    what: str

    def arm(self, world: World, number: int) -> None:
        after, ledgers = self.what == "dies after", world.place.ledgers
        if self.where == "metadata":
            world.doom.arm(number, after=after, is_death=self.what != "is refused")
        elif self.what == "is refused":
            ledgers.fail_next(FAULT, after=number - 1)
        else:
            ledgers.dies_at = (ledgers.appends + number, after)

    def disarm(self, world: World, number: int) -> None:
        """What was to happen later does not."""
        world.place.ledgers.dies_at = None
        for _ in range(number):
            world.place.ledgers.take_fault()
        if not world.place.ledgers.killed:
            world.doom.arm(0, after=False)

    def has_struck(self, world: World, number: int, appends: int) -> bool:
        if self.where == "metadata":
            return len(world.doom.writes) >= number
        return world.place.ledgers.appends >= appends + number


FATES = [
    Fate(where, what)
    for where in ("ledger", "metadata")
    for what in ("dies before", "dies after", "is refused")
]


async def furnish(
    world: World, *, is_first: bool
) -> tuple[TransactionClient, list[tuple[int, int]]]:
    """Two topics, that have seen transactions or have not, and two messages and a batch to be
    acknowledged by one.
    """
    client = TransactionClient(world.service)
    await client.produce(TOPIC)
    await client.produce(OTHER, producer_id=2)
    await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
    await client.subscribe(TOPIC, "all", EXCLUSIVE, consumer_id=2)
    if is_first:
        await client.publish("kept")
        await client.publish("kept", producer_id=2)
    else:
        for is_commit, text in ((True, "kept"), (False, "gone")):
            id_ = await client.begin()
            for topic in (TOPIC, OTHER):
                assert await client.add_topic(id_, topic) is None
            await client.write(id_, text)
            await client.write(id_, text, producer_id=2)
            assert await client.end(id_, commit=is_commit) is None
    await client.publish("input")
    await client.publish_batch(["a", "b", "c"])
    found = await client.get(1, 3)
    await client.get(2, 3)
    return client, [each.position for each in found]


async def grow(world: World) -> None:
    """Let all journals be due for a snapshot."""
    much = "x" * (5 << 20)
    coordinator = await world.service.transactions.coordinator(0)
    await coordinator.journal.append(Finished(1 << 40, True, 0, much))
    for topic in (TOPIC, OTHER):
        journal = (await participant(world.place, topic)).journal
        assert journal is not None, "it has joined"
        await journal.append(Dropped(much))


async def transact(
    world: World,
    client: TransactionClient,
    inputs: list[tuple[int, int]],
    *,
    is_commit: bool,
    done: list[str],
) -> None:
    """As a client does: what is refused lets it give up."""
    id_: TransactionId = await client.begin()
    *single, batch = inputs
    for name in ("s", "all"):
        assert await client.add_subscription(id_, name) is None
    assert await client.ack_in(id_, 1, *single) is None
    assert await client.ack_in(id_, 1, batch, remaining=0b100, size=3) is None
    assert await client.ack_in(id_, 2, batch, cumulative=True) is None
    for producer_id, topic in ((1, TOPIC), (2, OTHER)):
        assert await client.add_topic(id_, topic) is None
        for text in ("new 1", "new 2"):
            written = await client.write(id_, text, producer_id=producer_id)
            assert isinstance(written, Position), "it was refused"
    await grow(world)
    done.append("written")
    if await client.end(id_, commit=is_commit) is None:
        done.append("ended")


async def check(
    world: World,
    batch: tuple[int, int],
    lasts: list[str],
    *,
    is_commit: bool,
    done: list[str],
) -> None:
    """Again with one more that is the last message."""
    lasts.append(f"last {len(lasts)}")
    last, judge = lasts[-1], f"judge {len(lasts)}"
    client = TransactionClient(world.service)
    for consumer_id, topic in ((1, TOPIC), (2, OTHER)):
        await client.subscribe(topic, judge, SHARED, consumer_id=consumer_id)
    await client.subscribe(TOPIC, "s", SHARED, consumer_id=3)
    await client.subscribe(TOPIC, "all", EXCLUSIVE, consumer_id=4)
    await client.produce(TOPIC)
    await client.produce(OTHER, producer_id=2)
    for producer_id in (1, 2):
        await client.publish(last, producer_id=producer_id)
    for consumer_id in (1, 2, 3, 4):
        await until(lambda at=consumer_id: last in client.texts(at))  # type: ignore[misc]

    def seen(consumer_id: int) -> list[str]:
        """Of the batch, which of its messages are left; None: all."""
        return [
            f"batch {each.remaining}" if each.position == batch else each.payload.decode()
            for each in client.deliveries(consumer_id)
        ]

    orders, bills, inputs, stream = map(seen, (1, 2, 3, 4))
    assert "gone" not in orders + bills
    is_whole = "new 1" in orders
    new = ["new 1", "new 2"] if is_whole else []
    old = ["kept", "input", "batch None"]
    assert orders == [*old, *new, *lasts]
    assert bills == ["kept", *new, *lasts]
    assert inputs == (["batch 4", *new, *lasts] if is_whole else [*old, *lasts])
    assert stream == ([*new, *lasts] if is_whole else [*old, *lasts])
    if not is_commit:
        assert not is_whole
    elif "ended" in done:
        assert is_whole, "committed, and lost"
    elif "written" not in done:
        assert not is_whole
    for topic in (TOPIC, OTHER):
        assert not (await participant(world.place, topic)).open_ids, "it has ended everywhere"
    coordinators = world.service.transactions.coordinators
    assert not any(each.state.transactions for each in coordinators.values())
    client.leave()


async def settle_all(world: World, seconds: float) -> None:
    """Time-outs pass, and what could not be stored is tried again."""
    world.clock.pass_s(3600)
    await asyncio.sleep(seconds)
    await world.service.transactions.look_round()
    await asyncio.sleep(1)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("fate", FATES, ids=" ".join)
def test_a_transaction_is_whole_whatever_happens_at_one_of_its_writes(
    fate: Fate, is_commit: bool, is_first: bool
) -> None:
    """Snapshots of all journals are among those."""

    async def body(number: int) -> bool:
        """Whether it has happened."""
        world = await World.create(**ENABLED)
        client, inputs = await furnish(world, is_first=is_first)
        await asyncio.sleep(0.5)  # nothing is left for later
        done: list[str] = []
        appends = world.place.ledgers.appends
        fate.arm(world, number)
        acting = asyncio.ensure_future(
            transact(world, client, inputs, is_commit=is_commit, done=done)
        )

        async def until_dead() -> None:
            while not world.place.ledgers.killed:
                await asyncio.sleep(0.001)

        dying = asyncio.ensure_future(until_dead())
        await asyncio.wait((acting, dying), return_when=asyncio.FIRST_COMPLETED, timeout=SLOW_S)
        await asyncio.sleep(1)  # what is on its way after the answer
        has_struck = fate.has_struck(world, number, appends)
        for task in (acting, dying):
            task.cancel()
        for problem in await asyncio.gather(acting, dying, return_exceptions=True):
            if isinstance(problem, Exception) and not isinstance(problem, MagnetarError):
                assert has_struck, problem
        fate.disarm(world, number)
        client.leave()
        lasts: list[str] = []
        if not world.place.ledgers.killed:
            await settle_all(world, 70)  # timers were set before
            await check(world, inputs[-1], lasts, is_commit=is_commit, done=done)
        await world.crash()
        world.clock.pass_s(3600)
        await world.boot(**ENABLED)
        await settle_all(world, 1)
        await check(world, inputs[-1], lasts, is_commit=is_commit, done=done)
        await world.crash()
        return has_struck

    def play(number: int) -> bool:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(Random(number))) as runner:
            return runner.run(body(number))

    number = 1
    while number < WRITES_MAX and play(number):
        number += 1
    assert 5 < number < WRITES_MAX, "it happened at each of the writes"


def test_ids_are_not_given_out_again_after_a_crash() -> None:
    async def body() -> None:
        world = await World.create(**ENABLED)
        client = TransactionClient(world.service)
        given = {await client.begin() for _ in range(3)}
        await world.crash()
        await world.boot(**ENABLED)
        client = TransactionClient(world.service)
        assert await client.begin() not in given
        await world.crash()

    asyncio.run(body())


def test_aborted_messages_stay_hidden_after_many_restarts() -> None:
    async def body() -> None:
        world = await World.create(**ENABLED)
        for number in range(4):
            client = TransactionClient(world.service)
            await client.produce(TOPIC)
            id_ = await client.begin()
            assert await client.add_topic(id_) is None
            await client.write(id_, f"gone {number}", in_metadata=number % 2 == 0)
            await client.abort(id_)
            await client.publish(f"kept {number}")
            await world.crash()
            await world.boot(**ENABLED)
        client = TransactionClient(world.service)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await client.get(1, 4)
        assert client.texts(1) == [f"kept {number}" for number in range(4)]
        await world.crash()

    asyncio.run(body())


def test_an_open_transaction_goes_on_after_a_crash() -> None:
    async def body() -> None:
        world = await World.create(**ENABLED)
        client = TransactionClient(world.service)
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        first = await client.publish("input")
        await client.get(1, 1)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        assert await client.add_subscription(id_, "s") is None
        await client.write(id_, "before", in_metadata=False)
        assert await client.ack_in(id_, 1, first) is None
        await world.crash()
        await world.boot(**ENABLED)
        client = TransactionClient(world.service)
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await client.write(id_, "after", sequence=1)
        await client.publish("plain", sequence=2)
        for _ in range(100):
            await asyncio.sleep(0)
        assert client.texts(1) == [], "nothing of it, and not what it acknowledges"
        await client.commit(id_)
        await client.get(1, 3)
        assert client.texts(1) == ["before", "after", "plain"]
        await world.crash()

    asyncio.run(body())
