from __future__ import annotations

import asyncio

from magnetar.wire.command import BaseCommand, CommandAck, ServerError, message_id
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


def test_an_end_that_is_given_up_stores_nothing_behind_what_it_dropped() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        peer = place.connect()
        await peer.produce(TOPIC)
        place.ledgers.hold_creates()
        sending = [asyncio.ensure_future(peer.send(1))]
        await until(lambda: topic.log.flights.runs > 0)
        ending = asyncio.ensure_future(topic.termination.run())
        await until(lambda: topic.termination.is_under_way)
        sending.append(asyncio.ensure_future(peer.send(2)))
        await asyncio.sleep(0)
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        sending.append(asyncio.ensure_future(peer.send(3)))
        await asyncio.sleep(0)
        place.ledgers.release_creates()
        await until(lambda: peer.count(BaseCommand.CLOSE_PRODUCER) == 1)
        assert topic.log.sequence.total_entries == 1
        assert peer.count(BaseCommand.SEND_RECEIPT) == 1
        for each in sending:
            each.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
        await peer.produce(TOPIC, producer_id=2)
        await peer.send(3, producer_id=2)
        assert topic.log.sequence.total_entries == 4

    run(body)


def test_ending_a_topic_twice_is_the_same_as_once() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        first, second = await asyncio.gather(topic.termination.run(), topic.termination.run())
        assert first == second == await topic.termination.run()

    run(body)


def test_what_was_taken_is_answered_before_a_closing_topic_sends_its_producer_away() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        peer = place.connect()
        await peer.produce(TOPIC)
        place.ledgers.hold_creates()
        early = asyncio.ensure_future(peer.send(3))
        await until(lambda: topic.log.flights.runs > 0)
        closing = asyncio.ensure_future(place.service.catalog.unload_topic(topic.name))
        await until(lambda: topic.termination.is_under_way)
        late = asyncio.ensure_future(peer.send(2))
        for _ in range(20):
            await asyncio.sleep(0)
        assert peer.count(BaseCommand.CLOSE_PRODUCER) == 0
        place.ledgers.release_creates()
        await asyncio.gather(early, closing)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        kinds = [command.type for command in peer._wire.received]
        assert kinds[-4:] == [BaseCommand.SEND_RECEIPT] * 3 + [BaseCommand.CLOSE_PRODUCER]
        again = await place.topic(TOPIC)
        assert again is not topic
        assert again.log.sequence.total_entries == 3

    run(body)


def test_an_acknowledgement_that_comes_after_its_consumer_is_gone_is_answered() -> None:
    async def body(place: Place) -> None:
        ack = CommandAck(consumer_id=7, ack_type=CommandAck.Individual)
        answer = await place.connect().ask(ack, BaseCommand.ACK_RESPONSE)
        assert answer.ackResponse.consumer_id == 7
        assert answer.ackResponse.error == ServerError.ConsumerNotFound

    run(body)


def test_an_acknowledgement_is_answered_before_a_closing_topic_sends_its_consumer_away() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        peer = place.connect()
        await peer.produce(TOPIC)
        await peer.subscribe(TOPIC, "s", 1, consumer_id=7)
        await peer.send(1)
        await until(lambda: peer.count(BaseCommand.MESSAGE) == 1)
        place.ledgers.hold_creates()
        position = topic.log.sequence.last_position
        ack = CommandAck(consumer_id=7, ack_type=CommandAck.Individual, request_id=9)
        ack.message_id.append(message_id(position))
        peer.say(ack)
        closing = asyncio.ensure_future(place.service.catalog.unload_topic(topic.name))
        await until(lambda: topic.closed)
        place.ledgers.release_creates()
        await closing
        kinds = [command.type for command in peer._wire.received]
        assert kinds.index(BaseCommand.ACK_RESPONSE) < kinds.index(BaseCommand.CLOSE_CONSUMER)
        again = await place.topic(TOPIC)
        assert again.subscriptions["s"].backlog == 0

    run(body)
