"""Consumers of a scalable topic against a broker in the loop of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from magnetar.broker.scalable.controller import Controller
from magnetar.model.name import parse_topic
from magnetar.wire.command import (
    BaseCommand,
    CommandCloseConsumer,
    CommandFlow,
    CommandScalableTopicClose,
    CommandScalableTopicLookup,
    CommandScalableTopicSubscribe,
    CommandSubscribe,
    body_of,
)
from tests.unit.broker.broker_place import Peer, Place, until

TOPIC = "topic://shop/eu/orders"
TURNS_MAX = 5_000


class Client(Peer):
    """A client of scalable topics; `version` is what it says of itself."""

    def __init__(self, place: Place, version: str = "Pulsar-Java-v5.0.0-M1") -> None:
        super().__init__(place.service)
        self.place = place
        self._connection.handshake.client_version = version

    @property
    def connection(self) -> Any:
        return self._connection

    def heard(self, kind: int) -> list[Any]:
        return [body_of(each) for each in self._wire.received if each.type == kind]

    def kinds(self) -> list[int]:
        return [command.type for command in self._wire.received]

    def flags(self) -> Any:
        """What the broker says it can do."""
        (connected,) = self.heard(BaseCommand.CONNECTED)
        return connected.feature_flags

    def begin_register(self, name: str, *, consumer_id: int) -> None:
        self.say(
            CommandScalableTopicSubscribe(
                request_id=1_000,
                topic=TOPIC,
                subscription="s",
                consumer_name=name,
                consumer_id=consumer_id,
                consumer_type="STREAM",
            )
        )

    async def register(
        self,
        name: str,
        *,
        consumer_id: int,
        subscription: str = "s",
        topic: str = TOPIC,
        kind: str = "STREAM",
    ) -> Any:
        request = CommandScalableTopicSubscribe(
            topic=topic,
            subscription=subscription,
            consumer_name=name,
            consumer_id=consumer_id,
            consumer_type=kind,  # type: ignore[arg-type]
        )
        answer = await self.ask(request, BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
        return answer.scalableTopicSubscribeResponse

    async def read(
        self, descriptor: str, consumer: str, *, reader_id: int, subscription: str = "s"
    ) -> BaseCommand:
        """Attach as a client does when it is told to read a segment."""
        number = descriptor.rsplit("-", 1)[-1]
        request = CommandSubscribe(
            topic=segment(descriptor),
            subscription=subscription,
            subType=CommandSubscribe.Exclusive,
            consumer_id=reader_id,
            consumer_name=f"{consumer}-seg-{number}",
            initialPosition=CommandSubscribe.Earliest,
        )
        answer = await self.ask(request, BaseCommand.SUCCESS)
        self.say(CommandFlow(consumer_id=reader_id, messagePermits=100))
        return answer

    def leave_group(self, consumer_id: int) -> None:
        self.say(CommandCloseConsumer(consumer_id=consumer_id, request_id=2_000))

    def assigned(self, consumer_id: int) -> list[list[int]]:
        """The segments of each assignment that was pushed, in order."""
        pushes = self.heard(BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE)
        return [segments_of(push.assignment) for push in pushes if push.consumer_id == consumer_id]

    def look_up(self, session_id: int, topic: str = TOPIC, **more: Any) -> None:
        self.say(CommandScalableTopicLookup(session_id=session_id, topic=topic, **more))

    def close_layout(self, session_id: int) -> None:
        self.say(CommandScalableTopicClose(session_id=session_id))

    def layouts(self, session_id: int) -> list[Any]:
        updates = self.heard(BaseCommand.SCALABLE_TOPIC_UPDATE)
        return [each for each in updates if each.session_id == session_id]


def segments_of(assignment: Any) -> list[int]:
    return sorted(each.segment_id for each in assignment.segments)


def segment(descriptor: str) -> str:
    return f"segment://shop/eu/orders/{descriptor}"


async def make_topic(place: Place, segments: int = 1, topic: str = TOPIC) -> Controller:
    name = parse_topic(topic)
    await place.service.scalable.create_topic(name, segments=segments)
    return await place.service.scalable.controller(name)


async def soon(holds: Callable[[], bool]) -> None:
    """Give the loop turns until something holds that takes threads or timers of no length."""
    for _ in range(10):
        try:
            await until(holds)
            return
        except AssertionError:
            await asyncio.sleep(0.01)
    await until(holds)
