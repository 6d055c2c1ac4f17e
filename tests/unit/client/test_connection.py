from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.client.address import BrokerAddress, parse_addresses
from magnetar.client.authentication import NoAuthentication, TokenAuthentication
from magnetar.client.connection import Connection
from magnetar.client.error import (
    AuthenticationError,
    ConnectError,
    NotFoundError,
    PulsarTimeoutError,
    WrongPortError,
)
from magnetar.client.policy import ConnectionPolicy
from magnetar.errors import WireCode
from magnetar.wire.command import (
    NO_REQUEST,
    AuthData,
    CommandAuthChallenge,
    CommandConnected,
    CommandProducer,
    CommandUnsubscribe,
    error,
    success,
)
from tests.unit.client.peer import Line, ScriptedBroker, Type, scripted_broker

FAST = ConnectionPolicy(keep_alive=0.02, connection_timeout=5)


async def open_to(broker: ScriptedBroker, policy: ConnectionPolicy | None = None) -> Connection:
    return await Connection.open(
        parse_addresses(broker.url)[0],
        authentication=NoAuthentication(),
        policy=policy or ConnectionPolicy(),
    )


def test_the_handshake_tells_the_limits_of_the_broker() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            broker.on[Type.CONNECT] = lambda line, body, _: line.say(
                CommandConnected(server_version="v9", protocol_version=21, max_message_size=1234)
            )
            connection = await open_to(broker)
            assert connection.message_bytes_max == 1234
            assert connection.server_version == "v9"
            [connect] = broker.bodies(Type.CONNECT)
            assert connect.auth_method_name == "none"
            assert connect.feature_flags.supports_broker_entry_metadata
            connection.close()

    asyncio.run(body())


def test_a_refused_handshake_raises_what_the_broker_said() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            broker.on[Type.CONNECT] = lambda line, body, _: line.say(
                error(NO_REQUEST, WireCode.AUTHENTICATION, "no such role")
            )
            with pytest.raises(AuthenticationError, match="no such role"):
                await open_to(broker)

    asyncio.run(body())


def test_nobody_listening_is_a_connect_error_that_names_the_address() -> None:
    async def body() -> None:
        with pytest.raises(ConnectError, match=r"pulsar://127\.0\.0\.1:1: connection refused"):
            await Connection.open(
                BrokerAddress("127.0.0.1", 1),
                authentication=NoAuthentication(),
                policy=ConnectionPolicy(),
            )

    asyncio.run(body())


def test_a_broker_that_never_answers_is_given_up() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            broker.on[Type.CONNECT] = lambda line, body, _: None
            with pytest.raises(ConnectError, match="in time"):
                await open_to(broker, ConnectionPolicy(connection_timeout=0.05))

    asyncio.run(body())


def test_a_challenge_is_answered_with_fresh_credentials() -> None:
    async def body() -> None:
        tokens = iter(("first", "second"))
        async with scripted_broker() as broker:
            connection = await Connection.open(
                parse_addresses(broker.url)[0],
                authentication=TokenAuthentication(lambda: next(tokens)),
                policy=ConnectionPolicy(),
            )
            challenge = AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
            broker.lines[0].say(CommandAuthChallenge(challenge=challenge))
            [answer] = await broker.until(Type.AUTH_RESPONSE)
            assert broker.bodies(Type.CONNECT)[0].auth_data == b"first"
            assert answer.response.auth_data == b"second"
            connection.close()

    asyncio.run(body())


def test_answers_find_their_requests_in_any_order() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            waiting: list[tuple[Line, int]] = []

            def on_unsubscribe(line: Line, body: Any, _: bytes) -> None:
                waiting.append((line, body.request_id))
                if len(waiting) == 2:
                    line.say(error(waiting[1][1], WireCode.SUBSCRIPTION_NOT_FOUND, "gone"))
                    line.say(success(waiting[0][1]))

            broker.on[Type.UNSUBSCRIBE] = on_unsubscribe
            connection = await open_to(broker)
            first, second = await asyncio.gather(
                connection.request(CommandUnsubscribe(consumer_id=1), Type.SUCCESS, timeout=5),
                connection.request(CommandUnsubscribe(consumer_id=2), Type.SUCCESS, timeout=5),
                return_exceptions=True,
            )
            assert first.request_id == waiting[0][1]
            assert isinstance(second, NotFoundError) and second.sentence == "gone"
            connection.close()

    asyncio.run(body())


def test_an_answer_of_another_type_is_not_mistaken_for_ours() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            broker.on[Type.PRODUCER] = lambda line, body, _: line.say(success(body.request_id))
            connection = await open_to(broker)
            with pytest.raises(PulsarTimeoutError, match="Producer"):
                await connection.request(
                    CommandProducer(topic="t", producer_id=1), Type.PRODUCER_SUCCESS, timeout=0.05
                )
            connection.close()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers with HTTP: it is a web port"),
        (b"\x15\x03\x01\x00\x02\x02\x32", r"answers with TLS: connect to it with pulsar\+ssl://"),
        (b"", r"it may be a port for TLS, which is spoken to with pulsar\+ssl://"),
    ],
)
def test_a_port_that_is_not_a_brokers_is_recognized(answer: bytes, sentence: str) -> None:
    async def body() -> None:
        async with scripted_broker() as broker:

            def on_connect(line: Line, body: Any, _: bytes) -> None:
                line.write(answer)
                line.cut()

            broker.on[Type.CONNECT] = on_connect
            with pytest.raises(ConnectError, match=sentence) as raised:
                await open_to(broker)
            assert isinstance(raised.value, WrongPortError) == bool(answer)

    asyncio.run(body())


def test_requests_under_way_fail_when_the_connection_ends() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            broker.on[Type.UNSUBSCRIBE] = lambda line, body, _: line.cut()
            connection = await open_to(broker)
            with pytest.raises(ConnectError, match="closed the connection"):
                await connection.request(CommandUnsubscribe(consumer_id=1), Type.SUCCESS, timeout=5)
            assert not connection.is_open

    asyncio.run(body())


def test_bytes_that_are_no_frame_end_the_connection() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            connection = await open_to(broker)
            broker.lines[0].write(b"\xff" * 64)
            async with asyncio.timeout(5):
                while connection.is_open:
                    await asyncio.sleep(0.001)
            assert connection.reason is not None
            assert "broke the protocol" in connection.reason.sentence

    asyncio.run(body())


def test_an_error_for_nobody_ends_the_connection() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            connection = await open_to(broker)
            broker.lines[0].say(error(NO_REQUEST, WireCode.AUTHENTICATION, "expired"))
            async with asyncio.timeout(5):
                while connection.is_open:
                    await asyncio.sleep(0.001)
            assert isinstance(connection.reason, AuthenticationError)

    asyncio.run(body())


def test_keep_alive_asks_and_gives_up_on_silence() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            connection = await open_to(broker, FAST)
            await broker.until(Type.PING, 3)
            assert connection.is_open
            broker.on[Type.PING] = lambda line, body, _: None
            async with asyncio.timeout(5):
                while connection.is_open:
                    await asyncio.sleep(0.005)
            assert connection.reason is not None
            assert "stopped answering" in connection.reason.sentence

    asyncio.run(body())
