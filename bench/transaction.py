"""Transactions beside Apache Pulsar: how many a second, and how long a commit takes.

Every transaction has ten messages over two topics. Both brokers run while a row is measured with
the same official Java client, on one after the other, and every second run begins with the other
one. Behind each ratio stand the processor times for a transaction: of the brokers, then of their
clients. Magnetar syncs before it answers, Apache Pulsar does not; `--sync both` lets both do so,
`--sync none` neither.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack

from bench.gauge import cpu_s, median
from bench.run import PEER, Result, Row, running_peer
from magnetar.testing import MagnetarBroker

MESSAGES, TOPICS, SIZE = 10, 2, 100
COST, CLIENT_COST = "broker_ms", "client_ms"
"""Processor time for a transaction: the broker's includes its warm-up, as does what it is divided
by; the client's does not.
"""


def transaction_row(name: str, figure: str, *, in_flight: int) -> Row:
    options = ("{url}", "{seconds}", str(SIZE), str(MESSAGES), str(TOPICS), str(in_flight))
    return Row(name, figure, (str(PEER / "pulsar"), "transactionbench", *options))


ROWS = (
    transaction_row("transactions", "transactions_per_s", in_flight=64),
    transaction_row("commit", "commit_p50_ms", in_flight=1),
)


def measure(
    row: Row, sides: Sequence[tuple[str, int]], options: argparse.Namespace
) -> list[list[Result]]:
    """Of each side, by run."""
    results: list[list[Result]] = [[] for _ in sides]
    for number in range(options.repeat):
        order = list(enumerate(sides))
        for at, (url, pid) in order if number % 2 == 0 else reversed(order):
            before = cpu_s(pid)
            result = row.run(url, options.seconds)
            if done := result.get("all"):
                result[COST] = (cpu_s(pid) - before) * 1000 / done
            results[at].append(result)
    return results


def summarise(results: Sequence[Result]) -> Result:
    """The median of each figure."""
    figures = ("transactions_per_s", "commit_p50_ms", "commit_p99_ms", COST, CLIENT_COST)
    return {name: median([each[name] for each in results]) for name in figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement (10)")
    parser.add_argument("--repeat", type=int, default=3, help="the median counts (3)")
    parser.add_argument("--only", nargs="+", choices=[row.name for row in ROWS])
    parser.add_argument(
        "--sync", choices=["ours", "both", "none"], default="ours", help="which one syncs (ours)"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for row in ROWS if options.only is None or row.name in options.only]
    found: Result = {}
    with ExitStack() as stack:
        broker = stack.enter_context(
            MagnetarBroker(set={"journalSyncData": options.sync != "none"})
        )
        peer = stack.enter_context(running_peer(sync=options.sync == "both"))
        sides = ((broker.service_url, broker.pid), (peer.service_url, peer.pid))
        for row in rows:
            ours, theirs = map(summarise, measure(row, sides, options))
            figure = row.figure
            ratio = row.ratio(ours[figure], theirs[figure])
            found[row.name] = {"figure": figure, "ours": ours, "theirs": theirs, "ratio": ratio}
            if not options.json:
                costs = (side[name] for name in (COST, CLIENT_COST) for side in (ours, theirs))
                figures = f"{ours[figure]:>10,.1f} {theirs[figure]:>10,.1f} {ratio:>6.2f}"
                print(f"{row.name:<13} {figure:<19} {figures}", *(f"{c:.2f} ms" for c in costs))
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
