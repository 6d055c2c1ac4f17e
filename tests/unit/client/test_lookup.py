"""Finding the broker of a topic: by its listener's name, through a proxy, over redirects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import PulsarError
from magnetar.wire.command import CommandLookupTopicResponse
from magnetar.wire.entry import decode_entry
from tests.unit.client.peer import Line, Type, scripted_broker


def test_the_name_of_a_listener_goes_with_every_lookup() -> None:
    async def body() -> None:
        async with (
            scripted_broker() as broker,
            AsyncPulsarClient(broker.url, listener_name="outside") as client,
        ):
            await client.producer("a")
            await client.consumer("b", "s")
            names = [each.advertised_listener_name for each in broker.bodies(Type.LOOKUP)]
            assert names == ["outside", "outside"]

    asyncio.run(body())


def test_a_broker_behind_a_proxy_is_reached_through_it_by_its_name() -> None:
    async def body() -> None:
        async with scripted_broker() as proxy, AsyncPulsarClient(proxy.url) as client:
            lines: list[Line] = []
            attach = proxy.on[Type.PRODUCER]

            def on_lookup(line: Line, lookup: Any, _: bytes) -> None:
                line.say(
                    CommandLookupTopicResponse(
                        request_id=lookup.request_id,
                        response=CommandLookupTopicResponse.Connect,
                        brokerServiceUrl="pulsar://broker-7:6650",
                        proxy_through_service_url=True,
                    )
                )

            def on_producer(line: Line, body: Any, entry: bytes) -> None:
                lines.append(line)
                attach(line, body, entry)

            proxy.on[Type.LOOKUP] = on_lookup
            proxy.on[Type.PRODUCER] = on_producer
            for _ in range(2):
                await (await client.producer("t")).send(b"x")
            connects = proxy.bodies(Type.CONNECT)
            assert not connects[0].HasField("proxy_to_broker_url")
            assert [each.proxy_to_broker_url for each in connects[1:]] == ["broker-7:6650"]
            assert lines == [proxy.lines[1]] * 2

    asyncio.run(body())


def test_the_next_broker_is_asked_after_one_that_cannot_say() -> None:
    """A broker that is cut off from the others answers, and knows of no owner."""

    async def body() -> None:
        async with scripted_broker() as lonely, scripted_broker() as other:
            lonely.on[Type.LOOKUP] = lambda line, lookup, _: line.say(
                CommandLookupTopicResponse(
                    request_id=lookup.request_id,
                    response=CommandLookupTopicResponse.Failed,
                    error="ServiceNotReady",
                    message="the metadata store is away",
                )
            )
            url = f"{lonely.url},{other.url.removeprefix('pulsar://')}"
            async with AsyncPulsarClient(url) as client:
                await (await client.producer("t")).send(b"x")
            assert len(lonely.bodies(Type.LOOKUP)) == 1
            assert len(other.bodies(Type.LOOKUP)) == 1

    asyncio.run(body())


def test_redirects_without_end_are_given_up_in_time() -> None:
    async def body() -> None:
        async with (
            scripted_broker() as broker,
            AsyncPulsarClient(broker.url, operation_timeout=0.2) as client,
        ):
            broker.on[Type.LOOKUP] = lambda line, lookup, _: line.say(
                CommandLookupTopicResponse(
                    request_id=lookup.request_id,
                    response=CommandLookupTopicResponse.Redirect,
                    brokerServiceUrl=broker.url,
                )
            )
            with pytest.raises(PulsarError, match="redirected 20 times"):
                await client.producer("t")

    asyncio.run(body())


def test_the_clusters_a_message_is_for_are_written_on_it() -> None:
    async def body() -> None:
        async with scripted_broker() as broker, AsyncPulsarClient(broker.url) as client:
            entries: list[bytes] = []
            store = broker.on[Type.SEND]

            def on_send(line: Line, send: Any, entry: bytes) -> None:
                entries.append(entry)
                store(line, send, entry)

            broker.on[Type.SEND] = on_send
            producer = await client.producer("t")
            await producer.send(b"x", replication_clusters=["east", "west"])
            await producer.send(b"y")
            written = [list(decode_entry(entry)[0].replicate_to) for entry in entries]
            assert written == [["east", "west"], []]

    asyncio.run(body())
