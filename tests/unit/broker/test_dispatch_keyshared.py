"""Key_Shared: one consumer at a time for a key, in order, and nothing left in the books."""

from __future__ import annotations

import pytest

from magnetar.broker.consumer import Consumer
from magnetar.rules.dispatch.keyshared import KeyShared
from magnetar.rules.dispatch.selector import RingSelector
from magnetar.wire.command import (
    BaseCommand,
    CommandSubscribe,
    IntRange,
    KeySharedMeta,
    KeySharedMode,
    ServerError,
)
from tests.unit.broker.broker_place import Place, run, run_virtually, until
from tests.unit.broker.traffic import KEY_SHARED, TOPIC, Client, settle

DEAF = {"connectionLivenessCheckTimeoutMillis": 1}


async def fill(place: Place, *keys: str) -> Client:
    client = Client(place.service)
    await client.produce(TOPIC)
    await publish(client, *keys)
    return client


async def publish(client: Client, *keys: str) -> None:
    for key in keys:
        await client.publish(f"{key}{len(client.received(BaseCommand.SEND_RECEIPT))}", key=key)


async def machine_of(place: Place) -> KeyShared[Consumer]:
    dispatcher = (await place.topic(TOPIC)).subscriptions["s"].dispatcher
    assert dispatcher is not None and isinstance(dispatcher.machine, KeyShared)
    return dispatcher.machine


async def join(
    client: Client, consumer_id: int, *, permits: int = 100, **more: object
) -> BaseCommand:
    return await client.subscribe(
        TOPIC, "s", KEY_SHARED, consumer_id=consumer_id, permits=permits, **more
    )


def sticky(*ranges: tuple[int, int]) -> KeySharedMeta:
    return KeySharedMeta(
        keySharedMode=KeySharedMode.STICKY,
        hashRanges=[IntRange(start=first, end=last) for first, last in ranges],
    )


def is_clean(machine: KeyShared[Consumer]) -> bool:
    """Nothing is out, waits, or is remembered."""
    return not (
        machine._slots
        or machine._holders
        or machine._waiting
        or machine.redeliveries
        or len(machine.replay)
        or machine.unacked
    )


def keys_of(place_consumers: dict[int, str]) -> RingSelector[int]:
    """The ring as the broker has it with these consumers."""
    ring: RingSelector[int] = RingSelector()
    for consumer_id, name in place_consumers.items():
        ring = ring.add(consumer_id, name=name)
    return ring


def key_owned_by(consumer_id: int, among: tuple[int, ...]) -> str:
    ring = keys_of({each: f"s-{each}" for each in among})
    return next(
        key
        for key in (f"k{number}" for number in range(1000))
        if ring.owner(ring.slot_of(key.encode())) == consumer_id
    )


def test_a_key_goes_to_the_owner_of_its_slot() -> None:
    async def body(place: Place) -> None:
        keys = [f"k{number}" for number in range(20)]
        client = await fill(place)
        await join(client, 1)
        await join(client, 2)
        await publish(client, *keys, *keys)
        await until(lambda: len(client.texts(1)) + len(client.texts(2)) == 40)
        ring = keys_of({1: "s-1", 2: "s-2"})
        for consumer_id in (1, 2):
            owned = [key for key in keys if ring.owner(ring.slot_of(key.encode())) == consumer_id]
            assert [each.key for each in client.deliveries(consumer_id)] == owned * 2

    run(body)


def test_a_key_that_moves_waits_until_its_old_consumer_is_done() -> None:
    async def body(place: Place) -> None:
        moving = key_owned_by(2, (1, 2))
        client = await fill(place, moving, moving)
        await join(client, 1)
        first, second = await client.get(1, 2)
        await join(client, 2)
        await publish(client, moving, moving)
        await client.get(2, 0)
        machine = await machine_of(place)
        (slots,) = machine.draining().values()
        assert [count for _, count in slots] == [2]
        client.ack(1, first.position)
        await client.get(2, 0)
        client.ack(1, second.position)
        got = await client.get(2, 2)
        assert not machine.draining()
        client.ack(2, *(each.position for each in got))
        assert is_clean(machine)

    run(body)


def test_what_a_consumer_leaves_goes_first_to_the_next_owner() -> None:
    async def body(place: Place) -> None:
        key = key_owned_by(1, (1, 2))
        client = await fill(place, key, key, key)
        await join(client, 1, permits=2)
        await client.get(1, 2)
        await join(client, 2)
        await settle()
        await client.close_consumer(1)
        got = await client.get(2, 3)
        assert [each.payload.decode() for each in got] == [f"{key}{index}" for index in range(3)]

    run(body)


def test_a_key_whose_consumer_has_no_permits_does_not_hold_the_others() -> None:
    async def body(place: Place) -> None:
        slow, fast = key_owned_by(1, (1, 2)), key_owned_by(2, (1, 2))
        client = await fill(place)
        await join(client, 1, permits=1)
        await join(client, 2)
        await publish(client, slow, slow, fast, slow, fast)
        await client.get(2, 2)
        await client.get(1, 1)
        client.flow(1, 1)
        await client.get(1, 2)
        await publish(client, slow)
        client.flow(1, 10)
        await client.get(1, 4)
        order = [int(text[len(slow) :]) for text in client.texts(1)]
        assert order == sorted(order)

    run(body)


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1])
def test_what_waits_is_read_in_pieces_and_stays_in_order(cache_bytes: int) -> None:
    async def body(place: Place) -> None:
        key, other = key_owned_by(1, (1, 2)), key_owned_by(2, (1, 2))
        client = await fill(place)
        await join(client, 1, permits=1)
        await join(client, 2, permits=1000)
        for index in range(12):  # more than one read takes
            await client.publish(f"{index:02}" + "x" * 200_000, key=key)
        await client.publish("other", key=other)
        for index in range(12, 15):
            await client.publish(f"{index:02}", key=key)
        await client.get(2, 1)
        client.flow(1, 100)
        await client.get(1, 15)
        assert [text[:2] for text in client.texts(1)] == [f"{index:02}" for index in range(15)]

    run(body, cache_bytes=cache_bytes)


def test_skipping_what_waits_leaves_nothing_in_the_books() -> None:
    async def body(place: Place) -> None:
        key = key_owned_by(1, (1, 2))
        client = await fill(place)
        await join(client, 1, permits=1)
        await join(client, 2)
        await publish(client, key, key, key)
        await client.get(1, 1)
        machine = await machine_of(place)
        assert len(machine.replay) == 2
        await (await place.topic(TOPIC)).subscriptions["s"].skip_all()
        assert is_clean(machine)
        client.flow(1, 10)
        await publish(client, key)
        await client.get(1, 2)
        assert not len(machine.replay)

    run(body)


def test_an_entry_given_back_twice_in_one_command_counts_once() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a")
        await join(client, 1)
        (got,) = await client.get(1, 1)
        client.redeliver(1, got.position, got.position)
        again = await client.get(1, 2)
        assert again[1].redelivery_count == 1
        client.ack(1, got.position)
        assert is_clean(await machine_of(place))

    run(body)


def test_an_entry_acknowledged_while_it_waits_makes_way() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a", "a")
        await join(client, 1, permits=2)
        first, second = await client.get(1, 2)
        client.redeliver(1, first.position)
        client.ack(1, first.position)
        client.ack(1, second.position)
        await settle()
        machine = await machine_of(place)
        assert is_clean(machine)
        client.flow(1, 5)
        await publish(client, "a")
        await client.get(1, 3)

    run(body)


def test_a_delayed_entry_does_not_free_the_way_for_what_waits() -> None:
    async def body(place: Place) -> None:
        key = key_owned_by(1, (1, 2))
        client = await fill(place)
        await join(client, 1, permits=1)
        await join(client, 2)
        due_ms = place.clock.now_ms() + 60_000
        await client.publish("late", key=key, deliver_at_time=due_ms)
        await client.publish("first", key=key)
        await client.publish("second", key=key)  # waits for permits
        await client.get(1, 1)
        machine = await machine_of(place)
        place.clock.pass_s(61)
        client.flow(1, 1)
        await client.get(1, 2)
        assert client.texts(1) == ["first", "late"]
        await client.publish("third", key=key)
        client.flow(1, 10)
        await client.get(1, 4)
        assert client.texts(1)[2:] == ["second", "third"]
        client.ack(1, *(each.position for each in client.deliveries(1)))
        assert is_clean(machine)

    run(body)


def test_out_of_order_delivery_does_not_wait_for_the_old_consumer() -> None:
    async def body(place: Place) -> None:
        moving = key_owned_by(2, (1, 2))
        loose = KeySharedMeta(keySharedMode=KeySharedMode.AUTO_SPLIT, allowOutOfOrderDelivery=True)
        client = await fill(place, moving)
        await join(client, 1, keySharedMeta=loose)
        (got,) = await client.get(1, 1)
        await join(client, 2, keySharedMeta=loose)
        await publish(client, moving)
        (other,) = await client.get(2, 1)
        client.ack(1, got.position)
        client.ack(2, other.position)
        assert is_clean(await machine_of(place))
        refused = await join(client, 3)
        assert refused.error.error == ServerError.ConsumerBusy

    run(body)


# ---------------------------------------------------------------------- ranges that are asked for


def test_ranges_that_overlap_are_refused_while_their_holder_lives() -> None:
    async def body(place: Place) -> None:
        client, other = await fill(place), Client(place.service)
        await join(client, 1, keySharedMeta=sticky((0, 30_000)))
        refused = await join(other, 1, keySharedMeta=sticky((20_000, 65_535)))
        assert refused.error.error == ServerError.ConsumerAssignError
        none = await join(other, 2, keySharedMeta=sticky())
        assert none.error.error == ServerError.ConsumerAssignError
        fits = await join(other, 3, keySharedMeta=sticky((30_001, 65_535)))
        assert fits.type == BaseCommand.SUCCESS

    run(body)


def test_ranges_of_a_holder_that_is_gone_without_a_word_are_free() -> None:
    async def body(place: Place) -> None:
        client, other = await fill(place, "a", "b"), Client(place.service)
        await join(client, 1, permits=1, keySharedMeta=sticky((0, 65_535)))
        await client.get(1, 1)
        client.fall_silent()
        answer = await join(other, 1, permits=10, keySharedMeta=sticky((0, 65_535)))
        assert answer.type == BaseCommand.SUCCESS
        await other.get(1, 2)
        assert client.is_cut_off

    run_virtually(body, **DEAF)


def test_slots_that_nobody_asked_for_stay_undelivered_until_somebody_does() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a", "key-1", "a")  # slots 27058 and 5536
        await join(client, 1, keySharedMeta=sticky((0, 10_000)))
        await client.get(1, 1)
        await join(client, 2, keySharedMeta=sticky((10_001, 65_535)))
        await client.get(2, 2)
        assert client.texts(1) == ["key-11"] and client.texts(2) == ["a0", "a2"]

    run(body)


def test_the_mode_may_change_when_nobody_is_attached() -> None:
    async def body(place: Place) -> None:
        client = await fill(place, "a", "b")
        await join(client, 1, permits=1, keySharedMeta=sticky((0, 65_535)))
        await client.get(1, 1)
        busy = await join(client, 2)
        assert busy.error.error == ServerError.ConsumerBusy
        await client.close_consumer(1)
        await join(client, 3)
        await client.get(3, 2)
        await client.close_consumer(3)
        exclusive = await client.subscribe(TOPIC, "s", CommandSubscribe.Exclusive, consumer_id=4)
        assert exclusive.type == BaseCommand.SUCCESS
        await client.get(4, 2)

    run(body)
