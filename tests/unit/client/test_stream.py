from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import ConsumerBusyError, NotFoundError, PulsarTimeoutError
from magnetar.errors import WireCode
from magnetar.model.layout import Layout
from magnetar.model.segment import SegmentId
from magnetar.wire.command import (
    CommandAck,
    CommandReachedEndOfTopic,
    CommandScalableTopicSubscribeResponse,
    CommandSubscribe,
    MessageMetadata,
    ServerError,
    error,
    success,
)
from magnetar.wire.entry import encode_entry
from magnetar.wire.layout import encode_assignment
from tests.unit.client.peer import Line, Type
from tests.unit.client.scalable_peer import (
    QUICK,
    TOPIC,
    ScalablePeer,
    number_of,
    scalable_peer,
)
from tests.unit.client.test_producer_set import until


def entry(number: int) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
    return encode_entry(metadata, b"%d" % number)


class Seats:
    """Who subscribed to which segment, and a way to deliver to it."""

    def __init__(self, peer: ScalablePeer) -> None:
        self.held: dict[SegmentId, tuple[Line, int]] = {}
        self.history: list[SegmentId] = []
        peer.broker.on[Type.SUBSCRIBE] = self.on_subscribe
        peer.broker.on[Type.CLOSE_CONSUMER] = self.on_close

    def on_subscribe(self, line: Line, body: Any, _: bytes) -> None:
        number = number_of(body.topic)
        self.held[number] = (line, body.consumer_id)
        self.history.append(number)
        line.say(success(body.request_id))

    def on_close(self, line: Line, body: Any, _: bytes) -> None:
        for number, (_line, consumer_id) in tuple(self.held.items()):
            if consumer_id == body.consumer_id:
                del self.held[number]
        line.say(success(body.request_id))

    def deliver(self, segment: int, *entries: int) -> None:
        line, consumer_id = self.held[SegmentId(segment)]
        for number in entries:
            line.deliver(consumer_id, segment, number, entry(number))

    def end(self, segment: int) -> None:
        line, consumer_id = self.held[SegmentId(segment)]
        line.say(CommandReachedEndOfTopic(consumer_id=consumer_id))


def acknowledged(peer: ScalablePeer) -> list[tuple[int, int]]:
    bodies = peer.broker.bodies(Type.ACK)
    assert all(body.ack_type == CommandAck.Cumulative for body in bodies)
    return sorted((body.message_id[0].ledgerId, body.message_id[0].entryId) for body in bodies)


def test_a_message_is_acknowledged_with_all_that_was_received_before_it_and_no_more() -> None:
    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            reads = Seats(peer)
            peer.assign(0, 1)
            async with client.stream_consumer(
                TOPIC, subscription="s", ack_group_time=0
            ) as consumer:
                reads.deliver(0, 0, 1, 2)
                reads.deliver(1, 0, 1, 2)
                received = [await consumer.receive(10) for _ in range(4)]
                last = received[3]
                assert last is not None
                await consumer.acknowledge_cumulative(last)
                taken = {
                    number: max(
                        message.id.entry.entry_id
                        for message in received
                        if message is not None and message.id.segment_id == number
                    )
                    for number in (0, 1)
                }
                await peer.broker.until(Type.ACK, 2)
                assert acknowledged(peer) == sorted(taken.items())
                await consumer.acknowledge_cumulative(last)
                assert len(peer.broker.bodies(Type.ACK)) == 2

    asyncio.run(body())


def test_a_push_right_behind_the_answer_is_not_lost() -> None:
    """The reference listens only after it has handled the answer."""

    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            reads = Seats(peer)
            peer.assign(0)

            def register(line: Line, body: Any, _: bytes) -> None:
                peer.on_register(line, body, _)
                peer.assign(0, 1)

            peer.broker.on[Type.SCALABLE_TOPIC_SUBSCRIBE] = register
            async with client.stream_consumer(TOPIC, subscription="s"):
                await until(lambda: len(reads.held) == 2)

    asyncio.run(body())


def test_a_segment_that_is_taken_away_while_others_are_still_attached_is_closed() -> None:
    """Its next reader would be refused for as long as this consumer lives."""

    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            reads = Seats(peer)
            slow: list[Callable[[], None]] = []
            done = asyncio.Event()

            def subscribe(line: Line, body: Any, frame: bytes) -> None:
                if number_of(body.topic) == 1:
                    slow.append(partial(reads.on_subscribe, line, body, frame))
                else:
                    reads.on_subscribe(line, body, frame)

            async def consume() -> None:
                async with client.stream_consumer(TOPIC, subscription="s"):
                    await done.wait()

            peer.broker.on[Type.SUBSCRIBE] = subscribe
            peer.assign(0, 1)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(consume())
                await peer.broker.until(Type.FLOW, 1)
                await until(lambda: bool(slow))
                peer.assign(1)
                await until(lambda: not reads.held)
                slow[0]()
                await until(lambda: set(reads.held) == {1})
                done.set()

    asyncio.run(body())


def test_a_push_before_the_answer_is_as_good() -> None:
    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            reads = Seats(peer)

            def register(line: Line, body: Any, _: bytes) -> None:
                peer.registered.append((line, body))
                peer.assign(0, 1)
                response = CommandScalableTopicSubscribeResponse(request_id=body.request_id)
                response.assignment.CopyFrom(encode_assignment(peer.assignment))
                line.say(response)

            peer.broker.on[Type.SCALABLE_TOPIC_SUBSCRIBE] = register
            async with client.stream_consumer(TOPIC, subscription="s"):
                assert set(reads.held) == {0, 1}

    asyncio.run(body())


def test_a_broker_that_does_not_lead_is_asked_again() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            reads = Seats(peer)
            peer.assign(0)
            refusals = 0

            def register(line: Line, body: Any, _: bytes) -> None:
                nonlocal refusals
                if refusals == 2:
                    peer.on_register(line, body, _)
                    return
                refusals += 1
                response = CommandScalableTopicSubscribeResponse(
                    request_id=body.request_id,
                    error=ServerError.Name(WireCode.UNKNOWN),
                    message="not the leader",
                )
                line.say(response)

            peer.broker.on[Type.SCALABLE_TOPIC_SUBSCRIBE] = register
            async with client.stream_consumer(TOPIC, subscription="s"):
                assert set(reads.held) == {0}

    asyncio.run(body())


def test_a_controller_that_never_answers_is_given_up_in_time() -> None:
    async def body() -> None:
        async with scalable_peer() as peer:
            del peer.broker.on[Type.SCALABLE_TOPIC_SUBSCRIBE]
            async with AsyncPulsarClient(
                peer.broker.url, operation_timeout=0.05, connection=QUICK
            ) as client:
                with pytest.raises(PulsarTimeoutError):
                    await client.stream_consumer(TOPIC, subscription="s")

    asyncio.run(body())


def test_a_lost_registration_is_made_again_under_the_same_name() -> None:
    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            reads = Seats(peer)
            peer.assign(0)
            async with client.stream_consumer(TOPIC, subscription="s", name="me"):
                line, first = peer.registered[0]
                watch_line = peer.watches[0][0]
                assert line is not watch_line, "registration has a connection of its own"
                peer.assign(0, 1)
                line.cut()
                await until(lambda: len(peer.registered) == 2)
                second = peer.registered[1][1]
                assert (first.consumer_name, first.topic) == ("me", TOPIC)
                assert (second.consumer_name, second.consumer_id) == ("me", first.consumer_id)
                await until(lambda: set(reads.held) == {0, 1})

    asyncio.run(body())


def test_a_busy_segment_is_tried_until_it_is_free() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            reads = Seats(peer)
            peer.assign(0)
            refusals = 0

            def subscribe(line: Line, body: Any, _: bytes) -> None:
                nonlocal refusals
                refusals += 1
                if refusals < 3:
                    line.say(error(body.request_id, WireCode.CONSUMER_BUSY, "taken"))
                else:
                    reads.on_subscribe(line, body, _)

            peer.broker.on[Type.SUBSCRIBE] = subscribe
            async with client.stream_consumer(TOPIC, subscription="s"):
                assert refusals == 3

    asyncio.run(body())


def test_a_segment_that_stays_busy_is_an_error_in_time() -> None:
    async def body() -> None:
        async with scalable_peer() as peer:
            peer.assign(0)
            peer.broker.on[Type.SUBSCRIBE] = lambda line, body, _: line.say(
                error(body.request_id, WireCode.CONSUMER_BUSY, "taken")
            )
            async with AsyncPulsarClient(
                peer.broker.url, operation_timeout=0.05, connection=QUICK
            ) as client:
                with pytest.raises(ConsumerBusyError):
                    await client.stream_consumer(TOPIC, subscription="s")
            assert len(peer.registered) == 1

    asyncio.run(body())


def test_a_segment_moves_away_once_what_was_received_of_it_is_acknowledged() -> None:
    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            reads = Seats(peer)
            peer.assign(0, 1)
            async with client.stream_consumer(TOPIC, subscription="s") as consumer:
                reads.deliver(0, 0, 1)
                message = await consumer.receive(10)
                assert message is not None and message.segment_id == 0
                peer.assign(1)
                await until(lambda: consumer.stats.segments[TOPIC] == (1,))
                assert consumer.receive_nowait() is None, "the rest goes to the next owner"
                await asyncio.sleep(0.02)
                assert set(reads.held) == {0, 1}
                await consumer.acknowledge_cumulative(message)
                await until(lambda: set(reads.held) == {1})
                assert acknowledged(peer) == [(0, 0)]

    asyncio.run(body())


def test_a_segment_that_nobody_acknowledges_is_released_at_the_timeout() -> None:
    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            reads = Seats(peer)
            peer.assign(0, 1)
            async with client.stream_consumer(
                TOPIC, subscription="s", release_timeout=0.02
            ) as consumer:
                reads.deliver(0, 0)
                await consumer.receive(10)
                peer.assign(1)
                await until(lambda: set(reads.held) == {1})

    asyncio.run(body())


def test_a_sealed_child_waits_for_its_sealed_parent() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            reads = Seats(peer)
            peer.layout = peer.layout.split(SegmentId(0), now_ms=1)
            peer.layout = peer.layout.split(SegmentId(1), now_ms=2)
            peer.assign(0, 1)
            async with client.stream_consumer(TOPIC, subscription="s"):
                assert set(reads.held) == {0}
                reads.end(0)
                await until(lambda: set(reads.held) == {0, 1})

    asyncio.run(body())


def test_a_segment_that_was_pruned_is_left_out() -> None:
    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            reads = Seats(peer)
            peer.assign(0, 1)

            def subscribe(line: Line, body: Any, _: bytes) -> None:
                if number_of(body.topic) == 0:
                    line.say(error(body.request_id, WireCode.TOPIC_NOT_FOUND, "pruned"))
                else:
                    reads.on_subscribe(line, body, _)

            peer.broker.on[Type.SUBSCRIBE] = subscribe
            async with client.stream_consumer(TOPIC, subscription="s") as consumer:
                assert set(reads.held) == {1}
                reads.deliver(1, 0)
                assert await consumer.receive(10) is not None

    asyncio.run(body())


def test_a_topic_that_is_gone_for_good_ends_the_consumer() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            Seats(peer)
            peer.assign(0)
            async with client.stream_consumer(TOPIC, subscription="s") as consumer:

                def refuse(line: Line, body: Any, _: bytes) -> None:
                    peer.watches.append((line, body.session_id))
                    peer.refuse_watch(WireCode.TOPIC_NOT_FOUND)

                peer.broker.on[Type.SCALABLE_TOPIC_LOOKUP] = refuse
                peer.registered[0][0].cut()
                with pytest.raises(NotFoundError):
                    await consumer.receive(10)

    asyncio.run(body())


def test_a_regular_topic_of_apache_pulsar_that_becomes_scalable_is_consumed_on() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            peer.version = "Pulsar Server5.0.0-M1"
            reads = Seats(peer)
            parts = [f"persistent://public/default/t-partition-{index}" for index in range(2)]
            peer.layout = Layout.synthetic(parts, now_ms=0)
            async with client.stream_consumer(
                "persistent://public/default/t", subscription="s", name="me"
            ) as consumer:
                subscribed = peer.broker.bodies(Type.SUBSCRIBE)
                assert {each.topic for each in subscribed} == set(parts)
                assert {each.subType for each in subscribed} == {CommandSubscribe.Failover}
                assert all(
                    {pair.key: pair.value for pair in each.metadata}["__pulsar.v5.managed"]
                    == "true"
                    for each in subscribed
                )
                reads.deliver(0, 0)
                message = await consumer.receive(10)
                assert message is not None and message.topic == TOPIC
                await consumer.acknowledge_cumulative(message)
                peer.layout = Layout.migrated(parts, now_ms=1)
                peer.assign(0, 1)
                peer.publish(peer.layout)
                later = await peer.broker.until(Type.SUBSCRIBE, 4)
                assert [each.subType for each in later[2:]] == [CommandSubscribe.Exclusive] * 2
                assert [each.topic for _, each in peer.registered] == [TOPIC]
                await until(lambda: set(reads.held) == {0, 1})
                for number in (0, 1):
                    reads.end(number)
                peer.assign(0, 1, 2, 3)
                await until(lambda: set(reads.held) == {0, 1, 2, 3})

    asyncio.run(body())


def test_one_that_leaves_says_so_and_one_that_is_cut_off_does_not() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            Seats(peer)
            peer.assign(0)
            async with client.stream_consumer(TOPIC, subscription="s", name="me"):
                peer.registered[0][0].cut()
                await until(lambda: len(peer.registered) == 2)
                ids = [body.consumer_id for _, body in peer.registered]
            closed = await peer.broker.until(Type.CLOSE_CONSUMER, 2)
            # By the second registration, at its end.
            assert [each.consumer_id for each in closed].count(ids[0]) == 1

    asyncio.run(body())
