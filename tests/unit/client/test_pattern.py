from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.client.error import AuthorizationError
from magnetar.errors import WireCode
from magnetar.wire.command import CommandWatchScalableTopicsUpdate, ServerError
from magnetar.wire.layout import encode_diff, encode_snapshot
from magnetar.wire.topiclist import hash_topics
from tests.unit.client.peer import Line, Type
from tests.unit.client.scalable_peer import TOPIC, ScalablePeer, scalable_peer
from tests.unit.client.test_producer_set import until


class Members:
    """The topics of the namespace; all of them are the peer's one topic under many names."""

    def __init__(self, peer: ScalablePeer, *names: str) -> None:
        self.names = list(names)
        self.watches: list[tuple[Line, Any]] = []
        peer.broker.on[Type.WATCH_SCALABLE_TOPICS] = self.on_watch

    def on_watch(self, line: Line, body: Any, _: bytes) -> None:
        self.watches.append((line, body))
        if body.current_hash != hash_topics(self.names):
            line.say(encode_snapshot(body.watch_id, self.names))

    def change(self, *, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> None:
        line, body = self.watches[-1]
        line.say(encode_diff(body.watch_id, added=added, removed=removed))
        self.names = [name for name in self.names if name not in removed] + list(added)


def test_topics_come_and_go_by_push() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            members = Members(peer, TOPIC)
            async with client.queue_consumer(
                namespace="public/default", subscription="s", property_filters={"a": "b"}
            ) as consumer:
                assert consumer.topics == (TOPIC,)
                [(_, asked)] = members.watches
                assert (asked.namespace, asked.HasField("current_hash")) == (
                    "public/default",
                    False,
                )
                [pair] = asked.property_filters
                assert (pair.key, pair.value) == ("a", "b")
                members.change(added=("topic://public/default/u",))
                await until(lambda: len(consumer.topics) == 2)
                members.change(removed=(TOPIC,))
                await until(lambda: len(consumer.topics) == 1)
                created = peer.broker.bodies(Type.SCALABLE_TOPIC_LOOKUP)
                assert not any(each.create_if_missing for each in created)
            assert peer.broker.bodies(Type.WATCH_SCALABLE_TOPICS_CLOSE)

    asyncio.run(body())


def test_a_lost_watch_comes_back_with_the_hash_of_what_it_knows() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            members = Members(peer, TOPIC)
            async with client.queue_consumer(
                namespace="public/default", subscription="s"
            ) as consumer:
                members.names = []
                for line in peer.broker.lines:
                    line.cut()
                await until(lambda: len(members.watches) == 2)
                assert members.watches[1][1].current_hash == hash_topics([TOPIC])
                await until(lambda: consumer.topics == ())

    asyncio.run(body())


def test_who_may_not_list_the_namespace_is_told() -> None:
    async def body() -> None:
        async with scalable_peer() as peer, peer.client() as client:
            peer.broker.on[Type.WATCH_SCALABLE_TOPICS] = lambda line, body, _: line.say(
                CommandWatchScalableTopicsUpdate(
                    watch_id=body.watch_id,
                    error=ServerError.Name(WireCode.AUTHORIZATION),
                    message="no",
                )
            )
            with pytest.raises(AuthorizationError):
                await client.stream_consumer(namespace="public/default", subscription="s")

    asyncio.run(body())
