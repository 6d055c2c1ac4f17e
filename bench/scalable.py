"""Scalable topics: splits under load, creation, throughput, large layouts, memory.

`split` and `create` run side by side with a real Apache Pulsar in the same session; the others
compare Magnetar with itself, or measure what a broker spends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bench.gauge import cpu_s, median, percentile_ms, rss_mib
from bench.line import Line
from bench.run import running_peer
from bench.segmented import KeyedLoad, SegmentedLine
from magnetar.client.admin import AdminClient
from magnetar.model.name import parse_topic
from magnetar.model.segment import SegmentName, tile
from magnetar.testing import MagnetarBroker

Result = dict[str, Any]
BEFORE_S, AFTER_S = 0.5, 0.5
WINDOW, BURST = 2000, 100
CHANGES, WATCHERS = 40, 20


@dataclass(frozen=True, slots=True)
class Side:
    """One of the brokers that are compared."""

    name: str
    service_url: str
    admin_url: str
    pid: int = 0

    @property
    def host(self) -> str:
        return urlsplit(self.service_url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.service_url).port or 0

    def admin(self) -> AdminClient:
        return AdminClient(self.admin_url, timeout=120.0)


# A split under load
async def split_once(side: Side, topic: str, rate_per_s: float) -> tuple[float, float]:
    """The longest time without a receipt, and the time of the REST call, in seconds."""
    with side.admin() as admin:
        await asyncio.to_thread(admin.scalable_topics.create, topic)
        async with SegmentedLine.open(side.host, side.port) as line:
            load = KeyedLoad(line, topic)
            await load.begin(session=1)
            sending = asyncio.create_task(
                load.run(seconds=BEFORE_S + AFTER_S + 1.0, rate_per_s=rate_per_s)
            )
            await asyncio.sleep(BEFORE_S)
            began = time.perf_counter()
            await asyncio.to_thread(admin.scalable_topics.split, topic, 0)
            call_s = time.perf_counter() - began
            await sending
            await load.drain()
            return load.longest_silence_s(began, began + call_s + AFTER_S), call_s


def measure_split(sides: Sequence[Side], options: argparse.Namespace) -> Result:
    silences: dict[str, list[float]] = {side.name: [] for side in sides}
    calls: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(-options.warm, options.splits):
        for side in sides if number % 2 else reversed(sides):
            topic = f"topic://public/default/split-{number + options.warm}"
            silence_s, call_s = asyncio.run(split_once(side, topic, options.rate))
            if number >= 0:
                silences[side.name].append(silence_s)
                calls[side.name].append(call_s)
    return {
        side.name: {
            "silence_p50_ms": round(percentile_ms(silences[side.name], 0.50), 2),
            "silence_p99_ms": round(percentile_ms(silences[side.name], 0.99), 2),
            "call_p50_ms": round(percentile_ms(calls[side.name], 0.50), 2),
            "call_p99_ms": round(percentile_ms(calls[side.name], 0.99), 2),
        }
        for side in sides
    }


# Creation
def measure_create(sides: Sequence[Side], options: argparse.Namespace) -> Result:
    rates: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(options.repeat):
        for side in sides if number % 2 else reversed(sides):
            with side.admin() as admin:
                began = time.perf_counter()
                for place in range(options.topics):
                    topic = f"topic://public/default/create-{number}-{place}"
                    admin.scalable_topics.create(topic, segments=4)
                rates[side.name].append(options.topics / (time.perf_counter() - began))
    return {side.name: {"topics_per_s": round(median(rates[side.name]), 1)} for side in sides}


# Throughput
async def throughput(
    side: Side, topics: Sequence[str], options: argparse.Namespace
) -> tuple[float, float]:
    """Unbatched entries per second over one connection, dealt to the topics in turn, and the
    broker's processor time per entry.
    """
    async with Line.open(side.host, side.port) as line:
        for number, topic in enumerate(topics):
            await line.create_producer(number, topic)
        payload = b"x" * 100
        frames = [
            line.encode_send(place % len(topics), place // len(topics), payload)
            for place in range(options.entries)
        ]
        await line.send_all(frames[: options.entries // 10], window=WINDOW, burst=BURST)
        rest = frames[options.entries // 10 :]
        began, spent = time.perf_counter(), cpu_s(side.pid)
        await line.send_all(rest, window=WINDOW, burst=BURST)
        elapsed_s, used_s = time.perf_counter() - began, cpu_s(side.pid) - spent
        return len(rest) / elapsed_s, used_s / len(rest)


def measure_throughput(sides: Sequence[Side], options: argparse.Namespace) -> Result:
    ours = sides[0]
    runs: dict[str, list[tuple[float, float]]] = {"persistent": [], "1": [], "4": [], "16": []}
    with ours.admin() as admin:
        for number in range(options.repeat):
            names = list(runs)
            for name in names if number % 2 else reversed(names):
                if name == "persistent":
                    topics = [f"persistent://public/default/through-{number}"]
                else:
                    full = f"topic://public/default/through-{name}-{number}"
                    admin.scalable_topics.create(full, segments=int(name))
                    # at these rates it would split in the middle of the run
                    admin.scalable_topics.set_auto_scale_policy(full, {"enabled": False})
                    topics = segment_names(full, int(name))
                runs[name].append(asyncio.run(throughput(ours, topics, options)))
    rates = {name: median([rate for rate, _ in found]) for name, found in runs.items()}
    costs = {name: median([cost for _, cost in found]) for name, found in runs.items()}
    return {
        name: {
            "entries_per_s": round(rates[name]),
            "cpu_us_per_entry": round(costs[name] * 1_000_000, 2),
            "rate_ratio": round(rates[name] / rates["persistent"], 3),
            "cpu_ratio": round(costs[name] / costs["persistent"], 3),
        }
        for name in runs
    }


def segment_names(topic: str, count: int) -> list[str]:
    name = parse_topic(topic)
    return [str(SegmentName(name, span, place)) for place, span in enumerate(tile(count))]


# A large layout
def measure_large(sides: Sequence[Side], options: argparse.Namespace) -> Result:
    ours, topic = sides[0], "topic://public/default/large"
    with ours.admin() as admin:
        keep = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        admin.namespaces.set_policy("public/default", "retention", keep)
        admin.scalable_topics.create(topic, segments=64)
        began = time.perf_counter()
        sealed = grow_history(admin, topic, options.sealed)
        changing_s = time.perf_counter() - began
        looked_up = asyncio.run(spend_on_lookups(ours, topic, options.lookups))
        untold = asyncio.run(spend_on_changes(ours, admin, topic, 0))
        told = asyncio.run(spend_on_changes(ours, admin, topic, WATCHERS))
        admin.namespaces.remove_policy("public/default", "retention")
    return {
        "ours": {
            "sealed_segments": sealed,
            "changes_per_s": round(sealed / 1.5 / changing_s, 1),
            "lookup_cpu_ms": round(looked_up * 1000, 2),
            "change_cpu_ms": round(untold * 1000, 2),
            "push_cpu_ms": round((told - untold) / WATCHERS * 1000, 2),
        }
    }


def grow_history(admin: AdminClient, topic: str, count: int) -> int:
    """Split and merge until so many segments are sealed; as many as before stay active."""
    while True:
        segments = admin.scalable_topics.metadata(topic)["segments"].values()
        sealed = sum(segment["state"] == "SEALED" for segment in segments)
        if sealed >= count:
            return sealed
        for each in [segment for segment in segments if segment["state"] == "ACTIVE"][:16]:
            admin.scalable_topics.split(topic, each["segmentId"])
        admin.scalable_topics.scale(topic, 64)


async def spend_on_lookups(side: Side, topic: str, count: int) -> float:
    async with SegmentedLine.open(side.host, side.port) as line:
        await line.look_up(0, topic)
        before = cpu_s(side.pid)
        for session in range(1, count + 1):
            await line.look_up(session, topic)
            line.end_session(session)
        return (cpu_s(side.pid) - before) / count


async def spend_on_changes(side: Side, admin: AdminClient, topic: str, sessions: int) -> float:
    """Processor time of a split or merge that so many clients are told of."""
    async with SegmentedLine.open(side.host, side.port) as line:
        for session in range(sessions):
            await line.look_up(session, topic)
        before = cpu_s(side.pid)
        for _ in range(CHANGES // 2):
            for count in (65, 64):
                await asyncio.to_thread(admin.scalable_topics.scale, topic, count)
        await asyncio.sleep(0.1)
        return (cpu_s(side.pid) - before) / CHANGES


# Memory
def measure_memory(sides: Sequence[Side], options: argparse.Namespace) -> Result:
    ours = sides[0]
    with ours.admin() as admin:
        for place in range(50):
            admin.scalable_topics.create(f"topic://public/default/warm-{place}")
        before = rss_mib(ours.pid)
        for place in range(options.idle):
            admin.scalable_topics.create(f"topic://public/default/idle-{place}")
        grown = rss_mib(ours.pid) - before
    return {
        "ours": {
            "idle_topics": options.idle,
            "kib_per_topic": round(grown * 1024 / options.idle, 1),
        }
    }


MEASURES: dict[str, Callable[[Sequence[Side], argparse.Namespace], Result]] = {
    "split": measure_split,
    "create": measure_create,
    "throughput": measure_throughput,
    "large": measure_large,
    "memory": measure_memory,
}
AGAINST_PEER = ("split", "create")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--no-peer", action="store_true", help="measure Magnetar alone")
    parser.add_argument("--sync", action="store_true", help="let Apache Pulsar sync as well")
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--warm", type=int, default=5, help="splits before the first that counts")
    parser.add_argument("--rate", type=float, default=1000.0, help="keyed messages per second")
    parser.add_argument("--topics", type=int, default=100, help="scalable topics to create")
    parser.add_argument("--repeat", type=int, default=5, help="runs of a rate; the median counts")
    parser.add_argument("--entries", type=int, default=200_000, help="entries of a throughput run")
    parser.add_argument("--sealed", type=int, default=1000, help="sealed segments of the layout")
    parser.add_argument("--lookups", type=int, default=100)
    parser.add_argument("--idle", type=int, default=1000, help="idle topics to weigh")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    document: Result = {}
    with ExitStack() as stack:
        broker = stack.enter_context(MagnetarBroker())
        sides = [Side("ours", broker.service_url, broker.admin_url, broker.pid)]
        if not options.no_peer and set(options.only) & set(AGAINST_PEER):
            peer = stack.enter_context(running_peer(sync=options.sync))
            sides.append(Side("theirs", peer.service_url, peer.admin_url))
        for name in options.only:
            result = document[name] = MEASURES[name](sides, options)
            if not options.json:
                for side, figures in result.items():
                    for figure, value in figures.items():
                        print(f"{name:<11} {side:<11} {figure:<20} {value:>12,}", flush=True)
    if options.json:
        print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
