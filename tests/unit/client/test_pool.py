"""How many connections there are, how they are made, and when they end by themselves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from magnetar import (
    AsyncPulsarClient,
    BackoffPolicy,
    ConnectError,
    ConnectionLost,
    ConnectionOpened,
    ConnectionPolicy,
    Event,
    PulsarError,
)
from magnetar.client.address import parse_addresses
from magnetar.client.authentication import NoAuthentication
from magnetar.client.connection import Connection
from magnetar.client.error import ConfigurationError, is_refusal
from magnetar.errors import WireCode
from magnetar.wire.command import error
from tests.unit.client.peer import Line, ScriptedBroker, Type, scripted_broker


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


def open_lines(broker: ScriptedBroker) -> int:
    return sum(line.is_open for line in broker.lines)


@pytest.mark.parametrize("most", [1, 3])
def test_producers_take_turns_on_as_many_connections_as_there_may_be(most: int) -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            used: list[Line] = []
            answer = broker.on[Type.PRODUCER]

            def on_producer(line: Line, command: Any, entry: bytes) -> None:
                used.append(line)
                answer(line, command, entry)

            broker.on[Type.PRODUCER] = on_producer
            policy = ConnectionPolicy(connections_per_broker=most)
            async with AsyncPulsarClient(broker.url, connection=policy) as client:
                for number in range(6):
                    producer = await client.producer(f"t{number}")
                    await producer.send(b"x")
            assert len(broker.lines) == most
            assert [used.count(line) for line in broker.lines] == [6 // most] * most

    asyncio.run(body())


def test_who_lost_a_connection_comes_back_on_the_same_one_of_several() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            policy = ConnectionPolicy(connections_per_broker=2, backoff=BackoffPolicy.fixed(0.001))
            async with AsyncPulsarClient(broker.url, connection=policy) as client:
                first = await client.producer("a")
                second = await client.producer("b")
                broker.lines[1].cut()
                await broker.until(Type.PRODUCER, 3)
                await first.send(b"x")
                await second.send(b"y")
                assert [line.is_open for line in broker.lines] == [True, False, True]

    asyncio.run(body())


def test_a_connection_that_nobody_uses_is_closed_and_opened_again_when_needed() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            policy = ConnectionPolicy(max_idle=0.05)
            told: list[Event] = []
            async with AsyncPulsarClient(
                broker.url, connection=policy, on_event=told.append
            ) as client:
                await client.connect()
                await until(lambda: open_lines(broker) == 0)
                async with await client.producer("t") as producer:
                    for _ in range(5):  # longer than it may be idle, if it were
                        await asyncio.sleep(0.03)
                        await producer.send(b"x")
                    assert len(broker.lines) == 2 and open_lines(broker) == 1
                await until(lambda: open_lines(broker) == 0)
            assert [type(each) for each in told] == [ConnectionOpened] * 2, "none was lost"

    asyncio.run(body())


def test_whoever_is_on_a_connection_keeps_it() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            connection = await Connection.open(
                parse_addresses(broker.url)[0],
                authentication=NoAuthentication(),
                policy=ConnectionPolicy(),
            )
            end: Any = object()
            for add, remove in (
                (
                    lambda: connection.ends.add_producer(1, end),
                    lambda: connection.ends.remove_producer(1),
                ),
                (
                    lambda: connection.ends.add_consumer(1, end),
                    lambda: connection.ends.remove_consumer(1),
                ),
                (
                    lambda: connection.ends.add_listener(Type.SCALABLE_TOPIC_UPDATE, 1, end),
                    lambda: connection.ends.remove_listener(Type.SCALABLE_TOPIC_UPDATE, 1),
                ),
            ):
                add()
                await asyncio.sleep(0.02)
                assert connection.idle_s == 0
                remove()
                assert connection.idle_s < 0.02
                await asyncio.sleep(0.02)
                assert connection.idle_s >= 0.01
            connection.close()

    asyncio.run(body())


def test_an_idle_connection_stays_when_told_so() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            policy = ConnectionPolicy(max_idle=0)
            async with AsyncPulsarClient(broker.url, connection=policy) as client:
                await client.connect()
                await asyncio.sleep(0.1)
                assert open_lines(broker) == 1

    asyncio.run(body())


@pytest.mark.parametrize("no_delay", [True, False])
def test_small_packets_wait_only_where_that_is_wanted(no_delay: bool) -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            connection = await Connection.open(
                parse_addresses(broker.url)[0],
                authentication=NoAuthentication(),
                policy=ConnectionPolicy(tcp_no_delay=no_delay),
            )
            assert connection._transport is not None
            raw = connection._transport.get_extra_info("socket")
            option = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert bool(option) == no_delay
            connection.close()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("backoff", "is_patient"),
    [(BackoffPolicy.fixed(60), True), (BackoffPolicy(0.001, 0.002, 1.5), False)],
)
def test_the_backoff_says_when_the_broker_is_asked_again(
    backoff: BackoffPolicy, is_patient: bool
) -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            broker.on[Type.PRODUCER] = lambda line, body, _: line.say(
                error(body.request_id, WireCode.SERVICE_NOT_READY, "later")
            )
            policy = ConnectionPolicy(backoff=backoff)
            async with AsyncPulsarClient(
                broker.url, connection=policy, operation_timeout=1.0
            ) as client:
                with pytest.raises(PulsarError, match="later"):
                    await client.producer("t")
            tries = len(broker.bodies(Type.PRODUCER))
            assert tries == 1 if is_patient else tries > 5

    asyncio.run(body())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"connection_timeout": 0}, "above 0"),
        ({"keep_alive": -1}, "keep_alive"),
        ({"max_idle": "1m"}, "max_idle"),
        ({"connections_per_broker": 0}, "connections_per_broker"),
        ({"backoff": BackoffPolicy(0, 1)}, "above 0"),
        ({"proxy_url": "pulsar://proxy:6650"}, r"pulsar\+ssl://host:port"),
        ({"proxy_url": "pulsar+ssl://a:1,b:2"}, "one proxy"),
        ({"proxy_url": "proxy:4443"}, "service URL"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        ConnectionPolicy(**options)


def test_a_proxy_that_goes_by_names_needs_tls() -> None:
    async def body() -> None:
        with pytest.raises(ConfigurationError, match=r"must be pulsar\+ssl://"):
            AsyncPulsarClient(
                "pulsar://broker:6650",
                connection=ConnectionPolicy(proxy_url="pulsar+ssl://proxy:4443"),
            )

    asyncio.run(body())


def test_a_client_in_another_loop_says_where_it_belongs() -> None:
    async def first() -> AsyncPulsarClient:
        async with scripted_broker() as broker:
            client = AsyncPulsarClient(broker.url)
            await client.connect()
            for connection in client._session.pool._open.values():
                connection.close()
                await connection.wait_ended()
            return client

    async def second(client: AsyncPulsarClient) -> None:
        for attempt in (client.connect, client.close, client.producer("t").open):
            with pytest.raises(ConfigurationError, match="another event loop"):
                await attempt()

    asyncio.run(second(asyncio.run(first())))


def test_what_is_not_awaited_says_so() -> None:
    async def body() -> None:
        async with AsyncPulsarClient("pulsar://127.0.0.1:1") as client:
            producer: Any = client.producer("topic://public/default/t")
            with pytest.raises(AttributeError, match=r"no 'send': await it first"):
                producer.send(b"x")

    asyncio.run(body())


def test_a_lost_connection_is_reported_with_its_reason_and_again_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        events: list[Event] = []

        def on_event(event: Event) -> None:
            events.append(event)
            raise RuntimeError("an application's mistake")

        async with scripted_broker() as broker:
            policy = ConnectionPolicy(backoff=BackoffPolicy.fixed(0.001))
            async with AsyncPulsarClient(
                broker.url, connection=policy, on_event=on_event
            ) as client:
                await client.producer("t")
                broker.lines[0].cut()
                await until(lambda: len(events) == 3)
            opened, lost, again = events
            assert isinstance(opened, ConnectionOpened) and opened == again
            assert isinstance(lost, ConnectionLost) and lost.address == opened.address
            assert isinstance(lost.reason, ConnectError)
            assert "closed the connection" in str(lost.reason)

    asyncio.run(body())
    assert "on_event failed" in caplog.text


IMPATIENT = ConnectionPolicy(backoff=BackoffPolicy.fixed(0.01), refused_timeout=0.05)


async def find_closed_port() -> int:
    async with scripted_broker() as broker:
        return int(broker.url.rpartition(":")[2])


@pytest.mark.parametrize("hosts", ["localhost:{0}", "127.0.0.1:{0},localhost:{0}"])
def test_where_no_host_listens_opening_anything_soon_raises_why(hosts: str) -> None:
    async def body() -> None:
        url = f"pulsar://{hosts.format(await find_closed_port())}"
        async with AsyncPulsarClient(url, connection=IMPATIENT, operation_timeout=3600) as client:
            openings: list[Callable[[], Awaitable[Any]]] = [
                lambda: client.producer("t"),
                lambda: client.consumer("t", "s"),
                lambda: client.queue_consumer("topic://public/default/t", subscription="s"),
                lambda: client.stream_consumer("topic://public/default/t", subscription="s"),
                lambda: client.checkpoint_consumer("topic://public/default/t"),
                lambda: client.reader("t"),
                lambda: client.count_partitions("t"),
                lambda: client.transaction(),
            ]
            for open in openings:
                async with asyncio.timeout(60):
                    with pytest.raises(ConnectError, match="connection refused"):
                        await open()

    asyncio.run(body())


def test_a_broker_that_was_there_has_the_operation_timeout_to_come_back() -> None:
    async def body() -> None:
        async with scripted_broker() as broker:
            port = int(broker.url.rpartition(":")[2])
            client = AsyncPulsarClient(broker.url, connection=IMPATIENT, operation_timeout=60)
            await client.connect()
        async with client:
            opening = asyncio.ensure_future(client.producer("t").open())
            await asyncio.sleep(0.2)  # four times as long as one that was never there has
            assert not opening.done()
            async with scripted_broker(port):
                await (await opening).send(b"x")

    asyncio.run(body())


def test_a_client_may_start_before_its_broker_where_it_is_told_to_wait() -> None:
    async def body() -> None:
        port = await find_closed_port()
        policy = ConnectionPolicy(backoff=BackoffPolicy.fixed(0.01), refused_timeout=60)
        url = f"pulsar://127.0.0.1:{port}"
        async with AsyncPulsarClient(url, connection=policy) as client:
            opening = asyncio.ensure_future(client.producer("t").open())
            await asyncio.sleep(0.1)
            assert not opening.done()
            async with scripted_broker(port):
                await (await opening).send(b"x")

    asyncio.run(body())


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), True),
        (OSError("Multiple exceptions: [Errno 111] at ::1, [Errno 111] at 127.0.0.1"), True),
        (OSError("Multiple exceptions: [Errno 99] at ::1, [Errno 111] at 127.0.0.1"), True),
        (OSError("Multiple exceptions: [Errno 110] at ::1, [Errno 111] at 127.0.0.1"), False),
        (OSError(113, "No route to host"), False),
        (OSError(-2, "Name or service not known"), False),
    ],
)
def test_a_connection_is_refused_where_every_address_refuses_it(
    error: OSError, refused: bool
) -> None:
    assert is_refusal(error) == refused
