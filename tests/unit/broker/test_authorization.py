"""Grants at work: segments and migrations, revocation, subscriptions, proxies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from magnetar.errors import InvalidConfiguration
from magnetar.model.name import parse_topic
from magnetar.wire import command as wire
from magnetar.wire.command import BaseCommand
from magnetar.wire.jwt import sign_token
from tests.hostile.permission_table import Who
from tests.hostile.test_permission_matrix import (
    KEY,
    TOKENS,
    Peer,
    code_of,
    secure_broker,
)
from tests.unit.admin.assembly import Admin, admin_of_new_broker

V2 = "/admin/v2"
NAMESPACE = f"{V2}/namespaces/t/n"


def run(body: Callable[[Admin], Awaitable[None]], **settings: str) -> None:
    """`body` gets the tenant's administrator."""

    async def main() -> None:
        async with secure_broker(**settings) as admin:
            await body(replace(admin, token=TOKENS[Who.ADMIN]))

    asyncio.run(main())


def peer_of(admin: Admin, role: str) -> Peer:
    return Peer(admin, sign_token({"sub": role}, KEY))


async def outcome(peer: Peer, body: Any) -> str | None:
    """The code of the refusal, or None."""
    for _ in range(50):
        replies = await peer.ask(body)
        if replies:
            return code_of(replies[0])
    raise AssertionError("no answer")


async def produce(peer: Peer, topic: str, producer_id: int = 1, **more: Any) -> str | None:
    request = wire.CommandProducer(topic=topic, producer_id=producer_id, request_id=1, **more)
    return await outcome(peer, request)


async def consume(peer: Peer, topic: str, subscription: str, consumer_id: int = 1) -> str | None:
    request = wire.CommandSubscribe(
        topic=topic,
        subscription=subscription,
        subType=wire.CommandSubscribe.Shared,
        consumer_id=consumer_id,
        request_id=1,
    )
    return await outcome(peer, request)


DENIED = "AuthorizationError"


@pytest.mark.parametrize("spelling", ["persistent", "topic"])
def test_a_grant_on_a_topic_follows_its_migration_and_reaches_its_segments(spelling: str) -> None:
    async def body(boss: Admin) -> None:
        root = replace(boss, token=TOKENS[Who.SUPER])
        for topic in ("x", "y"):
            await boss.put(f"{V2}/persistent/t/n/{topic}")
        if spelling == "topic":
            assert (await boss.post(f"{V2}/scalable/t/n/x/migrate")).status == 204
        granted = await boss.post(f"{V2}/{spelling}/t/n/x/permissions/r", ["produce"])
        assert granted.status == 204, granted.body
        if spelling == "persistent":
            assert await produce(peer_of(boss, "r"), "persistent://t/n/x") is None
            migrated = await replace(boss, token=sign_token({"sub": "r"}, KEY)).post(
                f"{V2}/scalable/t/n/x/migrate?force=true"
            )
            assert migrated.status == 204, migrated.body
        assert (await boss.post(f"{V2}/scalable/t/n/x/split/1")).status == 401
        assert (await root.post(f"{V2}/scalable/t/n/x/split/1")).status == 204
        stats = (await boss.get(f"{V2}/scalable/t/n/x/stats")).json["segments"].values()
        names = [each["name"] for each in stats if each["state"] == "ACTIVE"]
        assert len(names) == 2 and all(name.startswith("segment://t/n/x/") for name in names)
        managed = [wire.KeyValue(key="__pulsar.v5.managed", value="true")]
        for name in names:
            assert await produce(peer_of(boss, "r"), name, metadata=managed) is None
            assert await produce(peer_of(boss, "stranger"), name, metadata=managed) == DENIED
            assert await consume(peer_of(boss, "r"), name, "s") == DENIED
        assert await produce(peer_of(boss, "r"), "persistent://t/n/y") == DENIED
        assert await produce(peer_of(boss, "r"), "topic://t/n/y") == DENIED
        # Taking it back takes it back everywhere, whichever way it was given.
        other = "persistent" if spelling == "topic" else "topic"
        assert (await boss.get(f"{V2}/{other}/t/n/x/permissions")).json["r"] == ["produce"]
        assert (await boss.delete(f"{V2}/{other}/t/n/x/permissions/r")).status == 204
        assert await produce(peer_of(boss, "r"), names[0], metadata=managed) == DENIED

    run(body)


def test_permissions_go_with_the_topic() -> None:
    async def body(boss: Admin) -> None:
        assert (await boss.post(f"{V2}/persistent/t/n/x/permissions/r", ["produce"])).status == 204
        assert (await boss.delete(f"{V2}/persistent/t/n/x?force=true")).status == 204
        assert (await boss.put(f"{V2}/persistent/t/n/x")).status == 204
        assert await produce(peer_of(boss, "r"), "persistent://t/n/x") == DENIED
        assert (await boss.put(f"{V2}/scalable/t/n/z")).status == 204
        assert (await boss.post(f"{V2}/topic/t/n/z/permissions/r", ["produce"])).status == 204
        assert (await boss.delete(f"{V2}/scalable/t/n/z?force=true")).status == 204
        policies = (await boss.get(NAMESPACE)).json["auth_policies"]
        assert policies.get("destination_auth", {}) == {}

    run(body)


def test_a_revoked_grant_ends_what_it_allowed() -> None:
    async def body(boss: Admin) -> None:
        topic = "persistent://t/n/x"
        producer, consumer = peer_of(boss, "producer"), peer_of(boss, "consumer")
        watcher = peer_of(boss, "producer")
        assert await produce(producer, topic) is None
        assert await consume(consumer, topic, "s") is None
        lookup = wire.CommandScalableTopicLookup(session_id=1, topic=topic)
        assert await outcome(watcher, lookup) is None
        assert (await boss.delete(f"{NAMESPACE}/permissions/producer")).status == 204
        for _ in range(200):
            await asyncio.sleep(0)
        closed = [
            each for each in producer.wire.received if each.type == BaseCommand.CLOSE_PRODUCER
        ]
        assert closed and not producer.wire.closed
        assert watcher.wire.closed, "there are no words to end a watch"
        assert consumer.connection.consumers, "whose grant still holds"
        assert await produce(producer, topic, producer_id=2) == DENIED
        assert (await boss.delete(f"{NAMESPACE}/permissions/consumer")).status == 204
        for _ in range(200):
            await asyncio.sleep(0)
        assert not consumer.connection.consumers

    run(body)


def test_a_subscription_may_be_kept_for_roles_over_both_protocols() -> None:
    async def body(boss: Admin) -> None:
        topic = "persistent://t/n/x"
        await boss.post(f"{NAMESPACE}/permissions/friend", ["consume"])
        reserved = await boss.post(f"{NAMESPACE}/permissions/subscription/mine", ["friend"])
        assert reserved.status == 204
        assert await consume(peer_of(boss, "friend"), topic, "mine") is None
        assert await consume(peer_of(boss, "consumer"), topic, "mine") == DENIED
        assert await consume(peer_of(boss, "consumer"), topic, "other") is None
        as_consumer = replace(boss, token=TOKENS[Who.CONSUMER])
        skipped = await as_consumer.post(f"{V2}/persistent/t/n/x/subscription/mine/skip_all")
        assert skipped.status == 401 and "mine" in skipped.reason
        assert (await as_consumer.post(f"{NAMESPACE}/clearBacklog/mine")).status == 403
        assert (await boss.delete(f"{NAMESPACE}/permissions/mine/friend")).status == 204
        assert await consume(peer_of(boss, "consumer"), topic, "mine") is None

    run(body)


def test_a_namespace_may_demand_the_role_as_prefix_of_subscriptions() -> None:
    async def body(boss: Admin) -> None:
        assert (await boss.post(f"{NAMESPACE}/subscriptionAuthMode", "Prefix")).status == 204
        topic = "persistent://t/n/x"
        assert await consume(peer_of(boss, "consumer"), topic, "mine") == DENIED
        assert await consume(peer_of(boss, "consumer"), topic, "consumer-1") is None
        assert await consume(peer_of(boss, "boss"), topic, "any") is None

    run(body)


def test_a_producer_makes_a_first_subscription_only_if_it_may_subscribe() -> None:
    async def body(boss: Admin) -> None:
        topic = "persistent://t/n/x"
        initial = {"initial_subscription_name": "s"}
        assert await produce(peer_of(boss, "producer"), topic, **initial) == DENIED
        await boss.post(f"{NAMESPACE}/permissions/both", ["produce", "consume"])
        assert await produce(peer_of(boss, "both"), topic, **initial) is None

    run(body)


def test_a_check_reads_the_store_once_and_then_no_more() -> None:
    async def body(boss: Admin) -> None:
        service = boss.service
        reads = 0
        get = service.store.get

        async def counted(path: str) -> Any:
            nonlocal reads
            reads += path.startswith("/admin/policies")
            return await get(path)

        service.store.get = counted  # type: ignore[method-assign]
        peer = peer_of(boss, "producer")
        for index in range(20):
            assert await produce(peer, "persistent://t/n/x", producer_id=index) is None
        assert reads <= 2

    run(body)


def test_a_tenant_that_is_not_there_is_told_as_that() -> None:
    async def body(boss: Admin) -> None:
        for path in ("namespaces/nope/n/retention", "tenants/nope", "persistent/nope/n/x/stats"):
            reply = await boss.get(f"{V2}/{path}")
            assert (reply.status, reply.reason) == (404, "Tenant does not exist")
        assert (await boss.get(f"{V2}/tenants/other")).status == 401

    run(body)


def test_super_users_may_change_at_run_time() -> None:
    async def body(boss: Admin) -> None:
        root = replace(boss, token=TOKENS[Who.SUPER])
        change = f"{V2}/brokers/configuration/superUserRoles/root,stranger"
        assert (await root.post(change)).status == 200
        stranger = replace(boss, token=TOKENS[Who.STRANGER])
        assert (await stranger.get(f"{V2}/tenants")).status == 200

    run(body)


def test_authorization_without_authentication_is_refused_at_start() -> None:
    async def main() -> None:
        with pytest.raises(InvalidConfiguration, match="needs authenticationEnabled"):
            async with admin_of_new_broker(authorizationEnabled="true"):
                raise AssertionError("it started")

    asyncio.run(main())


def test_a_topic_may_be_granted_before_it_exists_where_that_is_allowed() -> None:
    async def body(boss: Admin) -> None:
        granted = await boss.post(f"{V2}/persistent/t/n/later/permissions/r", ["produce"])
        assert granted.status == 204
        assert await produce(peer_of(boss, "r"), "persistent://t/n/later") is None
        assert boss.service.catalog.topics[parse_topic("persistent://t/n/later").full]

    run(body, allowAclChangesOnNonExistentTopics="true")
