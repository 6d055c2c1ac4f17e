"""Topics with policies of their own, loaded by a broker that has just started.

A namespace holds 1, 100 or 10,000 topic policies, each changed several times. The broker is
restarted; the first producer of the namespace then waits for its topic, and the topic for its
policies. Policies are kept in the system topic, before and after compaction, or in the metadata
store; `--peer` adds a real Apache Pulsar with its default, the system topic.
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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gauge import percentile_ms
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


@dataclass(frozen=True, slots=True)
class Side:
    """A broker that can be started again on its data."""

    name: str
    port: int
    admin_url: str
    restart: Callable[[], None]

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
def running_ours(backend: str, data: Path) -> Iterator[Side]:
    settings = {**SETTINGS, "topicPoliciesServiceClassName": backend}
    with MagnetarBroker(data=data, set=settings) as broker:
        yield Side("magnetar", broker.port, broker.admin_url, broker.restart)


@contextmanager
def running_theirs() -> Iterator[Side]:
    port, web_port = find_ports(2)
    with tempfile.TemporaryDirectory(prefix="peer-") as data:
        ports = ["--port", str(port), "--web", str(web_port)]
        words = [f"{key}={value}" for key, value in SETTINGS.items()]
        flags = [part for word in words for part in ("--set", word)]

        def run(*command: str) -> None:
            subprocess.run([str(PEER / "pulsar"), *command], check=True, stdout=sys.stderr)

        def restart() -> None:
            run("stop", "--data", data)
            run("start", *ports, "--data", data, *flags)

        run("start", *ports, "--data", data, *flags)
        try:
            yield Side("pulsar", port, f"http://{HOST}:{web_port}", restart)
        finally:
            run("stop", "--data", data)


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


async def write_records(data: Path, namespaces: Sequence[tuple[NamespaceName, int]]) -> None:
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


def compact(side: Side, namespaces: Sequence[tuple[NamespaceName, int]]) -> None:
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


def measure(
    side: Side, namespaces: Sequence[tuple[NamespaceName, int]], restarts: int
) -> dict[int, list[float]]:
    took: dict[int, list[float]] = {}
    for _ in range(restarts):
        side.restart()
        # The first topic of all pays for code that is not loaded yet: it does not count.
        asyncio.run(load_once(side, WARM_UP))
        for namespace, count in namespaces:
            took.setdefault(count, []).append(asyncio.run(load_once(side, namespace)))
    return took


def rows_of(name: str, took: dict[int, list[float]]) -> list[Result]:
    return [
        {
            "backend": name,
            "policies": count,
            "p50_ms": round(percentile_ms(seconds, 0.5), 1),
            "p99_ms": round(percentile_ms(seconds, 0.99), 1),
            "loads": len(seconds),
        }
        for count, seconds in took.items()
    ]


def plan_namespaces(options: argparse.Namespace) -> list[tuple[NamespaceName, int]]:
    return [
        (NamespaceName("public", f"p{count}-{number}"), count)
        for count in options.policies
        for number in range(options.namespaces)
    ]


def measure_system_topic(side: Side, options: argparse.Namespace, restarts: int) -> list[Result]:
    namespaces = plan_namespaces(options)
    make_namespace(side, WARM_UP)
    for namespace, count in namespaces:
        make_namespace(side, namespace)
        asyncio.run(write_events(side, namespace, count, options.updates))
    before = measure(side, namespaces, restarts)
    compact(side, namespaces)
    after = measure(side, namespaces, restarts)
    name = f"{side.name}: system topic"
    return rows_of(f"{name}, not compacted", before) + rows_of(f"{name}, compacted", after)


def measure_metadata_store(options: argparse.Namespace) -> list[Result]:
    namespaces = plan_namespaces(options)
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        data = Path(home) / "data"
        with running_ours("metadata-store", data) as side:
            for namespace in (WARM_UP, *(namespace for namespace, _ in namespaces)):
                make_namespace(side, namespace)
        asyncio.run(write_records(data, namespaces))
        with running_ours("metadata-store", data) as side:
            took = measure(side, namespaces, options.restarts)
    return rows_of("magnetar: metadata store", took)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--policies", type=int, nargs="+", default=[1, 100, 10_000])
    parser.add_argument("--updates", type=int, default=5, help="how often each policy was changed")
    parser.add_argument("--namespaces", type=int, default=2, help="of each size")
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--peer", action="store_true", help="beside a real Apache Pulsar")
    parser.add_argument("--peer-restarts", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    rows: list[Result] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as home,
        running_ours("system-topic", Path(home) / "data") as side,
    ):
        rows += measure_system_topic(side, options, options.restarts)
    rows += measure_metadata_store(options)
    if options.peer:
        with running_theirs() as side:
            rows += measure_system_topic(side, options, options.peer_restarts)
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'kept in':<42} {'policies':>8} {'p50 ms':>9} {'p99 ms':>9} {'loads':>6}")
    for row in rows:
        print(
            f"{row['backend']:<42} {row['policies']:>8,} {row['p50_ms']:>9.1f}"
            f" {row['p99_ms']:>9.1f} {row['loads']:>6}"
        )


if __name__ == "__main__":
    main()
