"""The client on whichever event loop there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from magnetar import AsyncPulsarClient
from magnetar.testing.broker import MagnetarBroker
from tests.unit.test_extra import run_bare


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_asyncio_client_works_on_either_loop(
    magnetar_broker: MagnetarBroker, make: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    topic = f"persistent://public/default/{make.__module__}"

    async def body() -> bytes:
        async with (
            AsyncPulsarClient(magnetar_broker.service_url) as client,
            client.consumer(topic, "loop") as consumer,
            client.producer(topic) as producer,
        ):
            await producer.send(b"hello")
            return (await consumer.receive()).value

    with asyncio.Runner(loop_factory=make) as runner:
        assert runner.run(body()) == b"hello"


def test_a_blocking_client_works_where_uvloop_is_not_installed(
    magnetar_broker: MagnetarBroker, tmp_path: Path
) -> None:
    code = f"""
from magnetar import PulsarClient
with PulsarClient({magnetar_broker.service_url!r}) as client:
    consumer = client.consumer("bare", "loop")
    client.producer("bare").send(b"hello")
    print(consumer.receive().value, "uvloop" in sys.modules)
"""
    done = run_bare(code, tmp_path)
    assert done.stdout == "b'hello' False\n", done.stderr
