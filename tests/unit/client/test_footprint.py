"""What a consumer that waits takes of its process."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from magnetar import AsyncPulsarClient
from magnetar.testing.broker import MagnetarBroker

CONSUMERS = 100


def test_an_idle_consumer_takes_no_more_than_8_kib(magnetar_broker: MagnetarBroker) -> None:
    async def body() -> float:
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            topic = "persistent://public/default/idle"
            await client.consumer(topic, "first")
            gc.collect()
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                for number in range(CONSUMERS):
                    await client.consumer(f"{topic}-{number % 10}", f"s-{number}")
                await asyncio.sleep(0)
                gc.collect()
                after, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        return (after - before) / CONSUMERS

    assert asyncio.run(body()) < 8 * 1024
