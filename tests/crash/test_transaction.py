"""A broker dies at each single write of a transaction, before it and after it.

The next broker finds it committed as a whole or aborted as a whole: on both topics and on the
subscriptions, whatever kind of acknowledgement; and committed when the client was told so.
"""

from __future__ import annotations

import asyncio

import pytest

from magnetar.errors import MagnetarError
from magnetar.model.transaction import TransactionId
from tests.crash.world import World
from tests.unit.broker.broker_place import until
from tests.unit.broker.traffic import EXCLUSIVE, SHARED, TOPIC
from tests.unit.broker.transaction.transaction_place import ENABLED, TransactionClient

OTHER = "persistent://shop/eu/bills"
APPENDS_MAX = 60
SLOW_S = 20.0


async def furnish(world: World) -> tuple[TransactionClient, list[tuple[int, int]]]:
    """Two topics that have seen transactions, and two messages and a batch to be acknowledged by
    one.
    """
    client = TransactionClient(world.service)
    await client.produce(TOPIC)
    await client.produce(OTHER, producer_id=2)
    await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
    await client.subscribe(TOPIC, "all", EXCLUSIVE, consumer_id=2)
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


async def transact(
    client: TransactionClient, inputs: list[tuple[int, int]], *, is_commit: bool, done: list[str]
) -> None:
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
            await client.write(id_, text, producer_id=producer_id)
    done.append("written")
    if await client.end(id_, commit=is_commit) is None:
        done.append("ended")


async def check(world: World, batch: tuple[int, int], *, is_commit: bool, done: list[str]) -> None:
    client = TransactionClient(world.service)
    for consumer_id, topic in ((1, TOPIC), (2, OTHER)):
        await client.subscribe(topic, "judge", SHARED, consumer_id=consumer_id)
    await client.subscribe(TOPIC, "s", SHARED, consumer_id=3)
    await client.subscribe(TOPIC, "all", EXCLUSIVE, consumer_id=4)
    await client.produce(TOPIC)
    await client.produce(OTHER, producer_id=2)
    for producer_id in (1, 2):
        await client.publish("last", producer_id=producer_id)
    for consumer_id in (1, 2, 3, 4):
        await until(lambda at=consumer_id: "last" in client.texts(at))  # type: ignore[misc]

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
    assert orders == [*old, *new, "last"]
    assert bills == ["kept", *new, "last"]
    assert inputs == (["batch 4", *new, "last"] if is_whole else [*old, "last"])
    assert stream == ([*new, "last"] if is_whole else [*old, "last"])
    if not is_commit:
        assert not is_whole
    elif "ended" in done:
        assert is_whole, "committed, and lost"
    elif "written" not in done:
        assert not is_whole


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_is_whole_wherever_the_broker_dies(is_commit: bool, after: bool) -> None:
    async def body(number: int) -> bool:
        """Whether the broker died on the way."""
        world = await World.create(**ENABLED)
        client, inputs = await furnish(world)
        ledgers = world.place.ledgers
        ledgers.dies_at = (ledgers.appends + number, after)
        done: list[str] = []
        acting = asyncio.ensure_future(transact(client, inputs, is_commit=is_commit, done=done))

        async def until_dead() -> None:
            while not ledgers.killed:
                await asyncio.sleep(0)

        dying = asyncio.ensure_future(until_dead())
        await asyncio.wait((acting, dying), return_when=asyncio.FIRST_COMPLETED, timeout=SLOW_S)
        for _ in range(200):
            await asyncio.sleep(0)  # what is on its way after the answer
        is_dead = ledgers.killed
        for task in (acting, dying):
            task.cancel()
        for problem in await asyncio.gather(acting, dying, return_exceptions=True):
            if isinstance(problem, Exception) and not isinstance(problem, MagnetarError):
                assert is_dead, problem
        await world.crash()
        world.clock.pass_s(3600)
        await world.boot(**ENABLED)
        await check(world, inputs[-1], is_commit=is_commit, done=done)
        await world.crash()
        return is_dead

    number = 1
    while number < APPENDS_MAX and asyncio.run(body(number)):
        number += 1
    assert 5 < number < APPENDS_MAX, "it died at each of its writes"


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
