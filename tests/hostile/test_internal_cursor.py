"""Cursors that the broker keeps for itself: no door leads to them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from magnetar.admin.table import all_routes
from magnetar.broker.persistent import PersistentTopic
from magnetar.model.name import parse_topic
from magnetar.wire import command as wire
from tests.hostile.test_permission_matrix import Peer, code_of
from tests.unit.admin.assembly import Admin, admin_of_new_broker

TOPIC = "persistent://public/default/x"
INTERNAL = ("__compaction", "pulsar.dedup", "pulsar.repl.west")
_PARTS = {"tenant": "public", "namespace": "default", "topic": "x"}


def run(body: Callable[[Admin], Awaitable[None]]) -> None:
    async def main() -> None:
        async with admin_of_new_broker(brokerDeduplicationEnabled="true") as admin:
            assert (await admin.put("/admin/v2/persistent/public/default/x")).status == 204
            for number in range(3):
                await admin.publish(TOPIC, b"x", partition_key=f"k{number % 2}")
            assert (
                await admin.put("/admin/v2/persistent/public/default/x/compaction")
            ).status < 300
            topic = await live(admin)
            while "__compaction" not in topic.log.cursors or topic.compactor.compacted is None:
                await asyncio.sleep(0.01)
            before = state_of(topic)
            assert {"__compaction", "pulsar.dedup"} <= before.keys()
            await body(admin)
            assert state_of(await live(admin)) == before
            assert not set(INTERNAL) & topic.subscriptions.keys()

    asyncio.run(main())


async def live(admin: Admin) -> PersistentTopic:
    topic = await admin.service.catalog.load_topic(parse_topic(TOPIC))
    assert isinstance(topic, PersistentTopic)
    return topic


def state_of(topic: PersistentTopic) -> dict[str, object]:
    return {name: cursor.mark_delete for name, cursor in topic.log.cursors.items()}


@pytest.mark.parametrize("name", INTERNAL)
@pytest.mark.parametrize("spelling", ["plain", "escaped", "escaped twice"])
def test_no_route_takes_the_name_of_an_internal_cursor(name: str, spelling: str) -> None:
    first = name[0]
    told = {
        "plain": name,
        "escaped": name.replace(first, f"%{ord(first):02X}", 1),
        "escaped twice": name.replace(first, f"%25{ord(first):02X}", 1),
    }[spelling]
    parts = {**_PARTS, "subscription": told}
    routes = [route for route in all_routes() if "{subscription}" in route.row.path]
    assert len(routes) > 20

    async def body(admin: Admin) -> None:
        refused = 0
        for route in routes:
            path = re.sub(r"\{(\w+)\}", lambda found: parts.get(found[1], "1"), route.row.path)
            for content in (..., {}, [], "1:0:-1", {"ledgerId": 1, "entryId": 0}):
                reply = await admin.call(route.row.method, path, content)
                assert reply.status >= 400, (route.row.method, path, reply.body)
                refused += reply.status == 412
        assert refused > len(routes)

    run(body)


@pytest.mark.parametrize("name", INTERNAL)
def test_no_command_takes_the_name_of_an_internal_cursor(name: str) -> None:
    consumer: dict[str, Any] = {"consumer_id": 1, "request_id": 1, "topic": TOPIC}
    commands = (
        wire.CommandSubscribe(
            **consumer, subscription=name, subType=wire.CommandSubscribe.Exclusive
        ),
        wire.CommandSubscribe(
            **consumer,
            subscription=name,
            subType=wire.CommandSubscribe.Exclusive,
            durable=False,
        ),
        wire.CommandProducer(
            topic=TOPIC, producer_id=1, request_id=1, initial_subscription_name=name
        ),
        wire.CommandScalableTopicSubscribe(
            **consumer,
            subscription=name,
            consumer_name="c",
            consumer_type=wire.ScalableConsumerType.STREAM,
        ),
    )

    async def body(admin: Admin) -> None:
        for command in commands:
            peer = Peer(admin, None)
            await asyncio.sleep(0)
            replies = await peer.ask(command)
            assert [code_of(each) for each in replies] in (["ProducerBusy"], ["NotAllowedError"])
            assert not peer.connection.consumers and not peer.connection.producers
            peer.wire.close()

    run(body)
