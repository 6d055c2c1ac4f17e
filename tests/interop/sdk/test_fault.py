"""The SDK on scalable topics while the broker is killed, frozen and restarted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import defaultdict
from typing import Any

import pytest

from magnetar import (
    AsyncPulsarClient,
    BackoffPolicy,
    Checkpoint,
    ConnectError,
    ConnectionPolicy,
    PulsarTimeoutError,
)
from magnetar.client.admin import AdminClient
from magnetar.testing.broker import MagnetarBroker
from magnetar.testing.plugin import StartBroker

QUICK = ConnectionPolicy(backoff=BackoffPolicy(0.02, 0.2), keep_alive=0.2)
TOPIC = "topic://public/default/t"


def connect(broker: MagnetarBroker, **options: Any) -> AsyncPulsarClient:
    return AsyncPulsarClient(broker.service_url, connection=QUICK, **options)


def create(broker: MagnetarBroker, segments: int) -> None:
    with AdminClient(broker.admin_url) as admin:
        admin.scalable_topics.create(TOPIC, segments=segments)


async def read_all(client: AsyncPulsarClient, count: int) -> dict[str | None, list[int]]:
    """Each number once, by key: what was sent twice counts where it came first."""
    found: dict[str | None, list[int]] = defaultdict(list)
    seen: set[int] = set()
    async with client.checkpoint_consumer(TOPIC, start=Checkpoint.EARLIEST) as reader:
        while len(seen) < count:
            batch = await reader.receive_many(1000, 20.0)
            assert batch, f"{len(seen)} of {count} are there"
            for message in batch:
                number = int(message.value)
                if number not in seen:
                    seen.add(number)
                    found[message.key].append(number)
    return found


def test_pipelined_sends_survive_a_killed_broker_in_order(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory()
    create(broker, 3)

    async def body() -> None:
        async with connect(broker) as client:
            async with client.producer(TOPIC) as producer:
                sends = []
                for number in range(600):
                    sends.append(await producer.submit(b"%d" % number, key=f"k{number % 11}"))
                    if number % 50 == 0:
                        await asyncio.sleep(0.005)
                    if number == 300:
                        await asyncio.to_thread(broker.crash)
                        restart = asyncio.create_task(asyncio.to_thread(broker.start))
                await restart
                await asyncio.gather(*sends)
            found = await read_all(client, 600)
            assert all(numbers == sorted(numbers) for numbers in found.values())

    asyncio.run(body())


def test_consumers_of_every_kind_go_on_after_a_restart(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory()
    create(broker, 2)

    async def body() -> None:
        async with (
            connect(broker) as client,
            client.producer(TOPIC) as producer,
            client.queue_consumer(TOPIC, subscription="q") as queue,
            client.stream_consumer(TOPIC, subscription="s", name="me") as stream,
            client.checkpoint_consumer(TOPIC) as reader,
        ):
            await asyncio.to_thread(broker.crash)
            await asyncio.to_thread(broker.start)
            for number in range(20):
                await producer.send(b"%d" % number, key=str(number))
            for consumer in (queue, stream, reader):
                got: set[int] = set()
                while len(got) < 20:
                    message = await consumer.receive(20.0)
                    assert message is not None, f"{consumer} got {len(got)} of 20"
                    got.add(int(message.value))

    asyncio.run(body())


def test_a_frozen_broker_is_a_typed_error_and_no_end(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory()
    create(broker, 1)

    async def body() -> None:
        async with (
            connect(broker, operation_timeout=1.0) as client,
            client.producer(TOPIC, send_timeout=0.5) as producer,
        ):
            await producer.send(b"0", key="k")
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                with pytest.raises(PulsarTimeoutError):
                    await producer.send(b"1", key="k")
                with pytest.raises((PulsarTimeoutError, ConnectError)):
                    await client.queue_consumer(TOPIC, subscription="s")
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            async with asyncio.timeout(20):
                while True:
                    try:
                        await producer.send(b"2", key="k")
                        break
                    except PulsarTimeoutError:
                        continue

    asyncio.run(body())


def test_nobody_at_the_address_is_an_error_in_time() -> None:
    async def body() -> None:
        async with AsyncPulsarClient(
            "pulsar://127.0.0.1:1", operation_timeout=0.2, connection=QUICK
        ) as client:
            with pytest.raises(ConnectError):
                await client.producer(TOPIC)
            with pytest.raises(ConnectError):
                await client.stream_consumer(TOPIC, subscription="s")

    asyncio.run(body())
