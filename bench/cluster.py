"""Brokers of Magnetar and of Apache Pulsar on one ZooKeeper and the same bookies, row by row.

Two brokers of each kind run at once, each kind in a part of ZooKeeper's tree of its own, with equal
quorums and session timeouts. A row is measured on one kind after the other, and every second run
begins with the other. Clients, bookies and brokers share the machine: where that has few cores,
rates say how the machine is shared, and the processor time of the brokers says what they cost.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any

import pulsar

from bench.gauge import cpu_s, median
from bench.probe import describe_machine
from bench.run import PEER, Row, java_row
from magnetar.client.admin import AdminClient
from magnetar.errors import MagnetarError
from magnetar.testing.apache import ApacheBroker, format_apache
from magnetar.testing.bookkeeper import BookieCluster
from magnetar.testing.broker import Setting
from magnetar.testing.member import ClusterBroker

Result = dict[str, Any]
Broker = ClusterBroker | ApacheBroker
NAMESPACE = "public/default"
QUIET_S_MAX = 120.0
PAYLOAD = b"x" * 100
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Side:
    """The brokers of one kind."""

    name: str
    brokers: Sequence[Broker]

    @property
    def url(self) -> str:
        return "pulsar://" + ",".join(each.service_url[9:] for each in self.brokers if each.running)

    def admin(self) -> AdminClient:
        running = next(each for each in self.brokers if each.running)
        return AdminClient(running.admin_url, timeout=120.0)

    def owner(self, topic: str) -> Broker:
        with self.admin() as admin:
            url = admin.topics.lookup(topic)["brokerUrl"]
        return next(each for each in self.brokers if each.service_url == url)

    def new_topic(self, namespace: str = NAMESPACE) -> str:
        return f"persistent://{namespace}/bench-{next(_NUMBERS)}"

    def processor_s(self) -> float:
        return sum(cpu_s(each.pid) for each in self.brokers if each.running)

    @contextmanager
    def client(self) -> Iterator[pulsar.Client]:
        # It complains of every broker that was killed on purpose.
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
        client = pulsar.Client(self.url, logger=logger, operation_timeout_seconds=120)
        try:
            yield client
        finally:
            client.close()


Measure = Callable[[Side, argparse.Namespace], Result]


def publish(client: pulsar.Client, topic: str, messages: int) -> float:
    """Unbatched, as fast as the client goes; seconds until all have their receipt."""
    producer = client.create_producer(
        topic,
        batching_enabled=False,
        max_pending_messages=2_000,
        block_if_queue_full=True,
        send_timeout_millis=120_000,
    )
    producer.send(PAYLOAD)
    began = time.perf_counter()
    for _ in range(messages):
        producer.send_async(PAYLOAD, None)
    producer.flush()
    taken = time.perf_counter() - began
    producer.close()
    return taken


def measure_entry_cost(side: Side, options: argparse.Namespace) -> Result:
    """Processor time of both broker processes for an unbatched entry."""
    with side.client() as client:
        topic = side.new_topic()
        publish(client, topic, options.messages // 10)
        before = side.processor_s()
        taken = publish(client, topic, options.messages)
        spent = side.processor_s() - before
    return {
        "us_per_entry": spent / options.messages * 1e6,
        "rate_per_s": options.messages / taken,
    }


def measure_two(side: Side, options: argparse.Namespace) -> Result:
    """How much more two brokers carry than one, by the processor time of an entry.

    They are loaded one after the other, as if each had a core for itself; what both of them spend
    meanwhile counts, so what they cost each other does too.
    """
    with side.client() as client:
        one, other = find_apart(side)
        for topic in (one, other):
            publish(client, topic, options.messages // 10)
        alone = spend(side, options.messages, [lambda: publish(client, one, options.messages)])
        half = options.messages // 2
        both = spend(
            side,
            2 * half,
            [lambda: publish(client, one, half), lambda: publish(client, other, half)],
        )
    return {"times": 2 * alone / both, "alone_us": alone, "together_us": both}


def find_apart(side: Side) -> tuple[str, str]:
    """Two topics that different brokers serve."""
    first = side.new_topic()
    for _ in range(64):
        second = side.new_topic()
        if side.owner(second) is not side.owner(first):
            return first, second
    raise LookupError(f"{side.name}: one broker serves everything")


def spend(side: Side, entries: int, works: Sequence[Callable[[], object]]) -> float:
    """Microseconds of all brokers for each entry."""
    before = side.processor_s()
    for work in works:
        work()
    return (side.processor_s() - before) / entries * 1e6


class Pulse:
    """One message after the other, each waited for: the longest wait is the silence."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self._producer = client.create_producer(
            topic, batching_enabled=False, send_timeout_millis=0
        )
        self._producer.send(PAYLOAD)
        self._is_done = False
        self.sent = 0
        self.longest_s = 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        last = time.perf_counter()
        while not self._is_done:
            self._producer.send(PAYLOAD)
            now = time.perf_counter()
            self.longest_s = max(self.longest_s, now - last)
            last = now
            self.sent += 1

    def more(self, messages: int = 100) -> None:
        goal, deadline = self.sent + messages, time.monotonic() + QUIET_S_MAX
        while self.sent < goal:
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing was sent for {QUIET_S_MAX:g} s")
            time.sleep(0.01)

    def end(self) -> None:
        self._is_done = True
        self._thread.join(QUIET_S_MAX)


def measure_failover(side: Side, options: argparse.Namespace) -> Result:
    """Silence of a writer after kill -9 of the broker that serves its topic."""
    with side.client() as client:
        topic = side.new_topic()
        pulse = Pulse(client, topic)
        pulse.more()
        victim = side.owner(topic)
        victim.kill()
        try:
            pulse.more()
        finally:
            pulse.end()
            victim.start()
    return {"silence_s": pulse.longest_s, "session_s": options.session_ms / 1000}


def measure_hand_over(side: Side, options: argparse.Namespace) -> Result:
    """Silence of a writer while the bundle of its topic moves to the other broker."""

    def choose(topic: str) -> str:
        owner = side.owner(topic)
        other = next(each for each in side.brokers if each is not owner)
        return other.admin_url.removeprefix("http://")

    return measure_unloads(side, options, choose)


def measure_unload(side: Side, options: argparse.Namespace) -> Result:
    """The same, where the brokers decide which of them has the bundle next."""
    return measure_unloads(side, options, lambda topic: None)


def measure_unloads(
    side: Side, options: argparse.Namespace, choose: Callable[[str], str | None]
) -> Result:
    with side.client() as client, side.admin() as admin:
        topic = side.new_topic()
        pulse = Pulse(client, topic)
        pulse.more()
        silences = []
        for _ in range(options.moves):
            bundle, destination = admin.topics.bundle_range(topic), choose(topic)
            pulse.longest_s = 0.0
            admin.namespaces.unload_bundle(NAMESPACE, bundle, destination=destination)
            pulse.more()
            silences.append(pulse.longest_s * 1000)
        pulse.end()
    return {"silence_ms": median(silences), "longest_ms": max(silences)}


def measure_load(side: Side, options: argparse.Namespace) -> Result:
    """A bundle of many topics that were used before: until all of them take messages again."""
    namespace = f"public/bundle-{next(_NUMBERS)}"
    with side.client() as client, side.admin() as admin:
        admin.namespaces.create(namespace, bundles=1)
        topic = side.new_topic(namespace)
        admin.topics.create_partitioned(topic, options.topics)
        producer = client.create_producer(
            topic, batching_enabled=False, lazy_start_partitioned_producers=False
        )
        for _ in range(options.topics):
            producer.send_async(PAYLOAD, None)
        producer.flush()
        producer.close()
        [bundle] = bundles_of(admin, namespace)
        admin.namespaces.unload_bundle(namespace, bundle)
        began = time.perf_counter()
        producer = client.create_producer(topic, lazy_start_partitioned_producers=False)
        taken = time.perf_counter() - began
        producer.close()
        with suppress(MagnetarError):
            admin.topics.delete_partitioned(topic)
    return {"load_s": taken, "topics": options.topics}


def bundles_of(admin: AdminClient, namespace: str) -> list[str]:
    bounds = admin.namespaces.bundles(namespace)["boundaries"]
    return [f"{low}_{high}" for low, high in pairwise(bounds)]


def by_client(row: Row) -> Measure:
    return lambda side, options: row.run(side.url, options.seconds)


def python_row(measure: str, figure: str) -> Row:
    words = ("--url", "{url}", "--seconds", "{seconds}", "--only", measure)
    return Row(measure, figure, (sys.executable, str(PEER / "clientbench.py"), *words))


# Name, figures that count, what the ratio should be, how to measure.
ROWS: tuple[tuple[str, tuple[str, ...], str, Measure], ...] = (
    *(
        (f"python-{name}", figures, "≥ 0.8", by_client(python_row(name, figures[0])))
        for name, figures in (
            ("produce-unbatched-100", ("rate_per_s",)),
            ("produce-batched-100", ("rate_per_s",)),
            ("sync-send", ("p50_ms", "p99_ms")),
        )
    ),
    *(
        (
            f"java-produce-{'batched' if batched else 'unbatched'}",
            ("rate_per_s", "p50_ms", "p99_ms"),
            "≥ 0.8",
            by_client(java_row("java", size=100, batched=batched, topics=1)),
        )
        for batched in (False, True)
    ),
    ("processor-per-entry", ("us_per_entry",), "", measure_entry_cost),
    ("two-brokers", ("times",), "ours ≥ 1.7", measure_two),
    ("failover", ("silence_s",), "≥ 1.0", measure_failover),
    ("hand-over", ("silence_ms",), "≥ 3.3", measure_hand_over),
    ("unload", ("silence_ms",), "≥ 3.3", measure_unload),
    ("load-bundle", ("load_s",), "≥ 1.0", measure_load),
)


@contextmanager
def running_sides(options: argparse.Namespace) -> Iterator[tuple[Side, Side]]:
    settings: dict[str, Setting] = {
        f"managedLedgerDefault{each}": 2 for each in ("EnsembleSize", "WriteQuorum", "AckQuorum")
    }
    settings |= {
        "metadataStoreSessionTimeoutMillis": options.session_ms,
        "brokerDeleteInactiveTopicsEnabled": False,
        "loadBalancerSheddingEnabled": False,
    }
    with ExitStack() as stack:
        bookies = stack.enter_context(BookieCluster(3, is_synced=options.sync))
        format_apache(bookies, "/apache")
        ledgers = f"zk+hierarchical://{bookies.zookeeper.hosts}/ledgers"
        ours = [
            ClusterBroker(
                f"{bookies.url}/ours",
                set={**settings, "bookkeeperMetadataServiceUri": ledgers},
            )
            for _ in range(2)
        ]
        theirs = [ApacheBroker(bookies, chroot="/apache", set=settings) for _ in range(2)]
        for broker in (*ours, *theirs):
            stack.enter_context(broker)
        yield Side("ours", ours), Side("theirs", theirs)


def run_row(
    row: tuple[str, tuple[str, ...], str, Measure],
    sides: Sequence[Side],
    options: argparse.Namespace,
) -> Iterator[Result]:
    """One result for each figure: the medians, and their ratio, above 1 where ours is better."""
    name, figures, aim, measure = row
    runs: dict[str, list[Result]] = {side.name: [] for side in sides}
    for number in range(options.repeat):
        for side in sides if number % 2 == 0 else sides[::-1]:
            try:
                runs[side.name].append(measure(side, options))
            except (MagnetarError, pulsar.PulsarException, LookupError, TimeoutError) as error:
                runs[side.name].append({"error": f"{type(error).__name__}: {error}"})
    for figure in figures:
        values = {
            side: median([run[figure] for run in results])
            for side, results in runs.items()
            if all(figure in run for run in results)
        }
        ratio = None
        if len(values) == len(sides):
            is_higher_better = figure.endswith("per_s") or figure == "times"
            better, worse = ("ours", "theirs") if is_higher_better else ("theirs", "ours")
            ratio = values[better] / values[worse]
        yield {"row": name, "figure": figure, "aim": aim, **values, "ratio": ratio, "runs": runs}


def show(result: Result) -> str:
    cells = [f"{result['row']:<31} {result['figure']:<13}"]
    for side in ("ours", "theirs"):
        value = result.get(side)
        cells.append(f"{'failed':>11}" if value is None else f"{value:>11,.2f}")
    ratio = result["ratio"]
    cells.append(f"{'':>8}" if ratio is None else f"{ratio:>8.2f}")
    return " ".join([*cells, f"  {result['aim']}"])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = sorted({row[0] for row in ROWS})
    parser.add_argument("--only", nargs="*", choices=names, default=names, metavar="ROW")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--sync", action="store_true", help="let bookies sync their journals")
    parser.add_argument("--session-ms", type=int, default=10_000, help="session timeout of brokers")
    parser.add_argument("--seconds", type=float, default=8.0, help="limit of a client's measure")
    parser.add_argument("--messages", type=int, default=50_000, help="entries of the cost rows")
    parser.add_argument("--topics", type=int, default=1_000, help="topics of the bundle to load")
    parser.add_argument("--moves", type=int, default=7, help="hand-overs; the median counts")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; the median counts")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    rows = [row for row in ROWS if row[0] in options.only]
    if options.list:
        print("\n".join(dict.fromkeys(row[0] for row in rows)))
        return
    results = []
    when, load1 = datetime.now(UTC).isoformat(timespec="seconds"), round(os.getloadavg()[0], 2)
    with running_sides(options) as sides:
        for side in sides:  # a fresh JVM is slow
            measure_entry_cost(side, options)
        if not options.json:
            print(f"{'row':<31} {'figure':<13} {'ours':>11} {'theirs':>11} {'ratio':>8}   aim")
        for row in rows:
            for result in run_row(row, sides, options):
                results.append(result)
                if not options.json:
                    print(show(result), flush=True)
    if options.json:
        document = {
            "bench": "cluster",
            "when": when,
            "load1": load1,
            "machine": describe_machine(),
            "rows": {f"{each['row']} {each['figure']}": each for each in results},
        }
        print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
