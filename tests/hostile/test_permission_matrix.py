"""Every caller against every route and every command: allowed exactly where the table says."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from magnetar.admin.application import Application
from magnetar.admin.request import Call
from magnetar.admin.response import Response
from magnetar.admin.route import Route
from magnetar.admin.table import all_routes
from magnetar.broker.administration.web import Administration
from magnetar.broker.connection import Connection
from magnetar.broker.handler import make_handlers
from magnetar.broker.handler.permission import NEEDS
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import Record
from magnetar.model.name import parse_topic
from magnetar.runtime.clock import SystemClock
from magnetar.wire import command as wire
from magnetar.wire.command import BaseCommand, ServerError, encode_payload_command
from magnetar.wire.entry import encode_entry
from magnetar.wire.jwt import SecretKey, sign_token
from tests.hostile.permission_table import (
    AFTER_REVOCATION,
    ANYBODY_KNOWN,
    COMMANDS,
    KNOWN,
    Rule,
    Who,
    rule_of,
)
from tests.unit.admin.assembly import Admin, Reply, admin_of_new_broker
from tests.unit.broker.broker_place import Wire

KEY, OTHER_KEY = SecretKey(b"k" * 32), SecretKey(b"o" * 32)
SETTINGS = {
    "authenticationEnabled": "true",
    "authenticationProviders": "token",
    "tokenSecretKey": "data:;base64," + base64.b64encode(KEY.key).decode(),
    "authorizationEnabled": "true",
    "superUserRoles": "root,keeper",
}
ROLES = {
    Who.STRANGER: "stranger",
    Who.PRODUCER: "producer",
    Who.CONSUMER: "consumer",
    Who.OTHER_ADMIN: "other-boss",
    Who.ADMIN: "boss",
    Who.SUPER: "root",
}
REACHED = 299
TOPIC = "persistent://t/n/x"


def token_of(who: Who) -> str | None:
    if who is Who.NO_CREDENTIALS:
        return None
    if who is Who.WRONG:
        return sign_token({"sub": "root"}, OTHER_KEY)
    if who is Who.EXPIRED:
        return sign_token({"sub": "root", "exp": 1_600_000_000}, KEY)
    return sign_token({"sub": ROLES[who]}, KEY)


TOKENS = {who: token_of(who) for who in Who}


@asynccontextmanager
async def secure_broker(**more: Any) -> AsyncIterator[Admin]:
    """Two tenants with their admins; in t/n one role may produce and another consume."""
    async with admin_of_new_broker(**SETTINGS, **more) as admin:
        root = replace(admin, token=TOKENS[Who.SUPER])
        for tenant, boss in (("t", "boss"), ("other", "other-boss")):
            info = {"adminRoles": [boss], "allowedClusters": ["standalone"]}
            assert (await root.put(f"/admin/v2/tenants/{tenant}", info)).status == 204
        boss = replace(admin, token=TOKENS[Who.ADMIN])
        assert (await boss.put("/admin/v2/namespaces/t/n", {})).status == 204
        grants = "/admin/v2/namespaces/t/n/permissions"
        assert (await boss.post(f"{grants}/producer", ["produce"])).status == 204
        assert (await boss.post(f"{grants}/consumer", ["consume"])).status == 204
        assert (await boss.put("/admin/v2/persistent/t/n/x")).status == 204
        yield admin


# ---------------------------------------------------------------------- REST

_PARTS = {"tenant": "t", "namespace": "n", "topic": "x", "subscription": "s"}


def path_of(route: Route) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: _PARTS.get(found[1], "1"), route.row.path)


async def reached(api: Administration, call: Call) -> object:
    return Response(REACHED)


def test_every_route_lets_in_whom_the_table_says_and_nobody_else() -> None:
    routes = all_routes()
    rules: dict[str, Rule] = {}
    for route in routes:
        rule = rule_of(route.row.method, path_of(route))
        assert rule is not None, f"no row for {route.row.method} {route.row.path}"
        rules[route.row.name + route.row.method] = rule

    async def body() -> int:
        cells = 0
        async with secure_broker() as admin:
            # The real checks; behind them a handler that only says that it was reached.
            harmless = [replace(route, handler=reached, body=None) for route in routes]
            behind = replace(admin, application=Application(admin.api, harmless))
            for route in routes:
                rule, path = rules[route.row.name + route.row.method], path_of(route)
                for who in Who:
                    is_allowed = who in rule.allowed
                    caller = replace(behind if is_allowed else admin, token=TOKENS[who])
                    reply = await caller.call(route.row.method, path)
                    status = rule.status if who in KNOWN else 401
                    wanted = REACHED if is_allowed else status
                    assert reply.status == wanted, (who, route.row.method, path, reply.body)
                    cells += 1
        return cells

    print(f"\nREST: {len(routes)} routes x {len(Who)} callers = {asyncio.run(body())} cells")


# ---------------------------------------------------------------------- the binary protocol


class Peer:
    def __init__(self, admin: Admin, token: str | None) -> None:
        self.connection = Connection(admin.service, make_handlers(admin.service))
        self.wire = Wire(self.connection)
        self.connection.connection_made(self.wire)
        connect = wire.CommandConnect(client_version="Test", protocol_version=21)
        if token is not None:
            connect.auth_method_name, connect.auth_data = "token", token.encode()
        self.say(connect)

    def say(self, body: Any) -> None:
        self.connection.data_received(wire.encode_command(wire.make_command(body)))

    async def ask(self, body: Any) -> list[BaseCommand]:
        """Everything that comes back before all is quiet."""
        while not self.wire.received and not self.wire.closed:  # credentials are judged
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # what was said before is written
        before = len(self.wire.received)
        if isinstance(body, bytes):
            self.connection.data_received(body)
        else:
            self.say(body)
        for _ in range(40):
            await asyncio.sleep(0)
        return self.wire.received[before:]


def code_of(command: BaseCommand) -> str | None:
    body = wire.body_of(command)
    for name in ("error", "error_code"):
        if name in body.DESCRIPTOR.fields_by_name and body.HasField(name):
            return str(ServerError.Name(getattr(body, name)))
    return None


PRODUCER = wire.CommandProducer(topic=TOPIC, producer_id=1, request_id=1)
SUBSCRIBE = wire.CommandSubscribe(
    topic=TOPIC,
    subscription="s",
    subType=wire.CommandSubscribe.Shared,
    consumer_id=1,
    request_id=1,
)


def send() -> bytes:
    metadata = wire.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    command = wire.make_command(wire.CommandSend(producer_id=1, sequence_id=0, num_messages=1))
    return encode_payload_command(command, encode_entry(metadata, b"x"))


def transaction(kind: Any, **more: Any) -> Any:
    return kind(request_id=2, **more)


def bodies(token: str | None) -> dict[str, tuple[Any, Any]]:
    """Of each command, what must come before it and the command itself."""
    txn = {"txnid_least_bits": 1, "txnid_most_bits": 1}
    consumer = {"consumer_id": 1, "request_id": 2}
    first = wire.MessageIdData(ledgerId=1, entryId=0)
    fresh = wire.AuthData(auth_method_name="token", auth_data=(token or "").encode())
    return {
        "CONNECT": (None, None),
        "AUTH_RESPONSE": (None, wire.CommandAuthResponse(protocol_version=21, response=fresh)),
        "PING": (None, wire.body_of(wire.ping())),
        "PONG": (None, wire.body_of(wire.pong())),
        "LOOKUP": (None, wire.CommandLookupTopic(topic=TOPIC, request_id=2)),
        "PARTITIONED_METADATA": (
            None,
            wire.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=2),
        ),
        "GET_SCHEMA": (None, wire.CommandGetSchema(topic=TOPIC, request_id=2)),
        "GET_OR_CREATE_SCHEMA": (
            None,
            wire.CommandGetOrCreateSchema(
                topic=TOPIC,
                request_id=2,
                schema=wire.Schema(name="s", type=wire.Schema.String, schema_data=b""),
            ),
        ),
        "GET_TOPICS_OF_NAMESPACE": (
            None,
            wire.CommandGetTopicsOfNamespace(namespace="t/n", request_id=2),
        ),
        "WATCH_TOPIC_LIST": (
            None,
            wire.CommandWatchTopicList(
                namespace="t/n", request_id=2, watcher_id=1, topics_pattern="t/n/.*"
            ),
        ),
        "WATCH_TOPIC_LIST_CLOSE": (
            None,
            wire.CommandWatchTopicListClose(request_id=2, watcher_id=1),
        ),
        "PRODUCER": (None, PRODUCER),
        "SEND": (PRODUCER, send()),
        "CLOSE_PRODUCER": (PRODUCER, wire.CommandCloseProducer(producer_id=1, request_id=2)),
        "SUBSCRIBE": (None, SUBSCRIBE),
        "FLOW": (SUBSCRIBE, wire.CommandFlow(consumer_id=1, messagePermits=1)),
        "ACK": (
            SUBSCRIBE,
            wire.CommandAck(consumer_id=1, ack_type=wire.CommandAck.Individual, message_id=[first]),
        ),
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": (
            SUBSCRIBE,
            wire.CommandRedeliverUnacknowledgedMessages(consumer_id=1),
        ),
        "UNSUBSCRIBE": (SUBSCRIBE, wire.CommandUnsubscribe(**consumer)),
        "CLOSE_CONSUMER": (SUBSCRIBE, wire.CommandCloseConsumer(**consumer)),
        "SEEK": (SUBSCRIBE, wire.CommandSeek(**consumer, message_publish_time=1)),
        "GET_LAST_MESSAGE_ID": (SUBSCRIBE, wire.CommandGetLastMessageId(**consumer)),
        "CONSUMER_STATS": (SUBSCRIBE, wire.CommandConsumerStats(**consumer)),
        "SCALABLE_TOPIC_LOOKUP": (
            None,
            wire.CommandScalableTopicLookup(session_id=1, topic=TOPIC),
        ),
        "SCALABLE_TOPIC_CLOSE": (None, wire.CommandScalableTopicClose(session_id=1)),
        "SCALABLE_TOPIC_SUBSCRIBE": (
            None,
            wire.CommandScalableTopicSubscribe(
                request_id=2,
                topic=TOPIC,
                subscription="s",
                consumer_name="c",
                consumer_id=2,
                consumer_type=wire.ScalableConsumerType.STREAM,
            ),
        ),
        "WATCH_SCALABLE_TOPICS": (
            None,
            wire.CommandWatchScalableTopics(watch_id=1, namespace="t/n"),
        ),
        "WATCH_SCALABLE_TOPICS_CLOSE": (None, wire.CommandWatchScalableTopicsClose(watch_id=1)),
        "NEW_TXN": (None, transaction(wire.CommandNewTxn)),
        "ADD_PARTITION_TO_TXN": (None, transaction(wire.CommandAddPartitionToTxn, **txn)),
        "ADD_SUBSCRIPTION_TO_TXN": (None, transaction(wire.CommandAddSubscriptionToTxn, **txn)),
        "END_TXN": (None, transaction(wire.CommandEndTxn, **txn)),
        "END_TXN_ON_PARTITION": (None, transaction(wire.CommandEndTxnOnPartition, **txn)),
        "END_TXN_ON_SUBSCRIPTION": (None, transaction(wire.CommandEndTxnOnSubscription, **txn)),
        "TC_CLIENT_CONNECT_REQUEST": (
            None,
            transaction(wire.CommandTcClientConnectRequest, tc_id=0),
        ),
        "WATCH_TC_ASSIGNMENTS": (None, wire.CommandWatchTcAssignments(watch_id=1)),
        "WATCH_TC_ASSIGNMENTS_CLOSE": (None, wire.CommandWatchTcAssignmentsClose(watch_id=1)),
    }


def is_refused(replies: list[BaseCommand]) -> bool:
    return any(code_of(reply) == "AuthorizationError" for reply in replies)


async def is_let_do(admin: Admin, name: str, token: str | None) -> bool:
    """Whether the command, and what must come before it, was carried out."""
    before, body = bodies(token)[name]
    peer = Peer(admin, token)
    for _ in range(5):
        await asyncio.sleep(0)
    if not peer.connection.handshake.is_done or peer.wire.closed:
        assert not [each for each in peer.wire.received if code_of(each) is None], "it was let in"
        if body is not None:  # one that does not take no for an answer
            assert await peer.ask(body) == []
        return False
    attached = True
    if before is not None:
        attached = not is_refused(await peer.ask(before))
    replies = [] if body is None else await peer.ask(body)
    if before is not None and not attached:
        held = peer.connection
        assert not held.producers and not held.consumers, f"{name}: something is attached"
        done = [each for each in replies if code_of(each) is None]
        assert all(each.type == BaseCommand.SUCCESS for each in done), (name, done)
    is_done = attached and not is_refused(replies) and not peer.wire.closed
    peer.wire.close()
    return is_done


def test_every_command_is_carried_out_for_whom_the_table_says_and_nobody_else() -> None:
    async def body() -> int:
        cells = 0
        async with secure_broker() as admin:
            for name, rule in COMMANDS.items():
                for who in Who:
                    is_done = await is_let_do(admin, name, TOKENS[who])
                    assert is_done == (who in rule.allowed), (who, name)
                    cells += 1
        return cells

    cells = asyncio.run(body())
    print(f"\nbinary protocol: {len(COMMANDS)} commands x {len(Who)} callers = {cells} cells")


# ---------------------------------------------------------------------- after a revocation

HELD = (
    "WATCH_TOPIC_LIST",
    "SCALABLE_TOPIC_LOOKUP",
    "SCALABLE_TOPIC_SUBSCRIBE",
    "WATCH_SCALABLE_TOPICS",
)
"""What has no word for its end: the connection ends instead."""


@dataclass
class Office:
    """Takes from a caller what allows it anything, and gives it back."""

    admin: Admin

    async def take(self, who: Who) -> None:
        keeper = replace(self.admin, token=sign_token({"sub": "keeper"}, KEY))
        match who:
            case Who.PRODUCER | Who.CONSUMER:
                path = f"/admin/v2/namespaces/t/n/permissions/{ROLES[who]}"
                reply = await keeper.delete(path)
            case Who.ADMIN:
                reply = await self._set_admins(keeper, [])
            case _:
                reply = await self._set_super_users(keeper, "keeper")
        assert reply.status < 300, reply.body

    async def give_back(self, who: Who) -> None:
        keeper = replace(self.admin, token=sign_token({"sub": "keeper"}, KEY))
        match who:
            case Who.PRODUCER | Who.CONSUMER:
                action = "produce" if who is Who.PRODUCER else "consume"
                path = f"/admin/v2/namespaces/t/n/permissions/{ROLES[who]}"
                reply = await keeper.post(path, [action])
            case Who.ADMIN:
                reply = await self._set_admins(keeper, ["boss"])
            case _:
                reply = await self._set_super_users(keeper, "root,keeper")
        assert reply.status < 300, reply.body

    @staticmethod
    async def _set_admins(keeper: Admin, admins: list[str]) -> Reply:
        info = {"adminRoles": admins, "allowedClusters": ["standalone"]}
        return await keeper.post("/admin/v2/tenants/t", info)

    @staticmethod
    async def _set_super_users(keeper: Admin, roles: str) -> Reply:
        return await keeper.post(f"/admin/v2/brokers/configuration/superUserRoles/{roles}")


async def state_of(admin: Admin) -> object:
    """What a command could have changed."""
    topic = await admin.service.catalog.load_topic(parse_topic(TOPIC))
    assert isinstance(topic, PersistentTopic)
    marks = {name: each.cursor.mark_delete for name, each in topic.subscriptions.items()}
    return topic.log.sequence.total_entries, marks, len(topic.producers)


async def is_let_do_after(admin: Admin, name: str, who: Who, *, first: Any = None) -> bool:
    """Whether the command was carried out although what allowed it is gone. `first` is sent before
    that happens, behind what the command needs.
    """
    before, body = bodies(TOKENS[who])[name]
    peer = Peer(admin, TOKENS[who])
    await asyncio.sleep(0)
    for each in (before, first):
        if each is not None:
            assert not is_refused(await peer.ask(each)), (who, name)
    office = Office(admin)
    await office.take(who)
    try:
        state = await state_of(admin)
        if peer.wire.closed:
            return False
        replies = [] if body is None else await peer.ask(body)
        await asyncio.sleep(0)
        connection = peer.connection
        assert not connection.producers and not connection.consumers, f"{name}: still attached"
        assert not list(connection.consumers.away), f"{name}: about to come back"
        assert await state_of(admin) == state, f"{name} changed something"
        if COMMANDS[name] is ANYBODY_KNOWN:
            return not is_refused(replies) and not peer.wire.closed
        done = [each for each in replies if code_of(each) is None]
        is_silent = name in ("SEND", "FLOW", "ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES")
        return not peer.wire.closed and not is_silent and len(done) == len(replies)
    finally:
        peer.wire.close()
        await office.give_back(who)


SEEK_FIRST = wire.CommandSeek(consumer_id=1, request_id=9, message_publish_time=1)
OFFICES = (Who.PRODUCER, Who.CONSUMER, Who.ADMIN, Who.SUPER)


def test_after_a_revocation_an_open_connection_is_let_do_what_the_table_says() -> None:
    async def body() -> int:
        cells = 0
        async with secure_broker() as admin:
            await admin.publish(TOPIC, b"one")
            for name, rule in COMMANDS.items():
                before = bodies(None)[name][0]
                for who in OFFICES:
                    if who not in rule.allowed:
                        continue
                    for first in (None, SEEK_FIRST) if before is SUBSCRIBE else (None,):
                        is_done = await is_let_do_after(admin, name, who, first=first)
                        assert is_done == (who in AFTER_REVOCATION[name].allowed), (who, name)
                        cells += 1
        return cells

    cells = asyncio.run(body())
    print(f"\nafter a revocation, on the open connection: {cells} cells")


def test_a_connection_that_watches_ends_with_the_grant_behind_it() -> None:
    async def body() -> None:
        async with secure_broker() as admin:
            keeper = replace(admin, token=sign_token({"sub": "keeper"}, KEY))
            # Nothing of the namespace is loaded: its policies are not held for any topic.
            assert (await keeper.put("/admin/v2/persistent/t/n/x/unload")).status < 300
            for name in HELD:
                for who in (each for each in OFFICES if each in COMMANDS[name].allowed):
                    opened = bodies(None)[name][1]
                    assert not await is_let_do_after(admin, "PING", who, first=opened), (who, name)

    asyncio.run(body())


class SlowStore(MemoryStore):
    """Records of topics are read only while the gate is open."""

    def __init__(self) -> None:
        super().__init__(MemoryTree(SystemClock()))
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()

    async def get(self, path: str) -> Record | None:
        if path.startswith(("/managed-ledgers/t/n", "/topics/t/n")) and not self.gate.is_set():
            self.asked.set()
            await self.gate.wait()
        return await super().get(path)


@pytest.mark.parametrize(
    ("name", "who"),
    [
        (name, who)
        for name in ("PRODUCER", "SUBSCRIBE")
        for who in OFFICES
        if who in COMMANDS[name].allowed
    ],
)
def test_what_is_still_being_attached_is_refused_when_the_grant_goes(name: str, who: Who) -> None:
    async def body() -> None:
        store = SlowStore()
        async with secure_broker(metadata=store) as admin:
            await admin.service.catalog.unload_topic(parse_topic(TOPIC))
            peer = Peer(admin, TOKENS[who])
            await asyncio.sleep(0)
            store.gate.clear()
            peer.say(bodies(None)[name][1])
            async with asyncio.timeout(20):
                await store.asked.wait()
                await Office(admin).take(who)
                store.gate.set()
                while not any(map(code_of, peer.wire.received)):
                    await asyncio.sleep(0)
            assert is_refused(peer.wire.received), peer.wire.received
            held = peer.connection
            assert (
                not held.producers
                and not held.consumers
                and not held.attached(ConnectionRegistry).groups
            )
            _, marks, producers = await state_of(admin)  # type: ignore[misc]
            assert not marks and not producers, "nothing is made for a caller without grant"
            peer.wire.close()
        await store.close()

    asyncio.run(body())


# ---------------------------------------------------------------------- nothing is left out


def test_every_command_that_a_client_may_send_has_a_row() -> None:
    async def kinds() -> set[int]:
        async with admin_of_new_broker() as admin:
            return set(make_handlers(admin.service))

    plain = {BaseCommand.CONNECT, BaseCommand.PING, BaseCommand.PONG, BaseCommand.SEND}
    handled = asyncio.run(kinds()) | plain
    assert set(NEEDS) == handled
    assert set(COMMANDS) == {BaseCommand.Type.Name(kind) for kind in handled}
    assert set(bodies(None)) == set(COMMANDS) == set(AFTER_REVOCATION)


def test_every_route_has_a_need_and_the_table_needs_every_row() -> None:
    from tests.hostile.permission_table import REST

    calls = [f"{route.row.method} {path_of(route)}" for route in all_routes()]
    assert all(route.row.need is not None for route in all_routes())
    for pattern, _ in REST:
        assert any(re.fullmatch(pattern, call) for call in calls), f"no route: {pattern}"


@pytest.mark.parametrize("query", [{"topics": [TOPIC]}, {"namespace": "t/n"}], ids=str)
def test_a_read_is_planned_for_those_that_may_consume(query: dict[str, Any]) -> None:
    """The topics are named in the body, so that no rule of the route knows them."""

    async def body() -> None:
        async with secure_broker() as admin:
            await replace(admin, token=TOKENS[Who.ADMIN]).put("/admin/v2/persistent/t/n/x", {})
            told = {}
            for who in KNOWN:
                caller = replace(admin, token=TOKENS[who])
                told[who] = (await caller.post("/admin/v2/reads/plan", query)).status
        may = {Who.SUPER, Who.ADMIN, Who.CONSUMER}
        assert {who for who, status in told.items() if status == 200} == may, told
        assert all(status in (401, 403) for who, status in told.items() if who not in may), told

    asyncio.run(body())
