"""A segment goes from one reader to the next without either client knowing of the other."""

from __future__ import annotations

import asyncio

from magnetar.wire.command import BaseCommand, CommandSubscribe
from tests.unit.broker.broker_place import Place, run
from tests.unit.broker.scalable.group_place import Client, make_topic, segment, soon

WHOLE = "0000-ffff-0"
HALVES = ("0000-7fff-0", "8000-ffff-1")


def success_or_error(answer: BaseCommand) -> str:
    return BaseCommand.Type.Name(answer.type)


def test_the_new_reader_waits_for_the_old_one_to_leave() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 2)
        first, second = Client(place), Client(place)
        await first.register("a", consumer_id=1)
        for number, descriptor in enumerate(HALVES):
            await first.read(descriptor, "a", reader_id=10 + number)
        await second.register("b", consumer_id=2)
        (gained,) = second.assigned(2)[-1]
        coming = asyncio.ensure_future(second.read(HALVES[gained], "b", reader_id=20))
        await soon(lambda: gained not in first.assigned(1)[-1])
        await asyncio.sleep(0.01)
        assert not coming.done()
        await first.close_consumer(10 + gained)
        assert success_or_error(await coming) == "SUCCESS"

    run(body)


def test_an_old_reader_that_stays_is_told_again_that_it_is_to_go() -> None:
    async def body(place: Place) -> None:
        await make_topic(place, 2)
        first, second = Client(place), Client(place)
        await first.register("a", consumer_id=1)
        for number, descriptor in enumerate(HALVES):
            await first.read(descriptor, "a", reader_id=10 + number)
        await second.register("b", consumer_id=2)
        (gained,) = second.assigned(2)[-1]
        told = len(first.assigned(1))
        coming = asyncio.ensure_future(second.read(HALVES[gained], "b", reader_id=20))
        while len(first.assigned(1)) == told:  # until the limit of every test
            await asyncio.sleep(0.01)
        assert first.assigned(1)[-1] == first.assigned(1)[-2] == [1 - gained]
        await first.close_consumer(10 + gained)
        assert success_or_error(await coming) == "SUCCESS"

    run(body)


def test_a_reader_whose_client_gives_up_waiting_does_not_come_after_all() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        first, second = Client(place), Client(place)
        await first.register("a", consumer_id=1)
        await first.read(WHOLE, "a", reader_id=10)
        first.leave_group(1)
        await second.register("b", consumer_id=2)
        coming = asyncio.ensure_future(second.read(WHOLE, "b", reader_id=20))
        await soon(lambda: second.connection.consumers.is_coming(20))
        second.leave()
        await first.close_consumer(10)
        topic = await place.topic(segment(WHOLE))
        await soon(lambda: not topic.subscriptions["s"].consumers)
        coming.cancel()

    run(body)


def test_a_stranger_is_refused_at_once() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        client, stranger = Client(place), Client(place)
        await client.register("a", consumer_id=1)
        await client.read(WHOLE, "a", reader_id=10)
        answer = await stranger.read(WHOLE, "stranger", reader_id=20)
        assert success_or_error(answer) == "ERROR"

    run(body)


def test_a_stream_consumer_is_refused_where_a_queue_is_read() -> None:
    async def body(place: Place) -> None:
        await make_topic(place)
        queue, stream = Client(place), Client(place)
        shared = CommandSubscribe.Shared
        await queue.subscribe(segment(WHOLE), "s", shared, consumer_id=5)
        await stream.register("a", consumer_id=1)
        answer = await stream.read(WHOLE, "a", reader_id=10)
        assert success_or_error(answer) == "ERROR"

    run(body)
