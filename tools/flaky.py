"""Run every test several times and count which of them failed in some of the runs.

    python tools/flaky.py [--runs 5] [PYTEST ARGUMENT ...]

The goal is 0. Exit status 1 when any test failed in any run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def load_failed(report: Path) -> list[str]:
    """The tests that a report of one run calls failed or in error."""
    cases = ElementTree.parse(report).iter("testcase")
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="how often everything runs (5)")
    given, passed_on = parser.parse_known_args(arguments)
    failures: Counter[str] = Counter()
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        for run in range(1, given.runs + 1):
            report = Path(folder) / f"{run}.xml"
            command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *passed_on]
            code = subprocess.call(command)
            failed = load_failed(report) if report.exists() else []
            failures.update(failed)
            broken += code != 0 and not failed
            print(f"flaky: run {run} of {given.runs}: {len(failed)} failed", flush=True)
    for name, count in failures.most_common():
        print(f"flaky: {count} of {given.runs}: {name}")
    if broken:
        print(f"flaky: {broken} runs ended early, without a verdict on every test")
    print(f"flaky: {len(failures)} tests failed in at least one of {given.runs} runs")
    return 1 if failures or broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
