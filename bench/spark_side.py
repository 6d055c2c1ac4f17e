"""What stands beside Spark in its measurements: producers, and the official client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pulsar
import pyarrow as pa

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.policy import BatchingPolicy
from magnetar.columns import AsyncBulk
from magnetar.columns.sheet import make_sheet
from magnetar.testing import MagnetarBroker

TOPIC = "public/default/bench"


def fill(broker: MagnetarBroker, count: int, size: int) -> None:
    """Batched messages over two partitions."""
    value = b"v" * size

    async def body() -> None:
        async with (
            AsyncPulsarClient(broker.service_url) as client,
            client.producer(
                f"persistent://{TOPIC}",
                batching=BatchingPolicy(max_delay=0.05, max_messages=1000, max_bytes=1 << 20),
                max_pending_messages=50_000,
            ) as producer,
        ):
            for number in range(count):
                await producer.submit(value, key=f"k{number % 1000}")
            await producer.flush()

    asyncio.run(body())


def read_official(broker: MagnetarBroker, count: int) -> float:
    """The official client, in one process, by batches as large as it gives."""
    client = pulsar.Client(
        broker.service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
    )
    consumer = client.subscribe(
        f"persistent://{TOPIC}",
        "official",
        initial_position=pulsar.InitialPosition.Earliest,
        receiver_queue_size=10_000,
        batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(5000, 10 << 20, 100),
    )
    left = count
    start = time.perf_counter()
    while left > 0:
        left -= len(consumer.batch_receive())
    spent = time.perf_counter() - start
    consumer.unsubscribe()
    client.close()
    return spent


def tick(broker: MagnetarBroker, over: threading.Event, every_s: float) -> None:
    async def body() -> None:
        async with (
            AsyncPulsarClient(broker.service_url) as client,
            client.producer("topic://public/default/ticks") as producer,
        ):
            while not over.is_set():
                await producer.send(b"tick")
                await asyncio.sleep(every_s)

    asyncio.run(body())


async def produce(broker: MagnetarBroker, topic: str, rows: list[tuple[str, bytes]]) -> None:
    async with (
        AsyncPulsarClient(broker.service_url) as client,
        client.producer(
            f"topic://public/default/{topic}",
            batching=BatchingPolicy(max_delay=0.01),
            max_pending_messages=20_000,
        ) as producer,
    ):
        for key, value in rows:
            await producer.submit(value, key=key)
        await producer.flush()


async def produce_arrow(
    broker: MagnetarBroker, topic: str, batches: Iterable[pa.RecordBatch]
) -> None:
    """The SDK's bulk producer: whole columns, numbered, so that it could be repeated."""
    failures: list[BaseException] = []

    def on_sent(sent: asyncio.Future[Any]) -> None:
        failure = sent.exception()
        if failure is not None:
            failures.append(failure)

    async with AsyncPulsarClient(broker.service_url) as client:
        producer = await AsyncBulk(client).resumable_producer(
            f"topic://public/default/{topic}", name="bulk", max_pending_messages=20_000
        )
        number = 0
        for batch in batches:
            sorts = np.ones(batch.num_rows, np.bool_)
            keys, values = batch.column("key"), batch.column("value")
            sheet, _ = make_sheet(keys, values, number, sorts=sorts)
            number += batch.num_rows
            await producer.submit_sheet(sheet, on_sent)
            await asyncio.sleep(0)
        await producer.flush()
        await producer.close()
    assert not failures, failures[0]
