"""Many topics with one slow producer each: what they cost together, above all in syncs."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from contextlib import AsyncExitStack

from bench.gauge import counters, cpu_s, grown, percentile_ms, rss_mib
from bench.line import Line
from magnetar.testing import MagnetarBroker
from magnetar.wire.command import CommandSendReceipt

JOURNAL = (
    "magnetar_journal_syncs_total",
    "magnetar_journal_bytes_total",
    "magnetar_journal_groups_total",
)
TICKS_PER_S = 100
CREATING_MAX = 50


class Load:
    """Producers spread over connections; each sends at its rate and notes when receipts come."""

    def __init__(self, lines: list[Line], topics: int) -> None:
        self._lines = lines
        self._topics = topics
        self._sent_at: list[float] = [0.0] * topics
        self._sequence = [0] * topics
        self.sent = 0
        self.took: list[float] = []
        for line in lines:
            line.on_receipt = self._on_receipt

    async def create(self) -> None:
        slots = asyncio.Semaphore(CREATING_MAX)

        async def create_one(number: int) -> None:
            async with slots:
                topic = f"persistent://public/default/many-{number}"
                await self._line_of(number).create_producer(number, topic)

        async with asyncio.TaskGroup() as tasks:
            for number in range(self._topics):
                tasks.create_task(create_one(number))

    async def run(self, *, seconds: float, rate_per_s: float, size: int) -> None:
        payload, began = b"x" * size, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds:
            due = int(elapsed * rate_per_s * self._topics)
            while self.sent < due:
                self._send(self.sent % self._topics, payload)
                self.sent += 1
            await asyncio.sleep(1 / TICKS_PER_S)
        for line_number, line in enumerate(self._lines):
            expected = sum(self._sequence[line_number :: len(self._lines)])
            await line.await_receipts(expected)

    def _line_of(self, number: int) -> Line:
        return self._lines[number % len(self._lines)]

    def _send(self, number: int, payload: bytes) -> None:
        line = self._line_of(number)
        line.write(line.encode_send(number, self._sequence[number], payload))
        self._sequence[number] += 1
        self._sent_at[number] = time.perf_counter()

    def _on_receipt(self, receipt: CommandSendReceipt) -> None:
        self.took.append(time.perf_counter() - self._sent_at[receipt.producer_id])


async def measure(broker: MagnetarBroker, options: argparse.Namespace) -> dict[str, float]:
    async with AsyncExitStack() as stack:
        lines = [
            await stack.enter_async_context(Line.open("127.0.0.1", broker.port))
            for _ in range(options.connections)
        ]
        load = Load(lines, options.topics)
        began = time.perf_counter()
        await load.create()
        created_s = time.perf_counter() - began
        before = await asyncio.to_thread(counters, broker.admin_url, JOURNAL)
        cpu, began = cpu_s(broker.pid), time.perf_counter()
        await load.run(seconds=options.seconds, rate_per_s=options.rate, size=options.size)
        elapsed_s, used_s = time.perf_counter() - began, cpu_s(broker.pid) - cpu
        after = await asyncio.to_thread(counters, broker.admin_url, JOURNAL)
        journal = grown(before, after)
        return {
            "topics": options.topics,
            "created_s": round(created_s, 2),
            "seconds": round(elapsed_s, 2),
            "messages": len(load.took),
            "missing": load.sent - len(load.took),
            "rate_per_s": round(len(load.took) / elapsed_s),
            "p50_ms": round(percentile_ms(load.took, 0.50), 2),
            "p99_ms": round(percentile_ms(load.took, 0.99), 2),
            "syncs": int(journal["magnetar_journal_syncs_total"]),
            "groups": int(journal["magnetar_journal_groups_total"]),
            "bytes": int(journal["magnetar_journal_bytes_total"]),
            "messages_per_sync": round(
                len(load.took) / max(1.0, journal["magnetar_journal_syncs_total"]), 1
            ),
            "cpu_share": round(used_s / elapsed_s, 2),
            "rss_mib": round(rss_mib(broker.pid)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--rate", type=float, default=1.0, help="messages per topic and second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with MagnetarBroker() as broker:
        result = asyncio.run(measure(broker, options))
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:<20} {value:>14,}")


if __name__ == "__main__":
    main()
