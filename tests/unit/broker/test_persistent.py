"""A persistent topic by its ports alone: no broker, no connection, no scalable plane."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from magnetar.broker.attachment import A
from magnetar.broker.consumer import Consumer
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.policy_default import plan_defaults
from magnetar.broker.producer import AccessMode, Producer
from magnetar.broker.subscription import Subscription
from magnetar.broker.topic_host import TopicHost
from magnetar.errors import ConsumerBusy, TopicMigrated, TopicTerminated
from magnetar.model.limit import make_limits
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.position import EARLIEST
from magnetar.model.subscription import SubscriptionType
from magnetar.rules.dispatch.member import Sharing
from magnetar.rules.policy import decide_effective
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.rate import Rate
from magnetar.runtime.task import TaskScope
from magnetar.wire.command import (
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    FeatureFlags,
    MessageMetadata,
    decode_command,
    encode_command,
    message_id,
)
from magnetar.wire.entry import encode_entry
from magnetar.wire.run import SendRun
from tests.unit.broker.broker_place import until
from tests.unit.ledger.log_place import Place as LogPlace

REGULAR = parse_topic("persistent://shop/eu/orders")
SEGMENT = parse_topic("segment://shop/eu/orders/0000-ffff-0")
SUCCESSOR = parse_topic("topic://shop/eu/orders")
CONFIG = Configuration({})
LIMITS = make_limits(CONFIG.get)
POLICY = decide_effective(None, None, None, plan_defaults(CONFIG))


@dataclass(eq=False)
class Link:
    """The port of a connection; keeps what is sent."""

    address: str = "/127.0.0.1:1"
    client_version: str = "test"
    protocol_version: int = 21
    features: FeatureFlags = field(default_factory=FeatureFlags)
    writable: bool = True
    closed: bool = False
    sent: list[bytes] = field(default_factory=list)
    unsynced: int = 0
    left: list[object] = field(default_factory=list)

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def send_many(self, parts: list[bytes], size: int) -> None:
        self.sent += parts

    def send_command(self, command: BaseCommand) -> None:
        self.sent.append(encode_command(command))

    def close_consumer(self, consumer: Consumer, *, returns: bool = False) -> None:
        self.left.append((consumer, returns))

    def close_producer(self, producer: Producer) -> None:
        self.left.append(producer)

    def count_unsynced(self, size: int) -> None:
        self.unsynced += size

    def hold(self, reason: str) -> bool:
        return True

    def release(self, reason: str) -> None: ...

    async def is_alive(self) -> bool:
        return True

    def attached(self, kind: type[A]) -> A:
        return kind(self, LIMITS)

    def received(self) -> list[BaseCommand]:
        """What the client reads: frames of a size, the command's size, the command, a payload."""
        data, commands = b"".join(self.sent), []
        while data:
            end, size = (int.from_bytes(data[at : at + 4], "big") for at in (0, 4))
            commands.append(decode_command(data[8 : 8 + size]))
            data = data[4 + end :]
        return commands


@dataclass
class Plane:
    """Follows topics and guards them."""

    heard: list[tuple[str, str]] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: Exception | None = None

    async def on_subscribed(self, topic: TopicName, request: CommandSubscribe) -> None:
        self.heard.append(("subscribed", request.subscription))
        await self.ready.wait()

    def on_drained(self, subscription: Subscription) -> None:
        self.heard.append(("drained", subscription.name))

    def on_cursor_moved(self, subscription: Subscription) -> None:
        self.heard.append(("moved", subscription.name))

    def check_writable(self, topic: TopicName, successor: TopicName) -> None:
        raise TopicTerminated(f"{topic} is {successor}")

    def check_readable(
        self, topic: TopicName, successor: TopicName, consumer: Consumer, request: CommandSubscribe
    ) -> None:
        if self.refusal is not None:
            raise self.refusal


Body = Callable[[PersistentTopic, Plane], Awaitable[None]]


def run(name: TopicName, body: Body, is_owner: Callable[[], bool] = lambda: True) -> None:
    async def inside() -> None:
        place = LogPlace()
        tasks = TaskScope("test")
        host = TopicHost(place.clock, tasks, CONFIG, LIMITS, place.inner, "test", is_owner=is_owner)
        plane = Plane()
        log = await place.open(birth=())
        topic = await PersistentTopic.open(
            host, name, POLICY, log, listeners=[plane], guards=[plane]
        )
        topic.on_policies_changed(POLICY)
        try:
            await body(topic, plane)
        finally:
            await topic.close()
            await tasks.close()

    asyncio.run(inside())


async def publish(topic: PersistentTopic, *payloads: bytes) -> Producer:
    link = Link()
    producer = Producer(
        topic=topic,
        connection=link,
        id=1,
        name="p",
        epoch=0,
        access_mode=AccessMode.SHARED,
        user_provided_name=True,
        encrypted=False,
        schema_version=b"",
        metadata={},
        connected_since_ms=0,
        rate=Rate(0),
        chunk_rate=Rate(0),
    )
    assert await topic.add_producer(producer) is None
    sends = SendRun(1)
    for sequence, payload in enumerate(payloads):
        metadata = MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1)
        sends.add(sequence, 0, 1, encode_entry(metadata, payload))
    topic.publish(producer, sends)
    assert link.unsynced > 0
    await producer.wait_idle()
    assert link.unsynced == 0 and b"".join(link.sent)
    return producer


async def attach(topic: PersistentTopic, name: str = "s", number: int = 1) -> Consumer:
    consumer = Consumer(
        Link(),
        number,
        f"c{number}",
        Sharing(SubscriptionType.EXCLUSIVE),
        priority=0,
        metadata={},
        connected_since_ms=0,
        now=0.0,
    )
    request = CommandSubscribe(
        topic=topic.name.full, subscription=name, initialPosition=CommandSubscribe.Earliest
    )
    await topic.subscribe(consumer, request)
    return consumer


def links_of(consumer: Consumer) -> Link:
    assert isinstance(consumer.connection, Link)
    return consumer.connection


def test_a_topic_takes_stores_and_delivers_without_a_broker() -> None:
    async def body(topic: PersistentTopic, plane: Plane) -> None:
        await publish(topic, b"a", b"b")
        consumer = await attach(topic)
        consumer.on_flow(10, 1)
        link = links_of(consumer)
        await until(lambda: len(link.received()) == 2)
        assert [each.type for each in link.received()] == [BaseCommand.MESSAGE] * 2
        assert plane.heard == []

    run(REGULAR, body)


def test_delivery_goes_on_once_the_lease_is_confirmed_again() -> None:
    """Nothing else may happen to the topic then: no message comes and no consumer asks for more."""
    asked: list[bool] = []
    is_confirmed = False

    def is_owner() -> bool:
        asked.append(is_confirmed)
        return is_confirmed

    async def body(topic: PersistentTopic, plane: Plane) -> None:
        nonlocal is_confirmed
        await publish(topic, b"a")
        consumer = await attach(topic)
        consumer.on_flow(10, 1)
        link = links_of(consumer)
        await until(lambda: bool(asked))
        assert link.received() == []
        is_confirmed = True
        await until(lambda: len(link.received()) == 1)

    run(REGULAR, body, is_owner)


def test_listeners_learn_of_a_subscription_before_its_client_is_attached() -> None:
    async def body(topic: PersistentTopic, plane: Plane) -> None:
        attaching = asyncio.ensure_future(attach(topic))
        await until(lambda: bool(plane.heard))
        assert not topic.subscriptions["s"].consumers and not attaching.done()
        plane.ready.set()
        consumer = await attaching
        assert topic.subscriptions["s"].consumers == [consumer]
        assert plane.heard == [("subscribed", "s")]

    run(SEGMENT, body)


def test_listeners_learn_that_a_terminated_topic_is_drained_and_that_a_cursor_moved() -> None:
    async def body(topic: PersistentTopic, plane: Plane) -> None:
        await publish(topic, b"a")
        consumer = await attach(topic)
        consumer.on_flow(10, 1)
        last = await topic.termination.run()
        assert plane.heard == [] and topic.subscriptions["s"].backlog == 1
        ack = CommandAck(consumer_id=1, ack_type=CommandAck.Individual)
        ack.message_id.add().CopyFrom(message_id(last))
        topic.subscriptions["s"].on_ack(consumer, ack)
        assert plane.heard == [("drained", "s")]
        await topic.subscriptions["s"].seek(EARLIEST)
        assert plane.heard[1:] == [("moved", "s")]
        assert links_of(consumer).left == [(consumer, True)]

    run(REGULAR, body)


def test_guards_are_asked_only_once_the_topic_has_a_successor() -> None:
    async def body(topic: PersistentTopic, plane: Plane) -> None:
        plane.refusal = TopicMigrated("it is scalable")
        (await publish(topic, b"a")).detach()
        (await attach(topic)).detach()
        topic.successor = SUCCESSOR
        with pytest.raises(TopicTerminated, match="topic://shop/eu/orders"):
            await publish(topic, b"b")
        with pytest.raises(TopicMigrated):
            await attach(topic, "other")
        assert list(topic.subscriptions) == ["s"]
        plane.refusal = None
        plane.ready.set()
        await attach(topic, "other")
        assert plane.heard == [("subscribed", "other")]

    run(REGULAR, body)


def test_a_second_exclusive_consumer_is_refused_while_the_first_answers() -> None:
    async def body(topic: PersistentTopic, plane: Plane) -> None:
        first = await attach(topic)
        with pytest.raises(ConsumerBusy):
            await attach(topic, number=2)
        first.detach()
        await attach(topic, number=2)

    run(REGULAR, body)
