"""What the consumers of segments tell the broker, and what they make of its refusals."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from magnetar import BackoffPolicy, Checkpoint, DeadLetterPolicy
from magnetar.client.client import AsyncPulsarClient
from magnetar.errors import WireCode
from magnetar.model.layout import Layout
from magnetar.model.name import parse_topic
from magnetar.model.scalable import AssignedSegment, ConsumerAssignment
from magnetar.model.segment import WHOLE, SegmentId
from magnetar.wire.command import (
    CommandMessage,
    MessageIdData,
    encode_payload_command,
    error,
    make_command,
)
from tests.unit.client.peer import Line, Type
from tests.unit.client.scalable_peer import TOPIC, number_of, scalable_peer
from tests.unit.client.test_stream import Seats, entry


async def open_kind(client: AsyncPulsarClient, kind: str, **options: Any) -> Any:
    if kind == "checkpoint":
        return await client.checkpoint_consumer(TOPIC, start=Checkpoint.EARLIEST, **options)
    factory = client.queue_consumer if kind == "queue" else client.stream_consumer
    return await factory(
        TOPIC, subscription="s", subscription_properties={"of": "the subscription"}, **options
    )


@pytest.mark.parametrize("kind", ["queue", "stream", "checkpoint"])
def test_properties_are_told_on_every_segment(kind: str) -> None:
    async def body() -> None:
        async with scalable_peer(3) as peer, peer.client() as client:
            Seats(peer)
            peer.assign(0, 1, 2)
            await open_kind(client, kind, properties={"of": "the consumer"})
            told = peer.broker.bodies(Type.SUBSCRIBE)
            assert {number_of(each.topic) for each in told} == {0, 1, 2}
            for each in told:
                assert {pair.key: pair.value for pair in each.metadata} == {"of": "the consumer"}
                found = {pair.key: pair.value for pair in each.subscription_properties}
                assert found == ({} if kind == "checkpoint" else {"of": "the subscription"})

    asyncio.run(body())


@pytest.mark.parametrize("kind", ["queue", "checkpoint"])
def test_a_segment_whose_topic_is_gone_is_passed_over(kind: str) -> None:
    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            reads = Seats(peer)

            def subscribe(line: Line, body: Any, _: bytes) -> None:
                if number_of(body.topic) == 0:
                    line.say(error(body.request_id, WireCode.TOPIC_NOT_FOUND, "deleted"))
                else:
                    reads.on_subscribe(line, body, _)

            peer.broker.on[Type.SUBSCRIBE] = subscribe
            consumer = await open_kind(client, kind)
            reads.deliver(1, 0, 1, 2)
            found = [(await consumer.receive(10)).data for _ in range(3)]
            assert found == [b"0", b"1", b"2"]

    asyncio.run(body())


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_a_topic_is_made_again_while_it_is_regular_and_by_no_consumer_once_it_is_scalable(
    kind: str,
) -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            peer.layout = Layout.synthetic(["persistent://public/default/t"], now_ms=0)
            topic = parse_topic("persistent://public/default/t")
            peer.assignment = ConsumerAssignment(
                0, (AssignedSegment(SegmentId(0), WHOLE, topic.full),)
            )
            await open_kind(client, kind)
            (first,) = await peer.broker.until(Type.SUBSCRIBE)

            async def attach_again() -> Any:
                """Returns when the client has its answer: cut off before, it would pause longer and
                longer between its attempts.
                """
                heard = len(peer.broker.bodies(Type.SUBSCRIBE))
                flows = len(peer.broker.bodies(Type.FLOW))
                for line in peer.broker.lines:
                    line.cut()
                while True:
                    heard += 1
                    body = (await peer.broker.until(Type.SUBSCRIBE, heard))[heard - 1]
                    if body.topic == topic.full:
                        await peer.broker.until(Type.FLOW, flows + 1)
                        return body

            again = await attach_again()
            assert first.force_topic_creation and again.force_topic_creation
            peer.publish(Layout.migrated([topic.full], now_ms=1))
            while (await attach_again()).force_topic_creation:
                pass  # it has not read the new layout yet
            assert not (await attach_again()).force_topic_creation

    asyncio.run(body())


def test_a_dead_letter_topic_that_could_not_be_reached_is_tried_again() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            reads = Seats(peer)
            attach = peer.broker.on[Type.PRODUCER]
            refusals: list[str] = []

            def on_producer(line: Line, body: Any, _: bytes) -> None:
                if refusals:
                    attach(line, body, _)
                else:
                    refusals.append(body.topic)
                    line.say(error(body.request_id, WireCode.AUTHORIZATION, "not yet"))

            def deliver_late() -> None:
                line, consumer_id = reads.held[SegmentId(0)]
                command = CommandMessage(
                    consumer_id=consumer_id,
                    message_id=MessageIdData(ledgerId=0, entryId=7),
                    redelivery_count=2,
                )
                line.write(encode_payload_command(make_command(command), entry(7)))

            peer.broker.on[Type.PRODUCER] = on_producer
            peer.broker.on[Type.REDELIVER_UNACKNOWLEDGED_MESSAGES] = lambda *_: deliver_late()
            await client.queue_consumer(
                TOPIC,
                subscription="s",
                dead_letter=DeadLetterPolicy(1),
                nack_backoff=BackoffPolicy.fixed(0.001),
                ack_group_time=0,
            )
            deliver_late()
            [ack] = await peer.broker.until(Type.ACK)
            assert refusals and ack.message_id[0].entryId == 7
            assert peer.stored[SegmentId(0)] == [("", 7)]  # the letter

    asyncio.run(body())


def test_an_acknowledgement_that_can_reach_nobody_is_not_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            reads = Seats(peer)
            queue = await client.queue_consumer(TOPIC, subscription="s")
            reads.deliver(0, 0)
            message = await queue.receive(10)
            assert message is not None
            elsewhere = replace(message.id, segment_id=SegmentId(9))
            await queue.acknowledge(elsewhere)

    asyncio.run(body())
    assert "segment is not attached" in caplog.text
