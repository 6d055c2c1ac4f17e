"""Many topics in one namespace on a real ZooKeeper: made, listed, paged and counted.

Each number of buckets has a namespace of its own on the same server. The topics are records written
by the broker's own code through its own store, without a ledger for each; a few are made over REST
too. Every listing takes turns with a bare kazoo loop over the same nodes, and every second turn
begins with the other one; times and ratios are medians over the turns. The broker is a process of
its own whose memory is read from outside.

    python -m bench.topic_buckets [--topics 100000] [--buckets 1 64] [--repeat 9] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import subprocess
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient

from bench.gauge import cpu_s, median, peak_mib, rss_mib
from magnetar.broker.resource import Resources
from magnetar.broker.topic_tree import TopicTree
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.metadata.store import ABSENT
from magnetar.model.log_path import bucket_paths
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.policy import Policies
from magnetar.model.stored_log import LogInfo
from magnetar.model.tenancy import TenantInfo
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

Result = dict[str, Any]


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


def middle(costs: list[Cost]) -> Cost:
    """By the clock and by the processor."""
    return Cost(*(median(column) for column in zip(*costs, strict=True)))


def ratio_of(ours: list[Cost], theirs: list[Cost]) -> dict[str, float]:
    """The median of what the turns say, each compared with itself."""
    pairs = list(zip(ours, theirs, strict=True))
    return {
        "wall": median([one.wall_s / other.wall_s for one, other in pairs]),
        "cpu": median([one.cpu_s / other.cpu_s for one, other in pairs]),
    }


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
        await records.store(LogInfo(), expect=ABSENT)

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
    took: dict[str, list[Cost]] = {}
    for turn in range(options.repeat):
        after = name_of(namespace, turn * options.topics // options.repeat)
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "bare": bare.read_all,
            "list": lambda: tree.list(namespace, DOMAIN),
            "bucket": partial(bare.read_one, turn * 7),
            "page": partial(take_page, tree, namespace, after),
            "count": lambda: tree.count(namespace, DOMAIN),
        }
        for name in sorted(acts, reverse=bool(turn % 2)):
            took.setdefault(name, []).append(await timed(acts[name]()))
    assert await tree.count(namespace, DOMAIN) == options.topics
    result: dict[str, Any] = {}
    for name, costs in took.items():
        cost = middle(costs)
        result[f"{name}_ms"] = {"wall": cost.wall_s * 1000, "cpu": cost.cpu_s * 1000}
    result["list_ratio"] = ratio_of(took["list"], took["bare"])
    result["page_ratio"] = ratio_of(took["page"], took["bucket"])
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
    except subprocess.SubprocessError:
        return "no"
    return "yes" if names.count(",") > 10 else "no"


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
    """The table of the guide."""
    size = len(name_of(NamespaceName("bench", "n"), 0).encoded_local)
    print(f"{options.topics:,} topics, names of {size} bytes\n")
    print("| |", " | ".join(f"{count} bucket{'s' * (count != '1')}" for count in results), "|")
    print("| --- " * (1 + len(results)) + "|")
    for name, tell in _ROWS.items():
        print(f"| {name} |", " | ".join(tell(found) for found in results.values()), "|")


def _ms(key: str) -> Callable[[Result], str]:
    return lambda found: f"{found[key]['wall']:,.1f} ms"


def _pair(key: str) -> Callable[[Result], str]:
    return lambda found: f"{found[key]['wall']:.2f}, {found[key]['cpu']:.2f}"


def _rest(key: str) -> Callable[[Result], str]:
    return lambda found: f"{found['rest'][key]['ms']:,.0f} ms"


def _grown(*keys: str) -> Callable[[Result], str]:
    return lambda found: (
        ", ".join(f"{found['rest'][key]['grown_mib']:.1f}" for key in keys) + " MiB"
    )


_ROWS: Final[dict[str, Callable[[Result], str]]] = {
    "records of new topics written, 200 at a time": lambda found: (
        f"{found['creates_per_s']:,.0f} /s"
    ),
    "topics created over REST, one after the other, each with its ledger": (
        lambda found: f"{found['rest']['rest_creates_per_s']:,.0f} /s"
    ),
    "all names in the broker": _ms("list_ms"),
    "bare kazoo over the same nodes": _ms("bare_ms"),
    "ours to bare kazoo: by the clock, by the processor": _pair("list_ratio"),
    "a page of 1,000 names": _ms("page_ms"),
    "one bucket, bare kazoo": _ms("bucket_ms"),
    "a page to one bucket: by the clock, by the processor": _pair("page_ratio"),
    "count": _ms("count_ms"),
    "largest answer of ZooKeeper": lambda found: f"{found['largest_answer_bytes'] / 1e6:.2f} MB",
    "ZooKeeper's own shell lists such a node": lambda found: str(found["java"]),
    "everything over REST by line": _rest("rest_stream"),
    "memory the broker grows by for it, first time and again": _grown(
        "rest_stream", "rest_stream_again"
    ),
    "everything over REST in one array": lambda found: (
        f"{_rest('rest_array')(found)}, {_grown('rest_array')(found)}"
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--buckets", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--repeat", type=int, default=9)
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
