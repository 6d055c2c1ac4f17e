"""Nothing that a client chooses costs more than linear time.

Every command and every REST route with a body, each field grown by doubling, and shapes made by
hand for what is known to tempt: the processor time grows at most three times with each doubling.
`MAGNETAR_EXPLORE=SECONDS` goes on with larger inputs, several fields at once, for so long.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from itertools import count
from typing import Any

import pytest

from magnetar.admin.route import Route
from magnetar.admin.table import all_routes
from magnetar.broker.handler.permission import NEEDS
from magnetar.wire import command as wire
from magnetar.wire.command import BaseCommand, MessageMetadata, encode_command, make_command
from magnetar.wire.entry import encode_entry
from tests.hostile.cost import (
    TOPIC,
    Measure,
    attached,
    choose,
    cost_of,
    find_growth,
    grown_values,
    ladder,
    leaves,
    measure_command,
)
from tests.hostile.test_permission_matrix import Peer
from tests.unit.admin.assembly import V2, Admin, admin_of_new_broker

EXPLORE_S = float(os.environ.get("MAGNETAR_EXPLORE", "0"))
SIZES = ladder(4 << 10, 256 << 10)
LARGE = ladder(64 << 10, 4 << 20)
CROWD = ladder(1000, 16_000)
SMALL = ladder(8 << 10, 64 << 10)
PLAIN = (BaseCommand.CONNECT, BaseCommand.PING, BaseCommand.PONG, BaseCommand.SEND)
KINDS = [kind for kind in NEEDS if kind not in (*PLAIN, BaseCommand.AUTH_RESPONSE)]
ROUTES = [route for route in all_routes() if route.body is not None]
BY_OPERATION = {route.row.name: route for route in ROUTES}
_PARTS = {"tenant": "public", "namespace": "default", "topic": "x", "subscription": "s"}


@asynccontextmanager
async def broker() -> AsyncIterator[Admin]:
    async with admin_of_new_broker(allowAclChangesOnNonExistentTopics="true") as admin:
        assert (await admin.put(f"{V2}/persistent/public/default/x")).status == 204
        peer = await attached(admin, "s")
        for number in range(3):
            metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
            send = wire.CommandSend(producer_id=1, sequence_id=number)
            await peer.ask(wire.encode_payload_command(make_command(send), entry(metadata)))
        yield admin


def entry(metadata: MessageMetadata) -> bytes:
    return encode_entry(metadata, b"x")


def judge(named: Iterable[tuple[str, Callable[[Admin], Measure]]], sizes: list[int]) -> None:
    async def body() -> list[str]:
        found = []
        async with broker() as admin:
            for name, make in named:
                trouble = await find_growth(make(admin), sizes)
                if trouble is not None:
                    found.append(f"{name} {trouble}")
        return found

    assert asyncio.run(body()) == []


# ---------------------------------------------------------------------- commands


def paths_of(kind: int) -> list[tuple[str, ...]]:
    return list(leaves(BaseCommand.DESCRIPTOR.fields_by_number[kind].message_type))


@pytest.mark.parametrize("kind", KINDS, ids=BaseCommand.Type.Name)
def test_a_command_costs_no_more_than_its_size(kind: int) -> None:
    judge(
        (
            (".".join(path), lambda admin, path=path: measure_command(admin, kind, [path]))
            for path in paths_of(kind)
        ),
        SIZES,
    )


# ---------------------------------------------------------------------- REST


def path_of(route: Route) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: _PARTS.get(found[1], "1"), route.row.path)


def measure_body(admin: Admin, route: Route, variant: int) -> Measure:
    assert route.body is not None
    media_type = route.body.row.media_types[-1]

    async def measure(size: int) -> float:
        raw = values_of(route.row.name, size)[variant]

        def act() -> Awaitable[object]:
            return admin.call(route.row.method, path_of(route), raw=raw, content_type=media_type)

        return await cost_of(admin, act)

    return measure


@lru_cache(maxsize=64)
def values_of(route: str, size: int) -> list[bytes]:
    """The bodies for a route, each with another part grown."""
    body = BY_OPERATION[route].body
    assert body is not None
    return [json.dumps(value).encode() for value in grown_values(body.schema, size)]


def variants(route: Route) -> int:
    return len(values_of(route.row.name, 16))


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: f"{each.row.method}-{each.row.name}")
def test_a_body_costs_no_more_than_its_size(route: Route) -> None:
    judge(
        (
            (f"body {number}", lambda admin, number=number: measure_body(admin, route, number))
            for number in range(variants(route))
        ),
        SMALL,
    )


# ---------------------------------------------------------------------- made by hand


def command(body: Any) -> bytes:
    return encode_command(make_command(body))


def measure_ack_set(kind: Any) -> Callable[[Admin], Measure]:
    """Acknowledge a part of a batch, then let it come again with what is left."""

    numbers = count()

    def make(admin: Admin) -> Measure:
        async def measure(size: int) -> float:
            peer = Peer(admin, None)
            subscribe = wire.CommandSubscribe(
                topic=TOPIC,
                subscription=f"acks-{next(numbers)}",
                subType=kind,
                consumer_id=1,
                request_id=1,
            )
            subscribe.initialPosition = wire.CommandSubscribe.Earliest
            await peer.ask(subscribe)
            await peer.ask(wire.CommandFlow(consumer_id=1, messagePermits=10))
            held = [each for each in peer.wire.received if each.HasField("message")]
            position = held[-1].message.message_id
            position.ack_set.extend([-1] * (size // 11))
            ack = wire.CommandAck(
                consumer_id=1, ack_type=wire.CommandAck.Individual, message_id=[position]
            )
            again = wire.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
            data = command(ack) + command(again)
            taken = await cost_of(admin, lambda: peer.connection.data_received(data))
            peer.wire.close()
            await asyncio.sleep(0)
            return taken

        return measure

    return make


def measure_ranges(admin: Admin) -> Measure:
    """Two consumers whose many hash ranges lie between each other's."""
    numbers = count()

    async def measure(size: int) -> float:
        subscription = f"sticky-{next(numbers)}"
        peers = [Peer(admin, None), Peer(admin, None)]
        taken = 0.0
        for first, peer in enumerate(peers):
            spans = [
                wire.IntRange(start=first + 2 * index, end=first + 2 * index)
                for index in range(size // 40)
            ]
            meta = wire.KeySharedMeta(keySharedMode=wire.KeySharedMode.STICKY, hashRanges=spans)
            data = command(
                wire.CommandSubscribe(
                    topic=TOPIC,
                    subscription=subscription,
                    subType=wire.CommandSubscribe.Key_Shared,
                    consumer_id=1,
                    request_id=1,
                    keySharedMeta=meta,
                )
            )
            taken += await cost_of(
                admin, lambda peer=peer, data=data: peer.connection.data_received(data)
            )
        for peer in peers:
            peer.wire.close()
        await asyncio.sleep(0)
        return taken

    return measure


def measure_crowd(admin: Admin, kind: Any, *, leaves: bool) -> Measure:
    """Many consumers of one connection, on one subscription, that come, or go with it."""
    numbers = count()

    async def measure(size: int) -> float:
        subscription, peer = f"crowd-{next(numbers)}", Peer(admin, None)
        await peer.ask(wire.CommandLookupTopic(topic=TOPIC, request_id=1))
        data = b"".join(
            command(
                wire.CommandSubscribe(
                    topic=TOPIC,
                    subscription=subscription,
                    subType=kind,
                    consumer_id=number,
                    request_id=number,
                )
            )
            for number in range(2, size + 2)
        )
        coming = await cost_of(admin, lambda: peer.connection.data_received(data))
        assert sum(each.HasField("success") for each in peer.wire.received) == size
        going = await cost_of(admin, peer.wire.close)
        return going if leaves else coming

    return measure


def crowd(kind: Any, *, leaves: bool) -> Callable[[Admin], Measure]:
    return partial(measure_crowd, kind=kind, leaves=leaves)


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def of_type(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def union(size: int) -> tuple[Any, Any]:
    kinds = [record(f"N{index}") for index in range(size // 50)]
    return record("R", of_type("u", kinds)), record("R", of_type("u", kinds), of_type("v", "int"))


def wide(size: int) -> tuple[Any, Any]:
    fields = [of_type(f"f{index}", "int", default=0) for index in range(size // 50)]
    return record("R", *fields), record("R", *reversed(fields), of_type("v", "int", default=0))


def many_ways(size: int) -> tuple[Any, Any]:
    """A reader with two ways at every level, and a writer that fits none of them in the end."""
    writer: Any = record("W0", of_type("a", "string"))
    reader: Any = [record(f"{side}0", of_type("a", "int")) for side in "AB"]
    for level in range(1, size // 1000):
        writer = record(f"W{level}", of_type("a", writer))
        left, right = f"A{level - 1}", f"B{level - 1}"
        reader = [
            record(f"A{level}", of_type("a", reader)),
            record(f"B{level}", of_type("a", [left, right])),
        ]
    return record("Root", of_type("r", writer)), record("Root", of_type("r", reader))


def measure_schema(shape: Callable[[int], tuple[Any, Any]]) -> Callable[[Admin], Measure]:
    """Two versions of a schema, one after the other."""
    numbers = count()

    def make(admin: Admin) -> Measure:
        async def measure(size: int) -> float:
            topic = f"schema-{shape.__name__}-{next(numbers)}"
            taken = 0.0
            for version in shape(size):
                payload = {"type": "AVRO", "schema": json.dumps(version), "properties": {}}
                path = f"{V2}/schemas/public/default/{topic}/schema"
                taken += await cost_of(
                    admin, lambda path=path, payload=payload: admin.post(path, payload)
                )
            return taken

        return measure

    return make


def measure_permissions(topics: int, roles: int) -> Callable[[Admin], Measure]:
    """Grants on many names, or to many roles, then all of them revoked."""

    def make(admin: Admin) -> Measure:
        async def measure(size: int) -> float:
            rows = [
                {
                    "topic": f"persistent://public/default/p{index % topics}",
                    "role": f"r{index % roles}",
                }
                for index in range(size // 100)
            ]
            grants = [{**row, "actions": ["produce"]} for row in rows]
            path = f"{V2}/namespaces"
            assert (await admin.post(f"{path}/grantPermissionsOnTopics", grants[:1])).status == 204
            grant = cost_of(admin, lambda: admin.post(f"{path}/grantPermissionsOnTopics", grants))
            revoke = cost_of(admin, lambda: admin.post(f"{path}/revokePermissionsOnTopics", rows))
            return await grant + await revoke

        return measure

    return make


SHAPES: dict[str, tuple[Callable[[Admin], Measure], list[int]]] = {
    "ack-set-shared": (measure_ack_set(wire.CommandSubscribe.Shared), SIZES),
    "ack-set-exclusive": (measure_ack_set(wire.CommandSubscribe.Exclusive), SIZES),
    "sticky-ranges": (measure_ranges, SIZES),
    "crowd-that-comes": (crowd(wire.CommandSubscribe.Shared, leaves=False), CROWD),
    "crowd-that-goes": (crowd(wire.CommandSubscribe.Shared, leaves=True), CROWD),
    "failover-that-comes": (crowd(wire.CommandSubscribe.Failover, leaves=False), CROWD),
    "failover-that-goes": (crowd(wire.CommandSubscribe.Failover, leaves=True), CROWD),
    "avro-union": (measure_schema(union), SIZES),
    "avro-record": (measure_schema(wide), SIZES),
    "avro-many-ways": (measure_schema(many_ways), ladder(4000, 32_000)),
    "permissions-on-many-topics": (measure_permissions(1 << 30, 1), SIZES),
    "permissions-of-many-roles": (measure_permissions(1, 1 << 30), SIZES),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_made_to_cost_much_costs_no_more_than_its_size(shape: str) -> None:
    make, sizes = SHAPES[shape]
    judge([(shape, make)], sizes)


# ---------------------------------------------------------------------- at length


@pytest.mark.skipif(not EXPLORE_S, reason="MAGNETAR_EXPLORE tells for how many seconds")
def test_larger_inputs_and_several_fields_at_once_cost_no_more_than_their_size(
    request: pytest.FixtureRequest,
) -> None:
    seed = request.config.getoption("--hypothesis-seed") or str(time.time_ns())
    draw = random.Random(str(seed))
    end = time.monotonic() + EXPLORE_S
    kinds = [kind for kind in KINDS if paths_of(kind)]
    while time.monotonic() < end:
        kind = choose(draw, kinds)
        paths = draw.sample(paths_of(kind), min(len(paths_of(kind)), draw.randint(1, 3)))
        name = f"seed {seed}: {BaseCommand.Type.Name(kind)} {paths}"
        judge(
            [(name, lambda admin, kind=kind, paths=paths: measure_command(admin, kind, paths))],
            LARGE,
        )
        route = choose(draw, ROUTES)
        number = draw.randrange(variants(route))
        name = f"seed {seed}: {route.row.method} {route.row.path} body {number}"
        judge(
            [(name, lambda admin, route=route, number=number: measure_body(admin, route, number))],
            LARGE,
        )
        shape = choose(draw, list(SHAPES))
        make, sizes = SHAPES[shape]
        judge([(f"seed {seed}: {shape}", make)], [*sizes, sizes[-1] * 2, sizes[-1] * 4])
