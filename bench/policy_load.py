"""Topics with policies of their own, loaded by a broker that has just started.

A namespace holds 1, 100 or 10,000 topic policies, each changed several times. The broker is
restarted; the first producer of the namespace then waits for its topic, and the topic for its
policies. Policies are kept in the system topic, before and after compaction, or in the metadata
store; `--peer` adds a real Apache Pulsar with its default, the system topic, and its default
memory. Only one broker runs at a time; they take turns, and every second round goes the other way
round. Prints the table of the guide: the median, and the slowest in brackets.

    python -m bench.policy_load [--peer] [--repeat 10] [--peer-repeat 3] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.gauge import median, percentile_ms
from bench.line import Line
from bench.run import PEER
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import ANY_VERSION
from magnetar.model.document import encode_document
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.rules.system import change_events_of
from magnetar.runtime.clock import SystemClock
from magnetar.testing import MagnetarBroker
from magnetar.testing.broker import find_ports
from magnetar.wire.policy_event import encode_event, encode_event_key

HOST = "127.0.0.1"
WARM_UP = NamespaceName("public", "warm-up")
COMPACTION_S_MAX = 300
WINDOW, BURST = 1000, 100
SETTINGS = {
    "brokerDeleteInactiveTopicsEnabled": "false",
    "brokerServiceCompactionMonitorIntervalInSeconds": "100000",
}
Result = dict[str, Any]
Namespaced = tuple[NamespaceName, int]
"""A namespace and how many policies it holds."""


@dataclass(frozen=True, slots=True)
class Side:
    """A broker that can be started and stopped on its data; it runs when it is measured."""

    name: str
    port: int
    admin_url: str
    start: Callable[[], None]
    stop: Callable[[], object]
    repeat: int
    took: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    """Seconds by what was measured and the number of policies."""

    @contextmanager
    def running(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.stop()

    def call(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"{self.admin_url}/admin/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            content = reply.read()
        return json.loads(content) if content else None


@contextmanager
def making_ours(backend: str, data: Path, repeat: int) -> Iterator[Side]:
    settings = {**SETTINGS, "topicPoliciesServiceClassName": backend}
    broker = MagnetarBroker(data=data, set=settings)
    try:
        yield Side(
            f"Magnetar, {backend.replace('-', ' ')}",
            broker.port,
            broker.admin_url,
            broker.start,
            broker.stop,
            repeat,
        )
    finally:
        broker.close()


@contextmanager
def making_theirs(repeat: int) -> Iterator[Side]:
    port, web_port = find_ports(2)
    with tempfile.TemporaryDirectory(prefix="peer-") as data:
        ports = ["--port", str(port), "--web", str(web_port)]
        words = [f"{key}={value}" for key, value in SETTINGS.items()]
        flags = [part for word in words for part in ("--set", word)]

        def run(*command: str) -> None:
            subprocess.run([str(PEER / "pulsar"), *command], check=True, stdout=sys.stderr)

        yield Side(
            "Apache Pulsar 5.0.0-M1, its default (system topic)",
            port,
            f"http://{HOST}:{web_port}",
            lambda: run("start", *ports, "--data", data, *flags),
            lambda: run("stop", "--data", data),
            repeat,
        )


def topic_of(namespace: NamespaceName, number: int) -> TopicName:
    return TopicName(TopicDomain.PERSISTENT, namespace, f"t-{number}")


def make_namespace(side: Side, namespace: NamespaceName) -> None:
    """With one topic and its policy, set as an administrator does."""
    side.call("PUT", f"namespaces/{namespace}", {})
    path = f"persistent/{namespace}/t-0"
    side.call("PUT", path)
    side.call("POST", f"{path}/maxProducers", 100)


async def write_events(side: Side, namespace: NamespaceName, count: int, updates: int) -> None:
    """The policies of the other topics, as events that a broker would write."""
    async with Line.open(HOST, side.port) as line:
        await line.create_producer(0, change_events_of(namespace).full)
        frames: list[bytes] = []
        for update in range(updates):
            for number in range(1, count):
                topic = topic_of(namespace, number)
                policies = TopicPolicies(maxProducerPerTopic=100 + update, messageTTLInSeconds=60)
                key = encode_event_key(topic, is_global=False)
                event = encode_event(topic, policies, cluster="standalone")
                frames.append(line.encode_send(0, len(frames), event, key=key))
        await line.send_all(frames, window=WINDOW, burst=BURST)


async def write_records(data: Path, namespaces: Sequence[Namespaced]) -> None:
    """The policies of the other topics, in the store of a broker that does not run."""
    store = await SqliteStore.open(data / "metadata.db", clock=SystemClock())
    value = encode_document(TopicPolicies(maxProducerPerTopic=100, messageTTLInSeconds=60))
    for namespace, count in namespaces:
        root = f"/admin/topic-policies/local/{namespace}/persistent"
        for start in range(1, count, 500):
            numbers = range(start, min(start + 500, count))
            await asyncio.gather(
                *(store.put(f"{root}/t-{each}", value, expect=ANY_VERSION) for each in numbers)
            )
    await store.close()


def compact(side: Side, namespaces: Sequence[Namespaced]) -> None:
    for namespace, _ in namespaces:
        path = f"persistent/{namespace}/__change_events/compaction"
        side.call("PUT", path)
        deadline = time.monotonic() + COMPACTION_S_MAX
        while (status := side.call("GET", path)["status"]) != "SUCCESS":
            if status == "ERROR" or time.monotonic() > deadline:
                raise RuntimeError(f"{namespace} was not compacted: {status}")
            time.sleep(0.05)


async def load_once(side: Side, namespace: NamespaceName) -> float:
    async with Line.open(HOST, side.port) as line:
        began = time.perf_counter()
        await line.create_producer(0, topic_of(namespace, 0).full)
        return time.perf_counter() - began


def measure(sides: Sequence[Side], namespaces: Sequence[Namespaced], what: str) -> None:
    """Round by round, each side in its turn, until each has had as many as it is to have."""
    for number in range(max(side.repeat for side in sides)):
        for side in sides[:: -1 if number % 2 else 1]:
            if number >= side.repeat:
                continue
            took = side.took.setdefault(what, {})
            with side.running():
                # The first topic of all pays for code that is not loaded yet: it does not count.
                asyncio.run(load_once(side, WARM_UP))
                for namespace, count in namespaces:
                    took.setdefault(count, []).append(asyncio.run(load_once(side, namespace)))


def plan_namespaces(options: argparse.Namespace) -> list[Namespaced]:
    return [
        (NamespaceName("public", f"p{count}-{number}"), count)
        for count in options.policies
        for number in range(options.namespaces)
    ]


def fill_system_topic(side: Side, namespaces: Sequence[Namespaced], updates: int) -> None:
    with side.running():
        make_namespace(side, WARM_UP)
        for namespace, count in namespaces:
            make_namespace(side, namespace)
            asyncio.run(write_events(side, namespace, count, updates))


def fill_metadata_store(side: Side, namespaces: Sequence[Namespaced], data: Path) -> None:
    with side.running():
        for namespace in (WARM_UP, *(namespace for namespace, _ in namespaces)):
            make_namespace(side, namespace)
    asyncio.run(write_records(data, namespaces))


def rows_of(sides: Sequence[Side]) -> list[Result]:
    return [
        {
            "backend": f"{side.name}{what}",
            "policies": count,
            "p50_ms": round(median(seconds) * 1000, 1),
            "p99_ms": round(percentile_ms(seconds, 0.99), 1),
            "loads": len(seconds),
        }
        for side in sides
        for what, took in side.took.items()
        for count, seconds in took.items()
    ]


def show(rows: Sequence[Result]) -> None:
    """The table of the guide, then by how much ours are quicker."""
    counts = list(dict.fromkeys(row["policies"] for row in rows))
    found = {(row["backend"], row["policies"]): row for row in rows}
    names = list(dict.fromkeys(row["backend"] for row in rows))
    print("| kept in |", " | ".join(f"{count:,} policies" for count in counts), "| loads |")
    print("| --- " * (len(counts) + 2) + "|")
    for name in names:
        cells = [found[name, count] for count in counts]
        shown = " | ".join(f"{cell['p50_ms']:,.0f} ms ({cell['p99_ms']:,.0f})" for cell in cells)
        print(f"| {name} | {shown} | {cells[0]['loads']} |")
    for theirs in (name for name in names if name.startswith("Apache")):
        state = theirs.rpartition(", ")[2]
        for ours in names:
            if ours.startswith("Magnetar") and ("metadata" in ours or ours.endswith(f", {state}")):
                ratios = [
                    found[theirs, count]["p50_ms"] / found[ours, count]["p50_ms"]
                    for count in counts
                ]
                shown = " | ".join(f"{ratio:,.0f} ×" for ratio in ratios)
                print(f"| Apache Pulsar, {state}, to {ours} | {shown} | |")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--policies", type=int, nargs="+", default=[1, 100, 10_000])
    parser.add_argument("--updates", type=int, default=5, help="how often each policy was changed")
    parser.add_argument("--namespaces", type=int, default=1, help="of each size")
    parser.add_argument("--repeat", type=int, default=10, help="restarts of Magnetar")
    parser.add_argument("--peer", action="store_true", help="beside a real Apache Pulsar")
    parser.add_argument("--peer-repeat", type=int, default=3, help="restarts of Apache Pulsar")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    namespaces = plan_namespaces(options)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        stores = stack.enter_context(
            making_ours("metadata-store", home / "metadata-store", options.repeat)
        )
        ours = stack.enter_context(
            making_ours("system-topic", home / "system-topic", options.repeat)
        )
        topics = [ours]
        if options.peer:
            topics.append(stack.enter_context(making_theirs(options.peer_repeat)))
        fill_metadata_store(stores, namespaces, home / "metadata-store")
        for side in topics:
            fill_system_topic(side, namespaces, options.updates)
        measure(topics, namespaces, ", not compacted")
        for side in topics:
            with side.running():
                compact(side, namespaces)
        measure(topics, namespaces, ", compacted")
        measure([stores], namespaces, "")
        rows = rows_of([stores, *topics])
    if options.json:
        print(json.dumps(rows))
    else:
        show(rows)


if __name__ == "__main__":
    main()
