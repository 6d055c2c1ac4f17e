"""Produce with the official client, kill -9 the broker in mid-stream twice, consume, and count.

What is shown: a message the broker acknowledged is never lost, and the clients notice no more
than a pause.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pulsar

from magnetar.testing import MagnetarBroker

TOPIC = "persistent://public/default/demo"
SUBSCRIPTION = "audit"
PRODUCING_S = 4.0
CRASHES = 2
PENDING_MAX = 1000
NUMBER = struct.Struct(">Q")


class Publisher:
    """Sends numbered messages as fast as they are taken and remembers which were acknowledged."""

    def __init__(self, client: pulsar.Client) -> None:
        self._producer = client.create_producer(
            TOPIC,
            batching_enabled=True,
            batching_max_messages=100,
            max_pending_messages=PENDING_MAX,
            block_if_queue_full=True,
            send_timeout_millis=0,
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.refused = 0
        self.acknowledged: set[int] = set()

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush()
        self._producer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._producer.send_async(NUMBER.pack(self.sent), self._noting(self.sent))
            self.sent += 1
            if self.sent % 50 == 0:
                time.sleep(0.005)  # about ten thousand a second are plenty for a demonstration

    def _noting(self, number: int) -> Callable[[pulsar.Result, pulsar.MessageId], None]:
        def note(result: pulsar.Result, _: pulsar.MessageId) -> None:
            if result == pulsar.Result.Ok:
                self.acknowledged.add(number)
            else:
                self.refused += 1

        return note


def consume(client: pulsar.Client) -> list[int]:
    """Everything of the backlog, until nothing comes any more."""
    consumer = client.subscribe(TOPIC, SUBSCRIPTION, receiver_queue_size=5000)
    numbers = []
    while True:
        try:
            message = consumer.receive(2000)
        except pulsar.Timeout:
            consumer.close()
            return numbers
        numbers.append(NUMBER.unpack(message.data())[0])
        consumer.acknowledge(message)


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    broker = MagnetarBroker()
    try:
        began = time.perf_counter()
        broker.start()
        took_ms = (time.perf_counter() - began) * 1000
        say(f"1. a broker serves {broker.service_url} after {took_ms:.0f} ms (pid {broker.pid})")
        client_log = str(broker.log.with_name("client.log"))
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, client_log)
        client = pulsar.Client(broker.service_url, logger=logger)
        client.subscribe(TOPIC, SUBSCRIPTION).close()
        publisher = Publisher(client)
        publisher.start()
        say("2. the official Python client publishes numbered messages")
        for _ in range(CRASHES):
            time.sleep(PRODUCING_S)
            crash_and_restart(broker, publisher)
        time.sleep(PRODUCING_S)
        publisher.finish()
        say(f"4. published {publisher.sent:,}, acknowledged {len(publisher.acknowledged):,}")
        received = consume(client)
        client.close()
        verdict = report(publisher, received)
    finally:
        broker.close()
    raise SystemExit(verdict)


def crash_and_restart(broker: MagnetarBroker, publisher: Publisher) -> None:
    broker.crash()
    acknowledged = len(publisher.acknowledged)
    began = time.perf_counter()
    broker.start()
    took_ms = (time.perf_counter() - began) * 1000
    say(f"3. kill -9 after {acknowledged:,} acknowledged; serving again after {took_ms:.0f} ms")


def report(publisher: Publisher, received: list[int]) -> int:
    distinct = set(received)
    lost = publisher.acknowledged - distinct
    first_seen = list(dict.fromkeys(received))
    disorder = sum(1 for left, right in pairwise(first_seen) if left > right)
    say(f"5. consumed {len(received):,}: {len(distinct):,} different numbers")
    say(f"   acknowledged and lost:   {len(lost)}")
    say(f"   out of order:            {disorder}")
    say(
        f"   delivered twice:         {len(received) - len(distinct)} "
        "(sent again after a crash; deduplication removes them)"
    )
    return 1 if lost or disorder else 0


if __name__ == "__main__":
    main()
