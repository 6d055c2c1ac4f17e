"""Migration of regular topics: how long the command takes, and how long writers hear nothing.

Each row is a number of partitions, how much the topic holds, and how many subscriptions it has;
keyed messages are sent to it all the while. Side by side with a real Apache Pulsar in the same
session. `--full` measures what the project promises: up to 512 partitions, 10 GiB, 100
subscriptions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bench.gauge import median
from bench.line import Line
from bench.run import running_peer
from bench.scalable import Side
from bench.segmented import KeyedLoad, SegmentedLine
from magnetar.model.migration import MANAGED, legacy_names
from magnetar.model.name import parse_topic
from magnetar.testing import MagnetarBroker
from magnetar.wire.command import CommandProducer, KeyValue

Result = dict[str, Any]
BEFORE_S, AFTER_S = 0.5, 1.0
OPENING_S = 0.005
"""For one producer."""
ENTRY_BYTES = 64 << 10
WINDOW, BURST = 256, 16
RATE_PER_S = 1000.0
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    partitions: int
    data_mib: int = 0
    subscriptions: int = 1

    def __str__(self) -> str:
        return f"{self.partitions} x {self.data_mib} MiB x {self.subscriptions}"


SMALL = (
    Row(1),
    Row(8),
    Row(64),
    Row(8, data_mib=256),
    Row(8, subscriptions=10),
)
FULL = (
    *(Row(partitions) for partitions in (1, 8, 64, 512)),
    *(Row(8, data_mib=size) for size in (1024, 10240)),
    *(Row(8, subscriptions=count) for count in (10, 100)),
)


class FollowingLine(SegmentedLine):
    """Says of its producers that they will follow the topic."""

    async def create_producer(self, producer_id: int, topic: str) -> None:
        await self._look_up(topic)
        mark = [KeyValue(key=MANAGED, value="true")]
        command = CommandProducer(topic=topic, producer_id=producer_id, request_id=0, metadata=mark)
        answer = await self._ask(command)
        self._names[producer_id] = answer.producer_success.producer_name


async def fill(side: Side, topics: Sequence[str], size_mib: int) -> None:
    async with Line.open(side.host, side.port) as line:
        for number, topic in enumerate(topics):
            await line.create_producer(number, topic)
        payload = bytes(ENTRY_BYTES)
        for start in range(0, size_mib * MIB // ENTRY_BYTES, 1024):
            entries = range(start, min(start + 1024, size_mib * MIB // ENTRY_BYTES))
            frames = [
                line.encode_send(each % len(topics), each // len(topics), payload)
                for each in entries
            ]
            await line.send_all(frames, window=WINDOW, burst=BURST)


async def migrate_once(side: Side, topic: str, row: Row) -> tuple[float, float]:
    """The time of the call and the longest time without a receipt, in seconds."""
    with side.admin() as admin:
        admin.topics.create_partitioned(topic, row.partitions)
        for number in range(row.subscriptions):
            admin.subscriptions.create(topic, f"s{number}")
        parts = [each.full for each in legacy_names(parse_topic(topic), row.partitions)]
        if row.data_mib:
            await fill(side, parts, row.data_mib)
        async with FollowingLine.open(side.host, side.port) as line:
            load = KeyedLoad(line, topic)
            await load.begin(session=1)
            before_s = BEFORE_S + row.partitions * OPENING_S  # all producers are there by then
            seconds = before_s + AFTER_S + 2.0
            sending = asyncio.create_task(load.run(seconds=seconds, rate_per_s=RATE_PER_S))
            await asyncio.sleep(before_s)
            began = time.perf_counter()
            await asyncio.to_thread(admin.scalable_topics.migrate_to_scalable, topic)
            call_s = time.perf_counter() - began
            await sending
            await load.drain()
            return call_s, load.longest_silence_s(began, began + call_s + AFTER_S)


def measure(sides: Sequence[Side], rows: Sequence[Row], options: argparse.Namespace) -> Result:
    document: Result = {}
    for row in rows:
        runs: dict[str, list[tuple[float, float]]] = {side.name: [] for side in sides}
        for number in range(-1, options.repeat):
            for side in sides if number % 2 else reversed(sides):
                local = f"m-{row.partitions}-{row.data_mib}-{row.subscriptions}-{number + 1}"
                topic = f"persistent://public/default/{local}"
                took = asyncio.run(migrate_once(side, topic, row))
                if number >= 0:  # the first warms up
                    runs[side.name].append(took)
        document[str(row)] = figures = {
            name: {
                "call_ms": round(median([call for call, _ in found]) * 1000, 1),
                "silence_ms": round(median([silence for _, silence in found]) * 1000, 1),
            }
            for name, found in runs.items()
        }
        if not options.json:
            for name, found in figures.items():
                print(f"{row!s:<22} {name:<8} {found}", flush=True)
    return document


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="the sizes the project promises")
    parser.add_argument("--no-peer", action="store_true", help="measure Magnetar alone")
    parser.add_argument("--sync", action="store_true", help="let Apache Pulsar sync as well")
    parser.add_argument("--repeat", type=int, default=3, help="runs of a row; the median counts")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    with ExitStack() as stack:
        broker = stack.enter_context(MagnetarBroker())
        sides = [Side("ours", broker.service_url, broker.admin_url, broker.pid)]
        if not options.no_peer:
            peer = stack.enter_context(running_peer(sync=options.sync))
            sides.append(Side("theirs", peer.service_url, peer.admin_url))
        document = measure(sides, FULL if options.full else SMALL, options)
    if options.json:
        print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
