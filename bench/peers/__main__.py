"""Magnetar beside Kafka (KRaft) and NATS JetStream: same machine, same session, row by row.

Magnetar syncs before it acknowledges, in every row. Kafka and NATS do not by default, so each is
measured twice: `-sync` is Kafka with flush.messages=1 and NATS with sync_interval: always, the
others are their defaults. A ratio above 1 means that Magnetar is better. All servers run while a
row is measured, and every second round begins with the other end of the list.
"""

from __future__ import annotations

import argparse
import datetime
import json
from contextlib import closing

from bench.gauge import median
from bench.peers.measure import Result
from bench.peers.row import OURS, PEERS, ROWS, Row, Run
from bench.peers.runner import Runner
from bench.probe import describe_machine, measure_limits

SETTINGS = {
    OURS: "defaults: fdatasync before every acknowledgement, groups of them shared",
    "kafka": "4.3.1, KRaft, one node, 1 GiB heap, acks=all; no fsync (default)",
    "kafka-sync": "the same, topics with flush.messages=1",
    "nats": "2.15.2, JetStream file storage, sync_interval 2m (default)",
    "nats-sync": "the same, sync_interval: always",
}
WARM = ("produce-100", "consume-100", "queue", "request-100-p50")
WARM_SCALE = 0.5


def measure(
    row: Row, runner: Runner, done: dict[tuple[int, Run], Result], options: argparse.Namespace
) -> Result:
    """The median of each contender; a run that several rows read is made once."""
    runs = list(row.runs(options.scale))
    results: dict[str, list[Result]] = {run.contender: [] for run in runs}
    for number in range(options.repeat):
        for run in runs if number % 2 == 0 else reversed(runs):
            if (number, run) not in done:
                done[number, run] = runner.run(run)
            results[run.contender].append(done[number, run])
    sides = {name: summarise(row, runs_of) for name, runs_of in results.items()}
    mine = sides[OURS].get("value")
    for name in PEERS:
        theirs = sides[name].get("value")
        if mine is not None and theirs is not None:
            sides[name]["ratio"] = round(row.ratio(mine, theirs), 2)
    return {"figure": row.figure, **sides}


def summarise(row: Row, results: list[Result]) -> Result:
    problems = [result["error"] for result in results if "error" in result]
    if problems:
        return {"error": problems[0]}
    summary: Result = {
        "value": median([result[row.figure] for result in results]),
        "runs": [result[row.figure] for result in results],
        "load1": max(result["load1"] for result in results),
    }
    if "cpu_us" in results[0]:
        summary["client_cpu_us"] = median([result["cpu_us"] for result in results])
    return summary


def show(name: str, row: Result) -> str:
    cells = [f"{name:<26} {row['figure']:<11}{show_value(row[OURS])}"]
    for peer in PEERS:
        ratio = row[peer].get("ratio")
        cells.append(f"{show_value(row[peer])} {'' if ratio is None else f'{ratio:.2f}':>6}")
    return " ".join(cells)


def show_value(side: Result) -> str:
    value = side.get("value")
    if value is None:
        return f"{'failed':>10}"
    return f"{value:>10,.0f}" if value >= 100 else f"{value:>10.3f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [row.name for row in ROWS]
    parser.add_argument("--only", nargs="*", choices=names, default=names, metavar="ROW")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; the median counts")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the messages to send")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    rows = [row for row in ROWS if row.name in options.only]
    if options.list:
        print("\n".join(row.name for row in rows))
        return
    document: Result = {
        "bench": "peers",
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "machine": describe_machine(),
        "limits": measure_limits(),
        "settings": SETTINGS,
        "repeat": options.repeat,
        "rows": {},
    }
    done: dict[tuple[int, Run], Result] = {}
    with closing(Runner()) as runner:
        if not options.json:
            heads = " ".join(f"{name:>10} {'ratio':>6}" for name in PEERS)
            print(f"{'row':<26} {'figure':<11}{OURS:>10} {heads}")
        for row in ROWS:  # a JVM that has just started is slow
            if row.name in WARM and any(each.measure == row.measure for each in rows):
                for run in row.runs(WARM_SCALE * options.scale):
                    runner.run(run)
        try:
            for row in rows:
                document["rows"][row.name] = measure(row, runner, done, options)
                if not options.json:
                    print(show(row.name, document["rows"][row.name]), flush=True)
        finally:  # an interrupt costs the row under way
            if options.json:
                print(json.dumps(document, indent=1), flush=True)


if __name__ == "__main__":
    main()
