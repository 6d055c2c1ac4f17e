from __future__ import annotations

import asyncio

from magnetar.wire.command import BaseCommand
from tests.unit.broker.broker_place import Place, run, until

TOPIC = "persistent://shop/eu/orders"
TERMINATED = 15


def test_what_was_taken_is_answered_before_the_producer_is_sent_away() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        peer = place.connect()
        await peer.produce(TOPIC)
        place.ledgers.hold_creates()
        sending = asyncio.ensure_future(peer.send(3))
        ending = asyncio.ensure_future(topic.termination.run())
        await until(lambda: topic.termination.is_under_way)
        assert peer.count(BaseCommand.CLOSE_PRODUCER) == 0
        place.ledgers.release_creates()
        await asyncio.gather(sending, ending)
        kinds = [command.type for command in peer._wire.received]
        assert kinds[-4:] == [BaseCommand.SEND_RECEIPT] * 3 + [BaseCommand.CLOSE_PRODUCER]

    run(body)


def test_what_comes_while_a_topic_ends_is_neither_stored_nor_answered() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        peer = place.connect()
        await peer.produce(TOPIC)
        place.ledgers.hold_creates()
        early = asyncio.ensure_future(peer.send(1))
        await until(lambda: topic.log.flights.runs > 0)
        ending = asyncio.ensure_future(topic.termination.run())
        await until(lambda: topic.termination.is_under_way)
        late = asyncio.ensure_future(peer.send(2))
        await asyncio.sleep(0)
        place.ledgers.release_creates()
        await asyncio.gather(early, ending)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        assert topic.log.sequence.total_entries == 1
        assert peer.count(BaseCommand.SEND_RECEIPT) == 1
        assert peer.count(BaseCommand.SEND_ERROR) == 0

    run(body)


def test_a_producer_that_comes_while_a_topic_ends_hears_the_outcome() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        first, second = place.connect(), place.connect()
        await first.produce(TOPIC)
        place.ledgers.hold_creates()
        sending = asyncio.ensure_future(first.send(1))
        await until(lambda: topic.log.flights.runs > 0)
        ending = asyncio.ensure_future(topic.termination.run())
        await until(lambda: topic.termination.is_under_way)
        coming = asyncio.ensure_future(second.produce(TOPIC))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not coming.done()
        place.ledgers.release_creates()
        await asyncio.gather(sending, ending)
        answer = await coming
        assert answer.error.error == TERMINATED

    run(body)


def test_a_producer_that_leaves_without_its_answers_does_not_hold_the_end_up() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        peer = place.connect()
        await peer.produce(TOPIC)
        place.ledgers.hold_creates()
        sending = asyncio.ensure_future(peer.send(1))
        await until(lambda: topic.log.flights.runs > 0)
        ending = asyncio.ensure_future(topic.termination.run())
        await until(lambda: topic.termination.is_under_way)
        peer.leave()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        place.ledgers.release_creates()
        await ending
        assert topic.log.record.terminated is not None

    run(body)


def test_ending_a_topic_twice_is_the_same_as_once() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        first, second = await asyncio.gather(topic.termination.run(), topic.termination.run())
        assert first == second == await topic.termination.run()

    run(body)
