"""How long a broker takes to serve, empty and with many topics, and its memory when idle."""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from bench.gauge import median, rss_mib
from bench.line import Line
from magnetar.testing import MagnetarBroker


def start_ms(broker: MagnetarBroker) -> float:
    began = time.perf_counter()
    broker.start()
    return (time.perf_counter() - began) * 1000


def measure_empty(runs: int) -> dict[str, float]:
    took, memory = [], []
    for _ in range(runs):
        broker = MagnetarBroker()
        try:
            took.append(start_ms(broker))
            memory.append(rss_mib(broker.pid))
        finally:
            broker.close()
    return {"ready_ms": median(took), "worst_ms": max(took), "rss_mib": median(memory)}


def measure_filled(runs: int, topics: int) -> dict[str, float]:
    broker = MagnetarBroker()
    took, memory = [], []
    try:
        broker.start()
        asyncio.run(fill(broker.port, topics))
        for _ in range(runs):
            broker.stop()
            took.append(start_ms(broker))
            memory.append(rss_mib(broker.pid))
    finally:
        broker.close()
    return {"ready_ms": median(took), "worst_ms": max(took), "rss_mib": median(memory)}


async def fill(port: int, topics: int) -> None:
    async with Line.open("127.0.0.1", port) as line:
        frames = []
        for number in range(topics):
            await line.create_producer(number, f"persistent://public/default/start-{number}")
            frames.append(line.encode_send(number, 0, b"x" * 100))
        await line.send_all(frames, window=1000, burst=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = {
        "empty directory": measure_empty(options.runs),
        f"{options.topics} topics": measure_filled(options.runs, options.topics),
    }
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'start':<20} {'ready, median':>14} {'worst':>10} {'memory, idle':>14}")
    for name, row in rows.items():
        ready, worst, memory = row["ready_ms"], row["worst_ms"], row["rss_mib"]
        print(f"{name:<20} {ready:>11.0f} ms {worst:>7.0f} ms {memory:>10.0f} MiB")


if __name__ == "__main__":
    main()
