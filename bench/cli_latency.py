"""How long a command of the CLI takes from prompt to prompt, and its processor time."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from bench.gauge import median
from magnetar.testing import MagnetarBroker

COMMANDS: Mapping[str, Sequence[str]] = {
    "version": ("version",),
    "admin --help": ("admin", "--help"),
    "admin topics list": ("admin", "topics", "list", "public/default"),
    "admin namespaces policies": ("admin", "namespaces", "policies", "public/default"),
}


def measure(arguments: Sequence[str], admin_url: str, runs: int) -> dict[str, float]:
    command = [sys.executable, "-m", "magnetar", *arguments]
    environment = os.environ | {"MAGNETAR_ADMIN_URL": admin_url}
    took, used = [], []
    for _ in range(runs):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"median_ms": median(took) * 1000, "cpu_ms": median(used) * 1000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with MagnetarBroker() as broker:
        rows = {
            name: measure(arguments, broker.admin_url, options.runs)
            for name, arguments in COMMANDS.items()
        }
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'command':<28} {'median':>10} {'processor':>12}")
    for name, row in rows.items():
        print(f"{name:<28} {row['median_ms']:>7.0f} ms {row['cpu_ms']:>9.0f} ms")


if __name__ == "__main__":
    main()
