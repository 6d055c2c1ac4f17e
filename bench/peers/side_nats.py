"""NATS JetStream by nats-py. It has no batches: instead, many messages are on their way."""

from __future__ import annotations

import argparse
import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
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

READ = 1_000
CREATED_AT_ONCE = 50
PENDING_BYTES = 32 << 20
"""The server refuses more than 128 MiB that it has not stored."""


class Nats:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.watch = Watch()
        self.stream = options.topic.replace(".", "-")

    def measures(self) -> dict[str, Callable[[], Result]]:
        return {
            "produce": lambda: self.call(self.produce),
            "produce-each": lambda: self.call(self.produce),
            "produce-unbatched": lambda: self.call(self.produce),
            "request": lambda: self.call(self.request),
            "end-to-end": lambda: self.call(self.end_to_end),
            "consume": lambda: self.call(self.consume),
            "queue": lambda: self.call(self.queue),
            "topics": lambda: self.call(self.topics),
            "create": lambda: self.call(self.create),
            "first": lambda: self.call(self.first),
        }

    def call(self, measure: Callable[[Any], Awaitable[Result]]) -> Result:
        async def connected() -> Result:
            async with self.connection() as jetstream:
                return await measure(jetstream)

        return asyncio.run(connected())

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        import nats

        connection = await nats.connect(f"nats://{self.options.address}")
        try:
            pending = min(PENDING, PENDING_BYTES // max(1, self.options.size))
            yield connection.jetstream(timeout=WAIT_S_MAX, publish_async_max_pending=pending)
        finally:
            await connection.close()

    async def create(self, jetstream: Any) -> Result:
        await jetstream.add_stream(name=self.stream, subjects=[self.stream])
        return {}

    async def produce(self, jetstream: Any) -> Result:
        await self.create(jetstream)
        payload = b"x" * self.options.size
        await jetstream.publish(self.stream, payload)
        self.watch.start()
        for _ in range(self.options.count):
            await jetstream.publish_async(self.stream, payload, wait_stall=WAIT_S_MAX)
        await jetstream.publish_async_completed()
        result = self.watch.rate(self.options.count)
        state = (await jetstream.stream_info(self.stream)).state
        assert state.messages == self.options.count + 1, state.messages
        return result

    async def request(self, jetstream: Any) -> Result:
        await self.create(jetstream)
        payload, took = b"x" * self.options.size, []
        for number in range(WARM_REQUESTS + self.options.count):
            began = time.perf_counter()
            await jetstream.publish(self.stream, payload)
            if number >= WARM_REQUESTS:
                took.append(time.perf_counter() - began)
        return latencies(took)

    async def end_to_end(self, jetstream: Any) -> Result:
        await self.create(jetstream)
        took: list[float] = []
        done = asyncio.Event()

        async def on_message(message: Any) -> None:
            took.append(age_s(message.data))
            if len(took) == self.options.count:
                done.set()

        await jetstream.subscribe(self.stream, cb=on_message, ordered_consumer=True)
        began = time.perf_counter()
        for number in range(self.options.count):
            await asyncio.sleep(max(0.0, began + number / self.options.rate - time.perf_counter()))
            await jetstream.publish_async(self.stream, stamp(self.options.size))
        await asyncio.wait_for(done.wait(), WAIT_S_MAX)
        return latencies(took)

    async def reader(self, jetstream: Any, **settings: Any) -> Any:
        from nats.js.api import ConsumerConfig

        name = f"group-{uuid.uuid4().hex}"
        config = ConsumerConfig(max_ack_pending=10 * READ, **settings)
        return await jetstream.pull_subscribe(self.stream, durable=name, config=config)

    async def consume(self, jetstream: Any) -> Result:
        from nats.js.api import AckPolicy

        await self.produce(jetstream)
        got = seen = 0
        self.watch.start()
        reader = await self.reader(jetstream, ack_policy=AckPolicy.NONE)
        while left := self.options.count + 1 - got:
            batch = await reader.fetch(min(READ, left), WAIT_S_MAX)
            got += len(batch)
            seen += sum(len(message.data) for message in batch)
        result = self.watch.rate(got)
        assert seen == got * self.options.size
        return result

    async def queue(self, jetstream: Any) -> Result:
        await self.produce(jetstream)
        got = 0
        self.watch.start()
        reader = await self.reader(jetstream)
        while left := self.options.count + 1 - got:
            for message in await reader.fetch(min(READ, left), WAIT_S_MAX):
                got += 1
                if got == self.options.count + 1:
                    await message.ack_sync(WAIT_S_MAX)
                else:
                    await message.ack()
        return self.watch.rate(got)

    async def topics(self, jetstream: Any) -> Result:
        slots = asyncio.Semaphore(CREATED_AT_ONCE)

        async def make(number: int) -> None:
            name = f"{self.stream}-{number}"
            async with slots:
                await jetstream.add_stream(name=name, subjects=[name])
                await jetstream.publish(name, b"x" * self.options.size)

        self.watch.start()
        await asyncio.gather(*(make(number) for number in range(self.options.count)))
        return self.watch.rate(self.options.count)

    async def first(self, jetstream: Any) -> Result:
        self.watch.start()
        message = await jetstream.get_msg(self.stream, seq=1)
        assert message.data, "nothing came"
        seconds = time.perf_counter() - self.watch.began
        state = (await jetstream.stream_info(self.stream)).state
        return {"first_s": round(seconds, 3), "messages": state.messages}


if __name__ == "__main__":
    run(lambda options: Nats(options).measures())
