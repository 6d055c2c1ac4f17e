"""One measure of one client, in a process of its own: prints one JSON line.

`ours` is the SDK, `official` the `pulsar-client` package. Each side is written as its own guide
would have it. Both batch alike and have as many messages on their way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from bench.gauge import Watch, percentile_ms, rss_mib
from magnetar import AsyncPulsarClient, BatchingPolicy, Checkpoint, PulsarClient

Result = dict[str, Any]
PENDING = 5_000
QUEUE = 10_000
BATCHING = BatchingPolicy(max_delay=0.01, max_messages=1000, max_bytes=128 * 1024)
IDLE_CONSUMERS = 1_000
IMPORT_RUNS = 7


class Ours:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.watch = Watch()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[AsyncPulsarClient]:
        async with AsyncPulsarClient(self.options.url) as client:
            yield client

    def produce(self, *, batched: bool) -> Result:
        return asyncio.run(self._produce(batched=batched))

    async def _produce(self, *, batched: bool) -> Result:
        payload, count = b"x" * self.options.size, self.options.count
        async with self.client() as client:
            producer = await client.producer(
                self.options.topic,
                batching=BATCHING if batched else False,
                max_pending_messages=PENDING,
            )
            await producer.send(payload)
            self.watch.start()
            for _ in range(count):
                await producer.submit(payload)
            await producer.flush()
            result = self.watch.rate(count)
            assert producer.stats.sent == count + 1
        return result

    def sync_send(self) -> Result:
        payload, took = b"x" * self.options.size, []
        with PulsarClient(self.options.url) as client:
            producer = client.producer(self.options.topic, batching=False)
            for _ in range(50):
                producer.send(payload)
            for _ in range(self.options.count):
                began = time.perf_counter()
                producer.send(payload)
                took.append(time.perf_counter() - began)
        return latencies(took)

    def sync_submit(self) -> Result:
        payload, count = b"x" * self.options.size, self.options.count
        with PulsarClient(self.options.url) as client:
            producer = client.producer(
                self.options.topic, batching=BATCHING, max_pending_messages=PENDING
            )
            producer.send(payload)
            self.watch.start()
            for _ in range(count):
                producer.submit(payload)
            producer.flush()
            result = self.watch.rate(count)
            assert producer.stats.sent == count + 1
        return result

    def sync_consume(self) -> Result:
        count = self.options.count
        with PulsarClient(self.options.url) as client:
            self.watch.start()
            consumer = client.queue_consumer(
                self.options.topic,
                subscription=f"ours-{uuid.uuid4().hex}",
                initial_position="earliest",
                receiver_queue_size=QUEUE,
            )
            for number in range(count):
                message = consumer.receive(30)
                assert message is not None, f"{number} messages came"
                consumer.acknowledge(message)
            return self.watch.rate(count)

    def consume(self) -> Result:
        return asyncio.run(self._consume())

    async def _consume(self) -> Result:
        count = self.options.count
        async with self.client() as client:
            self.watch.start()
            consumer = await client.stream_consumer(
                self.options.topic,
                subscription=f"ours-{uuid.uuid4().hex}",
                initial_position="earliest",
                receiver_queue_size=QUEUE,
            )
            for number in range(1, count + 1):
                message = await consumer.receive(30)
                assert message is not None, f"{number - 1} messages came"
                if number % 1000 == 0:
                    await consumer.acknowledge_cumulative(message)
            return self.watch.rate(count)

    def read(self, *, looks: bool = False) -> Result:
        return asyncio.run(self._read(looks=looks))

    async def _read(self, *, looks: bool) -> Result:
        got, seen, count = 0, 0, self.options.count
        async with self.client() as client:
            self.watch.start()
            consumer = await client.checkpoint_consumer(
                self.options.topic, start=Checkpoint.EARLIEST, receiver_queue_size=QUEUE
            )
            while got < count:
                batch = await consumer.receive_many(1000, 30)
                assert batch, f"{got} messages came"
                got += len(batch)
                if looks:
                    seen += sum(len(message.data or b"") for message in batch)
            assert not looks or seen == got * self.options.size
            return self.watch.rate(got)

    def read_columns(self) -> Result:
        return asyncio.run(self._read_columns())

    async def _read_columns(self) -> Result:
        count = self.options.count
        async with self.client() as client:
            consumer = await client.checkpoint_consumer(
                self.options.topic,
                start=Checkpoint.EARLIEST,
                receiver_queue_size=QUEUE,
                columns=("key", "value", "publish_time"),
            )
            first = (await consumer.receive_arrow(1, 30)).num_rows  # loads pyarrow
            got = first
            self.watch.start()
            while got < count:
                batch = await consumer.receive_arrow(10_000, 30)
                assert batch.num_rows, f"{got} messages came"
                got += batch.num_rows
            return self.watch.rate(got - first)

    def idle_consumers(self) -> Result:
        return asyncio.run(self._idle_consumers())

    async def _idle_consumers(self) -> Result:
        async with self.client() as client:
            await client.connect()
            before = rss_kib()
            for number in range(IDLE_CONSUMERS):
                await client.consumer(f"{self.options.topic}-{number % 10}", f"s-{number}")
            return {"kib_each": round((rss_kib() - before) / IDLE_CONSUMERS, 1)}

    def start_up(self) -> Result:
        return {"import_ms": import_ms("magnetar")}


class Official:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.watch = Watch()

    @contextmanager
    def client(self) -> Iterator[Any]:
        import pulsar

        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(self.options.url, logger=logger)
        try:
            yield client
        finally:
            client.close()

    def produce(self, *, batched: bool) -> Result:
        payload, count, seen = b"x" * self.options.size, self.options.count, 0

        def on_sent(result: object, id: object) -> None:
            nonlocal seen
            seen += 1

        heard = on_sent if self.options.heard else None
        with self.client() as client:
            producer = client.create_producer(
                self.options.topic,
                batching_enabled=batched,
                batching_max_messages=BATCHING.max_messages,
                batching_max_publish_delay_ms=10,
                batching_max_allowed_size_in_bytes=128 * 1024,
                max_pending_messages=PENDING,
                block_if_queue_full=True,
            )
            producer.send(payload)
            self.watch.start()
            for _ in range(count):
                producer.send_async(payload, heard)
            producer.flush()
            result = self.watch.rate(count)
            assert producer.last_sequence_id() == count
        return result

    def sync_send(self) -> Result:
        payload, took = b"x" * self.options.size, []
        with self.client() as client:
            producer = client.create_producer(self.options.topic, batching_enabled=False)
            for _ in range(50):
                producer.send(payload)
            for _ in range(self.options.count):
                began = time.perf_counter()
                producer.send(payload)
                took.append(time.perf_counter() - began)
        return latencies(took)

    def sync_submit(self) -> Result:
        return self.produce(batched=True)

    def sync_consume(self) -> Result:
        import pulsar

        count = self.options.count
        with self.client() as client:
            self.watch.start()
            consumer = client.subscribe(
                self.options.topic,
                f"official-{uuid.uuid4().hex}",
                consumer_type=pulsar.ConsumerType.Shared,
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=QUEUE,
            )
            for _ in range(count):
                consumer.acknowledge(consumer.receive(30_000))
            return self.watch.rate(count)

    def consume(self) -> Result:
        import pulsar

        count = self.options.count
        with self.client() as client:
            self.watch.start()
            consumer = client.subscribe(
                self.options.topic,
                f"official-{uuid.uuid4().hex}",
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=QUEUE,
            )
            for number in range(1, count + 1):
                message = consumer.receive(30_000)
                if number % 1000 == 0:
                    consumer.acknowledge_cumulative(message)
            return self.watch.rate(count)

    def read(self, *, looks: bool = False) -> Result:
        import pulsar

        got, seen, count = 0, 0, self.options.count
        with self.client() as client:
            self.watch.start()
            consumer = client.subscribe(
                self.options.topic,
                f"batches-{uuid.uuid4().hex}",
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=QUEUE,
                batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(1000, 10**7, 30_000),
            )
            while got < count:
                batch = consumer.batch_receive()
                got += len(batch)
                if looks:
                    seen += sum(len(message.data()) for message in batch)
            assert not looks or seen == got * self.options.size
            return self.watch.rate(got)

    def idle_consumers(self) -> Result:
        with self.client() as client:
            client.get_topic_partitions(self.options.topic)
            before = rss_kib()
            kept = [
                client.subscribe(f"{self.options.topic}-{number % 10}", f"s-{number}")
                for number in range(IDLE_CONSUMERS)
            ]
            assert len(kept) == IDLE_CONSUMERS
            return {"kib_each": round((rss_kib() - before) / IDLE_CONSUMERS, 1)}

    def start_up(self) -> Result:
        return {"import_ms": import_ms("pulsar")}


def latencies(took: list[float]) -> Result:
    p50, p99 = percentile_ms(took, 0.5), percentile_ms(took, 0.99)
    return {"messages": len(took), "p50_ms": round(p50, 4), "p99_ms": round(p99, 4)}


def rss_kib() -> float:
    return rss_mib(os.getpid()) * 1024


def import_ms(name: str) -> float:
    """The best of some fresh processes, without the time an empty one takes to start."""

    def best(program: str) -> float:
        took = []
        for _ in range(IMPORT_RUNS):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            took.append(time.perf_counter() - began)
        return min(took)

    return round((best(f"import {name}") - best("pass")) * 1000, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("ours", "official"))
    parser.add_argument("measure")
    parser.add_argument("--url", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--heard", action="store_true", help="a callback for each message sent")
    options = parser.parse_args()
    side = Ours(options) if options.side == "ours" else Official(options)
    measures: dict[str, Callable[[], Result]] = {
        "produce-batched": lambda: side.produce(batched=True),
        "produce-unbatched": lambda: side.produce(batched=False),
        "sync-send": side.sync_send,
        "sync-submit": side.sync_submit,
        "sync-consume": side.sync_consume,
        "consume": side.consume,
        "read": side.read,
        "read-data": lambda: side.read(looks=True),
        "idle-consumers": side.idle_consumers,
        "import": side.start_up,
    }
    if isinstance(side, Ours):
        measures["read-columns"] = side.read_columns
    print(json.dumps(measures[options.measure]()))


if __name__ == "__main__":
    main()
