"""What-if over synthetic load: how long for so many topics, days and policies, and how it scales.

Topics differ in size, phase, noise and bursts, from a seed. Every master is a process of its own,
so that a warm JVM helps nobody; starting Spark is told apart from the replay. `--full` is 1,000
topics over 30 days under 100 policies.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from magnetar.model.autoscale import AutoScalePolicy
from magnetar.spark.job.grid import DEFAULT_GRID, plan_policies
from magnetar.spark.job.session import open_session
from magnetar.spark.job.what_if import Question, what_if

DAY_S = 86_400
FILES = 8


def write_history(path: Path, topics: int, days: int, interval_s: int) -> int:
    """One segment each, as the rules see a topic before anything was split; returns the rows."""
    path.mkdir(parents=True)
    steps = days * DAY_S // interval_s
    seconds = np.arange(steps) * interval_s
    for number in range(FILES):
        with pq.ParquetWriter(path / f"{number}.parquet", SCHEMA) as writer:
            for topic in range(number, topics, FILES):
                writer.write_table(make_topic(topic, seconds))
    return steps * topics


SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("at", pa.timestamp("ms", tz="UTC")),
        ("hash_first", pa.int32()),
        ("hash_last", pa.int32()),
        ("msg_rate_in", pa.float64()),
        ("bytes_rate_in", pa.float64()),
        ("msg_rate_out", pa.float64()),
        ("bytes_rate_out", pa.float64()),
        ("consumers", pa.int32()),
    ]
)


def make_topic(number: int, seconds: np.ndarray[Any, Any]) -> pa.Table:
    chance = np.random.default_rng(number)
    steps = len(seconds)
    size = 10 ** chance.uniform(2.0, 4.8)
    wave = 1 + 0.9 * np.sin(2 * np.pi * (seconds / DAY_S + chance.random()))
    noise = np.exp(chance.normal(0, chance.uniform(0.02, 0.2), steps))
    bursts = 1 + 4 * (chance.random(steps) < 0.002)
    msgs = size * wave * noise * bursts
    return pa.table(
        [
            pa.array([f"topic://public/default/t{number}"] * steps),
            pa.array(seconds * 1000, pa.timestamp("ms", tz="UTC")),
            pa.array(np.zeros(steps, np.int32)),
            pa.array(np.full(steps, 65_535, np.int32)),
            pa.array(msgs),
            pa.array(msgs * 500),
            pa.array(msgs * 2),
            pa.array(msgs * 1000),
            pa.array(chance.integers(0, 3, 1).repeat(steps).astype(np.int32)),
        ],
        schema=SCHEMA,
    )


def measure(history: str, output: str, master: str, policies: int) -> dict[str, Any]:
    candidates, _ = plan_policies(AutoScalePolicy(maxDagDepth=1000), DEFAULT_GRID)
    question = Question(tuple(candidates[:policies]), candidates[0].split_above)
    began = time.perf_counter()
    with open_session("bench", master=master) as spark:
        started = time.perf_counter()
        verdicts = what_if(spark, history, output, question, say=lambda line: None)
        done = time.perf_counter()
    days = verdicts[0].days
    return {
        "master": master,
        "policies": len(question.policies),
        "start_s": round(started - began, 1),
        "replay_s": round(done - started, 1),
        "topic_days_per_s": round(days / (done - started), 1),
        "topic_days_times_policies_per_s": round(days * len(verdicts) / (done - started)),
        "changes": sum(each.splits + each.merges for each in verdicts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=40)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--policies", type=int, default=100)
    parser.add_argument("--interval", type=int, default=300, help="seconds between samples")
    parser.add_argument("--masters", nargs="+", default=["local[1]", "local[2]"])
    parser.add_argument("--full", action="store_true", help="1,000 topics")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one, options.policies)))
        return
    topics = 1_000 if options.full else options.topics
    with tempfile.TemporaryDirectory(prefix="magnetar-bench-") as home:
        history = Path(home) / "history"
        rows = write_history(history, topics, options.days, options.interval)
        if not options.json:
            print(f"{topics:,} topics, {options.days} days, {rows:,} samples")
        results = []
        for number, master in enumerate(options.masters):
            words = ["--one", str(history), f"{home}/result-{number}", master]
            command = [sys.executable, "-m", "bench.what_if", *words]
            command += ["--policies", str(options.policies)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            results.append(json.loads(done.stdout))
            if not options.json:
                print(" ".join(f"{name}={value}" for name, value in results[-1].items()))
    if options.json:
        print(json.dumps({"topics": topics, "days": options.days, "rows": rows, "runs": results}))
    elif len(results) > 1:
        ratio = results[0]["replay_s"] / results[-1]["replay_s"]
        print(f"{results[-1]['master']} is {ratio:.2f} × as fast as {results[0]['master']}")


if __name__ == "__main__":
    main()
