"""Magnetar and a real Apache Pulsar side by side: same machine, same session, row by row.

Both brokers run while a row is measured, on one after the other, and every second run begins with
the other one. Both are warmed before the first row: a fresh JVM is slow. Magnetar syncs before it
acknowledges; Apache Pulsar's standalone does not by default, so `--sync` makes it do so for a
like-for-like comparison, and `--no-sync` lets neither: the difference is the disk. Beside each
rate stands the processor time of the broker's process for a message, as the operating system counts
it, and how many cores it kept busy: where that is less than one, the client or the disk sets the
rate. The JSON has the same of the client.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.gauge import median
from bench.probe import describe_machine
from magnetar.testing.broker import MagnetarBroker, find_ports

PEER = Path(__file__).parent / "peer"
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One measure: how to run it against a URL, and which figure of its JSON line counts."""

    name: str
    figure: str
    command: tuple[str, ...]

    @property
    def higher_is_better(self) -> bool:
        return self.figure.endswith("per_s")

    def ratio(self, ours: float, theirs: float) -> float:
        """Above 1 means ours is better, whatever the figure."""
        return ours / theirs if self.higher_is_better else theirs / ours

    def run(self, url: str, seconds: float, *, broker_pid: int | None = None) -> Result:
        words = {"{url}": url, "{seconds}": f"{seconds:g}"}
        command = [words.get(word, word) for word in self.command]
        environment = os.environ | ({} if broker_pid is None else {"BROKER_PID": str(broker_pid)})
        load = round(os.getloadavg()[0], 1)
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            return {"error": f"{command[0]} ended with {done.returncode} and printed no result"}
        result: Result = json.loads(lines[-1])
        return {"load1": load, **result}


def client_row(measure: str, figure: str) -> Row:
    script = str(PEER / "clientbench.py")
    options = ("--url", "{url}", "--seconds", "{seconds}", "--only", measure)
    return Row(measure, figure, (sys.executable, script, *options))


def java_row(name: str, *, size: int, batched: bool, topics: int, consume: bool = False) -> Row:
    options = ("{url}", "{seconds}", str(size), str(int(batched)), str(topics))
    command = (str(PEER / "pulsar"), "javabench", *options, *(("consume",) if consume else ()))
    return Row(name, "rate_per_s", command)


CLIENT_ROWS = (
    client_row("produce-unbatched-100", "rate_per_s"),
    client_row("produce-batched-100", "rate_per_s"),
    client_row("produce-callback-100", "rate_per_s"),
    client_row("produce-unbatched-1024", "rate_per_s"),
    client_row("produce-batched-1024", "rate_per_s"),
    client_row("sync-send", "p50_ms"),
    client_row("end-to-end", "p99_ms"),
    client_row("consume-each", "rate_per_s"),
    client_row("consume-cumulative", "rate_per_s"),
    client_row("consume-shared", "rate_per_s"),
)
JAVA_ROWS = (
    java_row("java-produce-unbatched", size=100, batched=False, topics=1),
    java_row("java-produce-batched", size=100, batched=True, topics=1),
    java_row("java-produce-100-topics", size=100, batched=False, topics=100),
    java_row("java-consume-unbatched", size=100, batched=False, topics=1, consume=True),
    java_row("java-consume-batched", size=100, batched=True, topics=1, consume=True),
)
ROWS = (*CLIENT_ROWS, *JAVA_ROWS)
COSTS = ("broker_us", "broker_cores", "client_us", "client_cores")
DURABILITY = {True: "syncs before it acknowledges", False: "acknowledges without a sync"}
WARM_UP = ("produce-unbatched-100", "produce-batched-100", "consume-each")


@dataclass(frozen=True, slots=True)
class Peer:
    service_url: str
    admin_url: str
    pid: int


@contextmanager
def running_peer(*, sync: bool, settings: Mapping[str, object] | None = None) -> Iterator[Peer]:
    """A real Apache Pulsar on free ports with data of its own."""
    port, web_port = find_ports(2)
    with tempfile.TemporaryDirectory(prefix="peer-") as data:
        start = [str(PEER / "pulsar"), "start", "--port", str(port), "--web", str(web_port)]
        start += ["--data", data, *(["--sync"] if sync else [])]
        for key, value in (settings or {}).items():
            start += ["--set", f"{key}={value}"]
        try:  # one that is not ready in time runs all the same
            subprocess.run(start, check=True, stdout=sys.stderr)
            pid = int(Path(data, "peer.pid").read_text())
            yield Peer(f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{web_port}", pid)
        finally:
            stop = [str(PEER / "pulsar"), "stop", "--data", data]
            if subprocess.run(stop, stdout=sys.stderr).returncode:
                end(int(Path(data, "peer.pid").read_text()))


def end(pid: int) -> None:
    """A server that does not stop when it is told to, or is gone already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Server(Protocol):
    @property
    def service_url(self) -> str: ...

    @property
    def pid(self) -> int: ...


def measure(row: Row, servers: Sequence[Server], options: argparse.Namespace) -> list[Result]:
    """One summary per broker: the medians of the runs, or what went wrong."""
    runs: list[list[Result]] = [[] for _ in servers]
    for number in range(options.repeat):
        sides = list(zip(runs, servers, strict=True))
        for results, server in sides if number % 2 == 0 else reversed(sides):
            results.append(row.run(server.service_url, options.seconds, broker_pid=server.pid))
    return [summarise(row, results) for results in runs]


def summarise(row: Row, results: Sequence[Result]) -> Result:
    problems = [result["error"] for result in results if "error" in result]
    if problems:
        return {"error": problems[0], "runs": list(results)}
    summary: Result = {"value": median([result[row.figure] for result in results])}
    loads = [result["load1"] for result in results if "load1" in result]
    if loads:
        summary["load1"] = max(loads)
    for cost in COSTS:
        if all(cost in result for result in results):
            summary[cost] = median([result[cost] for result in results])
    return {**summary, "runs": list(results)}


def show(row: Row, ours: Result, theirs: Result) -> str:
    cells = [f"{row.name:<26} {row.figure:<11}", show_value(ours), show_value(theirs)]
    if "value" in ours and "value" in theirs:
        cells.append(f"{row.ratio(ours['value'], theirs['value']):>9.2f}")
    if "broker_us" in ours and "broker_us" in theirs:
        sides = (ours, theirs)
        cells += [f"{side['broker_us']:>9.2f} x {side['broker_cores']:.2f}" for side in sides]
        cells.append(f"{ours['broker_us'] / theirs['broker_us']:>9.2f}")
    return " ".join(cells)


def show_value(side: Result) -> str:
    value = side.get("value")
    if value is None:
        return f"{'failed':>12}"
    return f"{value:>12,.0f}" if value >= 100 else f"{value:>12.3f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [row.name for row in ROWS]
    parser.add_argument("--only", nargs="*", choices=names, default=names, metavar="ROW")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--no-java", action="store_true", help="leave out the Java client's rows")
    durability = parser.add_mutually_exclusive_group()
    durability.add_argument("--sync", action="store_true", help="let Apache Pulsar sync as well")
    durability.add_argument("--no-sync", action="store_true", help="let Magnetar not sync either")
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of a measure")
    parser.add_argument("--warm", type=float, default=10.0, help="limit of a warm-up measure")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; the median counts")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    rows = [row for row in ROWS if row.name in options.only]
    if options.no_java:
        rows = [row for row in rows if row in CLIENT_ROWS]
    if options.list:
        print("\n".join(row.name for row in rows))
        return
    document: Result = {
        "bench": "run",
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "machine": describe_machine(),
        "load1": round(os.getloadavg()[0], 1),
        "settings": {
            "ours": DURABILITY[not options.no_sync],
            "theirs": DURABILITY[options.sync],
        },
        "repeat": options.repeat,
        "rows": {},
    }
    settings = {"journalSyncData": not options.no_sync}
    with MagnetarBroker(set=settings) as broker, running_peer(sync=options.sync) as peer:
        if not options.json:
            heads = f"{'row':<26} {'figure':<11} {'ours':>12} {'theirs':>12} {'ratio':>9}"
            print(f"{heads} {'us x cores':>16} {'theirs':>16} {'ratio':>9}")
        servers = (broker, peer)
        for row in CLIENT_ROWS:
            if row.name in WARM_UP:
                for server in servers:
                    row.run(server.service_url, options.warm)
        for row in rows:
            ours, theirs = measure(row, servers, options)
            document["rows"][row.name] = {"figure": row.figure, "ours": ours, "theirs": theirs}
            if not options.json:
                print(show(row, ours, theirs), flush=True)
    if options.json:
        print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
