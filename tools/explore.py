"""Draw new examples for the property, cost and damage tests, and new seeds for the simulated
cluster, until the time is up.

    python tools/explore.py [--seconds 3600] [PYTEST ARGUMENT ...]

Each round starts from a seed of its own, which is printed; `--hypothesis-seed=N` repeats it. The
tests of cost and damage go on for a share of the time, given to them as MAGNETAR_EXPLORE (seconds).
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence

# Whole modules that draw by themselves: they read MAGNETAR_EXPLORE.
BY_TIME = ("tests/hostile/test_cost.py", "tests/crash/test_damage_everywhere.py")
DRAWN = ("tests/property", "tests/unit", "tests/hostile", "tests/spark", "tests/fuzz")
SHARE = 4  # each of BY_TIME gets this part of the whole time
# Seeds of the simulated cluster in an hour, fewer in less time; and how they are run.
SIMULATED = (
    (8_000, ()),
    (1_000, ("--bookies",)),
    (1_000, ("--bookies", "--pauses")),
)


def run(arguments: list[str], *, seed: int, seconds: float = 0) -> bool:
    environment = dict(os.environ)
    if seconds:
        environment["MAGNETAR_EXPLORE"] = str(int(seconds))
    command = [sys.executable, "-m", "pytest", "-q", f"--hypothesis-seed={seed}", *arguments]
    passed = subprocess.call(command, env=environment) == 0
    print(f"explore: seed {seed}: {'passed' if passed else 'FAILED'}", flush=True)
    return passed


def simulate(first: int, count: int, options: Sequence[str]) -> bool:
    command = [sys.executable, "-m", "magnetar.testing.simulation.main", str(first), *options]
    print("explore:", *command[2:], "--count", count, flush=True)
    return not subprocess.call(
        [*command, "--count", str(count), "--jobs", str(os.cpu_count() or 1)]
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600, help="how long to go on (3600)")
    given, passed_on = parser.parse_known_args(arguments)
    end = time.monotonic() + given.seconds
    share = given.seconds / SHARE
    failed: list[int] = []
    rounds = 0
    for module in BY_TIME:
        seed = secrets.randbits(32)
        longest = f"--timeout={int(share) + 600}"
        if not run([module, longest, *passed_on], seed=seed, seconds=share):
            failed.append(seed)
        rounds += 1
    for most, options in SIMULATED:
        first, count = secrets.randbits(31), max(2, int(most * given.seconds / 3600))
        if not simulate(first, count, options):
            failed.append(first)
        rounds += 1
    while time.monotonic() < end:
        seed = secrets.randbits(32)
        if not run(["-m", "hypothesis", *DRAWN, *passed_on], seed=seed):
            failed.append(seed)
        rounds += 1
    print(f"explore: {rounds} rounds, {len(failed)} failed")
    if failed:
        print(f"explore: seeds that failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
