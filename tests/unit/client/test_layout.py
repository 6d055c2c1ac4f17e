from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import (
    FeatureNotSupportedError,
    NotFoundError,
    PulsarTimeoutError,
    UnavailableError,
)
from magnetar.client.layout import decide_half, overlaps, route_any, route_key, span_of
from magnetar.errors import WireCode
from magnetar.model.layout import Layout
from magnetar.model.segment import WHOLE, HashRange, SegmentId
from magnetar.rules.route import KeyHash, SegmentHash
from magnetar.wire.command import CommandScalableTopicUpdate, ScalableTopicDAG
from tests.unit.client.peer import Line, Type, scripted_broker
from tests.unit.client.scalable_peer import QUICK, TOPIC, scalable_peer


def test_a_broker_without_scalable_topics_is_told_from_one_that_has_them() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, AsyncPulsarClient(broker.url) as client:
            for attempt in (
                client.producer(TOPIC),
                client.queue_consumer(TOPIC, subscription="s"),
                client.stream_consumer(TOPIC, subscription="s"),
                client.checkpoint_consumer(TOPIC),
                client.queue_consumer(namespace="public/default", subscription="s"),
            ):
                with pytest.raises(FeatureNotSupportedError, match="no scalable topics"):
                    await attempt
            assert not broker.bodies(Type.SCALABLE_TOPIC_LOOKUP)

    asyncio.run(body())


def test_a_broker_that_never_answers_is_given_up_in_time() -> None:
    """The reference waits for ever."""

    async def body() -> None:
        async with scalable_peer() as peer:
            del peer.broker.on[Type.SCALABLE_TOPIC_LOOKUP]
            async with AsyncPulsarClient(
                peer.broker.url, operation_timeout=0.05, connection=QUICK
            ) as client:
                with pytest.raises(PulsarTimeoutError):
                    await client.producer(TOPIC)
            assert peer.broker.bodies(Type.SCALABLE_TOPIC_CLOSE)

    asyncio.run(body())


def test_what_the_broker_refuses_first_is_raised() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:

            def refuse(line: Line, body: Any, _: bytes) -> None:
                peer.watches.append((line, body.session_id))
                peer.refuse_watch(WireCode.TOPIC_NOT_FOUND)

            peer.broker.on[Type.SCALABLE_TOPIC_LOOKUP] = refuse
            with pytest.raises(NotFoundError, match="gone"):
                await client.queue_consumer(TOPIC, subscription="s")

    asyncio.run(body())


def test_a_layout_that_cannot_be_is_refused() -> None:
    async def body() -> None:
        async with scalable_peer() as peer:

            def lie(line: Line, body: Any, _: bytes) -> None:
                nothing = ScalableTopicDAG(epoch=0)
                line.say(CommandScalableTopicUpdate(session_id=body.session_id, dag=nothing))

            peer.broker.on[Type.SCALABLE_TOPIC_LOOKUP] = lie
            async with AsyncPulsarClient(
                peer.broker.url, operation_timeout=0.5, connection=QUICK
            ) as client:
                with pytest.raises(UnavailableError, match="unserved"):
                    await client.producer(TOPIC)

    asyncio.run(body())


@pytest.mark.parametrize("loss", ["refused", "cut"])
def test_a_watch_that_is_lost_comes_back_with_what_changed_meanwhile(loss: str) -> None:
    """The reference stays without layouts for good after a refusal."""

    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            changes = client.layout_changes(TOPIC)
            assert (await anext(changes)).epoch == 0
            peer.layout = peer.layout.split(SegmentId(0), now_ms=1)
            if loss == "cut":
                for line in peer.broker.lines:
                    line.cut()
            else:
                peer.refuse_watch(WireCode.METADATA)
            async with asyncio.timeout(10):
                change = await anext(changes)
            assert (change.epoch, change.added, change.sealed) == (1, (1, 2), (0,))
            first, *later = peer.broker.bodies(Type.SCALABLE_TOPIC_LOOKUP)
            assert not first.create_if_missing and not later[-1].create_if_missing
            await changes.close()
            await changes.close()

    asyncio.run(body())


def test_only_the_first_look_makes_a_missing_topic() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            async with client.producer(TOPIC):
                peer.refuse_watch(WireCode.TOPIC_NOT_FOUND)
                asked = await peer.broker.until(Type.SCALABLE_TOPIC_LOOKUP, 2)
            assert [each.create_if_missing for each in asked] == [True, False]

    asyncio.run(body())


def test_a_late_reader_of_changes_gets_the_newest() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            changes = client.layout_changes(TOPIC)
            await anext(changes)
            peer.publish(peer.layout.split(SegmentId(0), now_ms=1))
            peer.publish(peer.layout.merge(SegmentId(1), SegmentId(2), now_ms=2))
            async with asyncio.timeout(10):
                seen = [await anext(changes)]
                while seen[-1].epoch < 2:
                    seen.append(await anext(changes))
            assert seen[-1].after.active[0].id == 3
            await client.close()
            with pytest.raises(StopAsyncIteration):
                await anext(changes)

    asyncio.run(body())


KEYS = ("", "a", "key-0", "key-1", "order-42", "customer-99")


@pytest.mark.parametrize(
    ("version", "half"),
    [
        ("Pulsar Server5.0.0-M1", SegmentHash.LOW),
        ("Pulsar Server5.0.0-M2", SegmentHash.HIGH),
        ("Pulsar Server5.0.0-SNAPSHOT", SegmentHash.HIGH),
        ("Pulsar Server5.0.0", SegmentHash.HIGH),
        ("Pulsar Server5.1.2", SegmentHash.HIGH),
        ("Pulsar Server4.9.9", SegmentHash.LOW),
        ("Magnetar 0.1.0", SegmentHash.LOW),
        ("", SegmentHash.LOW),
    ],
)
def test_releases_after_the_first_milestone_use_the_high_half(
    version: str, half: SegmentHash
) -> None:
    assert decide_half(version) is half


def test_keys_are_placed_by_the_chosen_half() -> None:
    layout = Layout.initial(2, now_ms=0)

    def place(half: SegmentHash) -> list[int]:
        return [route_key(layout, key, half=half, legacy=KeyHash.MURMUR3).id for key in KEYS]

    assert place(SegmentHash.LOW) == [0, 0, 1, 0, 1, 1]
    assert place(SegmentHash.HIGH) == [0, 0, 1, 1, 0, 1]


def test_partitions_are_chosen_by_remainder() -> None:
    layout = Layout.synthetic([f"persistent://t/n/x-partition-{k}" for k in range(4)], now_ms=0)

    def place(legacy: KeyHash) -> list[int]:
        return [route_key(layout, key, half=SegmentHash.LOW, legacy=legacy).id for key in KEYS]

    assert place(KeyHash.MURMUR3) == [0, 2, 3, 0, 2, 0]
    assert place(KeyHash.JAVA_STRING)[:2] == [0, 1]


def test_a_message_without_a_key_goes_to_each_segment_in_turn() -> None:
    layout = Layout.initial(3, now_ms=0)
    assert [route_any(layout, turn).id for turn in range(5)] == [0, 1, 2, 0, 1]


def test_a_regular_topic_may_hold_any_key() -> None:
    layout = Layout.migrated(["persistent://t/n/x"], now_ms=0)
    assert span_of(layout.by_id[layout.sealed[0].id]) == WHOLE
    assert overlaps(HashRange(0, 5), HashRange(5, 9)) and overlaps(WHOLE, HashRange(3, 3))
    assert not overlaps(HashRange(0, 5), HashRange(6, 9))
