"""Credentials that run out while a connection lasts."""

from __future__ import annotations

import asyncio
import time

import pulsar
import pytest

from magnetar.client.authentication import TokenAuthentication
from magnetar.client.client import AsyncPulsarClient
from magnetar.wire.command import (
    AuthData,
    BaseCommand,
    CommandAuthResponse,
    CommandConnect,
    CommandPing,
    FeatureFlags,
)
from tests.hostile.raw import RawClient
from tests.interop.security.place import Place, token_of

REFRESH = b"PulsarAuthRefresh"
TURNS = 40
TURN_S = 0.1


def connect(place: Place, token: str, *, can_refresh: bool = True) -> RawClient:
    client = RawClient(place.broker, connect=False)
    client.send(
        CommandConnect(
            client_version="raw",
            protocol_version=21,
            auth_method_name="token",
            auth_data=token.encode(),
            feature_flags=FeatureFlags(supports_auth_refresh=can_refresh),
        )
    )
    return client


def respond(client: RawClient, token: str) -> None:
    client.send(
        CommandAuthResponse(
            client_version="raw",
            protocol_version=21,
            response=AuthData(auth_method_name="token", auth_data=token.encode()),
        )
    )


def test_a_client_is_asked_once_and_then_cut_off(place: Place) -> None:
    with connect(place, token_of("alice", lasts_s=2)) as client:
        assert client.receive().type == BaseCommand.CONNECTED
        asked = client.receive()
        assert asked.type == BaseCommand.AUTH_CHALLENGE
        assert asked.authChallenge.challenge.auth_method_name == "token"
        assert asked.authChallenge.challenge.auth_data == REFRESH
        assert client.receive_frame() is None


def test_fresh_credentials_keep_the_connection(place: Place) -> None:
    with connect(place, token_of("alice", lasts_s=2)) as client:
        assert client.receive().type == BaseCommand.CONNECTED
        for _ in range(2):
            assert client.receive().type == BaseCommand.AUTH_CHALLENGE
            respond(client, token_of("alice", lasts_s=2))
        respond(client, token_of("alice"))
        client.send(CommandPing())
        while (found := client.receive().type) == BaseCommand.AUTH_CHALLENGE:
            respond(client, token_of("alice"))
        assert found == BaseCommand.PONG


@pytest.mark.parametrize(
    ("fresh", "tells"),
    [
        (token_of("root"), False),
        (token_of("alice", lasts_s=-1), True),
        ("rubbish", True),
    ],
    # A token is another one each second, and workers must name the tests alike.
    ids=["somebody else", "expired", "rubbish"],
)
def test_credentials_that_prove_somebody_else_or_nothing_end_it(
    place: Place, fresh: str, tells: bool
) -> None:
    with connect(place, token_of("alice")) as client:
        assert client.receive().type == BaseCommand.CONNECTED
        respond(client, fresh)
        if tells:
            error = client.receive()
            assert error.type == BaseCommand.ERROR
            assert error.error.message == "Failed to authenticate"
        assert client.receive_frame() is None


def test_a_client_that_cannot_refresh_is_cut_off_unasked(place: Place) -> None:
    with connect(place, token_of("alice", lasts_s=2), can_refresh=False) as client:
        assert client.receive().type == BaseCommand.CONNECTED
        assert client.receive_frame() is None


def test_a_refused_client_is_told_so_and_nothing_more(place: Place) -> None:
    with connect(place, "rubbish") as client:
        error = client.receive()
        assert error.type == BaseCommand.ERROR
        assert error.error.request_id == 2**64 - 1
        assert error.error.message == "Failed to authenticate"
        assert client.receive_frame() is None


def test_a_refresh_before_connecting_breaks_the_protocol(place: Place) -> None:
    with RawClient(place.broker, connect=False) as client:
        respond(client, token_of("alice"))
        assert client.receive_frame() is None


def test_the_official_client_streams_on_when_its_token_runs_out(place: Place, topic: str) -> None:
    made: list[str] = []

    def supply() -> str:
        made.append(token_of("alice", lasts_s=2))
        return made[-1]

    client = place.official(pulsar.AuthenticationToken(supply))
    try:
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic)
        for number in range(TURNS):
            producer.send(b"%d" % number)
            assert consumer.receive(10_000).data() == b"%d" % number
            time.sleep(TURN_S)
        assert len(made) > 1
    finally:
        client.close()


def test_our_client_streams_on_with_tokens_from_a_coroutine(place: Place, topic: str) -> None:
    made: list[str] = []

    async def supply() -> str:
        await asyncio.sleep(0)
        made.append(token_of("alice", lasts_s=2))
        return made[-1]

    async def body() -> None:
        async with AsyncPulsarClient(
            place.url_tls, authentication=TokenAuthentication(supply), tls=place.tls
        ) as client:
            consumer = await client.consumer(topic, "s")
            producer = await client.producer(topic)
            for number in range(TURNS):
                await producer.send(b"%d" % number)
                assert (await consumer.receive(timeout=10)).value == b"%d" % number
                await asyncio.sleep(TURN_S)
            assert len(made) > 2

    asyncio.run(body())
