"""V5 producers of a regular topic place keys as its v4 producers do."""

from __future__ import annotations

import pytest

from magnetar.model.name import TopicName
from magnetar.rules.route import KeyHash, route_partition
from magnetar.wire.command import unknown_bytes
from magnetar.wire.layout import decode_layout
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.group_place import Client
from tests.unit.broker.scalable.migration_place import (
    NAME,
    REGULAR,
    TOPIC,
    Follower,
    make_regular,
    migrate,
    parts,
)

PARTITIONS = 4
KEYS = [f"customer-{number}" for number in range(24)]


async def send_as(place: Place, hashing: KeyHash, keys: list[str] = KEYS) -> Client:
    """A v4 client that places keys by this hash, and stays attached."""
    peer = Client(place)
    for index, part in enumerate(parts(REGULAR, PARTITIONS)):
        own = [k for k in keys if route_partition(k, PARTITIONS, hashing=hashing) == index]
        await peer.produce(part, producer_id=index + 1, producer_name="p")
        if own:
            await peer.send(len(own), producer_id=index + 1, keys=own.__getitem__)
    return peer


async def ask(place: Place) -> tuple[Client, str]:
    client = Follower(place)
    client.look_up(1, REGULAR)
    await until(lambda: bool(client.layouts(1)))
    return client, decode_layout(client.layouts(1)[-1]).key_hash


async def properties(place: Place, name: TopicName = NAME) -> dict[str, str]:
    stored = await place.service.resources.partitioned.get(name)
    assert stored is not None
    return dict(stored.properties or {})


@pytest.mark.parametrize("hashing", list(KeyHash))
def test_the_hash_of_v4_producers_is_found_told_and_remembered(hashing: KeyHash) -> None:
    async def body(place: Place) -> None:
        await make_regular(place, PARTITIONS)
        peer = await send_as(place, hashing)
        assert (await ask(place))[1] == hashing.value
        assert await properties(place) == {"magnetar.keyHashSeen": hashing.value}
        peer.leave()
        assert (await ask(place))[1] == hashing.value

    run(body)


def test_nothing_is_told_when_nothing_is_known() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, PARTITIONS)
        client, told = await ask(place)
        assert told == "" and unknown_bytes(client.layouts(1)[0], 1000) is None
        assert await properties(place) == {}

    run(body)


def test_what_v5_producers_send_says_nothing_of_v4_producers() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, PARTITIONS)
        follower = Follower(place)
        for index, part in enumerate(parts(REGULAR, PARTITIONS)):
            await follower.attach_producer(part, producer_id=index + 1)
            own = [k for k in KEYS if route_partition(k, PARTITIONS) == index]
            if own:
                await follower.send(len(own), producer_id=index + 1, keys=own.__getitem__)
        assert (await ask(place))[1] == ""

    run(body)


def test_v4_producers_that_come_later_are_seen_and_told_to_those_who_watch() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, PARTITIONS)
        client, told = await ask(place)
        assert told == ""
        await send_as(place, KeyHash.JAVA_STRING)
        await place.service.scalable.run_round()
        await until(lambda: len(client.layouts(1)) > 1)
        assert decode_layout(client.layouts(1)[-1]).key_hash == "java-string"

    run(body)


def test_an_operator_has_the_last_word() -> None:
    async def body(place: Place) -> None:
        wanted = {"magnetar.keyHash": "murmur3"}
        await place.service.resources.partitioned.create(NAME, PARTITIONS, wanted)
        await send_as(place, KeyHash.JAVA_STRING)
        assert (await ask(place))[1] == "murmur3"
        assert await properties(place) == wanted

    run(body)


def test_a_rehearsal_warns_when_v4_producers_disagree() -> None:
    async def body(place: Place) -> None:
        await make_regular(place, PARTITIONS)
        rehearse = place.service.scalable.migrations.rehearse
        first = await send_as(place, KeyHash.JAVA_STRING)
        assert (await rehearse(NAME)).notes == ()
        first.leave()  # a name is one producer's
        second = await send_as(place, KeyHash.MURMUR3, [f"other-{n}" for n in range(24)])
        (note,) = (await rehearse(NAME)).notes
        assert "disagree on the partition of a key" in note
        assert "by java-string" in note and "by murmur3" in note
        second.leave()
        await migrate(place)
        assert (await place.service.scalable.records.require(TOPIC)).properties == {}

    run(body)
