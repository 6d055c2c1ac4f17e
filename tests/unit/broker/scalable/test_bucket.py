"""Consumers that share a segment by entry buckets: whole entries, and order in every bucket."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.wire.command import (
    BaseCommand,
    CommandFlow,
    CommandSend,
    CommandSubscribe,
    IntRange,
    KeySharedMeta,
    KeySharedMode,
    MessageMetadata,
    encode_payload_command,
    make_command,
)
from magnetar.wire.entry import encode_entry
from tests.unit.broker.broker_place import Place, run, until
from tests.unit.broker.scalable.group_place import Client, make_topic, segment

WHOLE = "0000-ffff-0"
FOUR = ((0, 0x3FFF), (0x4000, 0x7FFF), (0x8000, 0xBFFF), (0xC000, 0xFFFF))


async def share(
    client: Client,
    name: str,
    *,
    consumer_id: int,
    buckets: tuple[tuple[int, int], ...] = FOUR,
    by_bucket: bool = True,
) -> BaseCommand:
    meta = KeySharedMeta(
        keySharedMode=KeySharedMode.STICKY,
        hashRanges=[IntRange(start=first, end=last) for first, last in buckets],
        entryBucketDispatch=by_bucket,
    )
    request = CommandSubscribe(
        topic=segment(WHOLE),
        subscription="s",
        subType=CommandSubscribe.Key_Shared,
        consumer_id=consumer_id,
        consumer_name=name,
        initialPosition=CommandSubscribe.Earliest,
        keySharedMeta=meta,
    )
    answer = await client.ask(request, BaseCommand.SUCCESS)
    client.say(CommandFlow(consumer_id=consumer_id, messagePermits=100))
    return answer


async def send(client: Client, *entries: dict[str, Any]) -> None:
    """Publish entries with the given metadata over producer 1."""
    done = client.count(BaseCommand.SEND_RECEIPT) + len(entries)
    for index, fields in enumerate(entries):
        metadata = MessageMetadata(producer_name="p", sequence_id=index, publish_time=1, **fields)
        command = make_command(CommandSend(producer_id=1, sequence_id=index, num_messages=1))
        data = encode_payload_command(command, encode_entry(metadata, b"x"))
        client.connection.data_received(data)
    await until(lambda: client.count(BaseCommand.SEND_RECEIPT) == done)


def stamp(place: int) -> dict[str, Any]:
    return {"entry_hash_min": place, "entry_hash_max": place}


def entry_ids(client: Client, consumer_id: int) -> list[int]:
    return [entry_id for _, entry_id in client.messages(consumer_id)]


def test_an_entry_goes_to_the_owner_of_the_bucket_it_is_stamped_with() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        client = Client(place)
        await share(client, "b", consumer_id=1)
        await share(client, "a", consumer_id=2)
        await client.produce(segment(WHOLE))
        await send(client, stamp(0), stamp(0x7FFF), stamp(0x8000), stamp(0xFFFF))
        await until(lambda: len(entry_ids(client, 1)) + len(entry_ids(client, 2)) == 4)
        assert (entry_ids(client, 2), entry_ids(client, 1)) == ([0, 1], [2, 3])

    run(body)


def test_an_entry_without_a_stamp_goes_by_its_key() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        client = Client(place)
        await share(client, "a", consumer_id=1)
        await share(client, "b", consumer_id=2)
        await client.produce(segment(WHOLE))
        # Their hashes end in 69b2 and a18e.
        await send(client, {"partition_key": "a"}, {"partition_key": "order-42"})
        await until(lambda: len(entry_ids(client, 1)) + len(entry_ids(client, 2)) == 2)
        assert (entry_ids(client, 1), entry_ids(client, 2)) == ([0], [1])

    run(body)


def test_a_bucket_that_moves_waits_until_its_old_owner_has_acknowledged() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        client = Client(place)
        await share(client, "a", consumer_id=1)
        await client.produce(segment(WHOLE))
        await send(client, stamp(0x9000))
        await until(lambda: entry_ids(client, 1) == [0])
        await share(client, "b", consumer_id=2)  # owns the upper two buckets from now on
        await send(client, stamp(0x9000), stamp(0xC000))
        await until(lambda: entry_ids(client, 2) == [2])
        assert entry_ids(client, 1) == [0]
        client.ack(1, *client.messages(1))
        await until(lambda: entry_ids(client, 2) == [2, 1])

    run(body)


@pytest.mark.parametrize(
    "buckets",
    [
        ((0, 0xFFFF),),
        ((0, 0x3FFF), (0x4001, 0xFFFF)),
        ((0, 0x7FFF),),
        (),
    ],
)
def test_buckets_that_differ_or_do_not_tile_are_refused(
    buckets: tuple[tuple[int, int], ...],
) -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        client = Client(place)
        await share(client, "a", consumer_id=1)
        answer = await share(client, "b", consumer_id=2, buckets=buckets)
        assert answer.type == BaseCommand.ERROR
        assert answer.error.error == 19  # ConsumerAssignError
        assert (await share(client, "b", consumer_id=3)).type == BaseCommand.SUCCESS

    run(body)


def test_plain_key_shared_takes_no_notice_of_stamps() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        client = Client(place)
        halves = ((0, 0x7FFF),), ((0x8000, 0xFFFF),)
        for number, ranges in enumerate(halves):
            await share(
                client, f"c{number}", consumer_id=number + 1, buckets=ranges, by_bucket=False
            )
        await client.produce(segment(WHOLE))
        entry = {"partition_key": "a"}
        await send(client, entry, {**entry, **stamp(0)}, {**entry, **stamp(0xFFFF)})
        await until(lambda: sum(len(entry_ids(client, each)) for each in (1, 2)) == 3)
        assert sorted((entry_ids(client, 1), entry_ids(client, 2))) == [[], [0, 1, 2]]

    run(body)
