"""Many topics in one namespace on a real ZooKeeper: made, listed, paged and counted.

Each number of buckets has a namespace of its own on the same server. The topics are records written
by the broker's own code through its own store, without a ledger for each; a few are made over REST
too. Every listing takes turns with a bare kazoo loop over the same nodes. The broker is a process
of its own whose memory is read from outside.

    python -m bench.topic_buckets [--topics 100000] [--buckets 1 64] [--rounds 9] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import time
from collections.abc import Awaitable
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient

from bench.gauge import cpu_s, peak_mib, rss_mib
from magnetar.broker.resource import Resources
from magnetar.broker.topic_tree import TopicTree
from magnetar.ledger.info import ChainInfo
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.metadata.store import ABSENT
from magnetar.model.chain_path import bucket_paths
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.policy import Policies, TenantInfo
from magnetar.runtime.clock import SystemClock
from magnetar.testing import MagnetarBroker
from magnetar.testing.zookeeper import ZookeeperServer

DOMAIN: Final = TopicDomain.PERSISTENT
AT_ONCE: Final = 200
PAGE: Final = 1_000
OVER_REST: Final = 300
HEAP_MIB: Final = 1_024
LISTS: Final = "/admin/v2/persistent"
LINES: Final = "application/x-ndjson"


def name_of(namespace: NamespaceName, number: int) -> TopicName:
    """Names as an application makes them: long, alike, counted up."""
    local = f"customer-orders-eu-west-1-production-created-events-{number:07d}"
    return TopicName(DOMAIN, namespace, local)


class Cost(NamedTuple):
    """What a call took by the clock, and of this process's processor time."""

    wall_s: float
    cpu_s: float


async def timed(act: Awaitable[object]) -> Cost:
    wall_s, busy_s = time.perf_counter(), time.process_time()
    await act
    return Cost(time.perf_counter() - wall_s, time.process_time() - busy_s)


def quickest(costs: list[Cost]) -> Cost:
    """The turn that was disturbed least, by the clock and by the processor."""
    return Cost(min(each.wall_s for each in costs), min(each.cpu_s for each in costs))


async def fill(store: ZookeeperStore, namespace: NamespaceName, buckets: int, topics: int) -> float:
    """Make the namespace and its topics; how many a second."""
    resources = Resources(store, store, clock=SystemClock())
    if not await resources.tenants.exists(namespace.tenant):
        await resources.tenants.create(
            namespace.tenant, TenantInfo(allowedClusters=("standalone",))
        )
    policies = Policies(replication_clusters=("standalone",), numberOfTopicBuckets=buckets)
    await resources.namespaces.create(namespace, policies)
    tree = TopicTree(store, resources.namespaces)
    await tree.claim(namespace)

    async def make(number: int) -> None:
        records = await tree.records(name_of(namespace, number))
        await records.store(ChainInfo(), expect=ABSENT)

    began = time.perf_counter()
    for start in range(0, topics, AT_ONCE):
        await asyncio.gather(*map(make, range(start, min(start + AT_ONCE, topics))))
    return topics / (time.perf_counter() - began)


async def take_page(tree: TopicTree, namespace: NamespaceName, after: TopicName) -> None:
    left = PAGE
    async for names in tree.scan(namespace, DOMAIN, after=after, names_ahead=PAGE):
        left -= len(names)
        if left <= 0:
            return


class BareLoop:
    """kazoo and nothing else: one `get_children` after the other."""

    def __init__(self, hosts: str, paths: list[str]) -> None:
        self._client = KazooClient(hosts)
        self._client.start()
        self._paths = [path for path in paths if self._client.exists(path)]
        self.sizes = [self._measure(path) for path in self._paths]

    def _measure(self, path: str) -> int:
        """The bytes of one answer: a header, a count, and each name with its length."""
        return 20 + sum(4 + len(name) for name in self._client.get_children(path))

    async def read_all(self) -> None:
        await asyncio.to_thread(lambda: [self._client.get_children(path) for path in self._paths])

    async def read_one(self, index: int) -> None:
        path = self._paths[index % len(self._paths)]
        await asyncio.to_thread(self._client.get_children, path)

    def close(self) -> None:
        self._client.stop()
        self._client.close()


async def measure_store(
    server: ZookeeperServer, url: str, namespace: NamespaceName, options: argparse.Namespace
) -> dict[str, Any]:
    """The broker's own listing beside the bare loop, turn by turn, in this process."""
    store = await ZookeeperStore.open(url)
    resources = Resources(store, store, clock=SystemClock())
    tree = TopicTree(store, resources.namespaces)
    buckets = await tree.buckets(namespace)
    root = url.removeprefix(server.url)
    bare = BareLoop(
        server.hosts, [root + path for path in bucket_paths(namespace, DOMAIN, buckets)]
    )
    took: dict[str, list[Cost]] = {each: [] for each in ("list", "bare", "page", "bucket", "count")}
    for turn in range(options.rounds):
        after = name_of(namespace, turn * options.topics // options.rounds)
        took["bare"].append(await timed(bare.read_all()))
        took["list"].append(await timed(tree.list(namespace, DOMAIN)))
        took["bucket"].append(await timed(bare.read_one(turn * 7)))
        took["page"].append(await timed(take_page(tree, namespace, after)))
        took["count"].append(await timed(tree.count(namespace, DOMAIN)))
    assert await tree.count(namespace, DOMAIN) == options.topics
    costs = {each: quickest(some) for each, some in took.items()}
    result: dict[str, Any] = {
        f"{each}_ms": {"wall": cost.wall_s * 1000, "cpu": cost.cpu_s * 1000}
        for each, cost in costs.items()
    }
    for ours, theirs in (("list", "bare"), ("page", "bucket")):
        result[f"{ours}_ratio"] = {
            "wall": costs[ours].wall_s / costs[theirs].wall_s,
            "cpu": costs[ours].cpu_s / costs[theirs].cpu_s,
        }
    result["largest_answer_bytes"] = max(bare.sizes)
    bare.close()
    await store.close()
    return result


def ask(port: int, method: str, path: str, accept: str = "application/json") -> int:
    """Read an answer in pieces and forget it; return its bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, headers={"accept": accept, "content-type": "application/json"})
    answer, size = connection.getresponse(), 0
    assert answer.status < 300, (path, answer.status, answer.read())
    while data := answer.read1(1 << 16):
        size += len(data)
    connection.close()
    return size


def measure_broker(url: str, namespaces: dict[int, NamespaceName]) -> dict[int, dict[str, Any]]:
    """The same over REST, from another process."""
    results: dict[int, dict[str, Any]] = {}
    with MagnetarBroker(arguments=("--metadata", url)) as broker:

        def cost(method: str, path: str, accept: str = "application/json") -> dict[str, float]:
            before, busy, began = rss_mib(broker.pid), cpu_s(broker.pid), time.perf_counter()
            broker_peak = peak_mib(broker.pid, again=True)
            size = ask(broker.web_port, method, path, accept)
            took = time.perf_counter() - began
            return {
                "ms": took * 1000,
                "cpu_ms": (cpu_s(broker.pid) - busy) * 1000,
                "bytes": size,
                "grown_mib": max(peak_mib(broker.pid) - max(before, broker_peak), 0.0),
            }

        for buckets, namespace in namespaces.items():
            path = f"{LISTS}/{namespace}"
            cost("GET", f"{path}?limit=1")  # the policies are read once
            results[buckets] = {
                "rest_stream": cost("GET", path, LINES),
                "rest_stream_again": cost("GET", path, LINES),
                "rest_page": cost("GET", f"{path}?limit={PAGE}"),
                "rest_count": cost("GET", f"/admin/v2/namespaces/{namespace}/topics/count"),
                "rest_array": cost("GET", path),
            }
            began = time.perf_counter()
            for number in range(OVER_REST):
                ask(broker.web_port, "PUT", f"{path}/made-over-rest-{number}")
            results[buckets]["rest_creates_per_s"] = OVER_REST / (time.perf_counter() - began)
    return results


def measure_java(server: ZookeeperServer, path: str) -> str:
    """What ZooKeeper's own shell, a stock Java client, says to a listing of the node."""
    try:
        names = server.shell("ls", path)
    except Exception as failure:
        return f"fails: {type(failure).__name__}"
    return "lists it" if names.count(",") > 10 else "fails: no names"


async def measure(server: ZookeeperServer, options: argparse.Namespace) -> dict[str, Any]:
    url = f"{server.url}/bench"
    store = await ZookeeperStore.open(url)
    namespaces = {count: NamespaceName("bench", f"in-{count}") for count in options.buckets}
    results: dict[str, Any] = {}
    for buckets, namespace in namespaces.items():
        rate = await fill(store, namespace, buckets, options.topics)
        results[str(buckets)] = {"creates_per_s": rate}
    await store.close()
    for buckets, namespace in namespaces.items():
        found = await measure_store(server, url, namespace, options)
        path = bucket_paths(namespace, DOMAIN, buckets)[0]
        found["java"] = measure_java(server, f"/bench{path}")
        results[str(buckets)].update(found)
    over_rest = await asyncio.to_thread(measure_broker, url, namespaces)
    for buckets, rest in over_rest.items():
        results[str(buckets)]["rest"] = rest
    return results


def show(results: dict[str, Any], options: argparse.Namespace) -> None:
    size = len(name_of(NamespaceName("bench", "n"), 0).encoded_local)
    print(f"{options.topics} topics, names of {size} bytes")
    for buckets, found in results.items():
        print(f"\n{buckets} bucket(s)")
        for key, value in {**found, **found["rest"]}.items():
            if key != "rest":
                print(f"  {key:22} {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each:.2f}" for key, each in value.items())
    return value if isinstance(value, str) else f"{value:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--buckets", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with ZookeeperServer(heap_mib=HEAP_MIB) as server:
        results = asyncio.run(measure(server, options))
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        show(results, options)


if __name__ == "__main__":
    main()
