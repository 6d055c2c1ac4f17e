"""Names as long as a frame: refused before anything keeps, repeats or looks up one of them."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from magnetar.runtime.log import JsonFormatter, LineFormatter, Logger
from magnetar.wire import command as wire
from magnetar.wire.command import KeyValue
from tests.hostile.permission_table import Who
from tests.hostile.test_permission_matrix import TOKENS, Peer, code_of, secure_broker
from tests.unit.admin.assembly import V2, admin_of_new_broker

LONG = 1_000_000


def kept_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("who", [Who.STRANGER, Who.SUPER])
def test_lookups_of_long_names_are_refused_in_short_and_leave_nothing_behind(
    who: Who, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with secure_broker() as admin:
            peer = Peer(admin, TOKENS[who])
            tracemalloc.start()
            try:
                await peer.ask(wire.CommandLookupTopic(topic="t/n/x", request_id=0))
                before = kept_bytes()
                for number in range(8):
                    name = f"persistent://t/n/{number}" + "x" * LONG
                    [reply] = await peer.ask(wire.CommandLookupTopic(topic=name, request_id=number))
                    assert code_of(reply) == "InvalidTopicName"
                    told = reply.lookupTopicResponse.message
                    assert "maxTopicNameLength" in told and len(told) < 500
                peer.wire.received.clear()
                assert kept_bytes() - before < 2 * LONG, "the test itself holds one"
            finally:
                tracemalloc.stop()

    with caplog.at_level("DEBUG"):
        asyncio.run(main())
    assert sum(len(str(record.__dict__)) for record in caplog.records) < LONG


def test_what_a_stranger_asks_for_is_not_remembered() -> None:
    """Names that are short enough: however many, they fill no cache."""

    async def main() -> None:
        async with secure_broker() as admin:
            peer = Peer(admin, TOKENS[Who.STRANGER])
            tracemalloc.start()
            try:
                for rounds in range(3):
                    for number in range(300):
                        topic = f"persistent://t/n/{rounds}-{number}-" + "x" * 900
                        request = wire.CommandPartitionedTopicMetadata(
                            topic=topic, request_id=number
                        )
                        peer.say(request)
                        if number % 100 == 0:
                            await peer.ask(request)
                    await peer.ask(request)
                    peer.wire.received.clear()
                    if rounds == 0:
                        before = kept_bytes()
                assert kept_bytes() - before < 600 * 900
            finally:
                tracemalloc.stop()

    asyncio.run(main())


LONG_ONES: list[tuple[Any, str]] = [
    (wire.CommandProducer(producer_name="p" * 2000), "maxProducerNameLength"),
    (
        wire.CommandProducer(metadata=[KeyValue(key="k", value="v" * 1000)] * 20),
        "maxProducerMetadataSize",
    ),
    (wire.CommandProducer(initial_subscription_name="s" * 2000), "maxSubscriptionNameLength"),
    (wire.CommandSubscribe(subscription="s" * 2000), "maxSubscriptionNameLength"),
    (wire.CommandSubscribe(consumer_name="c" * 2000), "maxConsumerNameLength"),
    (
        wire.CommandSubscribe(metadata=[KeyValue(key="k", value="v" * 1100)]),
        "maxConsumerMetadataSize",
    ),
    (
        wire.CommandSubscribe(subscription_properties=[KeyValue(key="k", value="v" * 9999)] * 9),
        "maxPropertiesSize",
    ),
]


@pytest.mark.parametrize(("extra", "key"), LONG_ONES, ids=[key for _, key in LONG_ONES])
def test_long_names_and_metadata_of_clients_are_refused(extra: Any, key: str) -> None:
    async def main() -> None:
        async with admin_of_new_broker() as admin:
            peer = Peer(admin, None)
            await asyncio.sleep(0)
            request = type(extra)(topic="x", request_id=5)
            if isinstance(extra, wire.CommandProducer):
                request.producer_id = 1
            else:
                request.consumer_id, request.subscription = 1, "s"
                request.subType = wire.CommandSubscribe.Shared
            request.MergeFrom(extra)
            [reply] = (await peer.ask(request))[-1:]
            assert reply.error.request_id == 5
            assert key in reply.error.message and len(reply.error.message) < 500
            assert not peer.wire.closed and not admin.service.catalog.topics
            metrics = (await admin.get("/metrics")).body
            assert len(metrics) < 100_000

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("tenants/{long}", "maxTenantNameLength"),
        ("clusters/{long}", "maxTenantNameLength"),
        ("namespaces/public/{long}", "maxNamespaceNameLength"),
        ("persistent/public/default/{long}", "maxTopicNameLength"),
        ("persistent/public/default/x/subscription/{long}", "maxSubscriptionNameLength"),
    ],
)
def test_a_path_with_a_long_name_is_refused(path: str, key: str) -> None:
    async def main() -> None:
        async with admin_of_new_broker() as admin:
            reply = await admin.put(f"{V2}/{path.format(long='n' * 3000)}", {})
            assert reply.status == 412 and key in reply.reason and len(reply.reason) < 500

    asyncio.run(main())


def test_properties_and_texts_in_bodies_are_bounded() -> None:
    async def main() -> None:
        async with admin_of_new_broker() as admin:
            namespace = f"{V2}/namespaces/public/default"
            many = {f"key-{number}": "v" for number in range(1001)}
            topic = f"{V2}/persistent/public/default/x"
            for path, body, key in (
                (f"{namespace}/properties", many, "maxProperties"),
                (f"{namespace}/properties", {"a": "b" * 20_000}, "maxPropertyValueLength"),
                (f"{namespace}/properties", {"k" * 2000: "b"}, "maxPropertyKeyLength"),
                (topic, {"a": "b" * 20_000}, "maxPropertyValueLength"),
            ):
                reply = await admin.put(path, body)
                assert reply.status == 400 and key in reply.reason, (path, reply.body[:300])
                assert len(reply.reason) < 500
            assert (await admin.put(topic)).status == 204
            for path in (f"{namespace}/properties", f"{topic}/properties"):
                statuses = [
                    (await admin.put(path, {f"{part}-{n}": "v" for n in range(400)})).status
                    for part in range(3)
                ]
                assert statuses == [204, 204, 400], "what is added counts with what is there"
            schema = f"{V2}/schemas/public/default/x/schema"
            large = {"type": "AVRO", "schema": "x" * (1 << 20) + "x", "properties": {}}
            reply = await admin.post(schema, large)
            assert reply.status == 422 and "maxSchemaSize" in reply.reason

    asyncio.run(main())


def test_logs_cut_long_names() -> None:
    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.extend((LineFormatter().format(record), JsonFormatter().format(record)))

    class Named:
        def __str__(self) -> str:
            return "n" * LONG

    lines: list[str] = []
    logger = logging.getLogger("magnetar.test_name")
    handler = Keep()
    logger.addHandler(handler)
    try:
        Logger(logger.name).warning("refused", topic="t" * LONG, other=Named())
    finally:
        logger.removeHandler(handler)
    assert [len(line) < 3000 for line in lines] == [True, True]


def test_a_limit_is_what_the_operator_says() -> None:
    async def main() -> None:
        async with admin_of_new_broker(maxTopicNameLength="2000") as admin:
            caller = replace(admin)
            long = "persistent/public/default/" + "x" * 1999
            assert (await caller.put(f"{V2}/{long}")).status == 204
            assert (await caller.put(f"{V2}/{long}yy")).status == 412

    asyncio.run(main())
