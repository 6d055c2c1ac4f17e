"""Magnetar by the official client of Apache Pulsar, `pulsar-client`, which is C++ below."""

from __future__ import annotations

import argparse
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

QUEUE = 10_000
READ = 1_000
WAIT_MS = int(WAIT_S_MAX * 1000)


class Official:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.watch = Watch()
        self.topic = f"persistent://public/default/{options.topic}"
        self.refused: object = None

    def measures(self) -> dict[str, Callable[[], Result]]:
        return {
            "produce-each": lambda: self.call(self.produce),
            "produce-unbatched": lambda: self.call(self.produce_unbatched),
            "request": lambda: self.call(self.request),
            "end-to-end": lambda: self.call(self.end_to_end),
            "consume": lambda: self.call(self.consume),
            "queue": lambda: self.call(self.queue),
        }

    def call(self, measure: Callable[[Any], Result]) -> Result:
        with self.client() as client:
            return measure(client)

    @contextmanager
    def client(self) -> Iterator[Any]:
        import pulsar

        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(f"pulsar://{self.options.address}", logger=logger)
        try:
            yield client
        finally:
            client.close()

    def producer(self, client: Any, *, batched: bool) -> Any:
        return client.create_producer(
            self.topic,
            batching_enabled=batched,
            batching_max_messages=1_000,
            batching_max_allowed_size_in_bytes=128 * 1024,
            batching_max_publish_delay_ms=5,
            max_pending_messages=PENDING,
            block_if_queue_full=True,
        )

    def consumer(self, client: Any, *, shared: bool = False) -> Any:
        import pulsar

        kind = pulsar.ConsumerType.Shared if shared else pulsar.ConsumerType.Exclusive
        return client.subscribe(
            self.topic,
            f"group-{uuid.uuid4().hex}",
            consumer_type=kind,
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=QUEUE,
        )

    def on_sent(self, result: Any, _id: object) -> None:
        if result.value:
            self.refused = self.refused or result

    def produce(self, client: Any, *, batched: bool = True) -> Result:
        payload, count = b"x" * self.options.size, self.options.count
        producer = self.producer(client, batched=batched)
        producer.send(payload)
        self.watch.start()
        for _ in range(count):
            producer.send_async(payload, self.on_sent)
        producer.flush()
        result = self.watch.rate(count)
        assert self.refused is None, self.refused
        return result

    def produce_unbatched(self, client: Any) -> Result:
        return self.produce(client, batched=False)

    def request(self, client: Any) -> Result:
        payload, took = b"x" * self.options.size, []
        producer = self.producer(client, batched=False)
        for number in range(WARM_REQUESTS + self.options.count):
            began = time.perf_counter()
            producer.send(payload)
            if number >= WARM_REQUESTS:
                took.append(time.perf_counter() - began)
        return latencies(took)

    def end_to_end(self, client: Any) -> Result:
        took: list[float] = []
        consumer = self.consumer(client)
        producer = self.producer(client, batched=False)

        def listen() -> None:
            while len(took) < self.options.count:
                message = consumer.receive(WAIT_MS)
                took.append(age_s(message.data()))
                if len(took) % READ == 0:
                    consumer.acknowledge_cumulative(message)

        listener = threading.Thread(target=listen)
        listener.start()
        began = time.perf_counter()
        for number in range(self.options.count):
            time.sleep(max(0.0, began + number / self.options.rate - time.perf_counter()))
            producer.send_async(stamp(self.options.size), self.on_sent)
        listener.join()
        return latencies(took)

    def consume(self, client: Any) -> Result:
        self.consumer(client).close()  # it keeps the backlog
        self.produce(client)
        got = seen = 0
        self.watch.start()
        consumer = self.consumer(client)
        while got <= self.options.count:
            message = consumer.receive(WAIT_MS)
            got += 1
            seen += len(message.data())
            if got % READ == 0:
                consumer.acknowledge_cumulative(message)
        result = self.watch.rate(got)
        assert seen == got * self.options.size
        return result

    def queue(self, client: Any) -> Result:
        self.consumer(client).close()
        self.produce(client)
        got = 0
        self.watch.start()
        consumer = self.consumer(client, shared=True)
        while got <= self.options.count:
            consumer.acknowledge(consumer.receive(WAIT_MS))
            got += 1
        return self.watch.rate(got)


if __name__ == "__main__":
    run(lambda options: Official(options).measures())
