"""Magnetar by its own SDK: messages as objects, and by columns of Arrow."""

from __future__ import annotations

import argparse
import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import repeat
from typing import Any

from bench.gauge import Watch
from bench.peers.measure import (
    PENDING,
    WAIT_S_MAX,
    WARM_REQUESTS,
    Result,
    age_s,
    latencies,
    run,
    stamp,
)
from magnetar import AsyncPulsarClient, BatchingPolicy, Checkpoint
from magnetar.runtime.event_loop import new_loop

QUEUE = 10_000
READ = 1_000
ROWS = 10_000
"""Rows of an Arrow batch."""
HOLD = "hold"
"""A subscription that nobody consumes: it keeps the backlog."""
BATCHED = BatchingPolicy(max_delay=0.005, max_messages=10_000, max_bytes=1_000_000)
CREATED_AT_ONCE = 50


class Sdk:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.watch = Watch()
        self.topic = f"topic://public/default/{options.topic}"

    def measures(self) -> dict[str, Callable[[], Result]]:
        return {
            "produce": lambda: self.call(self.produce),
            "produce-each": lambda: self.call(partial(self.produce, submits=True)),
            "produce-columns": lambda: self.call(self.produce_columns),
            "produce-unbatched": lambda: self.call(self.produce_unbatched),
            "request": lambda: self.call(self.request),
            "end-to-end": lambda: self.call(self.end_to_end),
            "consume": lambda: self.call(self.consume),
            "consume-columns": lambda: self.call(self.consume_columns),
            "queue": lambda: self.call(self.queue),
            "topics": lambda: self.call(self.topics),
            "hold": lambda: self.call(self.hold),
            "first": lambda: self.call(self.first),
        }

    def call(self, measure: Callable[[AsyncPulsarClient], Awaitable[Result]]) -> Result:
        async def connected() -> Result:
            async with AsyncPulsarClient(f"pulsar://{self.options.address}") as client:
                return await measure(client)

        with asyncio.Runner(loop_factory=new_loop) as runner:  # as the blocking client has it
            return runner.run(connected())

    async def hold(self, client: AsyncPulsarClient) -> Result:
        await (await client.stream_consumer(self.topic, subscription=HOLD)).close()
        return {}

    async def produce(self, client: AsyncPulsarClient, *, submits: bool = False) -> Result:
        payload, count = b"x" * self.options.size, self.options.count
        producer = await client.producer(
            self.topic, batching=BATCHED, max_pending_messages=10 * PENDING
        )
        await producer.send(payload)
        self.watch.start()
        if submits:
            for _ in range(count):
                await producer.submit(payload)
            await producer.flush()
        else:
            await producer.send_many(repeat(payload, count))
        result = self.watch.rate(count)
        assert producer.stats.sent == count + 1
        return result

    async def produce_columns(self, client: AsyncPulsarClient) -> Result:
        import pyarrow as pa

        from magnetar.columns import AsyncBulk, make_sheet

        count = self.options.count
        values = pa.array([b"x" * self.options.size] * ROWS, pa.binary())
        keys = pa.nulls(ROWS, pa.binary())
        producer = await AsyncBulk(client).resumable_producer(
            self.topic, name="columns", batching=BATCHED, max_pending_messages=10 * PENDING
        )
        failures: list[Any] = []

        def on_sent(sent: Any) -> None:
            if sent.exception() is not None:
                failures.append(sent.exception())

        await producer.submit_sheet(make_sheet(keys[:1], values[:1], 0)[0], on_sent)
        await producer.flush()
        self.watch.start()
        for first in range(1, count, ROWS):
            rows = min(ROWS, count + 1 - first)
            sheet, _ = make_sheet(keys[:rows], values[:rows], first)
            await producer.submit_sheet(sheet, on_sent)
        await producer.flush()
        result = self.watch.rate(count)
        assert not failures, failures[0]
        assert producer.stats.sent == count + 1
        return result

    async def produce_unbatched(self, client: AsyncPulsarClient) -> Result:
        payload, count = b"x" * self.options.size, self.options.count
        producer = await client.producer(self.topic, batching=False, max_pending_messages=PENDING)
        await producer.send(payload)
        self.watch.start()
        for _ in range(count):
            await producer.submit(payload)
        await producer.flush()
        return self.watch.rate(count)

    async def request(self, client: AsyncPulsarClient) -> Result:
        payload, took = b"x" * self.options.size, []
        producer = await client.producer(self.topic, batching=False)
        for number in range(WARM_REQUESTS + self.options.count):
            began = time.perf_counter()
            await producer.send(payload)
            if number >= WARM_REQUESTS:
                took.append(time.perf_counter() - began)
        return latencies(took)

    async def end_to_end(self, client: AsyncPulsarClient) -> Result:
        took: list[float] = []
        consumer = await client.stream_consumer(self.topic, subscription="listen")
        producer = await client.producer(self.topic, batching=False)
        await producer.send(stamp(self.options.size))
        assert await consumer.receive(WAIT_S_MAX) is not None, "nothing came"

        async def listen() -> None:
            while len(took) < self.options.count:
                message = await consumer.receive(WAIT_S_MAX)
                assert message is not None, f"{len(took)} messages came"
                took.append(age_s(message.data))
                if len(took) % READ == 0:
                    await consumer.acknowledge_cumulative(message)

        listener = asyncio.create_task(listen())
        began = time.perf_counter()
        for number in range(self.options.count):
            await asyncio.sleep(max(0.0, began + number / self.options.rate - time.perf_counter()))
            await producer.submit(stamp(self.options.size))
        await listener
        return latencies(took)

    async def consume(self, client: AsyncPulsarClient) -> Result:
        await self.hold(client)
        await self.produce(client)
        got = seen = 0
        self.watch.start()
        consumer = await client.stream_consumer(
            self.topic,
            subscription=f"group-{uuid.uuid4().hex}",
            initial_position="earliest",
            receiver_queue_size=QUEUE,
        )
        while got <= self.options.count:
            batch = await consumer.receive_many(READ, WAIT_S_MAX)
            assert batch, f"{got} messages came"
            got += len(batch)
            seen += sum(len(message.data) for message in batch)
            await consumer.acknowledge_cumulative(batch[-1])
        result = self.watch.rate(got)
        assert seen == got * self.options.size
        return result

    async def consume_columns(self, client: AsyncPulsarClient) -> Result:
        await self.hold(client)
        await self.produce(client)
        consumer = await client.checkpoint_consumer(
            self.topic,
            start=Checkpoint.EARLIEST,
            receiver_queue_size=QUEUE,
            columns=("key", "value"),
        )
        got = first = (await consumer.receive_arrow(1, WAIT_S_MAX)).num_rows  # loads pyarrow
        seen = 0
        self.watch.start()
        while got <= self.options.count:
            batch = await consumer.receive_arrow(ROWS, WAIT_S_MAX)
            assert batch.num_rows, f"{got} messages came"
            got += batch.num_rows
            seen += batch.column("value").nbytes
        result = self.watch.rate(got - first)
        assert seen >= (got - first) * self.options.size
        return result

    async def queue(self, client: AsyncPulsarClient) -> Result:
        await self.hold(client)
        await self.produce(client)
        got = 0
        self.watch.start()
        consumer = await client.queue_consumer(
            self.topic,
            subscription=f"group-{uuid.uuid4().hex}",
            initial_position="earliest",
            receiver_queue_size=QUEUE,
        )
        while got <= self.options.count:
            batch = await consumer.receive_many(READ, WAIT_S_MAX)
            assert batch, f"{got} messages came"
            for message in batch:
                await consumer.acknowledge(message)
            got += len(batch)
        await consumer.flush()
        return self.watch.rate(got)

    async def topics(self, client: AsyncPulsarClient) -> Result:
        slots = asyncio.Semaphore(CREATED_AT_ONCE)
        regular = f"persistent://public/default/{self.options.topic}"

        async def make(number: int) -> None:
            async with slots:
                producer = await client.producer(f"{regular}-{number}")
                await producer.send(b"x" * self.options.size)

        self.watch.start()
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.options.count):
                tasks.create_task(make(number))
        return self.watch.rate(self.options.count)

    async def first(self, client: AsyncPulsarClient) -> Result:
        self.watch.start()
        consumer = await client.checkpoint_consumer(self.topic, start=Checkpoint.EARLIEST)
        assert await consumer.receive(WAIT_S_MAX) is not None, "nothing came"
        first_s, got = time.perf_counter() - self.watch.began, 1
        while batch := await consumer.receive_many(READ, 1.0):
            got += len(batch)
        return {"first_s": round(first_s, 3), "messages": got}


if __name__ == "__main__":
    run(lambda options: Sdk(options).measures())
