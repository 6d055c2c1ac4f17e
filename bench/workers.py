"""Processor time per entry and rate with one worker and with several, in turns.

Each worker has one topic, each topic a client process of its own that produces and then consumes
unbatched entries, all at once. Processor time is that of every process of the broker together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.cpu_per_entry import SUBSCRIPTION, WARM_ENTRIES, Reader
from bench.gauge import cpu_s
from bench.line import Line
from magnetar import Admin
from magnetar.testing import MagnetarBroker

WINDOW = 2000
BURST = 250


async def drive(port: int, topic: str, entries: int, size: int) -> None:
    """A client: waits for a word before each of its two parts, and says when it is done."""
    async with Line.open("127.0.0.1", port) as line:
        await line.subscribe(1, topic, SUBSCRIPTION)
        await line.create_producer(1, topic)
        payload = b"x" * size
        frames = [line.encode_send(1, number, payload) for number in range(WARM_ENTRIES + entries)]
        await line.send_all(frames[:WARM_ENTRIES], window=WINDOW, burst=BURST)
        await turn()
        await line.send_all(frames[WARM_ENTRIES:], window=WINDOW, burst=BURST)
        await turn()
        reader = Reader(line, 1)
        reader.start()
        await line.await_messages(len(frames))
        reader.acknowledge()
        print("done", flush=True)


async def turn() -> None:
    print("done", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def processes_of(broker: MagnetarBroker) -> list[int]:
    """The broker's, or those of the supervisor and its workers."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    return [broker.pid, *map(int, children)]


def find_topics(admin: Admin, workers: int) -> dict[str, int]:
    """A topic at each worker, with the port of its worker."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < workers:
        topic = f"persistent://public/default/worker-{number}"
        port = int(admin.topics.lookup(topic)["brokerUrl"].rpartition(":")[2])
        found.setdefault(port, topic)
        number += 1
        assert number < 1_000, f"only {len(found)} workers own topics"
    return {topic: port for port, topic in found.items()}


def measure(workers: int, entries: int, size: int) -> dict[str, dict[str, float]]:
    arguments = () if workers == 1 else ("--workers", str(workers))
    with MagnetarBroker(arguments=arguments) as broker, Admin(broker.admin_url) as admin:
        topics = find_topics(admin, workers)
        clients = [start_client(port, topic, entries, size) for topic, port in topics.items()]
        try:
            hear_all(clients)
            return {
                part: measure_part(broker, clients, entries * workers)
                for part in ("produce", "consume")
            }
        finally:
            for client in clients:
                client.kill()
                client.communicate()


def start_client(port: int, topic: str, entries: int, size: int) -> subprocess.Popen[str]:
    words = ["--client", str(port), topic, "--entries", str(entries), "--size", str(size)]
    return subprocess.Popen(
        [sys.executable, "-m", "bench.workers", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def hear_all(clients: Sequence[subprocess.Popen[str]]) -> None:
    for client in clients:
        assert client.stdout is not None
        assert client.stdout.readline() == "done\n", "a client failed"


def measure_part(
    broker: MagnetarBroker, clients: Sequence[subprocess.Popen[str]], entries: int
) -> dict[str, float]:
    pids = processes_of(broker)
    used, began = sum(map(cpu_s, pids)), time.perf_counter()
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("\n")
        client.stdin.flush()
    hear_all(clients)
    elapsed = time.perf_counter() - began
    used = sum(map(cpu_s, pids)) - used
    return {"us_per_entry": used / entries * 1e6, "rate_per_s": entries / elapsed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--entries", type=int, default=100_000, help="for each worker")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--client", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        port, topic = options.client
        asyncio.run(drive(int(port), topic, options.entries, options.size))
        return
    runs: dict[int, list[dict[str, dict[str, float]]]] = {each: [] for each in options.workers}
    for _ in range(options.repeat):
        for each in options.workers:
            runs[each].append(measure(each, options.entries, options.size))
    rows = {
        f"{part}, {workers} workers": {
            key: statistics.median(run[part][key] for run in found)
            for key in ("us_per_entry", "rate_per_s")
        }
        for part in ("produce", "consume")
        for workers, found in runs.items()
    }
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'broker, per entry':<20} {'processor':>12} {'entries/s':>12}")
    for name, row in rows.items():
        print(f"{name:<20} {row['us_per_entry']:>9.2f} µs {row['rate_per_s']:>12,.0f}")


if __name__ == "__main__":
    main()
