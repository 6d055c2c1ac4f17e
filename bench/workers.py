"""Processor time per entry and rate with one worker and with several, in turns.

The topics are as many in every setting, and spread evenly over the workers. Each has a client
process of its own that produces and then consumes unbatched entries, all at once: what differs is
only who serves them. With `--in-turn` the clients work one after the other, so that on a machine
with fewer cores than processes nobody waits for a core. Processor time is that of every process of
the broker together.
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


def find_topics(admin: Admin, each: int, count: int) -> dict[str, int]:
    """`count` topics, `each` of them at one worker, with the port of that worker."""
    found: dict[str, int] = {}
    number = 0
    while len(found) < count:
        topic = f"persistent://public/default/worker-{number}"
        port = int(admin.topics.lookup(topic)["brokerUrl"].rpartition(":")[2])
        if list(found.values()).count(port) < each:
            found[topic] = port
        number += 1
        assert number < 1_000, f"only {len(set(found.values()))} workers own topics"
    return found


def measure(workers: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    arguments = () if workers == 1 else ("--workers", str(workers))
    entries, count = options.entries, options.topics
    with MagnetarBroker(arguments=arguments) as broker, Admin(broker.admin_url) as admin:
        topics = find_topics(admin, count // workers, count)
        clients = [
            start_client(port, topic, entries, options.size) for topic, port in topics.items()
        ]
        try:
            hear_all(clients)
            return {
                part: measure_part(broker, clients, entries * count, in_turn=options.in_turn)
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
    broker: MagnetarBroker,
    clients: Sequence[subprocess.Popen[str]],
    entries: int,
    *,
    in_turn: bool,
) -> dict[str, float]:
    pids = processes_of(broker)
    began_cpu, began = {pid: cpu_s(pid) for pid in pids}, time.perf_counter()
    for some in [[client] for client in clients] if in_turn else [clients]:
        for client in some:
            assert client.stdin is not None
            client.stdin.write("\n")
            client.stdin.flush()
        hear_all(some)
    elapsed = time.perf_counter() - began
    used = {pid: cpu_s(pid) - before for pid, before in began_cpu.items()}
    return {
        "us_per_entry": sum(used.values()) / entries * 1e6,
        "supervisor_us": used[broker.pid] / entries * 1e6 if len(pids) > 1 else 0.0,
        "rate_per_s": entries / elapsed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--topics", type=int, default=4, help="a multiple of every number")
    parser.add_argument("--entries", type=int, default=100_000, help="for each topic")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument(
        "--in-turn",
        action="store_true",
        help="one client after the other, as if each worker had a core for itself",
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--client", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        port, topic = options.client
        asyncio.run(drive(int(port), topic, options.entries, options.size))
        return
    runs: dict[int, list[dict[str, dict[str, float]]]] = {each: [] for each in options.workers}
    if any(options.topics % each for each in options.workers):
        parser.error(f"{options.topics} topics cannot be shared out evenly")
    for number in range(options.repeat):
        for each in options.workers if number % 2 == 0 else reversed(options.workers):
            runs[each].append(measure(each, options))
    rows = {
        f"{part}, {workers} workers": {
            key: statistics.median(run[part][key] for run in found)
            for key in ("us_per_entry", "supervisor_us", "rate_per_s")
        }
        for part in ("produce", "consume")
        for workers, found in runs.items()
    }
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'broker, per entry':<20} {'processor':>12} {'supervisor':>12} {'entries/s':>12}")
    for name, row in rows.items():
        costs = f"{row['us_per_entry']:>9.2f} µs {row['supervisor_us']:>9.2f} µs"
        print(f"{name:<20} {costs} {row['rate_per_s']:>12,.0f}")


if __name__ == "__main__":
    main()
