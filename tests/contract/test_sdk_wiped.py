"""Somebody throws the data of segments away by force: everyone goes on with what is left."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from magnetar import Checkpoint, Schema
from tests.contract.sdk_place import PATIENCE_S, SILENCE_S, Place


async def send(producer: Any, first: int, last: int) -> dict[str, int]:
    """Return the segment of each value."""
    ids = {}
    for number in range(first, last + 1):
        ids[str(number)] = await producer.send(str(number), key=f"k{number}")
    return {value: id.segment_id for value, id in ids.items()}


def wipe(place: Place, topic: str, number: int) -> None:
    segment = place.admin.scalable_topics.metadata(topic)["segments"][str(number)]
    span = segment["hashRange"]
    path = topic.removeprefix("topic://")
    descriptor = f"{span['start']:04x}-{span['end']:04x}-{number}"
    url = f"{place.admin_url}/admin/v2/segments/{path}/{descriptor}?force=true"
    try:
        answer = urlopen(Request(url, method="DELETE"))
    except HTTPError as elsewhere:  # another broker has the segment
        answer = urlopen(Request(elsewhere.headers["Location"], method="DELETE"))
    assert answer.status == 204


async def drain(consumer: Any, wanted: set[str], *, acknowledge: bool) -> list[str]:
    """Until all of these came, and whatever comes then without delay."""
    found: list[str] = []
    while message := await consumer.receive(SILENCE_S if wanted <= set(found) else PATIENCE_S):
        found.append(message.value)
        if acknowledge:
            await consumer.acknowledge_cumulative(message)
    assert wanted <= set(found)
    return found


async def open_all(stack: AsyncExitStack, client: Any, topic: str) -> list[tuple[Any, bool]]:
    options: dict[str, Any] = {"schema": Schema.STRING, "receiver_queue_size": 1}
    queue = await stack.enter_async_context(
        client.queue_consumer(topic, subscription="q", **options)
    )
    stream = await stack.enter_async_context(
        client.stream_consumer(topic, subscription="s", **options)
    )
    reader = await stack.enter_async_context(
        client.checkpoint_consumer(topic, start=Checkpoint.EARLIEST, schema=Schema.STRING)
    )
    return [(queue, False), (stream, True), (reader, False)]


@pytest.mark.parametrize("is_attached", [False, True], ids=["before they come", "under them"])
def test_consumers_of_every_kind_go_on_without_the_data_of_wiped_segments(
    place: Place, is_attached: bool
) -> None:
    if place.is_apache:
        pytest.skip("who deletes a segment there deletes the schemas of the whole topic")

    async def body() -> None:
        topic = place.create_topic(2)
        for name, kind in (("q", "QUEUE"), ("s", "STREAM")):
            place.admin.scalable_topics.create_subscription(topic, name, kind=kind)
        async with place.client() as client, AsyncExitStack() as stack:
            out = await stack.enter_async_context(client.producer(topic, schema=Schema.STRING))
            places = await send(out, 0, 29)
            await place.split(topic, 0)
            places |= await send(out, 30, 59)
            consumers = await open_all(stack, client, topic) if is_attached else []
            for number in (0, 1):  # the one is sealed, the other active
                await asyncio.to_thread(wipe, place, topic, number)
            later = await send(out, 60, 89)
            assert 1 in later.values()
            kept = {value for value, number in places.items() if number > 1} | later.keys()
            consumers = consumers or await open_all(stack, client, topic)
            for consumer, is_cumulative in consumers:
                found = await drain(consumer, kept, acknowledge=is_cumulative)
                if not is_attached:
                    assert sorted(found) == sorted(kept)

    asyncio.run(body())


def test_a_reader_passes_over_a_segment_whose_data_is_gone(place: Place) -> None:
    async def body() -> None:
        topic = place.create_topic(2)
        async with place.client() as client:
            async with client.producer(topic) as out:
                ids = [await out.send(b"%d" % number, key=str(number)) for number in range(20)]
            await asyncio.to_thread(wipe, place, topic, 0)
            async with client.checkpoint_consumer(topic, start=Checkpoint.EARLIEST) as reader:
                kept = [number for number, id in enumerate(ids) if id.segment_id == 1]
                assert 0 < len(kept) < 20
                messages = [await reader.receive(PATIENCE_S) for _ in kept]
                assert [int(message.data) for message in messages] == kept
                assert await reader.receive(SILENCE_S) is None

    asyncio.run(body())


def test_consumers_go_on_when_a_regular_topic_is_deleted_and_made_again(place: Place) -> None:
    async def body() -> None:
        namespace = place.create_namespace()
        async with place.client(operation_timeout=5) as client:
            for kind in ("queue", "stream"):
                topic = f"persistent://{namespace}/{kind}"
                async with client.producer(topic) as before:
                    await before.send(b"before")
                consumer = await getattr(client, f"{kind}_consumer")(
                    topic, subscription="s", initial_position="earliest"
                )
                assert (await consumer.receive(PATIENCE_S)).data == b"before"
                await asyncio.to_thread(place.admin.topics.delete, topic, force=True)
                async with client.producer(topic) as after:
                    await after.send(b"after")
                    assert (await consumer.receive(PATIENCE_S)).data == b"after"

    asyncio.run(body())
