"""Proofs that an application brings itself: asked for each host, in steps, and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from magnetar import Admin, AsyncPulsarClient, AuthenticationError, Token
from magnetar.client.admin.network import SocketNetwork, run
from magnetar.client.authentication import BasicAuthentication, http_headers
from magnetar.wire.command import AuthData, CommandAuthChallenge, CommandConnected
from tests.unit.client.admin.web import scripted_web
from tests.unit.client.peer import Line, Type, scripted_broker


class Ladder:
    """Three steps; the answer to each challenge counts it."""

    method_name = "ladder"

    def __init__(self) -> None:
        self.hosts: list[str] = []

    async def auth_data(self, host: str) -> bytes:
        self.hosts.append(host)
        return b"first"

    async def respond(self, challenge: bytes) -> bytes:
        return b"answer to " + challenge

    def http_headers(self) -> Mapping[str, str]:
        return {"X-Ladder": "high"}


def challenge(step: bytes) -> CommandAuthChallenge:
    return CommandAuthChallenge(challenge=AuthData(auth_method_name="ladder", auth_data=step))


def test_a_method_of_several_steps_answers_each_before_it_is_connected() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:

            def on_response(line: Line, body: Any, _: bytes) -> None:
                if len(broker.bodies(Type.AUTH_RESPONSE)) == 1:
                    line.say(challenge(b"two"))
                else:
                    line.say(CommandConnected(server_version="scripted", protocol_version=21))

            broker.on[Type.CONNECT] = lambda line, body, _: line.say(challenge(b"one"))
            broker.on[Type.AUTH_RESPONSE] = on_response
            ladder = Ladder()
            async with AsyncPulsarClient(broker.url, authentication=ladder) as client:
                await client.connect()
                broker.lines[0].say(challenge(b"PulsarAuthRefresh"))
                answers = await broker.until(Type.AUTH_RESPONSE, 3)
            said = [answer.response.auth_data for answer in answers]
            # Fresh credentials are asked for as at the beginning.
            assert said == [b"answer to one", b"answer to two", b"first"]
            [connect] = broker.bodies(Type.CONNECT)
            assert (connect.auth_method_name, connect.auth_data) == ("ladder", b"first")
            assert ladder.hosts == ["127.0.0.1", "127.0.0.1"]

    asyncio.run(body())


def test_a_method_that_fails_in_between_is_told_without_what_it_said() -> None:
    class Broken(Ladder):
        async def respond(self, challenge: bytes) -> bytes:
            raise LookupError("the secret is 1234")

    async def body() -> None:
        async with scripted_broker() as broker:
            broker.on[Type.CONNECT] = lambda line, body, _: line.say(challenge(b"one"))
            async with AsyncPulsarClient(broker.url, authentication=Broken()) as client:
                with pytest.raises(AuthenticationError, match="LookupError") as caught:
                    await client.connect()
            assert "1234" not in str(caught.value)

    asyncio.run(body())


def test_a_method_says_itself_what_admin_requests_carry() -> None:
    with scripted_web() as web, Admin(web.url, authentication=Ladder()) as admin:
        admin.tenants.delete("t")
        assert web.asked[0].headers["X-Ladder"] == "high"


def test_tokens_and_passwords_become_the_usual_headers() -> None:
    wait_for = SocketNetwork().wait_for
    token = run(http_headers(Token("abc"), "h", wait_for))
    assert token == {"Authorization": "Bearer abc"}
    basic = run(http_headers(BasicAuthentication("u", "p"), "h", wait_for))
    assert basic == {"Authorization": "Basic dTpw"}
    assert run(http_headers(None, "h", wait_for)) == {}
