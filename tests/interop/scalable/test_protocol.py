"""Scalable topics over the wire of a live broker: what holds over splits and crashes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from magnetar.testing.broker import MagnetarBroker
from magnetar.wire.command import (
    BaseCommand,
    CommandCloseConsumer,
    CommandProducer,
    CommandScalableTopicLookup,
    CommandScalableTopicSubscribe,
    CommandWatchScalableTopics,
    body_of,
)
from tests.interop.scalable.talk import Talk, call_admin

GRACE = {"scalableTopicConsumerSessionGracePeriodSeconds": 30}


@pytest.fixture(scope="module")
def broker() -> Iterator[MagnetarBroker]:
    with MagnetarBroker(set=GRACE) as running:
        yield running


@pytest.fixture
def local() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def create(broker: MagnetarBroker, local: str, segments: int = 1) -> str:
    path = f"scalable/public/default/{local}?numInitialSegments={segments}"
    assert call_admin(broker, "PUT", path) == 204
    return f"topic://public/default/{local}"


async def split(broker: MagnetarBroker, local: str, number: int) -> None:
    path = f"scalable/public/default/{local}/split/{number}"
    assert await asyncio.to_thread(call_admin, broker, "POST", path) == 204


def test_a_group_has_its_segments_again_after_a_crash(local: str) -> None:
    with MagnetarBroker(set=GRACE) as mortal:
        topic = create(mortal, local, 4)

        async def before() -> dict[str, list[str]]:
            talk = await Talk.open(mortal)
            await talk.register(topic, "a", consumer_id=1)
            await talk.next_share(1)
            second = await talk.register(topic, "b", consumer_id=2)
            first = await talk.next_share(1)
            await talk.close()
            return {"a": first, "b": second}

        async def after() -> dict[str, list[str]]:
            talk = await Talk.open(mortal)
            second = await talk.register(topic, "b", consumer_id=7)
            first = await talk.register(topic, "a", consumer_id=8)
            await talk.close()
            return {"a": first, "b": second}

        shares = asyncio.run(before())
        assert sorted(len(each) for each in shares.values()) == [2, 2]
        mortal.crash()
        mortal.restart()
        assert asyncio.run(after()) == shares


def test_a_queue_loses_nothing_that_children_take_before_it_attaches(
    broker: MagnetarBroker, local: str
) -> None:
    """The consumer begins at the end, which on a child is after what it never saw."""
    topic = create(broker, local)

    async def body() -> None:
        talk = await Talk.open(broker)
        await talk.look_up(topic)
        segment = f"segment://public/default/{local}"
        await talk.subscribe(f"{segment}/0000-ffff-0", consumer_id=1, start="Latest")
        await talk.produce(f"{segment}/0000-ffff-0", ["a", "b"], producer_id=1)
        await split(broker, local, 0)
        layout = await talk.next_layout()
        assert [each.state for each in layout.dag.segments] == [1, 0, 0]
        await talk.produce(f"{segment}/0000-7fff-1", ["c"], producer_id=2)
        await talk.produce(f"{segment}/8000-ffff-2", ["d"], producer_id=3)
        await talk.subscribe(f"{segment}/0000-7fff-1", consumer_id=2, start="Latest")
        await talk.subscribe(f"{segment}/8000-ffff-2", consumer_id=3, start="Latest")
        received = [await talk.receive(number) for number in (1, 1, 2, 3)]
        assert received == ["a", "b", "c", "d"]
        await talk.close()

    asyncio.run(body())


def test_a_producer_s_initial_subscription_is_one_of_the_whole_topic(
    broker: MagnetarBroker, local: str
) -> None:
    create(broker, local, 2)

    async def body() -> None:
        talk = await Talk.open(broker)
        segment = f"segment://public/default/{local}"
        request = CommandProducer(
            topic=f"{segment}/0000-7fff-0", producer_id=1, initial_subscription_name="s"
        )
        await talk.ask(request, BaseCommand.PRODUCER_SUCCESS)
        await talk.produce(f"{segment}/8000-ffff-1", ["a"], producer_id=2)
        await talk.subscribe(f"{segment}/8000-ffff-1", consumer_id=1, start="Latest")
        assert await talk.receive(1) == "a"
        await talk.close()

    asyncio.run(body())


def test_a_stream_is_handed_children_the_moment_it_has_drained_their_parents(
    broker: MagnetarBroker, local: str
) -> None:
    topic = create(broker, local)

    async def body() -> None:
        talk = await Talk.open(broker)
        segment = f"segment://public/default/{local}"
        whole, low, high = (
            f"{segment}/{each}" for each in ("0000-ffff-0", "0000-7fff-1", "8000-ffff-2")
        )
        assert await talk.register(topic, "a", consumer_id=1) == [whole]
        assert await talk.next_share(1) == [whole]
        await talk.subscribe(
            whole, consumer_id=2, kind="Exclusive", name="a-seg-0", start="Earliest"
        )
        await talk.produce(whole, ["1", "2"], producer_id=1)
        await split(broker, local, 0)
        assert await talk.next_share(1) == [whole]
        assert [await talk.receive(2), await talk.receive(2)] == ["1", "2"]
        assert await talk.next_share(1) == [low, high]
        await talk.close()

    asyncio.run(body())


def test_who_takes_a_segment_over_reads_what_was_not_acknowledged_and_no_more(
    broker: MagnetarBroker, local: str
) -> None:
    topic = create(broker, local)

    async def body() -> None:
        first, second = await Talk.open(broker), await Talk.open(broker)
        (whole,) = await first.register(topic, "a", consumer_id=1)
        attach = {"kind": "Exclusive", "start": "Earliest"}
        await first.subscribe(whole, consumer_id=2, name="a-seg-0", **attach)
        await first.produce(whole, ["1", "2"], producer_id=1)
        assert await first.receive(2) == "1"
        assert await first.receive(2, acknowledge=False) == "2"
        assert await second.register(topic, "b", consumer_id=1) == []
        await first.ask(CommandCloseConsumer(consumer_id=1), BaseCommand.SUCCESS)
        assert await second.next_share(1) == [whole]
        coming = asyncio.ensure_future(
            second.subscribe(whole, consumer_id=2, name="b-seg-0", **attach)
        )
        await first.ask(CommandCloseConsumer(consumer_id=2), BaseCommand.SUCCESS)
        await coming
        assert await second.receive(2) == "2"
        await first.close()
        await second.close()

    asyncio.run(body())


@pytest.mark.parametrize("local", ["with space", "a/b", "ümläut", "per%cent+plus"])
def test_names_that_need_escaping_work_everywhere(broker: MagnetarBroker, local: str) -> None:
    name = f"topic://public/default/{local}-{uuid.uuid4().hex[:8]}"

    async def body() -> None:
        talk = await Talk.open(broker)
        layout = await talk.look_up(name)
        assert layout.resolved_topic_name == name
        (segment,) = await talk.register(name, "a", consumer_id=1)
        assert segment == name.replace("topic://", "segment://") + "/0000-ffff-0"
        await talk.subscribe(
            segment, consumer_id=2, kind="Exclusive", name="a-seg-0", start="Earliest"
        )
        await talk.produce(segment, ["x"], producer_id=1)
        assert await talk.receive(2) == "x"
        await talk.close()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (
            CommandScalableTopicLookup(session_id=2**64 - 1, topic=""),
            (BaseCommand.SCALABLE_TOPIC_UPDATE, 2**64 - 1),
        ),
        (
            CommandScalableTopicLookup(session_id=0, topic="segment://public/default/x/zz-1-2"),
            (BaseCommand.SCALABLE_TOPIC_UPDATE, 0),
        ),
        (
            CommandScalableTopicLookup(session_id=3, topic="topic://public/default/ "),
            (BaseCommand.SCALABLE_TOPIC_UPDATE, 3),
        ),
        (
            CommandScalableTopicSubscribe(
                request_id=5,
                topic="segment://public/default/x",
                subscription="s",
                consumer_name="a",
                consumer_id=1,
                consumer_type="STREAM",
            ),
            (BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE, 5),
        ),
        (
            CommandScalableTopicSubscribe(
                request_id=6,
                topic="topic://public/default/x",
                subscription="",
                consumer_name="",
                consumer_id=1,
                consumer_type="CHECKPOINT",
            ),
            (BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE, 6),
        ),
        (
            CommandWatchScalableTopics(watch_id=9, namespace="a/b/c/d"),
            (BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE, 9),
        ),
        (
            CommandWatchScalableTopics(watch_id=9, namespace=""),
            (BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE, 9),
        ),
    ],
)
def test_what_cannot_be_is_answered_and_the_connection_lives(
    broker: MagnetarBroker, command: Any, answer: tuple[int, int], local: str
) -> None:
    topic = create(broker, local)

    async def body() -> None:
        talk = await Talk.open(broker)
        talk.say(command)
        heard, _ = await talk.link.hear(answer)
        said: Any = body_of(heard)
        assert said.HasField("error") and said.message
        assert (await talk.look_up(topic, 77)).resolved_topic_name == topic
        await talk.close()

    asyncio.run(body())


def test_a_broker_that_is_told_not_to_serves_no_scalable_topics(local: str) -> None:
    async def body(off: MagnetarBroker) -> None:
        talk = await Talk.open(off)
        layout = await talk.look_up(f"topic://public/default/{local}")
        assert layout.error == 22  # NotAllowedError
        await talk.close()

    with MagnetarBroker(set={"scalableTopicsEnabled": False}) as off:
        asyncio.run(body(off))
