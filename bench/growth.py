"""How cost grows: the same at n, 2n and 4n, with the broker's time and memory for each piece.

Every size runs on a broker of its own. `share` is the broker's processor time for one piece at 4n
divided by that at n: 1 is linear, 4 is quadratic. `held_ms` is the longest that the broker's event
loop did nothing else, its start included. `--full` takes the sizes that are promised
(100,000 topics, 10,000 connections, consumers and segments, 1,000 subscriptions, 10 M delayed
messages, 1 M holes); without it the sizes are a third or less.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import gc
import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from bench.gauge import counters, cpu_s, rss_mib
from bench.line import Line
from bench.probe import describe_machine
from magnetar import AsyncPulsarClient
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker

Result = dict[str, Any]
TOPIC = "persistent://public/default/grow"
AT_ONCE = 50
LINES = 20
PAYLOAD = b"x" * 100
PENDING = 5_000
STEPS = (1, 2, 4)
TIMES = 10_000
TIMES_STRIDE = 7_919
"""A prime, so that neighbours in the log are far from each other in time."""
TOMORROW = datetime.timedelta(days=1)
HELD = "magnetar_event_loop_held_longest_seconds"
# Nothing is let go of while it is counted.
SETTINGS: dict[str, Any] = {
    "brokerDeleteInactiveTopicsEnabled": False,
    "brokerMaxConnections": 0,
    "brokerMaxConnectionsPerIp": 0,
    "maxUnackedMessagesPerConsumer": 0,
    "maxUnackedMessagesPerSubscription": 0,
}


@dataclass(slots=True)
class Meter:
    """What a broker has spent since a moment."""

    broker: MagnetarBroker
    began: float = field(init=False)
    cpu: float = field(init=False)
    rss: float = field(init=False)

    def __post_init__(self) -> None:
        self.began, self.cpu = time.perf_counter(), cpu_s(self.broker.pid)
        self.rss = rss_mib(self.broker.pid)

    def read(self, pieces: int) -> Result:
        seconds = time.perf_counter() - self.began
        cpu = cpu_s(self.broker.pid) - self.cpu
        grown = max(0.0, rss_mib(self.broker.pid) - self.rss)
        return {
            "seconds": round(seconds, 2),
            "cpu_us_each": round(cpu / pieces * 1e6, 1),
            "kib_each": round(grown * 1024 / pieces, 2),
        }


async def for_each(count: int, make: Callable[[int], Awaitable[object]]) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with slots:
            await make(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            tasks.create_task(one(number))


async def open_lines(stack: AsyncExitStack, broker: MagnetarBroker, count: int) -> list[Line]:
    lines: list[Line] = []

    async def make(_number: int) -> None:
        lines.append(await stack.enter_async_context(Line.open("127.0.0.1", broker.port)))

    await for_each(count, make)
    return lines


async def topics(broker: MagnetarBroker, count: int) -> Result:
    """Topics loaded, a producer on each."""
    async with AsyncExitStack() as stack:
        lines = await open_lines(stack, broker, LINES)
        meter = Meter(broker)
        await for_each(
            count, lambda number: lines[number % LINES].create_producer(number, f"{TOPIC}-{number}")
        )
        return meter.read(count)


async def connections(broker: MagnetarBroker, count: int) -> Result:
    """Connections that say hello and nothing more."""
    async with AsyncExitStack() as stack:
        meter = Meter(broker)
        await open_lines(stack, broker, count)
        return meter.read(count)


async def segments(broker: MagnetarBroker, count: int) -> Result:
    """One layout of so many segments: made, and read by a producer that sends to it."""
    topic = "topic://public/default/grow"
    admin = AdminClient(broker.admin_url)
    meter = Meter(broker)
    await asyncio.to_thread(admin.scalable_topics.create, topic, segments=count)
    async with AsyncPulsarClient(broker.service_url) as client:
        producer = await client.producer(topic)
        await producer.send(PAYLOAD, key="k")
        return meter.read(count)


async def subscriptions(broker: MagnetarBroker, count: int) -> Result:
    """Subscriptions on one topic, made and then each given 200 messages."""
    messages = 200
    async with AsyncExitStack() as stack:
        lines = await open_lines(stack, broker, LINES)
        meter = Meter(broker)
        await for_each(
            count,
            lambda number: lines[number % LINES].subscribe(number, TOPIC, f"subscription-{number}"),
        )
        made = meter.read(count)
        meter = Meter(broker)
        await send(lines[0], messages)
        for number in range(count):
            lines[number % LINES].flow(number, messages)
        for index, line in enumerate(lines):
            await line.await_messages(len(range(index, count, LINES)) * messages)
        return made | {"dispatch_us": meter.read(count * messages)["cpu_us_each"]}


async def send(line: Line, count: int) -> None:
    await line.create_producer(1_000_000, TOPIC)
    frames = [line.encode_send(1_000_000, number, PAYLOAD) for number in range(count)]
    await line.send_all(frames, window=PENDING, burst=500)


async def delayed(broker: MagnetarBroker, count: int) -> Result:
    """Messages for all times of tomorrow, before a consumer that waits for them."""
    tomorrow = datetime.datetime.now(datetime.UTC) + TOMORROW
    times = [tomorrow + step * TOMORROW / TIMES for step in range(TIMES)]
    async with AsyncPulsarClient(broker.service_url) as client:
        await client.consumer(TOPIC, "wait", type="shared")
        producer = await client.producer(TOPIC, batching=False, max_pending_messages=PENDING)
        await producer.send(PAYLOAD)
        meter = Meter(broker)
        for number in range(count):
            await producer.submit(PAYLOAD, deliver_at=times[number * TIMES_STRIDE % TIMES])
        await producer.flush()
        return meter.read(count)


async def holes(broker: MagnetarBroker, count: int) -> Result:
    """Every second message received and acknowledged alone: as many holes as acknowledgements."""
    topic = "topic://public/default/grow"
    async with AsyncPulsarClient(broker.service_url) as client:
        consumer = await client.queue_consumer(topic, subscription="holes")
        producer = await client.producer(topic, batching=False, max_pending_messages=PENDING)
        await producer.send_many(repeat(PAYLOAD, 2 * count))
        meter = Meter(broker)
        got = 0
        while got < 2 * count:
            batch = await consumer.receive_many(1_000, 60.0)
            assert batch, f"{got} messages came"
            await consumer.acknowledge(
                [each for number, each in enumerate(batch, got) if number % 2]
            )
            got += len(batch)
        await consumer.flush()
        return meter.read(count)


async def consumers(broker: MagnetarBroker, count: int) -> Result:
    """Consumers of one shared subscription, attached and then given ten messages each."""
    messages = 10
    async with AsyncExitStack() as stack:
        lines = await open_lines(stack, broker, LINES)
        meter = Meter(broker)
        await for_each(
            count,
            lambda number: lines[number % LINES].subscribe(number, TOPIC, "all", shared=True),
        )
        made = meter.read(count)
        for number in range(count):
            lines[number % LINES].flow(number, messages)
        meter = Meter(broker)
        await send(lines[0], count * messages)
        for index, line in enumerate(lines):
            await line.await_messages(len(range(index, count, LINES)) * messages)
        return made | {"dispatch_us": meter.read(count * messages)["cpu_us_each"]}


async def producers(broker: MagnetarBroker, count: int) -> Result:
    """Producers of one topic that send nothing."""
    async with AsyncExitStack() as stack:
        lines = await open_lines(stack, broker, LINES)
        await lines[0].create_producer(count, TOPIC)
        meter = Meter(broker)
        await for_each(count, lambda number: lines[number % LINES].create_producer(number, TOPIC))
        return meter.read(count)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    measure: Callable[[MagnetarBroker, int], Awaitable[Result]]
    least: int
    full: int
    """n; the largest size is four times as much."""


CASES = (
    Case("topics", topics, 2_500, 25_000),
    Case("connections", connections, 500, 2_500),
    Case("segments", segments, 250, 2_500),
    Case("subscriptions", subscriptions, 100, 250),
    Case("delayed", delayed, 25_000, 2_500_000),
    Case("holes", holes, 12_500, 250_000),
    Case("consumers", consumers, 500, 2_500),
    Case("producers", producers, 500, 2_500),
)


def grow(case: Case, n: int) -> Result:
    sizes: dict[str, Result] = {}
    load = round(os.getloadavg()[0], 1)
    for step in STEPS:
        with MagnetarBroker(set=SETTINGS) as broker:
            gc.collect()
            result = asyncio.run(case.measure(broker, step * n))
            held_ms = round(counters(broker.admin_url, [HELD])[HELD] * 1000)
            sizes[str(step * n)] = result | {"held_ms": held_ms}
    first, last = sizes[str(n)], sizes[str(STEPS[-1] * n)]
    share = last["cpu_us_each"] / max(0.1, first["cpu_us_each"])
    result: Result = {"sizes": sizes, "share": round(share, 2), "load1": load}
    if "dispatch_us" in last:
        result["dispatch_share"] = round(last["dispatch_us"] / max(0.1, first["dispatch_us"]), 2)
    return result


def show(name: str, result: Result) -> None:
    for size, figures in result["sizes"].items():
        cells = " ".join(f"{key} {value:>10,}" for key, value in figures.items())
        print(f"{name:<14} {int(size):>10,}  {cells}", flush=True)
    shares = " ".join(f"{key} {result[key]}" for key in result if key.endswith("share"))
    print(f"{name:<14} {'':>10}  {shares}", flush=True)


def arguments(names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=names, default=names, metavar="CASE")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--full", action="store_true", help="the promised sizes")
    parser.add_argument("--n", type=int, help="the smallest size, for all cases")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    return parser.parse_args()


def main() -> None:
    options = arguments([case.name for case in CASES])
    cases = [case for case in CASES if case.name in options.only]
    if options.list:
        print("\n".join(case.name for case in cases))
        return
    document: Result = {
        "bench": "growth",
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "machine": describe_machine(),
        "cases": {},
    }
    try:
        for case in cases:
            result = grow(case, options.n or (case.full if options.full else case.least))
            document["cases"][case.name] = result
            if not options.json:
                show(case.name, result)
    finally:  # an interrupt costs the case under way
        if options.json:
            print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
