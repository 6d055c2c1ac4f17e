"""The client's types, as mypy sees them in an application."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).parent / "sample"


def check(name: str, cache: Path) -> list[str]:
    """The errors mypy finds in a sample, strictly."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    command += ["--cache-dir", str(cache), str(SAMPLE / name)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=SAMPLE.parents[2])
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line]


def test_an_application_is_typed_from_end_to_end(tmp_path: Path) -> None:
    assert check("app.py", tmp_path) == []


def test_mistakes_are_found_before_the_program_runs(tmp_path: Path) -> None:
    lines = (SAMPLE / "mistake.py").read_text().splitlines()
    expected = {
        (number, found[1])
        for number, line in enumerate(lines, 1)
        if (found := re.search(r"# expect: (\S+)", line))
    }
    reported = {
        (int(found[1]), found[2])
        for line in check("mistake.py", tmp_path)
        if (found := re.search(r"mistake\.py:(\d+): error: .*\[([a-z-]+)\]$", line))
    }
    assert reported == expected
