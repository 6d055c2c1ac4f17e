from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from magnetar.client.error import (
    AlreadyClosedError,
    SchemaError,
    TopicTerminatedError,
)
from magnetar.client.policy import BatchingPolicy
from magnetar.errors import WireCode
from magnetar.model.layout import Layout
from magnetar.model.segment import SegmentId
from magnetar.wire.command import error
from tests.unit.client.peer import Line, Type
from tests.unit.client.scalable_peer import TOPIC, ScalablePeer, scalable_peer


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_what_was_refused_goes_to_the_children_before_what_was_sent_later() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            async with client.producer(TOPIC, batching=False) as producer:
                await producer.send(b"0", key="k")
                peer.is_holding = True
                early = [producer.send_nowait(b"%d" % number, key="k") for number in (1, 2, 3)]
                await until(lambda: len(peer.held) == 3)
                peer.release(1)
                peer.seal(0, says_so=False)
                peer.is_holding = False
                peer.release()
                late = [producer.send_nowait(b"%d" % number, key="k") for number in (4, 5)]
                await asyncio.sleep(0.02)
                assert not late[0].done()
                peer.publish(peer.layout.split(SegmentId(0), now_ms=1))
                late.append(producer.send_nowait(b"6", key="k"))
                ids = await asyncio.gather(*early, *late)
            assert ids[0].segment_id == 0
            assert {id.segment_id for id in ids[1:]} <= {1, 2}
            assert peer.numbers_by_key() == {"k": list(range(7))}

    asyncio.run(body())


def test_receipts_on_their_way_are_waited_for_when_the_layout_comes_first() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            async with client.producer(TOPIC, batching=False) as producer:
                await producer.send(b"0", key="k")
                peer.is_holding = True
                sends = [producer.send_nowait(b"%d" % number, key="k") for number in (1, 2)]
                await until(lambda: len(peer.held) == 2)

                def on_close(line: Line, body: Any, _: bytes) -> None:
                    peer.is_holding = False
                    peer.release()
                    peer.sealed.add(SegmentId(0))
                    peer.on_close_producer(line, body, _)

                peer.broker.on[Type.CLOSE_PRODUCER] = on_close
                peer.publish(peer.layout.split(SegmentId(0), now_ms=1))
                await peer.broker.until(Type.CLOSE_PRODUCER)
                sends.append(producer.send_nowait(b"3", key="k"))
                await asyncio.gather(*sends)
            assert peer.numbers_by_key() == {"k": [0, 1, 2, 3]}
            assert len(peer.stored[SegmentId(0)]) == 3

    asyncio.run(body())


@pytest.mark.parametrize("seed", range(12))
def test_no_key_is_ever_out_of_order_whatever_happens_to_the_layout(seed: int) -> None:
    async def body() -> None:
        chance = random.Random(seed)
        async with scalable_peer(2) as peer, peer.client() as client:
            batching = BatchingPolicy(max_delay=0.001) if seed % 2 else False
            async with client.producer(TOPIC, batching=batching) as producer:
                sends = []
                for step in range(40):
                    for _ in range(chance.randrange(12)):
                        number = len(sends)
                        sends.append(await producer.submit(b"%d" % number, key=f"k{number % 9}"))
                    if step % 4 == 3:
                        change_layout(peer, chance)
                    await asyncio.sleep(chance.choice((0, 0, 0.002)))
                await producer.flush()
                await asyncio.gather(*sends)
            found = peer.numbers_by_key()
            assert sum(map(len, found.values())) == len(sends)
            assert all(numbers == sorted(numbers) for numbers in found.values())

    asyncio.run(body())


def change_layout(peer: ScalablePeer, chance: random.Random) -> None:
    active = peer.layout.active
    at = chance.randrange(len(active))
    if len(active) > 1 and chance.random() < 0.5:
        at = min(at, len(active) - 2)
        gone = [active[at].id, active[at + 1].id]
        layout = peer.layout.merge(gone[0], gone[1], now_ms=1)
    else:
        gone = [active[at].id]
        layout = peer.layout.split(gone[0], now_ms=1)
    peer.seal(*gone, says_so=chance.random() < 0.7)
    peer.publish(layout)


def test_a_segment_that_stays_sealed_fails_its_sends_in_time() -> None:
    async def body() -> None:
        async with (
            scalable_peer() as peer,
            peer.client() as client,
            client.producer(TOPIC, send_timeout=0.1) as producer,
        ):
            peer.seal(0)
            with pytest.raises(TopicTerminatedError):
                await producer.send(b"0", key="k")

    asyncio.run(body())


def test_a_layout_that_nobody_pushed_is_asked_for() -> None:
    async def body() -> None:
        async with (
            scalable_peer() as peer,
            peer.client() as client,
            client.producer(TOPIC) as producer,
        ):
            await producer.send(b"0", key="k")
            peer.seal(0)
            peer.layout = peer.layout.split(SegmentId(0), now_ms=1)
            assert (await producer.send(b"1", key="k")).segment_id > 0
            assert len(peer.watches) > 1

    asyncio.run(body())


def test_a_producer_that_could_not_be_made_is_tried_again_with_the_next_message() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            async with client.producer(TOPIC) as producer:
                peer.broker.on[Type.PRODUCER] = lambda line, body, _: line.say(
                    error(body.request_id, WireCode.INCOMPATIBLE_SCHEMA, "no")
                )
                with pytest.raises(SchemaError):
                    await producer.send(b"0", key="k")
                peer.broker.on[Type.PRODUCER] = peer.on_producer
                await producer.send(b"1", key="k")
            assert peer.numbers_by_key() == {"k": [1]}

    asyncio.run(body())


def test_sends_survive_a_lost_connection_in_order() -> None:
    async def body() -> None:
        async with scalable_peer(2) as peer, peer.client() as client:
            async with client.producer(TOPIC, batching=False) as producer:
                for key in ("a", "key-0"):  # one in each segment
                    await producer.send(b"0", key=key)
                peer.is_holding = True
                sends = [
                    producer.send_nowait(b"%d" % number, key=key)
                    for number in range(1, 4)
                    for key in ("a", "key-0")
                ]
                await until(lambda: len(peer.held) == 6)
                peer.is_holding = False
                peer.held.clear()
                for line in peer.broker.lines:
                    line.cut()
                await asyncio.gather(*sends)
            assert peer.numbers_by_key() == {"a": [0, 1, 2, 3], "key-0": [0, 1, 2, 3]}

    asyncio.run(body())


def test_unkeyed_messages_stay_on_a_segment_for_the_time_of_a_batch() -> None:
    """The reference takes another segment with each message and sends no batches."""

    async def body() -> None:
        async with scalable_peer(4) as peer, peer.client() as client:
            slow = BatchingPolicy(max_delay=60)
            async with client.producer(TOPIC, batching=slow) as producer:
                sends = [producer.send_nowait(b"%d" % number) for number in range(20)]
                await producer.flush()
                assert len({(await sent).segment_id for sent in sends}) <= 2
            assert len(peer.broker.bodies(Type.SEND)) <= 2

    asyncio.run(body())


def test_calls_that_wait_for_room_enter_in_their_order() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            async with client.producer(TOPIC, batching=False, max_pending_messages=3) as producer:
                await asyncio.gather(
                    *(producer.send(b"%d" % number, key="k") for number in range(50))
                )
            assert peer.numbers_by_key() == {"k": list(range(50))}

    asyncio.run(body())


def test_the_memory_limit_holds_back_the_senders_of_all_producers() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client(memory_limit=10) as client:
            async with (
                client.producer(TOPIC, batching=False) as one,
                client.producer(TOPIC, batching=False) as other,
            ):
                peer.is_holding = True
                first = await one.submit(b"11111111", key="k")
                second = asyncio.ensure_future(other.submit(b"22222222", key="k"))
                await until(lambda: len(peer.held) == 1)
                assert not second.done()
                peer.is_holding = False
                peer.release()
                await first
                await (await second)
            assert peer.numbers_by_key() == {"k": [11111111, 22222222]}

    asyncio.run(body())


def test_closing_gives_up_what_no_segment_takes() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            producer = await client.producer(TOPIC)
            peer.seal(0)
            sent = producer.send_nowait(b"0", key="k")
            await client.close(immediate=True)
            with pytest.raises((AlreadyClosedError, TopicTerminatedError)):
                await sent

    asyncio.run(body())


def test_keys_stay_in_order_when_a_regular_topic_becomes_scalable() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            parts = [f"persistent://public/default/t-partition-{index}" for index in range(3)]
            peer.layout = Layout.synthetic(parts, now_ms=0)
            async with client.producer("persistent://public/default/t") as producer:
                sends = []
                for number in range(300):
                    sends.append(await producer.submit(b"%d" % number, key=f"k{number % 9}"))
                    if number == 150:  # brokers write the layout, then seal, then tell of it
                        peer.layout = Layout.migrated(parts, now_ms=1)
                        peer.seal(0, 1, 2)
                    if number == 200:
                        peer.publish(peer.layout)
                    if number % 10 == 0:
                        await asyncio.sleep(0.001)
                ids = await asyncio.gather(*sends)
                assert producer.topic == TOPIC
            used = {id.partition if id.segment_id < 0 else id.segment_id for id in ids}
            assert used > {0, 1, 2} and used - {0, 1, 2} <= {3, 4, 5}
            found = peer.numbers_by_key()
            assert sum(map(len, found.values())) == 300
            assert all(numbers == sorted(numbers) for numbers in found.values())

    asyncio.run(body())
